package server

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"callbook/server/api"
	"callbook/store/domain"
	storetext "callbook/store/text"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// openPage opens a page as a browser of this machine does, with no connection between.
func (s *site) openPage(path string, headers ...string) *result {
	s.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1"
	return s.handle(addHeaders(r, headers))
}

// inLanguage returns a page's address with a language chosen.
func inLanguage(path, lang string) string {
	path, part, _ := strings.Cut(path, "#")
	if part != "" {
		part = "#" + part
	}
	if strings.Contains(path, "?") {
		return path + "&lang=" + lang + part
	}
	return path + "?lang=" + lang + part
}

// nextLink returns where a page's link to the next one leads; empty where it has none.
func nextLink(doc *html.Node) string {
	for _, a := range elements(doc, "a") {
		if rel, _ := attribute(a, "rel"); rel == "next" {
			href, _ := attribute(a, "href")
			return href
		}
	}
	return ""
}

func (s *site) registerFull(r domain.Registration) domain.Caller {
	s.Helper()
	if name := r.Name; name != "" && len(storetext.CheckName("name", name, "")) > 0 {
		r.Name = ""
		caller := s.registerFull(r)
		s.rename(caller, name)
		return caller
	}
	r.Name, r.Owner = cmp.Or(r.Name, "Agent "+r.Handle), cmp.Or(r.Owner, "Someone")
	if r.DescriptionEN == "" && r.DescriptionZH == "" {
		r.DescriptionEN = "An agent for a test."
	}
	r.Mailbox, r.AcceptRules = r.Handle+"@example.org", true
	registered, _, err := s.store.Register(s.Context(), r, domain.IdempotencyKey{})
	return testkit.Must(s.store.Authenticate(s.Context(), testkit.Must(registered, err)(s).Key))(s)
}

// rename gives an agent a name that only an older program would have accepted.
func (s *site) rename(caller domain.Caller, name string) {
	s.Helper()
	_, err := s.database.Exec(`UPDATE agents SET name = ? WHERE id = ?`, name, caller.ID)
	testkit.Must(s.store.UpdateAgent(s.Context(), caller, func(*domain.Settings) error { return err }))(s)
}

func (s *site) createPost(by domain.Caller, d domain.PostDraft) (id string) {
	s.Helper()
	doc, _, err := s.store.CreatePost(s.Context(), by, d, domain.IdempotencyKey{})
	return testkit.Must(doc, err)(s).ID
}

func (s *site) createReply(by domain.Caller, id, body string) {
	s.Helper()
	_, _, err := s.store.CreateReply(s.Context(), by, id, domain.ReplyDraft{Body: body}, domain.IdempotencyKey{})
	testkit.Must(id, err)(s)
}

func (s *site) recordCollab(by, with domain.Caller, summary string) {
	s.Helper()
	c, _, err := s.store.RecordCollab(s.Context(), by, domain.CollabDraft{Partner: with.Handle, Summary: summary}, domain.IdempotencyKey{})
	testkit.Must(s.store.DecideCollab(s.Context(), with, testkit.Must(c, err)(s).ID, domain.CollabConfirmed))(s)
}

// addLink adds a profile link and the result of its check; without a kind it is not checked yet.
func (s *site) addLink(by domain.Caller, address string, found domain.LinkCheck) {
	s.Helper()
	address = testkit.Must(s.store.AddLink(s.Context(), by, address, "website"))(s)
	if found.Kind != "" {
		testkit.Must(s.store.StoreLinkCheck(s.Context(), by.ID, address, found, false))(s)
	}
}

// peopleSite is a directory with every state of the pages for people.
type peopleSite struct {
	*ownerSite
	posts map[string]string // ids by what the call is
}

func newPeopleSite(t testing.TB) *peopleSite {
	s := &peopleSite{ownerSite: newOwnerSite(t), posts: map[string]string{}}
	pilot := s.populatePilot()
	s.populateNeighbours(pilot)
	s.populateCalls(pilot)
	for i := range 22 { // more than a page holds
		s.registerFull(domain.Registration{Handle: fmt.Sprintf("crew-%02d", i), Profile: domain.Profile{Languages: []string{"sr-Latn"}}})
	}
	return s
}

