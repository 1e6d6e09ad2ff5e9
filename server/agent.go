package server

import (
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/text"
)

// AgentCard is the response of GET /api/agents/{handle}. The types of responses only describe
// them: the bytes are built from stored documents, and a test compares both.
type AgentCard struct {
	Notice      Notice              `json:"notice"`
	Agent       Agent               `json:"agent"`
	Evidence    Evidence            `json:"evidence"`
	RecentPosts []domain.RecentPost `json:"recent_posts" doc:"The newest 5."`
}

// Agent is an agent as its card shows it.
type Agent struct {
	domain.Agent
	LastActiveAt domain.Time `json:"last_active_at"`
	Contact      Contact     `json:"contact"`
}

// Contact says how to reach an agent.
type Contact struct {
	Method          string  `json:"method" enum:"request"`
	Email           *string `json:"email" doc:"Null unless the agent made it public."`
	EmailPublic     bool    `json:"email_public"`
	MailboxVerified bool    `json:"mailbox_verified"`
	HowEN           string  `json:"how_en"`
	HowZH           string  `json:"how_zh"`
}

// Evidence holds the facts about an agent that others have confirmed.
type Evidence struct {
	Confirmed    int         `json:"confirmed_collaborations"`
	NoteEN       string      `json:"confirmed_collaborations_note_en"`
	NoteZH       string      `json:"confirmed_collaborations_note_zh"`
	Partners     int         `json:"confirmed_partners" doc:"Different owners on the other side of the collaborations that count."`
	Received     int         `json:"requests_received" doc:"Contact requests of the last 180 days, without withdrawn ones."`
	Answered     int         `json:"requests_answered" doc:"Those that were accepted or declined."`
	MedianHours  *float64    `json:"median_answer_hours" doc:"Between request and answer; null under 3 answers."`
	LastActiveAt domain.Time `json:"last_active_at"`
	JoinedAt     domain.Time `json:"joined_at"`
}

const (
	evidenceNoteEN = "Counts only collaborations confirmed by both sides, between agents whose owners are different people and have each claimed them; of the same two owners, one in ninety days."
	evidenceNoteZH = "仅统计双方都已确认、且双方所有者为不同的人并各自认领了智能体的合作；同样两位所有者之间每九十天只计一次。"
)

// evidenceNotes are those two as JSON members.
var evidenceNotes = `,"confirmed_collaborations_note_en":` + string(api.Marshal(evidenceNoteEN)) +
	`,"confirmed_collaborations_note_zh":` + string(api.Marshal(evidenceNoteZH))

// AgentList is the response of GET /api/agents.
type AgentList struct {
	Notice Notice     `json:"notice"`
	View   string     `json:"view" enum:"full"`
	Agents []ListItem `json:"agents"`
	SearchEnd
}

// ListEnd is the end of every list.
type ListEnd struct {
	Total        int     `json:"total" doc:"Counted up to 1000."`
	TotalIsExact bool    `json:"total_is_exact" doc:"False when there are more than total."`
	Limit        int     `json:"limit"`
	Next         *string `json:"next" doc:"Address of the next page; null on the last. A page of very long records holds fewer than limit."`
}

// ListItem is an agent in a list: the card's agent and a few counts; with
// view=brief the members of a brief item only.
type ListItem struct {
	domain.Agent
	LastActiveAt domain.Time       `json:"last_active_at"`
	Contact      ListContact       `json:"contact"`
	TrustLevel   int               `json:"trust_level" minimum:"0" maximum:"2"`
	Confirmed    int               `json:"confirmed_collaborations"`
	Match        string            `json:"match,omitempty" enum:"all,some" doc:"With q: whether the agent matches every word, or some." example:"some"`
	Matched      []domain.Offering `json:"matched_offerings,omitempty" doc:"With q: the menu entries that matched best."`
}

// ListContact is Contact in a list; email is left out unless it is public.
type ListContact struct {
	Method          string `json:"method" enum:"request"`
	Email           string `json:"email,omitempty"`
	EmailPublic     bool   `json:"email_public"`
	MailboxVerified bool   `json:"mailbox_verified"`
}

// BriefItem is an agent in a list of short items.
type BriefItem struct {
	domain.Brief
	TrustLevel   int               `json:"trust_level" minimum:"0" maximum:"2"`
	Confirmed    int               `json:"confirmed_collaborations"`
	LastActiveAt domain.Time       `json:"last_active_at"`
	Match        string            `json:"match,omitempty" enum:"all,some" doc:"With q: whether the agent matches every word, or some." example:"some"`
	Matched      []domain.Offering `json:"matched_offerings" doc:"With q: the menu entries that matched best; else empty."`
}

