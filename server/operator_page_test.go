package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"callbook/server/ratelimit"
	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// operatorPage is the operator's page of a site, on its own listener.
type operatorPage struct {
	*site
	base, token string
}

func (s *site) operatorPage() *operatorPage {
	s.Helper()
	h := httptest.NewServer(s.server.OperatorPage(func(context.Context, *store.Store) string { return "ok    disk  <b>9 MiB</b> are free\n" }))
	s.Cleanup(h.Close)
	token := testkit.Must(s.store.CreatePageLink(context.Background()))(s)
	return &operatorPage{site: s, base: h.URL, token: token}
}

// visit sends a request to the page; a form makes it a POST. Headers are "Name: value".
func (p *operatorPage) visit(path string, form url.Values, headers ...string) *result {
	p.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r := testkit.Must(http.NewRequest(method, p.base+path, body))(p)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "null") // as browsers send it under this policy of referrers
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	return receive(p, testkit.Must(http.DefaultClient.Do(r))(p))
}

func (p *operatorPage) show(query string) *result {
	p.Helper()
	return p.visit("/operator/"+p.token+"?"+query, nil).status(200)
}

// press presses a button, with the fields of its form as names and values.
func (p *operatorPage) press(query, act string, fields ...string) *result {
	p.Helper()
	form := url.Values{"act": {act}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return p.visit("/operator/"+p.token+"?"+query, form)
}

func (s *site) notes() (lines []string) {
	s.Helper()
	acts := testkit.Must(s.store.Acts(context.Background(), 1000))(s)
	for _, a := range acts {
		lines = append(lines, strings.TrimSpace(a.Act+" "+a.Subject+" "+domain.Deref(a.Detail)))
	}
	slices.Reverse(lines)
	return lines
}

func TestOperatorPage_OnlyWithAValidLink(t *testing.T) {
	s := newSite(t)
	p := s.operatorPage()
	p.show("")
	second := testkit.Must(s.store.CreatePageLink(context.Background()))(t)
	for _, path := range []string{"/operator/" + p.token, "/operator/" + second} {
		p.visit(path, nil).status(200)
		s.send("GET", path, "", nil).rejected(404, domain.CodeNotFound) // by the public listener
		s.send("POST", path, "", nil).rejected(404, domain.CodeNotFound)
	}
	wrong := string(p.visit("/operator/wrong", nil).status(404).Body)
	for path, form := range map[string]url.Values{
		"/operator/" + p.token[:42]: nil, "/operator/" + p.token + "x": {"act": {"block-word"}, "subject": {"word"}},
	} {
		equal(t, wrong, string(p.visit(path, form).status(404).Body), "%s", path)
	}
	for _, path := range []string{"/", "/operator", "/operator/", "/agents", "/api/agents", "/metrics", "/operator/" + p.token + "/"} {
		p.visit(path, nil).status(404)
	}
	s.clock.Advance(12*time.Hour - time.Millisecond)
	p.show("")
	s.clock.Advance(time.Millisecond)
	equal(t, wrong, string(p.visit("/operator/"+p.token, nil).status(404).Body), "an expired link")
	p.press("", "block-word", "subject", "word").status(404)
	if notes := s.notes(); len(notes) != 2 || strings.Contains(s.log.String(), p.token) {
		t.Errorf("the notes: %q, the log: %s", notes, s.log)
	}
}

// TestOperatorPage_OnlyFromThisMachine: a name server that gives the name of another site the address of this machine
// does not let its pages read or send anything.
func TestOperatorPage_OnlyFromThisMachine(t *testing.T) {
	s := newSite(t)
	p := s.operatorPage()
	path, host := "/operator/"+p.token, strings.TrimPrefix(p.base, "http://")
	_, port, _ := strings.Cut(host, ":")
	for _, tt := range []struct {
		headers string // separated by |
		get     int
		post    int
	}{
		{"", 200, 200},
		{"Host: localhost:" + port, 200, 200},
		{"Host: [::1]:9000", 200, 200}, // as ssh -L forwards it
		{"Host: evil.example:" + port, 403, 403},
		{"Host: 127.0.0.1.evil.example", 403, 403},
		{"Origin: https://evil.example|Sec-Fetch-Site: cross-site", 403, 403},
		{"Origin: http://callbook.example.org|Sec-Fetch-Site: cross-site", 403, 403},
		{"Origin: http://127.0.0.1:1", 403, 403}, // another program of this machine
		{"Origin: null|Sec-Fetch-Site: cross-site", 200, 403},
		{"Origin: null|Sec-Fetch-Site: same-site", 200, 403},
		{"Origin: http://" + host, 200, 200},
	} {
		headers := strings.Split(tt.headers, "|")
		if tt.headers == "" {
			headers = nil
		}
		p.visit(path, nil, headers...).status(tt.get)
		before := len(s.notes())
		p.visit(path, url.Values{"act": {"block-word"}, "subject": {fmt.Sprintf("word %d", before)}}, headers...).status(tt.post)
		equal(t, tt.post == 200, len(s.notes()) > before, "%s: something was done", tt.headers)
	}
}

func TestOperatorPage_Headers(t *testing.T) {
	p := newSite(t).operatorPage()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "noindex",
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	} {
		for _, a := range []*result{p.show(""), p.press("", "block-word", "subject", "word"), p.visit("/operator/x", nil)} {
			equal(t, want, a.Header.Get(name), "%s", name)
		}
	}
}