// populatePilot makes the agent that has everything, links of every status too.
func (s *peopleSite) populatePilot() domain.Caller {
	key := s.claimed("harbour-pilot", "mei@harbour.example.org",
		"tagline", "Berths & tides", "description_zh", "为小港口安排泊位。\n按潮汐计划。", "capabilities", []string{"tide tables", "泊位计划"},
		"languages", []string{"en", "zh-CN"}, "homepage", "https://harbour.example.org/?a=1&b=2", "model", "a model", "contact_public", true)
	s.send("PUT", "/api/me/offerings", key, `[
		{"title":"Tide table","deliverable":"A table","mode":"free","for_whom":"Small ports","not_doing":"Forecasts","turnaround_days":3,"languages":["en","zh"],"tags":["tides","ports"]},
		{"title":"泊位计划","deliverable":"一份计划","mode":"quote"},
		{"title":"Pilotage","deliverable":"A pilot","mode":"offsite_paid"}]`).status(200)
	s.send("PATCH", "/api/me", key, `{"contact_policy":{"note":"Say which port.","min_level":2,"require_offering":false,"require_owner_receipt":true,"weekly_cap":1}}`).status(200)
	pilot := testkit.Must(s.store.Authenticate(s.Context(), key))(s)
	verified := domain.LinkCheck{Kind: "website", Verified: true, Proof: "rel_me"}
	s.addLink(pilot, "https://harbour.example.org/expired", verified)
	s.clock.Advance(181 * domain.Day)
	testkit.Must(true, s.store.RunJobs(s.Context()))(s)
	s.addLink(pilot, "https://harbour.example.org/verified", verified)
	s.addLink(pilot, "https://harbour.example.org/failed", domain.LinkCheck{Kind: "website", Failure: "not_found_on_page"})
	s.addLink(pilot, "https://harbour.example.org/pending", domain.LinkCheck{})
	return pilot
}

// populateNeighbours makes agents of every level, and work between them and the
// pilot that counts and that does not, with some that have gone too.
func (s *peopleSite) populateNeighbours(pilot domain.Caller) {
	caller := func(key string) domain.Caller { return testkit.Must(s.store.Authenticate(s.Context(), key))(s) }
	s.registerFull(domain.Registration{Handle: "bare-card"})
	gauge := caller(s.verified("tide-gauge", "description_en", "", "description_zh", "只有中文介绍。"))
	closed := caller(s.agent("shut-door", "tagline", "不接受请求"))
	testkit.Must(s.store.UpdateAgent(s.Context(), closed, func(settings *domain.Settings) error {
		settings.ContactPolicy.Accepting = false
		return nil
	}))(s)
	keeper := caller(s.claimed("lantern-keeper", "bo@lantern.example.org"))
	watcher := caller(s.claimed("reef-watcher", "ana@reef.example.org"))
	gone, fog := s.registerFull(domain.Registration{Handle: "gone-agent", Name: "Vanished"}), s.registerFull(domain.Registration{Handle: "fog-horn", Name: "Silenced"})
	for _, other := range []domain.Caller{gauge, fog, gauge, watcher, closed, keeper, gone} {
		s.recordCollab(pilot, other, "Work with "+other.Handle)
	}
	s.recordCollab(gone, gauge, "Work of one that has gone")
	s.createPost(fog, domain.PostDraft{Kind: "seeking", Title: "Silenced call", Body: "b"})
	testkit.Must(true, s.store.DeleteAgent(s.Context(), gone))(s)
	s.suspend("fog-horn")
}

// populateCalls creates calls of every kind, with and without deadlines and replies.
func (s *peopleSite) populateCalls(pilot domain.Caller) {
	today := s.store.Now()
	s.posts["passed"] = s.createPost(pilot, domain.PostDraft{Kind: "seeking", Title: "截止的呼叫", Body: "旧的。", Deadline: today.Format(time.DateOnly), Tags: []string{"old"}})
	s.clock.Advance(2 * domain.Day)
	s.posts["due today"] = s.createPost(pilot, domain.PostDraft{Kind: "seeking", Title: "Due today", Body: "b", Deadline: s.store.Now().Format(time.DateOnly)})
	for i := range 18 { // more than a page holds, with the others
		s.posts["plain"] = s.createPost(pilot, domain.PostDraft{Kind: "announce", Title: fmt.Sprintf("Notice %d", i), Body: strings.Repeat("Long words & <marks>. ", 20)})
	}
	s.posts["whole"] = s.createPost(pilot, domain.PostDraft{
		Kind: "offering", Title: "Tides for 两个港口", Body: "First line.\n\nSecond line.", Deliverable: "Two files", Constraints: "No scans\nNo photographs",
		Deadline: "2099-12-31", Languages: []string{"en", "zh"}, Tags: []string{"tides", "港口", "c++ & more"}, Lang: "en",
	})
	s.posts["one reply"] = s.createPost(pilot, domain.PostDraft{Kind: "seeking", Title: "One reply", Body: "b", Tags: []string{"lonely"}})
	s.createReply(pilot, s.posts["one reply"], "A reply.")
	s.posts["many replies"] = s.createPost(pilot, domain.PostDraft{Kind: "seeking", Title: "Many replies", Body: "b"})
	for i := range 25 {
		s.createReply(pilot, s.posts["many replies"], fmt.Sprintf("Reply %d\n回复", i))
	}
}

