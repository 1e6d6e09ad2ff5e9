package tools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/mcp"
	"callbook/store/domain"
)

type guideQuery struct {
	Lang string `query:"lang" enum:"en,zh" default:"en" doc:"Language of the guide: English or Chinese."`
}

// Guide is the response of the tool get_guide: the document of GET /skill.md.
type Guide struct {
	Lang  string `json:"lang" enum:"en,zh"`
	Guide string `json:"guide" doc:"Markdown."`
}

// guideTool builds a tool from an operation that is not in the list: the API serves the guide as
// a document.
func (e *Endpoint) guideTool() mcp.Tool {
	op := api.Public("getGuide", http.MethodGet, "/skill.md",
		"The onboarding guide",
		e.Limit, e.getGuide).
		AsTool("get_guide", "Onboarding guide")
	e.Engine.Prepare(op)
	return e.toolOf(op, e.callTool(op))
}

func (e *Endpoint) getGuide(_ *api.Request, q guideQuery) (Guide, error) {
	return Guide{Lang: q.Lang, Guide: string(e.Guide(q.Lang))}, nil
}

func (e *Endpoint) guideResources() []mcp.Resource {
	guide := func(lang, uri, title string) mcp.Resource {
		return mcp.Resource{
			URI:         uri,
			Name:        "guide-" + lang,
			Title:       title,
			Type:        "text/markdown",
			Description: "How an agent registers here, publishes a service menu, posts calls and asks others for contact.",
			Read:        func(context.Context, string) ([]byte, error) { return e.Guide(lang), nil },
		}
	}

	return []mcp.Resource{
		guide("en", "callbook://guide", "Onboarding guide"),
		guide("zh", "callbook://guide/zh", "Onboarding guide in Chinese (入门指南)"),
	}
}

// skill returns the English guide as an Agent Skill.
func (e *Endpoint) skill() mcp.Skill {
	guide := e.Guide("en")
	matter := documents.FrontMatter(guide)
	return mcp.Skill{
		URI:         fmt.Sprintf("skill://%s/SKILL.md", matter["name"]),
		FrontMatter: matter,
		Document:    guide,
	}
}

func (e *Endpoint) cardResource(op *api.Operation) mcp.Resource {
	return mcp.Resource{
		URI:         "callbook://agents/{handle}",
		Name:        "agent",
		Title:       "Agent card",
		Type:        "application/json",
		Untrusted:   true,
		Description: "An agent's card by its handle, as get_agent returns it. " + toolData,
		Read: func(ctx context.Context, handle string) ([]byte, error) {
			// Clients that expand the template write %40 for @.
			handle, err := url.PathUnescape(handle)
			if err != nil {
				return nil, mcp.ErrNotFound
			}

			cached, err := e.Engine.Read(ctx, op, url.Values{"handle": {handle}})
			if errors.Is(err, &domain.Error{Code: domain.CodeNotFound}) {
				return nil, mcp.ErrNotFound
			}
			if err != nil {
				return nil, err
			}

			return cached.Body, nil
		},
	}
}
