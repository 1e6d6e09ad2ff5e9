package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/html"

	"callbook/server/api"
)

func (s *site) devPage(lang string) *html.Node {
	s.Helper()
	return parsePage(s, s.send("GET", "/dev?lang="+lang, "", nil, "Accept: text/html").status(200).Body)
}

// picked returns the texts of the page that a click selects.
func picked(page *html.Node) (texts []string) {
	for _, n := range elements(page, "code") {
		if hasClass(n, "pick") {
			texts = append(texts, innerText(n))
		}
	}
	return texts
}

// pressDev submits the form of a button of /dev, as a browser does.
func (s *site) pressDev(lang, name, value string, headers ...string) *result {
	s.Helper()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, form := range elements(s.devPage(lang), "form") {
		for _, b := range elements(form, "button") {
			if n, _ := attribute(b, "name"); n == name {
				if v, _ := attribute(b, "value"); v == value {
					action, _ := attribute(form, "action")
					return s.send("POST", action, "", url.Values{name: {value}}.Encode(), append(headers, formType, "Accept: text/html,*/*;q=0.8")...)
				}
			}
		}
	}
	s.Fatalf("/dev has no button %s=%s", name, value)
	return nil
}

func TestDevPage_ShowsMailsWithCodesAndLinks(t *testing.T) {
	s := newDevSite(t, false)
	s.startClaim(s.verified("harbour-pilot"), "owner@example.org")
	page := s.devPage("en")
	var mails struct {
		Mail []struct {
			Code, Link *string
			Text       string
		}
	}
	s.send("GET", "/dev/mail", "", nil).status(200).into(&mails)
	if len(mails.Mail) != 2 || mails.Mail[0].Link == nil || mails.Mail[1].Code == nil {
		t.Fatalf("the mails: %+v", mails)
	}
	if !slices.Contains(picked(page), *mails.Mail[1].Code) {
		t.Errorf("the code is not on the page: %q", picked(page))
	}
	var links []string
	for _, a := range elements(page, "a") {
		if href, _ := attribute(a, "href"); strings.HasPrefix(href, s.url+"/owner/") {
			links = append(links, href)
		}
	}
	// Each mail ends with the link that ends all mails.
	if len(links) != 3 || links[0] != *mails.Mail[0].Link || !strings.HasPrefix(links[1], s.url+"/owner/mails/") {
		t.Errorf("links %q", links)
	}
	for _, link := range links {
		s.send("GET", strings.TrimPrefix(link, s.url), "", nil).status(200)
	}
	if len(elements(page, "script")) > 0 {
		t.Error("the page has a script")
	}
}

func TestDevPage_ShowsTheNewestMails(t *testing.T) {
	s := newDevSite(t, false)
	for i := range 22 {
		s.send("POST", "/api/me/verify", s.agent(fmt.Sprintf("agent-%d", i)), nil).status(202)
	}
	page := s.devPage("en")
	if n := len(elements(page, "article")); n != 20 || !strings.Contains(innerText(page), "2 older ones are in /dev/mail.") {
		t.Errorf("%d mails", n)
	}
}

func TestDevPage_ShowsKeys(t *testing.T) {
	s := newDevSite(t, false)
	s.send("POST", "/dev/reset", "", `{"counterparts":true}`).status(200)
	shown := picked(s.devPage("zh"))
	for _, agent := range s.devAgents() {
		if !slices.Contains(shown, agent.APIKey) {
			t.Errorf("the key of %s is not on the page", agent.Handle)
		}
	}
	s.pressDev("zh", "demo", "false").status(303)
	if text := innerText(s.devPage("zh")); !strings.Contains(text, "还没有邮件。") || !strings.Contains(text, "没有演示用的智能体。") {
		t.Errorf("after the reset: %s", text)
	}
}

func TestDevPage_ButtonsMoveTheClockAndReset(t *testing.T) {
	s := newDevSite(t, false)
	ahead := func(want time.Duration) {
		t.Helper()
		if ahead := time.Until(s.store.Now()); ahead < want-time.Minute || ahead > want+time.Minute {
			t.Errorf("the clock is %s ahead, want %s", ahead, want)
		}
	}
	for _, step := range []struct {
		button string
		want   time.Duration
	}{{"1h", time.Hour}, {"24h", 25 * time.Hour}, {"192h", 217 * time.Hour}, {"744h", 961 * time.Hour}} {
		equal(t, "/dev?lang=zh", s.pressDev("zh", "advance", step.button).status(303).Header.Get("Location"), "%s leads to", step.button)
		ahead(step.want)
	}
	for lang, want := range map[string]string{"en": ", 961 h ahead of this machine.", "zh": "，比本机快 961 小时。"} {
		contains(t, "the page", innerText(s.devPage(lang)), want)
	}
	s.agent("harbour-pilot")
	s.pressDev("en", "demo", "false").status(303)
	ahead(0)
	equal(t, 0.0, s.send("GET", "/api/stats", "", nil).value("agents"), "agents after the reset")
}