// TestOperatorPage_EachActLeavesItsNote: a button does what the command of its name does.
func TestOperatorPage_EachActLeavesItsNote(t *testing.T) {
	s := newSite(t, func(o *siteOptions) { o.mode = domain.RegistrationApprove })
	p := s.operatorPage()
	for _, handle := range []string{"author", "keeper", "waiting", "rejected"} {
		s.agent(handle)
	}
	p.press("show=agents&state=awaiting", "approve", "handle", "author", "handle", "keeper").status(200)
	author := s.rotate("author")
	post, other := s.post(author, "Buy this"), s.post(author, "Buy that")
	reply := s.send("POST", "/api/posts/"+post+"/replies", author, map[string]any{"body": "Me"}).status(201).text("reply", "id")
	for _, path := range []string{"/api/posts/" + post, "/api/posts/" + other, "/api/replies/" + reply} {
		s.send("POST", path+"/report", "", map[string]any{"reason": "spam"}).status(202)
	}
	reports, err := s.store.Reports(context.Background(), false, 10)
	if err != nil || len(reports) != 3 {
		t.Fatalf("%+v, %v", reports, err)
	}
	before := len(s.notes())
	for _, act := range []struct {
		act    string
		fields []string
		note   string // empty: none, since the act waits to be confirmed
	}{
		{"remove-reply", []string{"subject", reply}, "remove-reply " + reply + " by author; reports closed: 1"},
		{"remove-post", []string{"subject", post}, "remove-post " + post + " by author; reports closed: 1"},
		{"close-report", []string{"report", reports[1].ID}, "close-report " + reports[1].ID},
		{"suspend", []string{"handle", "author", "reason", "Spam", "days", "7"}, "suspend author Spam"},
		{"unsuspend", []string{"subject", "author"}, "unsuspend author"},
		{"delete", []string{"handle", "author"}, ""},
		{"delete", []string{"handle", "author", "confirm", "2"}, ""},
		{"delete", []string{"handle", "author", "confirm", "1"}, "delete author"},
		{"approve", []string{"handle", "waiting"}, "approve waiting"},
		{"reject", []string{"handle", "rejected"}, ""},
		{"reject", []string{"handle", "rejected", "confirm", "1"}, "reject rejected"},
		{"block-word", []string{"subject", "Slot-Machine"}, "block-word slot machine"},
		{"unblock-word", []string{"subject", "slot machine"}, "unblock-word slot machine"},
		{"block-host", []string{"subject", "spam.example"}, "block-host spam.example"},
		{"block-network", []string{"subject", "192.0.2.7"}, "block-network 192.0.2.7/32"},
	} {
		page := p.press("", act.act, act.fields...).status(200)
		var want []string
		if act.note != "" {
			want = []string{act.note}
		}
		if asks := strings.Contains(string(page.Body), `name="confirm" value="1"`); asks != (act.note == "") {
			t.Errorf("%s asks: %v: %s", act.act, asks, page.Body)
		}
		if got := s.notes()[before:]; !slices.Equal(got, want) {
			t.Errorf("%s leaves %q, want %q", act.act, got, want)
		}
		before += len(want)
	}
	secret := regexp.MustCompile(`inv_\w{20,}`).FindString(string(p.press("show=lists", "invite", "uses", "2", "days", "7").status(200).Body))
	if strings.Contains(string(p.show("show=lists").Body), secret) || secret == "" {
		t.Errorf("the invitation %q is shown once", secret)
	}
	p.press("show=lists", "revoke-invite", "subject", domain.InviteID(secret)).status(200)
	if got := s.notes()[before:]; len(got) != 2 || got[0] != "invite "+domain.InviteID(secret)+" for 2 until 2026-11-27" || got[1] != "revoke-invite "+domain.InviteID(secret) {
		t.Errorf("invitations leave %q", got)
	}
	s.send("GET", "/api/agents/author", "", nil).rejected(404, domain.CodeNotFound)
	s.send("GET", "/api/agents/keeper", "", nil).status(200)
}

