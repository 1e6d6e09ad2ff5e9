// Package documents builds the small documents of a site from its description: llms.txt,
// robots.txt, the API catalogue, the skill index and security.txt.
package documents

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/static"
	"callbook/store/domain"
	storetext "callbook/store/text"
)

// Paths of the documents, and paths that they name.
const (
	GuideEN      = "/skill.md?lang=en" // the same bytes whatever language is requested
	GuideZH      = "/skill.md?lang=zh"
	OpenAPIPath  = "/openapi.json"
	MCPPath      = "/mcp"
	CatalogPath  = "/.well-known/api-catalog"
	SkillsPath   = "/.well-known/agent-skills/index.json"
	SecurityPath = "/.well-known/security.txt"
	CardPath     = MCPPath + "/server-card" // reserved by the extension for the endpoint at MCPPath
	CardOfSite   = "/.well-known/mcp/server-card.json"
	SitemapPath  = "/sitemap.xml"
	ARDPath      = "/.well-known/ard.json"
	OldARDPath   = "/.well-known/ai-catalog.json" // of versions up to 0.9
)

// Site describes a site.
type Site struct {
	BaseURL       string
	Contact       string   // as ParseContact returns it; empty if the home page names the operator
	Uncrawled     []string // further paths that robots.txt disallows
	About, Notice string
	Guide         []byte // the English onboarding guide
	ARD           bool   // the site has a manifest at ARDPath
	Reads         []Link // public reads without parameters in the path
	Version       string // of the program; empty: unknown
	MCPVersions   []string
}

// Link is a line of llms.txt.
type Link struct{ Name, Path, Note string }

// FrontMatter returns the front matter of a guide. It parses values on one line, plain or in
// double quotes, and objects of such values, and no other YAML.
func FrontMatter(guide []byte) map[string]any {
	head, _, _ := strings.Cut(strings.TrimPrefix(string(guide), "---\n"), "\n---\n")
	fields := map[string]any{}
	object := map[string]any{}
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}

		switch member, isMember := strings.CutPrefix(name, "  "); {
		case isMember:
			object[member] = value

		case value == "":
			object = map[string]any{}
			fields[name] = object

		default:
			fields[name] = value
		}
	}

	return fields
}

// templates are the documents that consist of fixed text and some values of the site.
var templates = template.Must(template.ParseFS(static.Documents, "documents/*.tmpl"))

// render returns a document whose template is the file name + .tmpl.
func (s Site) render(name string) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name+".tmpl", s); err != nil {
		panic(err) // the templates are a part of the program
	}
	return b.String()
}

// LLMs returns an overview for language models in the format of llmstxt.org: a title, a
// summary in a quote, and sections of links with notes.
func (s Site) LLMs() string { return s.render("llms.txt") }

// GuideDescription returns the description in the front matter of the guide.
func (s Site) GuideDescription() any { return FrontMatter(s.Guide)["description"] }

// Robots keeps crawlers from the endless variants of the pages with lists: next pages, searches,
// combined filters. Everything else may be read, the API by clients that obey it, too.
func (s Site) Robots() string { return s.render("robots.txt") }

// Endless returns the paths of the pages that have endless variants.
func (s Site) Endless() []string { return []string{"/agents", "/calls"} }

// Catalog returns the catalogue of the APIs of the site (RFC 9727): REST and MCP.
// Its format is that of a linkset (RFC 9264, 4.2).
func (s Site) Catalog() string { return s.render("api-catalog.json") }

// skillSchema identifies the format of the index: Agent Skills Discovery via Well-Known URIs,
// draft 0.2.0 as updated on 2026-03-12, the newest.
const skillSchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// Skills publishes the English guide as an agent skill. Clients reject it unless the digest
// matches the bytes at the URL.
func (s Site) Skills() []byte {
	digest := sha256.Sum256(s.Guide)
	matter := FrontMatter(s.Guide)
	return marshal(map[string]any{
		"$schema": skillSchema,
		"skills": []any{map[string]any{
			"name": matter["name"], "type": "skill-md", "description": matter["description"],
			"url": s.BaseURL + GuideEN, "digest": "sha256:" + hex.EncodeToString(digest[:]),
		}},
	})
}

// securityValid is the time until a copy of security.txt expires; RFC 9116, 2.5.5 requires less
// than a year.
const securityValid = 180 * domain.Day

// Security returns security.txt (RFC 9116): whom to notify of a vulnerability. It changes
// once a day.
func (s Site) Security(now time.Time) string {
	base := s.BaseURL
	expires := now.UTC().Truncate(domain.Day).Add(securityValid)
	return "Contact: " + cmp.Or(s.Contact, base+"/#operator") + "\n" +
		"Expires: " + expires.Format(time.RFC3339) + "\n" +
		"Preferred-Languages: en, zh\n" +
		"Canonical: " + base + SecurityPath + "\n"
}

// ParseContact returns the contact of the operator as a URI: mailto:, https: or http:. A bare
// mail address becomes a mailto:, an empty text stays empty.
func ParseContact(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if mailbox, ok := storetext.ParseMailbox(text); ok {
		return "mailto:" + url.PathEscape(mailbox), nil
	}
	if u, err := url.Parse(text); err == nil && !strings.ContainsAny(text, "\"'<>\\ ") &&
		isContactURI(u) {
		return u.String(), nil
	}

	return "", errors.New("--contact: give a mail address such as security@example.org, " +
		"or a URI that begins with mailto:, https:// or http://")
}

func isContactURI(u *url.URL) bool {
	switch u.Scheme {
	case "https", "http":
		return u.Hostname() != "" && u.User == nil

	case "mailto":
		address, err := url.PathUnescape(u.Opaque)
		_, ok := storetext.ParseMailbox(address)
		return err == nil && ok
	}

	return false
}

// marshal encodes maps of the program itself, which cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}