// paths returns the pages with status 200 by their content.
func (s *peopleSite) paths() map[string]string {
	s.Helper()
	next := func(path string) string {
		href := nextLink(parsePage(s, s.openPage(path).status(200).Body))
		if href == "" {
			s.Fatalf("%s has no next page", path)
		}
		return href
	}
	paths := map[string]string{
		"home": "/", "agents": "/agents", "calls": "/calls", "agents, next page": next("/agents"), "calls, next page": next("/calls"),
		"agents, one found": "/agents?q=berths+tides", "agents, menu found": "/agents?q=pilotage&min_level=2&language=zh&capability=tide+tables",
		"agents, some found": "/agents?min_level=1", "agents, none found": "/agents?q=xyzzy&new=true", "agents, own language": "/agents?language=sr-Latn",
		"agents, next page of a search": next("/agents?q=crew"), "agents, hostile query": "/agents?q=" + url.QueryEscape(`"><script>'{{.}}`) + "&capability=%3Cb%3E&language=",
		"agents, some words": "/agents?q=berths+crew", "agents, none found, meant": "/agents?q=harbuor", "calls, some words": "/calls?q=notice+tides", "calls, none found, meant": "/calls?q=notice+tidse",
		"calls, one found": "/calls?tag=lonely", "calls, some found": "/calls?kind=announce&author=harbour-pilot&open=true", "calls, none found": "/calls?q=xyzzy&tag=%22%3E%3Cb",
		"calls, next page of a search": next("/calls?author=harbour-pilot"), "replies, next page": next("/calls/" + s.posts["many replies"]),
	}
	for _, handle := range []string{"harbour-pilot", "bare-card", "tide-gauge", "shut-door", "lantern-keeper"} {
		paths["card of "+handle] = "/agents/" + handle
	}
	for name, id := range s.posts {
		paths["call: "+name] = "/calls/" + id
	}
	return paths
}

// pages returns the pages in every state, errors too, in one language.
func (s *peopleSite) pages(lang string) map[string]*result {
	s.Helper()
	pages := map[string]*result{}
	for name, path := range s.paths() {
		pages[name] = s.openPage(inLanguage(path, lang)).status(200)
	}
	for path, status := range badPaths {
		pages["error: "+path] = s.openPage(inLanguage(path, lang), "Accept: text/html,*/*;q=0.8").status(status)
	}
	pages["error: 405"] = s.sendRaw("POST", inLanguage("/agents", lang)).status(405)
	for _, code := range []domain.Code{domain.CodeUnavailable, domain.CodeStorageFull, domain.CodeRateLimited, api.CodeInternal} {
		pages["error: "+string(code)] = s.errorPage(inLanguage("/calls", lang), code)
	}
	return pages
}

// badPaths are missing pages and invalid queries.
var badPaths = map[string]int{
	"/agents/nobody": 404, "/agents/ab": 404, "/agents/harbour-pilot/": 404, "/agents/harbour-pilot/x": 404, "/agents/%F0%9F": 404, "/agents/a%2Fb": 404,
	"/agents/%00": 404, "/agents/gone-agent": 404, "/agents/fog-horn": 404, "/calls/pst_0": 404, "/calls/": 404, "/calls/%3Cb%3E": 404, "/nowhere": 404, "/Agents": 404, "//agents": 404,
	"/agents?min_level=9": 400, "/agents?min_level=x": 400, "/agents?new=yes": 400, "/agents?language=english": 400, "/agents?cursor=zzz": 400, "/agents?q=%00": 400, "/agents?q=%zz": 400,
	"/agents?q=%E2%80%AE": 400, "/agents?capability=" + strings.Repeat("x", 61): 400, "/agents?q=" + strings.Repeat("x", 201): 400, "/agents?min_level=9&language=%3Cb&cursor=x": 400,
	"/calls?kind=sell": 400, "/calls?open=1": 400, "/calls?author=ab": 400, "/calls?tag=" + strings.Repeat("x", 61): 400, "/calls?cursor=zzz": 400, "/?a=b;c": 400,
	"/calls.atom?kind=sell": 400, "/calls.atom?tag=%zz": 400,
}

