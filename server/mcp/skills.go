package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Skill is an Agent Skill that is one document. Clients find it by the extension of SEP-2640, and
// read it as a resource.
type Skill struct {
	URI         string         // ends in the name of the skill and /SKILL.md
	FrontMatter map[string]any // of the document, with name and description
	Document    []byte
}

const skillsExtension = "io.modelcontextprotocol/skills"

type skillParams struct {
	sdk.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor"`
}

type skillEntry struct {
	URI         string         `json:"uri"`
	FrontMatter map[string]any `json:"frontmatter"`
	Resources   []skillFile    `json:"resources"`
}

type skillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int    `json:"size"`
}

// skillResult is the result of skills/list or skills/get.
type skillResult struct {
	sdk.ResultBase
	sdk.Cacheable
	ResultType string       `json:"resultType"`
	Skills     []skillEntry `json:"skills,omitempty"`
	Skill      *skillEntry  `json:"skill,omitempty"`
}

// addTo serves the skill and its document. It fails only if the SDK serves skills itself.
func (s Skill) addTo(server *sdk.Server) error {
	digest := sha256.Sum256(s.Document)
	file := skillFile{
		URI:    s.URI,
		Digest: "sha256:" + hex.EncodeToString(digest[:]),
		Size:   len(s.Document),
	}
	entry := skillEntry{URI: s.URI, FrontMatter: s.FrontMatter, Resources: []skillFile{file}}
	Resource{
		URI:         s.URI,
		Name:        fmt.Sprint(s.FrontMatter["name"]),
		Description: fmt.Sprint(s.FrontMatter["description"]),
		Type:        "text/markdown",
		Read:        func(context.Context, string) ([]byte, error) { return s.Document, nil },
	}.addTo(server)

	result := func() *skillResult {
		return &skillResult{
			Cacheable:  sdk.Cacheable{TTLMs: int(listTime.Milliseconds()), CacheScope: "public"},
			ResultType: "complete",
		}
	}

	invalid := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}
	err := sdk.AddReceivingCustomMethod(
		server,
		"skills/list",
		func(_ context.Context, _ *sdk.ServerSession, p *skillParams) (*skillResult, error) {
			if p != nil && p.Cursor != "" { // there is one page
				return nil, invalid
			}

			r := result()
			r.Skills = []skillEntry{entry}
			return r, nil
		},
	)
	if err != nil {
		return err
	}

	return sdk.AddReceivingCustomMethod(
		server,
		"skills/get",
		func(_ context.Context, _ *sdk.ServerSession, p *skillParams) (*skillResult, error) {
			if p == nil || p.URI != s.URI {
				return nil, invalid
			}

			r := result()
			r.Skill = &entry
			return r, nil
		},
	)
}