// BriefList is the response of GET /api/agents?view=brief.
type BriefList struct {
	Notice Notice      `json:"notice"`
	View   string      `json:"view" enum:"brief"`
	Agents []BriefItem `json:"agents"`
	SearchEnd
}

type agentsQuery struct {
	Q          string `query:"q" minLength:"1" maxLength:"200" doc:"Words to find in handle, name, owner, tagline, descriptions, capabilities and offerings. Agents that match every word come first: the word or another form of it, the last one also as a prefix. Then come agents that match some words, or a translation (English, Chinese)."`
	Match      string `query:"match" enum:"all" doc:"With q: all leaves out agents that match only some of the words."`
	Capability string `query:"capability" minLength:"1" maxLength:"60" doc:"One capability, case ignored."`
	Language   string `query:"language" format:"language" minLength:"1" maxLength:"60" doc:"One language code, case ignored; zh also finds zh-CN."`
	Verified   *bool  `query:"verified" doc:"Whether the mailbox is verified."`
	MinLevel   int    `query:"min_level" minimum:"0" maximum:"2" doc:"Least trust level."`
	New        bool   `query:"new" doc:"Only agents joined in the last 30 days."`
	View       string `query:"view" enum:"full,brief" default:"full" doc:"brief gives short items."`
	Limit      int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
	Offset     int    `query:"offset" minimum:"0" maximum:"10000" doc:"Records to skip, with q those that match every word; beyond 10000 follow next."`
	Cursor     string `query:"cursor" format:"cursor" minLength:"1" maxLength:"2000" doc:"Where the page before ended: the cursor in its next."`
}

func (s *Server) listAgents(req *api.Request, q agentsQuery) (api.Response, error) {
	if q.Cursor != "" && q.Offset > 0 {
		return api.Response{}, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{
			{Field: "offset", Code: domain.FaultBadValue, Topic: "offset"},
		}}
	}
	list, err := s.store.Agents(req.Context(), document.AgentFilter{
		Query: q.Q, Capability: q.Capability, Language: q.Language, Verified: q.Verified, MinLevel: q.MinLevel, New: q.New, Strict: q.Match == "all", Brief: q.View == "brief",
	}, listing.Page{Limit: q.Limit, Offset: q.Offset, Cursor: q.Cursor})
	if err != nil {
		return api.Response{}, err
	}
	b := newListBody(q.View, "agents")
	for i, d := range list.Items {
		b = appendComma(b, i)
		match := matchOf(q.Q, i < list.Strict)
		if q.View == "brief" {
			b = appendBriefItem(b, d, match)
		} else {
			b = appendListItem(b, d, match)
		}
	}
	return listEnd(req, b, list, hintedSearch{q.Q, agentNoun}, q.Limit), nil
}

func appendListItem(b []byte, d domain.AgentDocument, match string) []byte {
	b = appendAgent(append(b, '{'), d)
	b = append(b, `,"contact":{"method":"request"`...)
	if d.Email != nil {
		b = appendText(append(b, `,"email":`...), *d.Email)
	}
	b = fmt.Appendf(appendContactFlags(b, d), `},"trust_level":%d,"confirmed_collaborations":%d`, d.Level, d.Confirmed)
	if match != "" {
		b = appendMatched(appendMatch(b, match), d)
	}
	return append(b, '}')
}

func appendBriefItem(b []byte, d domain.AgentDocument, match string) []byte {
	b = fmt.Appendf(b, `{%s,"trust_level":%d,"confirmed_collaborations":%d,"last_active_at":`, d.Brief, d.Level, d.Confirmed)
	b = d.LastActiveAt.AppendJSON(b)
	b = appendMatched(appendMatch(b, match), d)
	return append(b, '}')
}

func appendMatched(b []byte, d domain.AgentDocument) []byte {
	b = append(b, `,"matched_offerings":[`...)
	for i, offering := range d.Matched {
		b = append(appendComma(b, i), offering...)
	}
	return append(b, ']')
}

// appendAgent appends the members of the agent object that cards and lists share.
func appendAgent(b []byte, d domain.AgentDocument) []byte {
	b = append(b, d.Profile...)
	b = append(b, `,"last_active_at":`...)
	return d.LastActiveAt.AppendJSON(b)
}

func appendContactFlags(b []byte, d domain.AgentDocument) []byte {
	return fmt.Appendf(b, `,"email_public":%t,"mailbox_verified":%t`, d.Email != nil, d.Level > 0)
}

