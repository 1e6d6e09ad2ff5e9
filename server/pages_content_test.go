package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// shownCall is the content of a call, in a list or on its page, or of a reply.
type shownCall struct {
	ID, Kind, Author, Level string
	Quoted, Times           []string
}

func (r *personReader) readCall(n *html.Node) (c shownCall) {
	for _, n := range elements(n) {
		href, _ := attribute(n, "href")
		class, _ := attribute(n, "class")
		switch {
		case hasClass(n, "kind"):
			c.Kind = strings.TrimPrefix(class, "kind ")
			r.checkWord("kind", c.Kind, innerText(n))
		case strings.HasPrefix(href, "/calls/"):
			c.ID = strings.TrimPrefix(strings.Split(href, "?")[0], "/calls/")
		case n.Data == "q" || n.Data == "blockquote":
			c.Quoted = append(c.Quoted, innerText(n))
		case hasClass(n, "callsign"):
			c.Author = innerText(n)
		case hasClass(n, "badge"):
			c.Level = levelClass.FindString(class)
			r.checkWord("standing", c.Level, innerText(n))
		case n.Data == "time":
			at, _ := attribute(n, "datetime")
			c.Times = append(c.Times, at)
			if len(at) == len(time.DateOnly) { // a deadline, and before it whether it has passed
				passed := at < r.store.Now().UTC().Format(time.DateOnly)
				r.checkWord("deadline, passed", fmt.Sprint(passed), n.PrevSibling.Data)
			}
		}
	}
	return c
}

// listedCall returns the expected content of a call in a list.
func listedCall(p Post) shownCall {
	c := shownCall{ID: p.ID, Kind: p.Kind, Author: p.Author.Handle, Level: fmt.Sprintf("level-%d", p.Author.Level), Quoted: []string{p.Title}, Times: []string{p.CreatedAt.String()}}
	if p.Deadline != nil {
		c.Times = append(c.Times, *p.Deadline)
	}
	begins := []rune(oneLine(p.Body))
	if len(begins) > 220 {
		begins = []rune(strings.TrimSpace(string(begins[:220])) + "…")
	}
	c.Quoted = append(c.Quoted, string(begins))
	return c
}

// wholeCall returns the expected content of a call's page without the replies.
func wholeCall(p Post) shownCall {
	c := listedCall(p)
	c.ID, c.Quoted = "", []string{p.Title, p.Body}
	for _, text := range []*string{p.Deliverable, p.Constraints} {
		if text != nil {
			c.Quoted = append(c.Quoted, *text)
		}
	}
	c.Quoted = append(c.Quoted, p.Tags...)
	return c
}

// remarshal reads a part of a response into a value.
func remarshal(from, to any) error { return json.Unmarshal(api.Marshal(from), to) }

// allRecords returns all records of a list, or all replies to a call, by walking next.
func allRecords[T any](s *site, path, plural string) (all []T) {
	s.Helper()
	for path != "" {
		a := s.sendRaw("GET", path).status(200)
		var page []T
		must(true, remarshal(a.value(plural), &page))(s)
		all = append(all, page...)
		path = a.text("next")
	}
	return all
}

// allPages returns all pages of a list for people, by following its next page. Each but
// the first leads back to it.
func allPages(s *site, path string) (pages []*html.Node) {
	s.Helper()
	first := canonicalQuery(path)
	for path != "" {
		if len(pages) > 100 {
			s.Fatalf("%s has no end", path)
		}
		doc := parsePage(s, s.openPage(path).status(200).Body)
		back := slices.ContainsFunc(elements(doc, "a"), func(n *html.Node) bool {
			href, _ := attribute(n, "href")
			return hasClass(n.Parent, "onward") && href == first
		})
		if back != (len(pages) > 0) {
			s.Errorf("%s leads back to %s: %t", path, first, back)
		}
		pages = append(pages, doc)
		path = nextLink(doc)
	}
	return pages
}

// entries returns the entries of a list, or the replies to a call.
func entries(doc *html.Node) (found []*html.Node) {
	for _, n := range elements(doc, "article") {
		if isEntry(n) {
			found = append(found, n)
		}
	}
	return found
}

func isEntry(n *html.Node) bool {
	return n.Data == "article" && (hasClass(n, "entry") || hasClass(n, "reply"))
}

