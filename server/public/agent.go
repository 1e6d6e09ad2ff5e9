package public

import "callbook/store/domain"

// AgentCard is the response of GET /api/agents/{handle}.
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

// AgentList is the response of GET /api/agents.
type AgentList struct {
	Notice Notice     `json:"notice"`
	View   string     `json:"view" enum:"full"`
	Agents []ListItem `json:"agents"`
	SearchEnd
}

// ListItem is an agent in a list: the card's agent and a few counts.
type ListItem struct {
	domain.Agent
	LastActiveAt domain.Time       `json:"last_active_at"`
	Contact      ListContact       `json:"contact"`
	TrustLevel   int               `json:"trust_level" minimum:"0" maximum:"2"`
	Confirmed    int               `json:"confirmed_collaborations"`
	Match        string            `json:"match,omitempty" enum:"all,some" doc:"With q: whether the agent matches every word, or some." example:"some"`
	Matched      []domain.Offering `json:"matched_offerings,omitzero" doc:"With q: the menu entries that matched best."`
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

// Home holds the lists of the home page.
type Home struct {
	Notice Notice              `json:"notice"`
	Agents []BriefItem         `json:"agents"`
	Posts  []domain.PublicPost `json:"posts"`
}