// leadsOn is where a page of the directory may lead.
var leadsOn = regexp.MustCompile(`^(/((agents|calls)(/[a-z0-9_-]+(/report|/replies/[a-z0-9_]+/report)?)?|docs(/reference|/security)?|guide|about|calls\.atom|api(/[a-z0-9/_-]+)?|skill\.md|skill/references/[a-z]+\.md|openapi\.json|style\.css|mark\.svg|\.well-known/ard\.json)?(\?[\w=&%.+~-]*)?(#operator)?|\?[\w=&%.+~-]*|#[a-z]+|https?://[^\s"'<>]+)$`)

// TestPages_AreValidHTML and in one language each, but for names and what agents write.
func TestPages_AreValidHTML(t *testing.T) {
	t.Parallel()
	s := newPeopleSite(t)
	foreign := map[string]*regexp.Regexp{"en": regexp.MustCompile(`[\p{Han}，。：；（）、？！]+`), "zh": regexp.MustCompile(`[A-Za-z]{2,}`)}
	proof.OneByOne(t)
	if style := s.openPage("/style.css").Body; strings.Contains(string(style), "url(") || strings.Contains(string(style), "@import") {
		t.Error("the stylesheet loads other files")
	}
	empty := newSite(t)
	leads := func(address string) bool { return leadsOn.MatchString(address) || address == "mailto:op@example.org" }
	for _, lang := range []string{"en", "zh"} {
		pages := s.pages(lang)
		for _, path := range []string{"/", "/agents", "/calls", "/agents?q=x", "/calls?q=x"} {
			pages["empty: "+path] = empty.openPage(inLanguage(path, lang)).status(200)
		}
		contacted := &site{TB: t, server: testkit.Must(New(s.store, Options{BaseURL: base, Contact: "mailto:op@example.org"}))(t)}
		pages["home with a contact"] = contacted.openPage(inLanguage("/", lang))
		for name, page := range pages {
			if err := malformed(page.Body); err != nil {
				t.Errorf("%s, %s: %v", name, lang, err)
			}
			doc := parsePage(t, page.Body)
			for _, problem := range append(pageProblems(doc, leads), loadProblems(doc)...) {
				t.Errorf("%s, %s: %s", name, lang, problem)
			}
			if !strings.HasPrefix(string(page.Body), "<!DOCTYPE html>\n<html lang=\""+lang+"\">") {
				t.Errorf("%s, %s: begins with %.60q", name, lang, page.Body)
			}
			equal(t, 1, notices(doc), "%s, %s: notices", name, lang)
			if left := foreign[lang].FindAllString(strings.ReplaceAll(withoutNames(doc), "中文", ""), -1); len(left) > 0 {
				t.Errorf("%s, %s: left in the other language: %q", name, lang, left)
			}
		}
	}
}

// loadProblems: a page loads the site's stylesheet and mark, and nothing else.
func loadProblems(doc *html.Node) (problems []string) {
	loaded := map[string]string{}
	for _, n := range elements(doc, "link") {
		rel, _ := attribute(n, "rel")
		href, _ := attribute(n, "href")
		if rel != "canonical" && rel != "alternate" && (rel != "ard" || href != "/.well-known/ard.json") && (rel != "expect" || href != "#end") {
			loaded[rel] = href
		}
	}
	if len(loaded) != 2 || loaded["stylesheet"] != "/style.css" || loaded["icon"] != "/mark.svg" {
		problems = append(problems, fmt.Sprintf("loads %v", loaded))
	}
	for _, n := range elements(doc) {
		for _, name := range []string{"src", "srcset", "poster", "data", "background", "ping", "manifest"} {
			if value, ok := attribute(n, name); ok {
				problems = append(problems, n.Data+" loads "+value)
			}
		}
		if equiv, ok := attribute(n, "http-equiv"); ok {
			problems = append(problems, "http-equiv "+equiv)
		}
	}
	return problems
}

func TestPages_FollowTheLanguage(t *testing.T) {
	s := newSite(t)
	call := s.post(s.agent("harbour-pilot"), "A call")
	for _, path := range []string{"/", "/agents", "/agents/harbour-pilot", "/calls", "/calls/" + call, "/calls.atom", "/agents/nobody", "/nowhere", "/owner/x", "/skill.md"} {
		vary := []string{"Accept-Encoding, Accept-Language, Accept"}
		if path == "/calls.atom" || path == "/skill.md" {
			vary = []string{"Accept-Encoding, Accept-Language"}
		}
		for _, tt := range readersLanguages {
			a := s.openPage(path+tt.query, "Accept: text/html", "Accept-Language: "+tt.accept)
			inIt := strings.Contains(string(a.Body[:200]), `lang="`+tt.want+`"`) || bytes.Equal(a.Body, s.server.guideText(tt.want))
			if !inIt || a.Header.Get("Content-Language") != tt.want || !slices.Equal(a.Header.Values("Vary"), vary) {
				t.Errorf("%s%s, %q: in %s, want %s: %v", path, tt.query, tt.accept, a.Header.Get("Content-Language"), tt.want, a.Header)
			}
		}
	}
}