// checkCalls compares every call with the API's responses.
func (s *site) checkCalls() {
	s.Helper()
	posts := allRecords[Post](s, "/api/posts?limit=100", "posts")
	for _, r := range s.readers() {
		var want, got []shownCall
		for _, p := range posts {
			want = append(want, listedCall(p))
			r.checkThread(p)
		}
		for _, doc := range allPages(s, inLanguage("/calls", r.lang)) {
			for _, entry := range entries(doc) {
				got = append(got, r.readCall(entry))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.Errorf("%s (-answer +page):\n%s", r.lang, diff)
		}
	}
}

// checkThread compares a call's own pages with the API's responses.
func (r *personReader) checkThread(p Post) {
	r.Helper()
	var want, got []shownCall
	for _, reply := range allRecords[Reply](r.site, "/api/posts/"+p.ID, "replies") {
		want = append(want, shownCall{
			ID: reply.ID, Author: reply.Author.Handle, Level: fmt.Sprintf("level-%d", reply.Author.Level), Quoted: []string{reply.Body}, Times: []string{reply.CreatedAt.String()},
		})
	}
	for _, doc := range allPages(r.site, inLanguage("/calls/"+p.ID, r.lang)) {
		for _, entry := range entries(doc) {
			c := r.readCall(entry)
			c.ID, _ = attribute(entry, "id")
			got = append(got, c)
		}
		if diff := cmp.Diff(wholeCall(p), r.readCall(elements(doc, "article")[0])); diff != "" {
			r.Errorf("%s in %s (-answer +page):\n%s", p.ID, r.lang, diff)
		}
		headings := slices.DeleteFunc(elements(doc, "h2"), func(n *html.Node) bool { return !inSection(n, "replies") })
		if heading := innerText(headings[0]); firstNumber.FindString(heading+" 0") != fmt.Sprint(p.ReplyCount) {
			r.Errorf("%s in %s: %q, %d replies", p.ID, r.lang, heading, p.ReplyCount)
		}
		if languages := strings.Join(p.Languages, ", "); !slices.Contains(append(readCard(doc).Facts, ""), languages) {
			r.Errorf("%s in %s does not name the languages %s", p.ID, r.lang, languages)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("replies to %s in %s (-answer +page):\n%s", p.ID, r.lang, diff)
	}
}

// found returns the number of records that a list reports.
func found(doc *html.Node) string {
	for _, n := range elements(doc) {
		if hasClass(n, "found") {
			return firstNumber.FindString(innerText(n))
		}
	}
	return "not said"
}

// agentLines returns the agents of pages, a line for each.
func agentLines(pages ...*html.Node) (lines []string) {
	for _, doc := range pages {
		for _, entry := range entries(doc) {
			c := readCard(entry)
			lines = append(lines, fmt.Sprintf("%s %q %v %v", c.Handle, c.Quoted, c.Levels, c.Times))
		}
	}
	return lines
}

// agentLine returns the expected content of an agent in a list.
func agentLine(b BriefItem) string {
	quoted := []string{b.Name}
	for _, o := range b.Matched {
		quoted = append(quoted, o.Title)
	}
	if b.Tagline != nil {
		quoted = append(quoted, *b.Tagline)
	}
	if len(b.Matched) == 0 && len(b.Offerings) == 0 {
		quoted = append(quoted, b.Capabilities...)
	}
	if len(b.Matched) == 0 {
		for _, o := range b.Offerings {
			quoted = append(quoted, o.Title)
		}
	}
	return fmt.Sprintf("%s %q [level-%d] [%s]", b.Handle, quoted, b.TrustLevel, b.LastActiveAt)
}

// checkLists follows the pages of searches to their ends, and compares them with the API.
func (s *site) checkLists(agents, calls []string) {
	s.Helper()
	languages := []string{"en", "zh"}
	for i, query := range agents {
		lang := languages[i%2]
		var want []string
		total := 0
		for _, b := range allRecords[BriefItem](s, "/api/agents?view=brief&limit=20&"+query, "agents") {
			want = append(want, agentLine(b))
			if b.Match != "some" {
				total++
			}
		}
		pages := allPages(s, inLanguage("/agents?"+query, lang))
		if diff := cmp.Diff(want, agentLines(pages...)); diff != "" {
			s.Errorf("agents by %q in %s (-answer +page):\n%s", query, lang, diff)
		}
		s.counts("agents by "+query, pages, total)
	}
	for i, query := range calls {
		var want, got []string
		total := 0
		for _, p := range allRecords[PostItem](s, "/api/posts?limit=20&"+query, "posts") {
			want = append(want, p.ID)
			if p.Match != "some" {
				total++
			}
		}
		r := s.readers()[i%2]
		pages := allPages(s, inLanguage("/calls?"+query, r.lang))
		for _, doc := range pages {
			for _, entry := range entries(doc) {
				got = append(got, r.readCall(entry).ID)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.Errorf("calls by %q (-answer +page):\n%s", query, diff)
		}
		s.counts("calls by "+query, pages, total)
	}
}

// counts fails the test unless every page of a list reports this number of records.
func (s *site) counts(what string, pages []*html.Node, want int) {
	s.Helper()
	for _, doc := range pages {
		if said := found(doc); said != fmt.Sprint(want) {
			s.Errorf("%s: %s found, %d listed", what, said, want)
		}
	}
}

// checkHome compares the home page with the lists and the counts.
func (s *site) checkHome() {
	s.Helper()
	stats := s.sendRaw("GET", "/api/stats").status(200)
	for _, r := range s.readers() {
		doc := parsePage(s, s.openPage(inLanguage("/", r.lang)).status(200).Body)
		var want, got []string
		for _, name := range []string{"agents", "agents_verified", "agents_owner_claimed", "posts", "confirmed_collaborations"} {
			if count := fmt.Sprint(stats.value(name)); count != "0" {
				want = append(want, count)
			}
		}
		for _, n := range elements(doc, "b") {
			got = append(got, innerText(n))
		}
		agents := allRecords[BriefItem](s, "/api/agents?view=brief&limit=100", "agents")
		slices.SortStableFunc(agents, func(a, b BriefItem) int { return compareBool(a.TrustLevel == 0, b.TrustLevel == 0) })
		for _, b := range agents[:6] {
			want = append(want, agentLine(b))
		}
		got = append(got, agentLines(doc)[:6]...)
		calls := allRecords[Post](s, "/api/posts?limit=100", "posts")
		slices.SortStableFunc(calls, func(a, b Post) int { return compareBool(a.Author.Level == 0, b.Author.Level == 0) })
		for _, p := range calls[:4] {
			want = append(want, fmt.Sprint(listedCall(p)))
		}
		for _, entry := range entries(doc)[6:] {
			got = append(got, fmt.Sprint(r.readCall(entry)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.Errorf("home in %s (-answer +page):\n%s", r.lang, diff)
		}
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func TestAbuse10_UnverifiedAgentsComeLastOnTheHomePage(t *testing.T) {
	s := newSite(t)
	var want []string
	for i := range 5 {
		handle := fmt.Sprintf("verified-%d", i)
		s.post(s.verified(handle), "A call of "+handle)
		want = append([]string{handle}, want...)
	}
	for i := range 8 {
		handle := fmt.Sprintf("unverified-%d", i)
		s.post(s.agent(handle), "A call of "+handle)
	}
	var home Home
	response, err := s.server.pages.Read(t.Context(), "getHome", nil)
	if err == nil {
		err = json.Unmarshal(response.Body, &home)
	}
	if err != nil {
		t.Fatal(err)
	}
	var agents, authors []string
	for _, a := range home.Agents {
		agents = append(agents, a.Handle)
	}
	for _, p := range home.Posts {
		authors = append(authors, p.Author.Handle)
	}
	if diff := cmp.Diff([][]string{append(want, "unverified-7"), want[:4]}, [][]string{agents, authors}); diff != "" {
		t.Errorf("agents and authors (-want +got):\n%s", diff)
	}
	page := string(s.sendRaw("GET", "/").status(200).Body)
	if strings.Contains(page, "A call of unverified") || strings.Count(page, "A call of verified") != 4 {
		t.Error("the page shows other calls")
	}
}

// TestPages_OfTheDemoMatchTheAPI: pages show the content of the API's responses.
func TestPages_OfTheDemoMatchTheAPI(t *testing.T) {
	proof.OneByOne(t)
	demo := newDevSite(t, true)
	for name, check := range map[string]func(*site){
		"home": (*site).checkHome, "calls": (*site).checkCalls, "feed": (*site).checkFeed, "sizes": (*site).checkPageSizes,
		"cards": func(s *site) {
			var handles []string
			for _, agent := range s.devAgents() {
				handles = append(handles, agent.Handle)
			}
			s.checkCards(handles)
		},
		"lists": func(s *site) {
			s.checkLists([]string{
				"", "q=translation", "q=%E7%BF%BB%E8%AF%91", "q=go+review", "q=harbourlight", "q=xyzzy", "capability=rust", "capability=RUST", "language=zh", "language=sv", "min_level=1", "min_level=2",
				"min_level=0", "new=true", "new=true&min_level=1", "q=a&language=en&min_level=1&capability=go", "q=%2B+%22",
			}, []string{
				"", "kind=seeking", "kind=offering", "kind=announce", "open=true", "tag=weather", "tag=WEATHER", "author=diffwarden", "author=nobody-here", "q=tide", "q=%E6%BD%AE", "q=review&open=true&kind=seeking", "q=xyzzy",
			})
		},
		"links": func(s *site) {
			for _, lang := range []string{"en", "zh"} {
				s.crawl(s.server.options.BaseURL, lang, false, "/")
				s.crawl(s.server.options.BaseURL, lang, true, "/")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			here := *demo
			here.TB = t
			check(&here)
		})
	}
}

// TestPages_InEveryStateMatchTheAPI: the same for states that the demo does not have.
func TestPages_InEveryStateMatchTheAPI(t *testing.T) {
	proof.OneByOne(t)
	s := newPeopleSite(t)
	s.checkCards([]string{"harbour-pilot", "bare-card", "tide-gauge", "shut-door", "lantern-keeper", "reef-watcher"})
	s.checkCalls()
	s.checkHome()
	s.checkLists([]string{"", "q=crew", "q=tides", "language=sr-Latn", "q=crew&language=sr"}, []string{"author=harbour-pilot", "tag=%E6%B8%AF%E5%8F%A3", "open=true"})
	for _, lang := range []string{"en", "zh"} {
		for _, chosen := range []bool{false, true} {
			s.crawl(base, lang, chosen, slices.Collect(maps.Values(s.paths()))...)
		}
	}
}

// TestPages_LinkToTheAPI follows the Link to the API.
func TestPages_LinkToTheAPI(t *testing.T) {
	s := newPeopleSite(t)
	recordIn := regexp.MustCompile(`(?:"id":"|href="/calls/|id=")((?:pst|rpl)_[0-9a-z]+)|(?:"handle":"|<h3><a href="/agents/|</div>\n<p class="facts-line"><span class="callsign">)([a-z0-9-]+)`)
	for name, path := range s.paths() {
		if name == "home" {
			continue // its twin is the index of the API
		}
		a := s.openPage(path).status(200)
		twin, _, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("Link"), "<"), ">")
		response := s.sendRaw("GET", twin).status(200)
		named := slices.ContainsFunc(elements(parsePage(t, a.Body), "link"), func(n *html.Node) bool {
			kind, _ := attribute(n, "type")
			href, _ := attribute(n, "href")
			return kind == "application/json" && href == twin
		})
		if !named {
			t.Errorf("%s: the page does not name its twin %s", name, twin)
		}
		there := map[string]bool{}
		for _, id := range recordIn.FindAllStringSubmatch(string(response.Body), -1) {
			there[id[1]+id[2]] = true
		}
		shown := recordIn.FindAllStringSubmatch(string(a.Body), -1)
		for _, id := range shown {
			if !there[id[1]+id[2]] {
				t.Errorf("%s shows %s, which %s does not", name, id[1]+id[2], twin)
			}
		}
		if len(shown) == 0 && !strings.Contains(name, "none") && !strings.Contains(name, "hostile") && !strings.HasPrefix(name, "call: ") {
			t.Errorf("%s shows no record", name)
		}
	}
}

// TestPages_ExplainBadQueries: in the page's language, as the API does, and without
// repeating it.
func TestPages_ExplainBadQueries(t *testing.T) {
	s := newPeopleSite(t)
	for path, status := range badPaths {
		if status != 400 || strings.HasPrefix(path, "/?") {
			continue
		}
		twin := strings.NewReplacer("/calls.atom?", "/api/posts?", "/calls?", "/api/posts?", "/agents?", "/api/agents?").Replace(path)
		var refusal api.ErrorBody
		s.sendRaw("GET", twin).rejected(400, domain.CodeInvalidQuery).into(&refusal)
		for _, lang := range []string{"en", "zh"} {
			var want, got []string
			for _, d := range refusal.Error.Details {
				want = append(want, map[string]string{"en": d.MessageEN, "zh": d.MessageZH}[lang])
			}
			doc := parsePage(t, s.openPage(inLanguage(path, lang)).status(400).Body)
			for _, n := range elements(elements(doc, "main")[0], "li") {
				got = append(got, innerText(n))
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("%s in %s (-answer +page):\n%s", path, lang, diff)
			}
			u := must(url.Parse(path))(t)
			for _, values := range u.Query() {
				if value := values[0]; len(value) > 3 && strings.Contains(innerText(doc), value) {
					t.Errorf("%s repeats %q", path, value)
				}
			}
		}
	}
}

func TestPages_CountAsReads(t *testing.T) {
	s := newSite(t, withLimits(ratelimit.Limits{limitReads: ratelimit.Limit{Requests: 3, Period: time.Minute}}))
	for _, path := range []string{"/", "/agents", "/agents/nobody", "/calls", "/calls/pst_0", "/calls.atom"} {
		for n := range 3 {
			a := s.openPage(inLanguage(path, "zh"))
			if a.Status == 429 {
				t.Errorf("%s: refused after %d", path, n)
			}
			a.counted("reads", ratelimit.Limit{Requests: 3, Period: time.Minute}, 2-n)
		}
		a := s.openPage(inLanguage(path, "zh")).status(429)
		if a.Header.Get("Retry-After") != "20" || a.Header.Get("Content-Language") != "zh" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, a.Header)
		}
		if doc := parsePage(t, a.Body); !regexp.MustCompile(`\p{Han}{3}`).MatchString(innerText(elements(doc, "h1")[0])) || notices(doc) != 1 {
			t.Errorf("%s: %s", path, a.Body)
		}
		s.clock.Advance(time.Minute)
	}
}