func (s *site) rotate(handle string) string {
	s.Helper()
	return testkit.Must(s.store.ReplaceKey(context.Background(), handle))(s)
}

// TestOperatorPage_SaysWhatWasWrong: a button that is rejected does nothing, and the page says why.
func TestOperatorPage_SaysWhatWasWrong(t *testing.T) {
	s := newSite(t)
	p := s.operatorPage()
	s.agent("keeper")
	for _, tt := range []struct {
		act    string
		fields []string
		status int
	}{
		{"", nil, 400},
		{"explode", nil, 400},
		{"remove-post", []string{"subject", "pst_none"}, 404},
		{"suspend", []string{"handle", "keeper", "reason", strings.Repeat("x", 301)}, 422},
		{"block-network", []string{"subject", "0.0.0.0/0"}, 422},
		{"invite", []string{"uses", "many", "days", "7"}, 422},
		{"suspend", []string{"handle", "nobody"}, 200}, // and says that it was skipped
		{"delete", nil, 200},
	} {
		page := parsePage(t, p.press("lang=zh", tt.act, tt.fields...).status(tt.status).Body)
		alerts := slices.DeleteFunc(elements(page, "p"), func(n *html.Node) bool { return !hasClass(n, "alert") })
		if len(alerts) != 1 || hasClass(alerts[0], "good") || !regexp.MustCompile(`\p{Han}`).MatchString(innerText(alerts[0])) {
			t.Errorf("%s %q: %d alerts", tt.act, tt.fields, len(alerts))
		}
	}
	if notes := s.notes(); len(notes) != 1 {
		t.Errorf("the notes: %q", notes)
	}
	p.visit("/operator/"+p.token, url.Values{"act": {"block-word"}, "subject": {strings.Repeat("x", 200_000)}}).status(400)
}

// TestOperatorPage_ChartsRejectedRequests: those that the rules against abuse rejected, not mistakes of visitors.
func TestOperatorPage_ChartsRejectedRequests(t *testing.T) {
	s := newSite(t, func(o *siteOptions) {
		o.mode, o.limits = domain.RegistrationInvite, ratelimit.Limits{limitReads: {Requests: 10, Period: time.Minute}}
	})
	ctx := context.Background()
	secret, _, err := s.store.CreateInvite(ctx, 1, s.clock.Now().Add(domain.Day))
	testkit.NoError(t, err)
	key := s.agent("author", "invite", secret)
	testkit.Must(s.store.ChangeBlocklist(ctx, "block-word", "casino"))(t)
	call, want := map[string]any{"kind": "announce", "title": "Casino", "body": "Come"}, 0
	for _, tt := range []struct {
		a             *result
		status, count int
	}{
		{s.send("GET", "/api/agents/nobody", "", nil), 404, 0}, {s.send("GET", "/api/me", "", nil), 401, 0},
		{s.send("POST", "/api/posts", key, map[string]any{"title": ""}), 422, 0}, {s.send("POST", "/api/posts", key, call), 422, 1},
		{s.send("POST", "/api/agents", "", registrationOf("other")), 403, 1},
	} {
		want += tt.count
		tt.a.status(tt.status)
	}
	equal(t, int64(want), s.server.observer.Metrics.TakeAbuse(), "requests that count")
	for s.send("GET", "/agents", "", nil).Status == 200 { // until the address is past its limit
	}
	s.send("GET", "/api/agents", "", nil).status(429)
	closed, end := context.WithCancel(ctx)
	end()
	if err := s.server.storeAbuse(closed); err == nil {
		t.Error("the store takes a write whose context has ended")
	}
	testkit.NoError(t, s.server.RunLocalJobs(ctx)) // the failed write lost nothing
	p := s.operatorPage()
	for query, want := range map[string]string{"": "Rejected requests: 2, 2 on the busiest day", "lang=zh": "被拒绝的请求：共 2，单日最高 2"} {
		contains(t, "the page", string(p.show(query).Body), want)
	}
}

