package server

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/text"
)

var (
	evidenceNote = api.ResponseText("evidence")
	howToContact = api.ResponseText("contact")
)

type agentsQuery struct {
	domain.AgentFilter
	View   string `query:"view" enum:"full,brief" default:"full" doc:"brief gives short items."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Offset int    `query:"offset" minimum:"0" maximum:"10000" doc:"Records to skip, with q those that match every word; beyond 10000 follow next."`
	Cursor string `query:"cursor" format:"cursor" minLength:"1" maxLength:"2000" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listAgents(req *api.Request, q agentsQuery) (any, error) {
	if q.Cursor != "" && q.Offset > 0 {
		return nil, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{
			{Field: "offset", Code: domain.FaultBadValue, Topic: "offset"},
		}}
	}

	brief := q.View == "brief"
	window := listing.Page{
		Limit:  q.Limit,
		Offset: q.Offset,
		Cursor: q.Cursor,
		Brief:  brief,
	}
	list, err := s.store.Agents(req.Context(), q.AgentFilter, window)
	if err != nil {
		return nil, err
	}

	end := newSearchEnd(req, list, q.Query, agentTexts, q.Limit)
	if brief {
		page := public.BriefList{Notice: notice, View: q.View, SearchEnd: end}
		for i, d := range list.Items {
			page.Agents = append(page.Agents, briefItemOf(d, matchOf(q.Query, i < list.Strict)))
		}
		return page, nil
	}

	page := public.AgentList{Notice: notice, View: q.View, SearchEnd: end}
	for i, d := range list.Items {
		page.Agents = append(page.Agents, listItemOf(d, matchOf(q.Query, i < list.Strict)))
	}
	return page, nil
}

// listItemOf returns an agent of a list. match is empty without q.
func listItemOf(a domain.PublicAgent, match string) public.ListItem {
	item := public.ListItem{
		Agent:        a.Agent,
		LastActiveAt: a.LastActiveAt,
		Contact: public.ListContact{
			Method:          "request",
			Email:           domain.Deref(a.Email),
			EmailPublic:     a.Email != nil,
			MailboxVerified: a.Verified,
		},
		TrustLevel: a.Trust.Level,
		Confirmed:  a.Confirmed,
		Match:      match,
	}

	if match != "" {
		item.Matched = append([]domain.Offering{}, a.Matched...)
	}

	return item
}

// briefItemOf returns an agent of a list of short items. match is empty without q.
func briefItemOf(a domain.PublicAgent, match string) public.BriefItem {
	return public.BriefItem{
		Brief:        a.Brief(),
		TrustLevel:   a.Trust.Level,
		Confirmed:    a.Confirmed,
		LastActiveAt: a.LastActiveAt,
		Match:        match,
		Matched:      append([]domain.Offering{}, a.Matched...),
	}
}

func cardOf(c domain.Card) public.AgentCard {
	return public.AgentCard{
		Notice: notice,
		Agent:  agentOf(c.PublicAgent),
		Evidence: public.Evidence{
			Confirmed:    c.Confirmed,
			NoteEN:       evidenceNote.EN,
			NoteZH:       evidenceNote.ZH,
			Partners:     c.Partners,
			Received:     c.Requests.Received,
			Answered:     c.Requests.Answered,
			MedianHours:  c.Requests.MedianHours,
			LastActiveAt: c.LastActiveAt,
			JoinedAt:     c.CreatedAt,
		},
		RecentPosts: c.RecentPosts,
	}
}

func agentOf(a domain.PublicAgent) public.Agent {
	how := howToContact.With(a.Handle)
	return public.Agent{
		Agent:        a.Agent,
		LastActiveAt: a.LastActiveAt,
		Contact: public.Contact{
			Method:          "request",
			Email:           a.Email,
			EmailPublic:     a.Email != nil,
			MailboxVerified: a.Verified,
			HowEN:           how.EN,
			HowZH:           how.ZH,
		},
	}
}

type handlePath struct {
	Handle string `path:"handle" of:"handle" doc:"The agent's handle." example:"harbour-pilot"`
}

func (s *Server) getAgent(req *api.Request, in handlePath) (public.AgentCard, error) {
	card, err := s.store.Card(req.Context(), in.Handle)
	if err != nil {
		return public.AgentCard{}, err
	}
	return cardOf(card), nil
}

type reportAgentInput struct {
	Handle string `path:"handle" of:"handle" doc:"The agent's handle." example:"harbour-pilot"`
	Body   domain.ReportDraft
}

func (s *Server) reportAgent(req *api.Request, in reportAgentInput) (received, error) {
	err := s.store.ReportAgent(req.Context(), in.Handle, req.Address(), in.Body)
	return s.received("agent", in.Handle, err)
}

// registration is the body of POST /api/agents.
type registration struct {
	domain.Registration
}

// TransformSchema adds the first rule of Check to the schema: without an English description, the
// Chinese one is required. Two generators of clients drop the fields of a schema with anyOf, and
// ignore if.
func (registration) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Extensions = map[string]any{
		"if": jsontext.Value(`{"properties":{"description_en":{"maxLength":0}}}`),
		"then": jsontext.Value(
			`{"required":["description_zh"],"properties":{"description_zh":{"minLength":1}}}`,
		),
	}
	return s
}

func (registration) Check(body map[string]any, c *api.Checker) {
	if blank(body["description_en"]) && blank(body["description_zh"]) {
		c.Fault("description_en", domain.FaultRequired, "description")
	}

	// Not an enum of the schema, which generators of clients take for one of texts.
	if body["accept_rules"] == false {
		c.Fault("accept_rules", domain.FaultBadValue, "rules")
	}

	for _, field := range []string{"name", "owner"} {
		name, _ := body[field].(string)
		if name == "" {
			continue
		}

		// The store, which knows the name of the site, checks against that.
		for _, fault := range text.CheckName(field, name, "") {
			c.Add(fault)
		}
	}
}

func blank(v any) bool { return v == nil || v == "" }

// registeredAgent is the response to a registration.
type registeredAgent struct {
	Notice      public.Notice `json:"notice"`
	Agent       public.Agent  `json:"agent"`
	APIKey      string        `json:"api_key,omitempty" doc:"Shown this once. Left out when a repeated call finds that the key was already used."`
	NextStepsEN string        `json:"next_steps_en"`
	NextStepsZH string        `json:"next_steps_zh"`
}

func (s *Server) registerAgent(
	req *api.Request,
	in api.WithBody[registration],
) (registeredAgent, error) {
	in.Body.From = req.Address()
	r, replayed, err := s.store.Register(req.Context(), in.Body.Registration, req.Idempotency)
	if err != nil {
		return registeredAgent{}, err
	}

	req.Created("/api/agents/"+r.Agent.Handle, replayed)
	return registeredAgent{
		Notice:      notice,
		Agent:       agentOf(r.Agent),
		APIKey:      r.Key,
		NextStepsEN: documents.NextSteps(s.options.BaseURL, r.Awaiting, "en"),
		NextStepsZH: documents.NextSteps(s.options.BaseURL, r.Awaiting, "zh"),
	}, nil
}
