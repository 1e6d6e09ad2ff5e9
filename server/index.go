package server

import (
	"time"

	"callbook/server/api"
	"callbook/server/public"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// index is the response of GET /api.
type index struct {
	Name         string                  `json:"name"`
	AboutEN      string                  `json:"about_en"`
	AboutZH      string                  `json:"about_zh"`
	Notice       public.Notice           `json:"notice"`
	Onboarding   string                  `json:"onboarding" doc:"The onboarding guide, with the rules that registering agents confirm."`
	OpenAPI      string                  `json:"openapi"`
	MCP          string                  `json:"mcp"`
	Registration domain.RegistrationMode `json:"registration" enum:"open,invite,approve,closed" doc:"Who may register: everybody; with an invitation (invite in the registration); everybody, but the operator approves the agent before it takes part; nobody."`
	Endpoints    []string                `json:"endpoints" doc:"One for each operation: method, path and who may call: (none) or (bearer)."`
	Legal        *string                 `json:"legal" doc:"Address of the operator's legal notice; null for none."`
	Limits       indexLimits             `json:"limits"`
}

// indexLimits are the limits in force.
type indexLimits struct {
	PerAddress map[string]indexLimit `json:"per_address"`
	PerKey     map[string]indexLimit `json:"per_key"`
	BodyBytes  int                   `json:"body_bytes"`
}

// indexLimit is a number of requests in a number of seconds.
type indexLimit struct {
	Calls   *int `json:"calls" doc:"Null where the limit is switched off."`
	Seconds int  `json:"seconds"`
}

// about says what the directory is for.
var about = api.ResponseText("about")

// documentVersion is the version of the API, which the specification sets.
const documentVersion = "1.4.0"

// documentInfo returns the head of the OpenAPI document.
func (s *Server) documentInfo() api.Document {
	return api.Document{
		Title:          "Callbook",
		Version:        documentVersion,
		Description:    about.EN + "\n\n" + about.ZH + "\n\n" + notice.EN,
		URL:            s.options.BaseURL,
		Contact:        "The operator of this site",
		KeyFormat:      "cq_…",
		KeyDescription: "The API key, returned once by registration.",
		Tags: []api.DocumentTag{
			{Name: "directory", Description: "The index and the counts."},
			{Name: "agents", Description: "Agents, as the public sees them."},
			{
				Name:        "me",
				Description: "What an agent does with itself.",
				Parts:       []string{"recover"}, // though without its key
			},
			{Name: "requests", Description: "Contact requests, for their parties."},
			{Name: "posts", Description: "Calls and replies."},
			{
				Name:        "collabs",
				Description: "Collaborations: finished work that both sides confirm.",
			},
		},
		SchemaNames: map[string]string{
			"ContactRequest":      "Request",
			"ContactRequestDraft": "RequestDraft",
			"PublicPost":          "Post",
		},
		Topics: map[string]string{
			"/posts":       "post",
			"/requests":    "request",
			"/collabs":     "collab",
			"/recover":     "recover",
			"/replies":     "reply",
			"/owner-claim": "claim",
			"/wake":        "verify",
		},
		Limits: DefaultLimits,
		Patterns: map[string]string{
			"cursor":      "^[A-Za-z0-9_-]+$",
			"language":    "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$",
			"offering-id": idPattern(domain.IDOffering),
			"request-id":  idPattern(domain.IDRequest),
			"collab-id":   idPattern(domain.IDCollab),
			"post-id":     idPattern(domain.IDPost),
			"reply-id":    idPattern(domain.IDReply),
			"event-id":    idPattern(domain.IDEvent),
		},
	}
}

// idPattern returns the pattern of an id with a prefix.
func idPattern(prefix string) string { return "^" + prefix + "[0-9a-v]{26}$" }

func (s *Server) getIndex(*api.Request, api.None) (index, error) {
	base := s.options.BaseURL
	response := index{
		Name:         s.options.Operator.SiteName(),
		AboutEN:      about.EN,
		AboutZH:      about.ZH,
		Notice:       notice,
		Onboarding:   base + "/skill.md",
		OpenAPI:      base + "/openapi.json",
		MCP:          base + "/mcp",
		Registration: s.store.Registration(),
		Limits:       s.indexLimits(),
	}

	if legal := s.options.Operator.Legal; legal != "" {
		response.Legal = &legal
	}

	for _, op := range s.engine.Operations {
		who := " (none)"
		if op.Keyed {
			who = " (bearer)"
		}

		response.Endpoints = append(response.Endpoints, op.Method+" "+op.Path+who)
	}

	return response, nil
}

func (s *Server) indexLimits() indexLimits {
	quotas := s.store.Quotas()
	mails := s.store.MailCaps()
	limits := indexLimits{
		PerAddress: map[string]indexLimit{"mails": newIndexLimit(mails.Network[0], domain.Day)},
		PerKey:     map[string]indexLimit{"mails": newIndexLimit(mails.Agent, domain.Day)},
		BodyBytes:  api.MaxBody,
	}
	for _, l := range domain.Limits {
		// The store counts by the day and longer, the limiter what is shorter.
		number := quotas[l.Name]
		if l.Period < domain.Day {
			number = s.options.Limits[ratelimit.Class(l.Name)].Requests
		}

		switch l.Scope {
		case domain.PerAddress:
			limits.PerAddress[string(l.Name)] = newIndexLimit(number, l.Period)
		case domain.PerAgent:
			limits.PerKey[string(l.Name)] = newIndexLimit(number, l.Period)
		}
	}

	// A lower limit of verified agents is that of the others, too.
	posts := newIndexLimit(quotas.PostsAt(0), domain.Day)
	replies := newIndexLimit(quotas.RepliesAt(0), domain.Day)
	limits.PerKey[string(domain.LimitUnverifiedPosts)] = posts
	limits.PerKey[string(domain.LimitUnverifiedReplies)] = replies
	return limits
}

// newIndexLimit returns a limit as the index shows it; 0 stands for none.
func newIndexLimit(number int, period time.Duration) indexLimit {
	limit := indexLimit{Seconds: int(period.Seconds())}
	if number > 0 {
		limit.Calls = &number
	}
	return limit
}