// TestOperatorPage_TextStaysText: nothing that agents or reporters write changes the structure of the page.
func TestOperatorPage_TextStaysText(t *testing.T) {
	const evil = `</q></blockquote><script>alert(1)</script><img src=x onerror=alert(1)><b title="' x`
	pages := func(text string) (all []string) {
		s := newSite(t)
		p := s.operatorPage()
		key := s.agent("author", "name", text[:min(len(text), 60)])
		post := s.post(key, text, "body", text)
		for _, path := range []string{"/api/posts/" + post, "/api/agents/author"} {
			s.send("POST", path+"/report", "", map[string]any{"reason": text}).status(202)
		}
		testkit.Must(s.store.ChangeBlocklist(context.Background(), "block-word", "canary"))(t)
		testkit.NoError(t, s.store.Suspend(context.Background(), "author", text, time.Time{}))
		s.send("POST", "/api/agents/author/report", "", nil)
		testkit.NoError(t, s.store.ActOnAgent(context.Background(), domain.OperatorUnsuspend, "author"))
		s.send("POST", "/api/agents/author/report", "", map[string]any{"reason": text})
		for _, query := range []string{"", "show=agents", "show=lists", "show=agents&choose=all&order=network&q=" + url.QueryEscape(text)} {
			for _, lang := range []string{"en", "zh"} {
				a := p.show(query + "&lang=" + lang)
				if strings.Contains(string(a.Body), p.token) || strings.Contains(string(a.Body), "<script") || strings.Contains(string(a.Body), "<b>") {
					t.Errorf("%s: the page contains its token or markup", query)
				}
				all = append(all, strings.Join(structure(parsePage(t, a.Body)), "\n"))
			}
		}
		return all
	}
	plain := regexp.MustCompile(`[^ ]`).ReplaceAllString(evil, "x")
	want, got := pages(plain), pages(evil)
	differs := regexp.MustCompile(`[0-9a-f]{64}|q=[^ "&]*`) // by site, and by the query
	for i := range want {
		if differs.ReplaceAllString(want[i], "") != differs.ReplaceAllString(got[i], "") {
			t.Errorf("page %d: the structure is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

func TestOperatorPage_ShowsTheSiteAndItsNewestAgents(t *testing.T) {
	s := newSite(t)
	s.agent("tide-reader")
	s.clock.Advance(2 * domain.Day)
	s.agent("harbour-pilot")
	p := s.operatorPage()
	contains(t, "the page", string(p.show("").Body), "Database: 1 MiB, its log ")
	for path, kind := range map[string]string{"/style.css": "text/css; charset=utf-8", "/mark.svg": "image/svg+xml"} {
		equal(t, kind, p.visit(path, nil).status(200).Header.Get("Content-Type"), "%s", path)
	}
	for days, want := range map[string]int{"": 2, "7": 2, "1": 1, "0": 2, "x": 2} {
		list := string(p.show("show=agents&days=" + days).Body)
		equal(t, want, strings.Count(list, `name="handle"`), "agents with days=%s", days)
	}
}

// TestOperatorPage_RemovesAWave: the agents of a network are found, reviewed, suspended and deleted in a few requests.
func TestOperatorPage_RemovesAWave(t *testing.T) {
	proof.OneByOne(t)
	s := newSite(t)
	for i := range 30 {
		r := domain.Registration{Handle: fmt.Sprintf("bargain-%d", i), From: netip.MustParseAddr("192.0.2.7")}
		if i >= 25 { // others, of which each has its own network
			r.Handle, r.From = fmt.Sprintf("honest-%d", i), netip.AddrFrom4([4]byte{10, 0, byte(i), 1})
		}
		s.createPost(s.registerFull(r), domain.PostDraft{Kind: "announce", Title: "Cheap watches", Body: "Buy them"})
	}
	p := s.operatorPage()
	chosen := func(a *result) (handles []string) {
		for _, n := range elements(parsePage(t, a.status(200).Body), "input") {
			name, _ := attribute(n, "name")
			kind, _ := attribute(n, "type")
			value, _ := attribute(n, "value")
			if _, checked := attribute(n, "checked"); name == "handle" && (checked || kind == "hidden") {
				handles = append(handles, "handle", value)
			}
		}
		return handles
	}
	list := string(p.show("show=agents&order=network").Body)
	network := regexp.MustCompile(`network=([0-9a-f]{64})`).FindStringSubmatch(list)[1]
	review := p.show("show=agents&choose=all&network=" + network)
	equal(t, 25, strings.Count(string(review.Body), "Cheap watches"), "titles that are shown")
	p.press("show=agents", "suspend", append(chosen(review), "reason", "Spam")...).status(200)
	asked := p.press("show=agents&network="+network, "delete", chosen(review)...)
	confirmed := p.press("show=agents&network="+network, "delete", append(chosen(asked), "confirm", "25")...).status(200)
	contains(t, "the page", string(confirmed.Body), "delete: 25 agents, with 25 calls")
	if n := s.send("GET", "/api/agents", "", nil).len("agents"); n != 5 || len(s.notes()) != 51 { // one of the link
		t.Errorf("%d agents are left, %d notes", n, len(s.notes()))
	}
}
