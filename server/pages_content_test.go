package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/server/api"
	"callbook/server/public"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

var firstNumber = regexp.MustCompile(`\d+`)

// shownNames are the members of responses that pages show as they are.
var shownNames = strings.Fields("handle owner tagline capabilities homepage model title deliverable for_whom not_doing tags email note url body constraints summary deadline created_at last_active_at")

// pageText returns all texts and values of attributes of a page.
func pageText(doc *html.Node) string {
	text := innerText(doc)
	for _, n := range elements(doc) {
		for _, a := range n.Attr {
			text += "\n" + a.Val
		}
	}
	return text
}

// checkShows fails the test unless a page has these parts of a response: the members of shownNames, and the level of trust.
func (s *site) checkShows(path, page, name string, part any) {
	s.Helper()
	switch part := part.(type) {
	case map[string]any:
		for name, member := range part {
			s.checkShows(path, page, name, member)
		}
	case []any:
		for _, item := range part {
			s.checkShows(path, page, name, item)
		}
	case string:
		if slices.Contains(shownNames, name) && !strings.Contains(page, part) {
			s.Errorf("%s does not show the %s %q", path, name, part)
		}
	case float64:
		if name == "level" && !strings.Contains(page, fmt.Sprintf("level-%v", part)) {
			s.Errorf("%s does not show the level %v", path, part)
		}
	}
}

// checkCards compares cards with the API's responses. The description in another language is left out if there are two.
func (s *site) checkCards(handles []string) {
	s.Helper()
	for _, handle := range handles {
		card, work := s.sendRaw("GET", "/api/agents/"+handle).status(200), s.sendRaw("GET", "/api/collabs?limit=5&handle="+handle).status(200)
		for _, lang := range []string{"en", "zh"} {
			path := inLanguage("/agents/"+handle, lang)
			page := pageText(parsePage(s, s.openPage(path).status(200).Body))
			s.checkShows(path, page, "", card.value("agent"))
			s.checkShows(path, page, "", card.value("recent_posts"))
			for i := range work.len("collabs") {
				s.checkShows(path, page, "summary", work.text("collabs", i, "summary"))
			}
			description := card.text("agent", "description_"+lang)
			if description == "" {
				description = card.text("agent", "description_en") + card.text("agent", "description_zh")
			}
			s.checkShows(path, page, "body", []any{description, card.value("agent", "name")})
			if n := card.value("evidence", "confirmed_collaborations"); n != 0.0 && !strings.Contains(page, fmt.Sprint(n)) {
				s.Errorf("%s does not show %v confirmed collaborations", path, n)
			}
		}
	}
}

// checkCalls compares every call, with its replies, with the API's responses.
func (s *site) checkCalls() {
	s.Helper()
	for i, post := range allRecords[map[string]any](s, "/api/posts?limit=100", "posts") {
		path := inLanguage(fmt.Sprint("/calls/", post["id"]), []string{"en", "zh"}[i%2])
		replies := allRecords[map[string]any](s, fmt.Sprint("/api/posts/", post["id"]), "replies")
		var want, got []any
		shown := ""
		for _, doc := range allPages(s, path) {
			page := pageText(doc)
			s.checkShows(path, page, "", post)
			shown += page
			for _, entry := range entries(doc) {
				id, _ := attribute(entry, "id")
				got = append(got, id)
			}
		}
		for _, reply := range replies {
			want = append(want, reply["id"])
			s.checkShows(path, shown, "", reply)
		}
		equal(s, want, got, "replies of %s", path)
	}
}

// checkLists follows the pages of searches to their ends, and compares their records with the API's.
func (s *site) checkLists(agents, calls []string) {
	s.Helper()
	for _, list := range []struct {
		queries                     []string
		page, twin, plural, id, url string
	}{
		{agents, "/agents", "/api/agents?view=brief&limit=20&", "agents", "handle", "/agents/"},
		{calls, "/calls", "/api/posts?limit=20&", "posts", "id", "/calls/"},
	} {
		for i, query := range list.queries {
			path := inLanguage(list.page+"?"+query, []string{"en", "zh"}[i%2])
			var want, got []any
			total := 0
			for _, record := range allRecords[map[string]any](s, list.twin+query, list.plural) {
				want = append(want, record[list.id])
				if record["match"] != "some" {
					total++
				}
			}
			pages := allPages(s, path)
			for _, doc := range pages {
				for _, entry := range entries(doc) {
					href, _ := attribute(elements(entry, "a")[0], "href")
					id, _, _ := strings.Cut(strings.TrimPrefix(href, list.url), "?")
					got = append(got, id)
				}
			}
			equal(s, want, got, "%s", path)
			s.counts(path, pages, total)
		}
	}
}

// remarshal reads a part of a response into a value.
func remarshal(from, to any) error { return json.Unmarshal(api.Marshal(from), to) }

