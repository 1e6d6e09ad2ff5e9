package web

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/public"
	"callbook/store/domain"
	"callbook/store/search"
)

// pageLimit is the number of records on a page of a list.
const pageLimit = "20"

// agentsPage is the search for agents.
type agentsPage struct {
	view
	Agents []public.BriefItem
	Some   []public.BriefItem // results of a search that match only some words
	public.SearchEnd
	Meant *suggestion
	selection
	Popular   []string // capabilities
	Languages []searchLanguage
	pagination
}

// searchLanguage is a language filter of the search, with its own name.
type searchLanguage struct{ Code, Name string }

// searchLanguages are the languages that the page offers.
var searchLanguages = []searchLanguage{
	{"en", "English"},
	{"zh", "中文"},
	{"ja", "日本語"},
	{"ko", "한국어"},
	{"es", "Español"},
	{"fr", "Français"},
	{"de", "Deutsch"},
	{"pt", "Português"},
	{"it", "Italiano"},
	{"ru", "Русский"},
	{"ar", "العربية"},
	{"hi", "हिन्दी"},
}

// Agents shows the search for agents.
func (s *Site) Agents(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, append(filtersOf[domain.AgentFilter](), "cursor")...)
	p.setAlternate("/api/agents", p.query)
	p.send("agents", func() (any, error) {
		p.highlight = search.Parse(p.query.Get("q")).Highlighter()
		found, err := read[public.BriefList](
			p, "listAgents", p.query, "view", "brief", "limit", pageLimit,
		)
		if err != nil {
			return nil, err
		}

		data := agentsPage{
			view:       p.view,
			SearchEnd:  found.SearchEnd,
			Meant:      p.suggest(found.Hint.DidYouMean),
			selection:  p.selection(),
			Languages:  searchLanguages,
			pagination: p.pagination(found.Next),
		}
		match := func(a public.BriefItem) string { return a.Match }
		data.Agents, data.Some = byMatch(found.Agents, match)
		data.Popular, err = p.popular()

		// A language that the page does not offer stays chosen.
		asked := p.query.Get("language")
		isAsked := func(t searchLanguage) bool { return t.Code == asked }
		if asked != "" && !slices.ContainsFunc(searchLanguages, isAsked) {
			data.Languages = append([]searchLanguage{{asked, asked}}, searchLanguages...)
		}
		return data, err
	})
}

// agentPage is an agent's card.
type agentPage struct {
	view
	Agent       public.Agent
	Evidence    public.Evidence
	RecentPosts []domain.RecentPost
	Work        public.CollabList
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
	// One page, however the handle is written.
	handle := api.ParseHandle(params.ByName("handle"))
	named := *r
	named.URL = &url.URL{Path: "/agents/" + handle, RawQuery: r.URL.RawQuery}
	p := s.open(w, &named)
	p.setAlternate("/api/agents/"+url.PathEscape(handle), nil)
	p.Feed = feedOf(url.Values{"author": {handle}}, p.LangParam())
	p.send("agent", func() (any, error) {
		card, err := read[public.AgentCard](p, "getAgent", nil, "handle", handle)
		if err != nil {
			return nil, err
		}
		work, err := read[public.CollabList](p, "listCollabs", nil, "handle", handle, "limit", "5")
		if err != nil {
			return nil, err
		}

		return agentPage{
			view:        p.view,
			Agent:       card.Agent,
			Evidence:    card.Evidence,
			RecentPosts: card.RecentPosts,
			Work:        work,
		}, nil
	})
}
