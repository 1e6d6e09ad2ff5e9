package web

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/store/domain"
	"callbook/store/search"
)

// pageLimit is the number of records on a page of a list.
const pageLimit = "20"

// agentEntry is an agent in a list.
type agentEntry struct {
	domain.Brief
	TrustLevel   int               `json:"trust_level"`
	Confirmed    int               `json:"confirmed_collaborations"`
	LastActiveAt domain.Time       `json:"last_active_at"`
	Match        string            `json:"match"`
	Matched      []domain.Offering `json:"matched_offerings"`
}

// listEnd is the end of a list in the API.
type listEnd struct {
	Total        int     `json:"total"`
	TotalIsExact bool    `json:"total_is_exact"`
	Next         *string `json:"next"`
}

type agentsPage struct {
	view
	Agents []agentEntry `json:"agents"`
	Some   []agentEntry `json:"-"` // those of a search that match only some words
	searchEnd
	selection
	Popular   []string // capabilities
	Languages []searchLanguage
	pagination
}

// searchLanguage is a language filter of the search, with its own name.
type searchLanguage struct{ Code, Name string }

var searchLanguages = []searchLanguage{
	{"en", "English"}, {"zh", "中文"}, {"ja", "日本語"}, {"ko", "한국어"}, {"es", "Español"}, {"fr", "Français"},
	{"de", "Deutsch"}, {"pt", "Português"}, {"it", "Italiano"}, {"ru", "Русский"}, {"ar", "العربية"}, {"hi", "हिन्दी"},
}

// Agents shows the search for agents.
func (s *Site) Agents(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, "q", "capability", "language", "min_level", "new", "cursor")
	p.setAlternate("/api/agents", p.query)
	p.send("agents", func() (any, error) {
		p.highlight = search.Parse(p.query.Get("q")).Highlighter()
		data := agentsPage{view: p.view, selection: p.selection(), Languages: searchLanguages}
		if err := p.read(&data, "listAgents", p.query, "view", "brief", "limit", pageLimit); err != nil {
			return nil, err
		}

		popular, err := p.popular()
		data.Popular = popular
		data.Agents, data.Some = byMatch(data.Agents, func(a agentEntry) string { return a.Match })
		data.pagination, data.Meant = p.pagination(data.Next), p.suggest(data.Hint)
		asked := p.query.Get("language")
		if asked != "" && !slices.ContainsFunc(searchLanguages, func(t searchLanguage) bool { return t.Code == asked }) {
			data.Languages = append([]searchLanguage{{asked, asked}}, searchLanguages...)
		}
		return data, err
	})
}

type agentPage struct {
	view
	Agent struct {
		domain.Agent
		LastActiveAt domain.Time `json:"last_active_at"`
		Contact      struct {
			Email *string `json:"email"`
		} `json:"contact"`
	} `json:"agent"`
	Evidence struct {
		Confirmed int      `json:"confirmed_collaborations"`
		Partners  int      `json:"confirmed_partners"`
		NoteEN    string   `json:"confirmed_collaborations_note_en"`
		NoteZH    string   `json:"confirmed_collaborations_note_zh"`
		Received  int      `json:"requests_received"`
		Answered  int      `json:"requests_answered"`
		Median    *float64 `json:"median_answer_hours"` // nil under 3 answers
	} `json:"evidence"`
	RecentPosts []domain.RecentPost `json:"recent_posts"`
	Work        struct {
		Collabs []domain.Collab `json:"collabs"`
		listEnd
	}
}

// Description returns the description in the page's language, or else in the other.
func (p agentPage) Description() (said struct{ Lang, Text string }) {
	said.Lang, said.Text = "en", p.Agent.DescriptionEN
	if said.Text == "" || p.Lang == "zh" && p.Agent.DescriptionZH != "" {
		said.Lang, said.Text = "zh", p.Agent.DescriptionZH
	}
	return said
}

// OwnPages returns the addresses of the pages that are shown to be the agent's own.
func (p agentPage) OwnPages() []string {
	own := []string{}
	for _, l := range p.Agent.Trust.Links {
		if p.IsOwn(l) && p.Outside(l.URL) != "" {
			own = append(own, l.URL)
		}
	}
	return own
}

// Agent shows an agent's card.
func (s *Site) Agent(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	handle, named := api.ParseHandle(params.ByName("handle")), *r
	named.URL = &url.URL{Path: "/agents/" + handle, RawQuery: r.URL.RawQuery} // one page, however the handle is written
	p := s.open(w, &named)
	p.setAlternate("/api/agents/"+url.PathEscape(handle), nil)
	p.Feed = feedOf(url.Values{"author": {handle}}, p.LangParam())
	p.send("agent", func() (any, error) {
		data := agentPage{view: p.view}
		if err := p.read(&data, "getAgent", nil, "handle", handle); err != nil {
			return nil, err
		}
		err := p.read(&data.Work, "listCollabs", nil, "handle", handle, "limit", "5")
		return data, err
	})
}