// allRecords returns all records of a list, or all replies to a call, by walking next.
func allRecords[T any](s *site, path, plural string) (all []T) {
	s.Helper()
	for path != "" {
		a := s.sendRaw("GET", path).status(200)
		var page []T
		testkit.NoError(s, remarshal(a.value(plural), &page))
		all = append(all, page...)
		path = a.text("next")
	}
	return all
}

// allPages returns all pages of a list for people, by following its next page. Each but the first leads back to it.
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

// reportedTotal returns the number of records that a list reports.
func reportedTotal(doc *html.Node) string {
	for _, n := range elements(doc) {
		if hasClass(n, "found") {
			return firstNumber.FindString(innerText(n))
		}
	}
	return "not said"
}

// counts fails the test unless every page of a list reports this number of records.
func (s *site) counts(what string, pages []*html.Node, want int) {
	s.Helper()
	for _, doc := range pages {
		equal(s, fmt.Sprint(want), reportedTotal(doc), "%s: the number of records found", what)
	}
}

// TestHomePage_UnverifiedAgentsComeLast holds promise 10 of SECURITY.md.
func TestHomePage_UnverifiedAgentsComeLast(t *testing.T) {
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
	var home public.Home
	response, err := s.server.engine.Read(t.Context(), s.server.engine.Operation("getHome"), nil)
	if err == nil {
		err = json.Unmarshal(response.Body, &home)
	}
	testkit.NoError(t, err)
	var agents, authors []string
	for _, a := range home.Agents {
		agents = append(agents, a.Handle)
	}
	for _, p := range home.Posts {
		authors = append(authors, p.Author.Handle)
	}
	equal(t, [][]string{append(want, "unverified-7"), want[:4]}, [][]string{agents, authors}, "agents and authors")
	page := string(s.sendRaw("GET", "/").status(200).Body)
	if strings.Contains(page, "A call of unverified") || strings.Count(page, "A call of verified") != 4 {
		t.Error("the page shows other calls")
	}
}

// TestPages_OfTheDemoMatchTheAPI: pages show the content of the API's responses.
func TestPages_OfTheDemoMatchTheAPI(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	demo := newDevSite(t, true)
	for name, check := range map[string]func(*site){
		"calls": (*site).checkCalls, "feed": (*site).checkFeed,
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
	t.Parallel()
	proof.OneByOne(t)
	s := newPeopleSite(t)
	s.checkCards([]string{"harbour-pilot", "bare-card", "tide-gauge", "shut-door", "lantern-keeper", "reef-watcher"})
	s.checkCalls()
	s.checkLists([]string{"", "q=crew", "q=tides", "language=sr-Latn", "q=crew&language=sr"}, []string{"author=harbour-pilot", "tag=%E6%B8%AF%E5%8F%A3", "open=true"})
	for _, lang := range []string{"en", "zh"} {
		for _, chosen := range []bool{false, true} {
			s.crawl(base, lang, chosen, slices.Collect(maps.Values(s.paths()))...)
		}
	}
}

// TestAgentPage_ShowsEveryFieldOfTheProfile in the API, in HTML and in Markdown, which leaves out
// the public mailbox. A description is on the page in its language.
func TestAgentPage_ShowsEveryFieldOfTheProfile(t *testing.T) {
	s := newSite(t)
	var given []any
	want := map[string]string{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[domain.Profile]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		text := "zq" + strings.ReplaceAll(name, "_", "")
		switch name {
		case "contact_public":
			text = "harbour-pilot@example.org"
		case "homepage":
			text = "https://zqhomepage.example.org"
		case "languages":
			text = "tlh"
		}
		want[name] = text

		var value any = text
		switch field.Type.Kind() {
		case reflect.Bool:
			value = true
		case reflect.Slice:
			value = []string{text}
		}
		given = append(given, name, value)
	}
	s.verified("harbour-pilot", given...)

	page := func(accept string) (text string) {
		for _, lang := range []string{"en", "zh"} {
			a := s.openPage(inLanguage("/agents/harbour-pilot", lang), "Accept: "+accept).status(200)
			if accept == "text/html" {
				text += innerText(elements(parsePage(s, a.Body), "main")[0])
			} else {
				text += strings.ReplaceAll(string(a.Body), `\`, "")
			}
		}
		return text
	}
	for where, shown := range map[string]string{
		"the API":  string(s.send("GET", "/api/agents/harbour-pilot", "", nil).status(200).Body),
		"HTML":     page("text/html"),
		"Markdown": page("text/markdown"),
	} {
		for name, text := range want {
			left := where == "Markdown" && name == "contact_public"
			equal(t, !left, strings.Contains(shown, text), "%s shows the field %s", where, name)
		}
	}
}

// TestPages_ExplainBadQueries: in the page's language, as the API does, and without repeating it.
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
			u := testkit.Must(url.Parse(path))(t)
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
	for _, path := range []string{"/", "/agents", "/agents/nobody", "/calls", "/calls/pst_0", "/calls.atom", "/owner/x"} {
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
