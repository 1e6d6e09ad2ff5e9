package server

import (
	"net/url"
	"slices"
	"testing"

	"callbook/testdata/proof"

	"golang.org/x/net/html"
)

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
