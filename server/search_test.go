package server

import (
	"net/url"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/net/html"

	"callbook/server/public"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

var searchLists = []struct{ path, plural, name string }{
	{"/api/agents", "agents", "handle"}, {"/api/agents?view=brief", "agents", "handle"}, {"/api/posts", "posts", "title"},
}

// newSearchSite returns a directory with agents and calls of the same names and texts.
func newSearchSite(t testing.TB) *site {
	s := newSite(t)
	for _, r := range []struct{ name, text string }{
		{"harbour-maps", "Draws maps of harbours."}, {"letter-desk", "翻译书信。"}, {"harbour-tides", "Predicts tides."}, {"contract-desk", "Translates contracts."},
	} {
		s.post(s.agent(r.name, "description_en", r.text), r.name, "body", r.text)
	}
	return s
}

type searchResult struct {
	All, Some        []string
	Total, TotalSome int
	Hint             *public.SearchHint
}

// searchFor reads a page of a list.
func (s *site) searchFor(path, plural, name, query string) (r searchResult, next string) {
	s.Helper()
	a := s.send("GET", withQuery(path, query), "", nil).status(200)
	var list struct {
		Total     int
		TotalSome int `json:"total_some"`
		Hint      *public.SearchHint
		Next      string
	}
	a.into(&list)
	r.Total, r.TotalSome, r.Hint = list.Total, list.TotalSome, list.Hint
	for i := range a.len(plural) {
		if value := a.text(plural, i, name); a.text(plural, i, "match") == "all" {
			if len(r.Some) > 0 {
				s.Errorf("%s: %s matches every word and comes after %v", path, value, r.Some)
			}
			r.All = append(r.All, value)
		} else {
			r.Some = append(r.Some, value)
		}
	}
	return r, list.Next
}

func TestSearch_ListsStrictMatchesThenPartialOnes(t *testing.T) {
	s := newSearchSite(t)
	proof.OneByOne(t)
	suggests := func(query string, words ...public.HintWord) *public.SearchHint {
		h := &public.SearchHint{Words: append([]public.HintWord{}, words...)}
		if query != "" {
			h.DidYouMean = &query
		}
		return h
	}
	for _, tt := range []struct {
		name, query string
		want        searchResult
	}{
		{"every word", "q=harbour+tides&match=all", searchResult{[]string{"harbour-tides"}, nil, 1, 0, nil}},
		{"every word, then some", "q=harbour+tides", searchResult{[]string{"harbour-tides"}, []string{"harbour-maps"}, 1, 1, nil}},
		{"another form of a word", "q=translating&match=all", searchResult{[]string{"contract-desk"}, nil, 1, 0, nil}},
		{"a translation", "q=translation", searchResult{[]string{"contract-desk"}, []string{"letter-desk"}, 1, 1, nil}},
		{"a translation, from Chinese", "q=%E7%BF%BB%E8%AF%91", searchResult{[]string{"letter-desk"}, []string{"contract-desk"}, 1, 1, nil}},
		{"a full page", "q=harbour+tides&limit=1", searchResult{[]string{"harbour-tides"}, nil, 1, 0, nil}},
		{"some only", "q=tides+contracts", searchResult{nil, []string{"contract-desk", "harbour-tides"}, 0, 2, suggests("", public.HintWord{Word: "tides", Count: 1}, public.HintWord{Word: "contracts", Count: 1})}},
		{"some left out", "q=tides+contracts&match=all", searchResult{nil, nil, 0, 0, suggests("", public.HintWord{Word: "tides", Count: 1}, public.HintWord{Word: "contracts", Count: 1})}},
		{"misspelled", "q=harbuor", searchResult{nil, []string{"harbour-tides", "harbour-maps"}, 0, 2, suggests("harbour")}},
		{"misspelled among others", "q=maps+harbuor", searchResult{nil, []string{"harbour-maps", "harbour-tides"}, 0, 2, suggests("maps harbour", public.HintWord{Word: "maps", Count: 1})}},
		{"unknown", "q=zzyzx+quuxly", searchResult{nil, nil, 0, 0, suggests("")}},
		{"no letters", "q=%2B+%22", searchResult{nil, nil, 0, 0, suggests("")}},
	} {
		for _, list := range searchLists {
			got, _ := s.searchFor(list.path, list.plural, list.name, tt.query)
			if got.Hint != nil {
				if got.Hint.EN == "" || got.Hint.ZH == "" {
					t.Errorf("%s, %s: the hint is %+v", tt.name, list.path, got.Hint)
				}
				got.Hint.EN, got.Hint.ZH = "", ""
			}
			equal(t, tt.want, got, "%s, %s", tt.name, list.path)
		}
	}
}

// The sentences of a hint are those of the state that it is in.
func TestSearch_HintSaysWhatToTry(t *testing.T) {
	s := newSearchSite(t)
	for _, tt := range []struct{ path, en, zh string }{
		{"/api/agents?q=zzyzx", "No agent matches every word. Try fewer words or filters, or the other language (English or Chinese).", "没有智能体与所有词都匹配。请尝试减少词语或筛选条件，或改用另一种语言（英文或中文）。"},
		{"/api/posts?q=zzyzx", "No call matches every word. Try fewer words or filters, or the other language (English or Chinese).", "没有呼叫与所有词都匹配。请尝试减少词语或筛选条件，或改用另一种语言（英文或中文）。"},
		{"/api/agents?q=tides+contracts", "No agent matches every word. The agents listed match some of the words. Try fewer words or filters, or the other language (English or Chinese).", "没有智能体与所有词都匹配。所列智能体与部分词匹配。请尝试减少词语或筛选条件，或改用另一种语言（英文或中文）。"},
		{"/api/posts?q=tides+contracts&match=all", "No call matches every word. Try fewer words or filters, or the other language (English or Chinese).", "没有呼叫与所有词都匹配。请尝试减少词语或筛选条件，或改用另一种语言（英文或中文）。"},
		{"/api/posts?q=harbuor&kind=offering", "No call matches every word. did_you_mean has another spelling. Try fewer words or filters, or the other language (English or Chinese).", "没有呼叫与所有词都匹配。did_you_mean 给出另一种拼写。请尝试减少词语或筛选条件，或改用另一种语言（英文或中文）。"},
	} {
		a := s.send("GET", tt.path, "", nil).status(200)
		equal(t, []string{tt.en, tt.zh}, []string{a.text("hint", "en"), a.text("hint", "zh")}, "%s", tt.path)
	}
}

func marks(doc *html.Node) (texts []string) {
	for _, n := range elements(doc, "mark") {
		texts = append(texts, innerText(n))
	}
	return texts
}

// someHeading returns the text of the heading of partial matches; empty for none.
func someHeading(doc *html.Node) string {
	for _, n := range elements(doc, "h2") {
		if hasClass(n, "some") {
			return innerText(n)
		}
	}
	return ""
}

func TestSearch_PagesHighlightMatches(t *testing.T) {
	s := newSearchSite(t)
	for _, tt := range []struct {
		path, heading string
		marks         []string
	}{
		{"/agents?q=harbour+tides", "Agents that match some of the words", []string{"harbour", "tides", "harbour", "tides", "harbour", "harbour"}},
		{"/agents?lang=zh&q=harbour+tides", "与部分词匹配的智能体", []string{"harbour", "tides", "harbour", "tides", "harbour", "harbour"}},
		{"/calls?q=harbour+tides", "Calls that match some of the words", []string{"harbour", "tides", "tides", "harbour", "harbours"}},
		{"/calls?lang=zh&q=HARBOUR+tide", "与部分词匹配的呼叫", []string{"harbour", "tides", "tides", "harbour", "harbours"}},
		{"/calls?q=translation", "Calls that match some of the words", []string{"Translates", "翻译"}},
		{"/agents", "", nil},
		{"/calls?kind=seeking", "", nil},
	} {
		doc := parsePage(t, s.openPage(tt.path).status(200).Body)
		equal(t, tt.marks, marks(doc), "%s", tt.path)
		equal(t, tt.heading, someHeading(doc), "%s: the heading", tt.path)
	}
}

func TestSearch_PagesLinkToWhatWasMeant(t *testing.T) {
	s := newSearchSite(t)
	for path, want := range map[string]string{
		"/agents?q=maps+harbuor":                        "/agents?q=maps+harbour",
		"/agents?lang=zh&min_level=1&q=maps+harbuor":    "/agents?lang=zh&min_level=1&q=maps+harbour",
		"/calls?q=harbuor&kind=seeking&utm_source=none": "/calls?kind=seeking&q=harbour",
		"/agents?q=zzyzx":                               "",
		"/calls?q=harbour":                              "",
	} {
		got := ""
		for _, n := range elements(parsePage(t, s.openPage(path).status(200).Body), "a") {
			if hasClass(n.Parent, "empty") {
				got, _ = attribute(n, "href")
			}
		}
		equal(t, want, got, "%s leads to", path)
		if want != "" {
			s.openPage(want).status(200)
		}
	}
}

// Highlighting puts markup into agents' texts. Each is searched for by its own words.
func TestSearch_HighlightsHostileTextAsText(t *testing.T) {
	t.Parallel()
	c := newHostileCrew(t)
	proof.OneByOne(t)
	texts := variedHostileTexts()
	marked := 0
	for batch := range slices.Chunk(texts, 10) {
		c.write(batch)
	}
	for _, text := range texts {
		for _, path := range []string{"/agents?q=", "/calls?q="} {
			doc := c.read(path+url.QueryEscape(text), written{})
			for _, q := range elements(doc, "q") {
				for _, n := range elements(q) {
					if n.Data != "mark" || len(n.Attr) > 0 {
						t.Errorf("%s%q: %s in a quotation", path, text, n.Data)
					}
				}
			}
			marked += len(marks(doc))
		}
	}
	if marked < len(texts) {
		t.Errorf("%d parts of %d texts are highlighted", marked, len(texts))
	}
}

// TestPages_ShowPopularCapabilities: those of at least two agents with a verified mailbox, the most frequent first.
func TestPages_ShowPopularCapabilities(t *testing.T) {
	s := newSite(t)
	chips := func(path string) (names []string) {
		t.Helper()
		for _, n := range elements(parsePage(t, s.openPage(path).status(200).Body), "nav") {
			if hasClass(n, "chips") {
				for _, a := range elements(n, "a") {
					names = append(names, innerText(a))
					if href, _ := attribute(a, "href"); href != "/agents?capability="+url.QueryEscape(innerText(a)) {
						t.Errorf("%s: %q leads to %s", path, innerText(a), href)
					}
				}
			}
		}
		return names
	}
	check := func(when string, want ...string) {
		t.Helper()
		for _, path := range []string{"/", "/agents"} {
			equal(t, want, chips(path), "%s, %s", when, path)
		}
	}
	has := func(capabilities ...string) []any { return []any{"capabilities", capabilities} }
	check("nobody")
	for _, handle := range []string{"fog-horn", "reef-watcher"} {
		s.agent(handle, has("canary")...)
	}
	s.verified("harbour-pilot", has("tides", "潮汐", "alone")...)
	check("one agent")
	s.verified("tide-gauge", has("潮汐", "tides")...)
	s.verified("crane-one", has("潮汐")...)
	check("three agents", "潮汐", "tides")
	if names := chips("/agents?min_level=1"); names != nil {
		t.Errorf("a selection shows %q", names)
	}
	s.suspend("tide-gauge")
	check("a suspension", "潮汐")
}

// narrowing has, for each query parameter of a list of agents, a value that only harbour-pilot
// has of the two agents of TestSearch_EveryFilterOfAgentsNarrows.
var narrowing = map[string]string{
	"q":          "pilot",
	"match":      "all",
	"capability": "Berths",
	"language":   "tlh",

	"verified":  "true",
	"min_level": "1",
	"new":       "true",
}

// TestSearch_EveryFilterOfAgentsNarrows a list, with and without words.
func TestSearch_EveryFilterOfAgentsNarrows(t *testing.T) {
	s := newSite(t)
	s.agent("tide-gauge", "tagline", "For a harbour")
	s.clock.Advance(31 * domain.Day)
	s.verified("harbour-pilot", "capabilities", []string{"berths"}, "languages", []string{"tlh"})

	for _, field := range reflect.VisibleFields(reflect.TypeFor[domain.AgentFilter]()) {
		name := field.Tag.Get("query")
		if name == "" {
			continue
		}
		value, listed := narrowing[name]
		if !listed {
			t.Errorf("narrowing has no value of %s", name)
			continue
		}
		for _, words := range []string{"", "harbour pilot"} {
			if name == "match" && words == "" { // it says how words match
				continue
			}
			query := url.Values{}
			if words != "" {
				query.Set("q", words)
			}
			all, _ := s.searchFor("/api/agents", "agents", "handle", query.Encode())
			equal(t, 2, len(all.All)+len(all.Some), "agents without %s, words %q", name, words)

			query.Set(name, value)
			found, _ := s.searchFor("/api/agents", "agents", "handle", query.Encode())
			equal(t, []string{"harbour-pilot"}, slices.Concat(found.All, found.Some), "agents with %s, words %q", name, words)
		}
	}
}