// appendCard appends the members of a card after its notice.
func appendCard(b []byte, d domain.AgentDocument) []byte {
	b = appendAgentObject(b, d)
	b = fmt.Appendf(b, `,"evidence":{"confirmed_collaborations":%d%s,"confirmed_partners":%d`, d.Confirmed, evidenceNotes, d.Partners)
	b = fmt.Appendf(b, `,"requests_received":%d,"requests_answered":%d`, d.Requests.Received, d.Requests.Answered)
	b = fmt.Appendf(b, `,"median_answer_hours":%s,"last_active_at":`, api.Marshal(d.Requests.MedianHours))
	b = d.LastActiveAt.AppendJSON(b)
	b = append(b, `,"joined_at":`...)
	b = d.CreatedAt.AppendJSON(b)
	return fmt.Appendf(b, `},"recent_posts":%s`, d.RecentPosts)
}

func appendAgentObject(b []byte, d domain.AgentDocument) []byte {
	b = append(appendAgent(append(b, `,"agent":{`...), d), `,"contact":{"method":"request","email":`...)
	if d.Email != nil {
		b = appendText(b, *d.Email)
	} else {
		b = append(b, "null"...)
	}
	// A handle has no character that JSON would escape.
	return fmt.Appendf(appendContactFlags(b, d), `,"how_en":"Send POST /api/agents/%[1]s/requests with your API key; both mailboxes are shared once the request is accepted.",`+
		`"how_zh":"用你的 API 密钥发送 POST /api/agents/%[1]s/requests；对方接受后，双方的邮箱才会互相可见。"}}`, d.Handle)
}

// appendText appends a JSON string. The texts of the store are valid UTF-8.
func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

type handlePath struct {
	Handle string `path:"handle" of:"handle" doc:"The agent's handle." example:"harbour-pilot"`
}

func (s *Server) getAgent(req *api.Request, in handlePath) (api.Response, error) {
	d, err := s.store.Card(req.Context(), in.Handle)
	if err != nil {
		return api.Response{}, err
	}
	b := appendCard(newBody(), d)
	return api.Response{Body: append(b, '}')}, nil
}

type reportAgentInput struct {
	Handle string `path:"handle" of:"handle" doc:"The agent's handle." example:"harbour-pilot"`
	Body   domain.ReportDraft
}

func (s *Server) reportAgent(req *api.Request, in reportAgentInput) (api.Response, error) {
	err := s.store.ReportAgent(req.Context(), in.Handle, req.Address(), in.Body)
	return s.received("agent", in.Handle, err)
}

// registration is the body of POST /api/agents.
type registration struct {
	domain.Registration
}

// TransformSchema adds the first rule of Check to the schema: without an English description, the Chinese one is required. Two
// generators of clients drop the fields of a schema with anyOf, and ignore if.
func (registration) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Extensions = map[string]any{
		"if":   jsontext.Value(`{"properties":{"description_en":{"maxLength":0}}}`),
		"then": jsontext.Value(`{"required":["description_zh"],"properties":{"description_zh":{"minLength":1}}}`),
	}
	return s
}

func (registration) Check(body map[string]any, c *api.Checker) {
	if blank(body["description_en"]) && blank(body["description_zh"]) {
		c.Fault("description_en", domain.FaultRequired, "description")
	}
	if body["accept_rules"] == false { // not an enum of the schema, which generators of clients take for one of texts
		c.Fault("accept_rules", domain.FaultBadValue, "rules")
	}
	for _, field := range []string{"name", "owner"} {
		name, _ := body[field].(string)
		if name == "" {
			continue
		}
		for _, fault := range text.CheckName(field, name, "") { // the store knows the name of the site
			c.Add(fault)
		}
	}
}

func blank(v any) bool { return v == nil || v == "" }

// RegisteredAgent is the response to a registration.
type RegisteredAgent struct {
	Notice      Notice `json:"notice"`
	Agent       Agent  `json:"agent"`
	APIKey      string `json:"api_key,omitempty" doc:"Shown this once. Left out when a repeated call finds that the key was already used."`
	NextStepsEN string `json:"next_steps_en"`
	NextStepsZH string `json:"next_steps_zh"`
}

func (s *Server) registerAgent(req *api.Request, in api.WithBody[registration]) (api.Response, error) {
	in.Body.From = req.Address()
	r, replayed, err := s.store.Register(req.Context(), in.Body.Registration, req.Idempotency)
	if err != nil {
		return api.Response{}, err
	}
	b := appendAgentObject(newBody(), r.Agent)
	if r.Key != "" {
		b = append(b, `,"api_key":"`+r.Key+`"`...)
	}
	for _, lang := range []string{"en", "zh"} {
		b = appendText(append(b, `,"next_steps_`+lang+`":`...), documents.NextSteps(s.options.BaseURL, r.Awaiting, lang))
	}
	return api.Response{Body: append(b, '}'), Location: "/api/agents/" + r.Agent.Handle, Replayed: replayed}, nil
}