// TestDevPage_RejectsFormsOfOtherSites: a browser sends such a form with the origin of its page, or with none.
func TestDevPage_RejectsFormsOfOtherSites(t *testing.T) {
	s := newDevSite(t, false)
	for _, tt := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"its own", []string{"Origin: " + s.url}, 303},
		{"its own, by the referrer policy", []string{"Origin: null", "Sec-Fetch-Site: same-origin"}, 303},
		{"foreign", []string{"Origin: https://evil.example.org", "Sec-Fetch-Site: cross-site"}, 403},
		{"foreign, sandboxed", []string{"Origin: null", "Sec-Fetch-Site: cross-site"}, 403},
		{"foreign, without an origin", []string{"Sec-Fetch-Site: cross-site"}, 403},
	} {
		if a := s.pressDev("en", "advance", "1h", tt.headers...); a.Status != tt.status {
			t.Errorf("%s: %d", tt.name, a.Status)
		}
	}
}

// TestDev_ReadsBodiesOfCurlAsJSON: curl -d declares a form, and a terminal wants a line.
func TestDev_ReadsBodiesOfCurlAsJSON(t *testing.T) {
	s := newDevSite(t, false)
	a := s.send("POST", "/dev/clock", "", `{"advance":"1h"}`, formType, "Accept: */*").status(200)
	if !strings.HasPrefix(string(a.Body), `{"now":"`) || !strings.HasSuffix(string(a.Body), "\"}\n") {
		t.Errorf("%q", a.Body)
	}
	for _, path := range []string{"/dev/agents", "/dev/mail"} {
		if body := s.send("GET", path, "", nil).status(200).Body; !strings.HasSuffix(string(body), "}\n") {
			t.Errorf("%s: %q", path, body)
		}
	}
	for form, status := range map[string]int{"advance=": 422, "advance=soon": 422, "advance=%zz": 422, "advance=1h&to=2h": 422, "": 422, "advance=true": 422, strings.Repeat("x", api.MaxBody+1): 413} {
		s.send("POST", "/dev/clock", "", form, formType, "Accept: text/html").status(status)
	}
}

func TestDevPage_ShowsFaultsAndJournal(t *testing.T) {
	s := newDevSite(t, false)
	key := s.agent("tide-reader")
	if got := s.pressDev("en", "drop", "after"); got.Status != 303 {
		t.Errorf("status %d: %s", got.Status, got.Body)
	}
	s.send("POST", "/dev/faults", "", `{"operation":"getMe","status":503,"rate":0.5,"seed":7,"times":2}`).status(200)
	s.statuses(1, "GET", "/api/stats", "")
	s.send("POST", "/api/posts", key, `{"kind":"announce"}`).status(422)
	for lang, want := range map[string][]string{
		"en": {"drop after", "rate 0.5, seed 7: 2 of 2 still to come", "validation_failed", "title is required", "tide-reader"},
		"zh": {"drop after", "比例 0.5，seed 7：还剩 2 次（共 2 次）", "title 为必填项"},
	} {
		text := innerText(s.devPage(lang))
		contains(t, lang, text, want...)
	}
	s.send("POST", "/dev/faults/clear", "", "", formType, "Accept: text/html").status(303)
	equal(t, 0, s.send("GET", "/dev/faults", "", nil).len("faults"), "faults")
}

// TestWake_UnderDev has an agent woken that its own test runs, in the way of callbook dev: by its clock, on this machine.
func TestWake_UnderDev(t *testing.T) {
	s := newDevSite(t, false)
	pilot, gauge := s.verified("harbour-pilot"), s.verified("tide-gauge")
	post := s.post(pilot, "Tide levels of Skagen")
	status, secret, ids := http.StatusNoContent, "", []string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil || hook.Verify(body, r.Header) != nil || !strings.HasPrefix(string(body), `{"type":"wake","handle":"harbour-pilot","pending":`) {
			t.Errorf("%v: %s, %v", err, body, r.Header)
		}
		ids = append(ids, r.Header.Get("Webhook-Id"))
		s.send("GET", "/api/me/inbox", pilot, nil).status(200) // as an agent does that works before it responds
		w.WriteHeader(status)
	}))
	defer receiver.Close()
	secret = s.send("PUT", "/api/me/wake", pilot, map[string]any{"url": receiver.URL + "/hunter2"}).status(200).text("secret")
	happen := func(advance string, want int, state string) {
		t.Helper()
		s.send("POST", "/api/posts/"+post+"/replies", gauge, map[string]any{"body": "News"}).status(201)
		s.send("POST", "/dev/clock", "", map[string]any{"advance": advance}).status(200)
		if got := s.send("GET", "/api/me/wake", pilot, nil).text("status"); len(ids) != want || got != state {
			t.Errorf("after %s: %d requests, %s; want %d, %s", advance, len(ids), got, want, state)
		}
	}
	happen("1s", 1, "ok")
	happen("1m", 1, "ok")
	happen("5m", 2, "ok")
	status = http.StatusFound
	happen("5m", 3, "failing")
	happen("5m", 4, "failing")
	happen("30m", 5, "failing")
	happen("3h", 6, "off")
	happen("24h", 6, "off")
	if ids[0] == ids[1] || ids[1] == ids[2] || ids[2] != ids[5] {
		t.Errorf("ids: %v", ids)
	}
	if events := string(s.send("GET", "/api/me/events", pilot, nil).Body); strings.Count(events, "wake.failed") != 1 {
		t.Errorf("events: %s", events)
	}
	if log := s.log.String(); !strings.Contains(log, "a wake-up was delivered") || strings.Contains(log, "hunter2") {
		t.Errorf("the log: %s", log)
	}
	s.send("POST", "/dev/reset", "", map[string]any{"demo": false}).status(200)
	if next, err := s.store.NextWakeAt(t.Context()); err != nil || next != 0 {
		t.Errorf("after a reset a request is due at %v, %v", next, err)
	}
}