// parameterNames are names and values that error pages contain.
var parameterNames = []string{"min_level", "language", "capability", "cursor", "author", "query", "seeking", "offering", "announce", "kind", "open", "new", "tag", "zh-CN", "zh", "true", "false", "next", "BCP", "en", "Allow", "mailto:", "op@example.org"}

// nameOrCodes are texts that are all handle, or all codes of languages.
var nameOrCodes = regexp.MustCompile(`^(harbour-pilot|bare-card|tide-gauge|shut-door|lantern-keeper|[a-z]{2,3}(-[A-Za-z]+)*(, [a-z]{2}(-[A-Za-z]+)*)*|CQ CQ CQ)$`)

// inTitles matches agents and calls in the titles of pages.
var inTitles = regexp.MustCompile(`“.*”|(harbour|bare|tide|shut|lantern)-\w+ · `)

// withoutNames returns a page's own words but for those that no language changes.
func withoutNames(doc *html.Node) string {
	var lines []string
	for line := range strings.Lines(ownWords(doc)) {
		line = inTitles.ReplaceAllString(line, "")
		if !nameOrCodes.MatchString(strings.TrimSpace(line)) {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "")
	for _, keep := range slices.Concat(chineseKeeps, parameterNames) {
		text = strings.ReplaceAll(text, keep, "")
	}
	return text
}

func FuzzPages(f *testing.F) {
	s := newSite(f)
	key := s.agent("harbour-pilot", "capabilities", []string{"tide tables"})
	paths := []string{"/", "/agents", "/agents/harbour-pilot", "/calls", "/calls/" + s.post(key, "Tide data wanted", "tags", []string{"tides"}), "/calls.atom", "/agents/nobody", "/owner/x"}
	for i, path := range paths {
		for bad := range badPaths {
			_, query, _ := strings.Cut(bad, "?")
			f.Add(uint8(i), query, "en")
		}
		f.Add(uint8(i), "lang=zh&q=tides&"+path, "zh-CN,zh;q=0.9")
		f.Add(uint8(i), "q=tides;lang=zh&&=&%26=%3D&lang=en&lang=zh&cursor=&tag=+&new=true&open=true", ";;q=,")
	}
	f.Fuzz(func(t *testing.T, which uint8, query, accept string) {
		path := paths[int(which)%len(paths)]
		r := httptest.NewRequest("GET", path, nil)
		r.URL.RawQuery = query
		r.Header.Set("Accept-Language", accept)
		a := s.handle(r)
		if a.Status != 200 && a.Status != 400 && a.Status != 404 {
			t.Fatalf("%s?%+q: %d %s", path, query, a.Status, a.Body)
		}
		if path == "/calls.atom" && a.Status == 200 {
			readFeed(t, a.Body)
			return
		}
		err := malformed(a.Body)
		doc := parsePage(t, a.Body)
		problems := pageProblems(doc, leadsOn.MatchString)
		if n := notices(doc); err != nil || n != 1 || len(problems) > 0 {
			t.Errorf("%s?%+q: %v, %d notices, %v\n%s", path, query, err, n, problems, a.Body)
		}
	})
}

// TestAgentPage_ShowsHowFastAnAgentResponds, also if it takes no time at all.
func TestAgentPage_ShowsHowFastAnAgentResponds(t *testing.T) {
	s := newSite(t)
	pilot := s.verified("harbour-pilot")
	s.send("PATCH", "/api/me", pilot, `{"contact_policy":{"require_offering":false}}`).status(200)
	for i := range 3 {
		id := s.sendRequest(s.verified(fmt.Sprintf("sender-%d", i)), "harbour-pilot")
		s.send("POST", "/api/requests/"+id+"/accept", pilot, nil).status(200)
	}
	equal(t, 0.0, s.send("GET", "/api/agents/harbour-pilot", "", nil).value("evidence", "median_answer_hours"), "the median")
	contains(t, "the page", string(s.openPage("/agents/harbour-pilot").status(200).Body), "Usually responds within an hour")
}
