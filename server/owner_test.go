package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

const formType = "Content-Type: application/x-www-form-urlencoded"

// ownerOf returns the address of an agent's owner; each has its own.
func ownerOf(handle string) string { return "canary-of-" + handle + "@harbour.example.org" }

// ownerSite is a site with helpers for owner's pages.
type ownerSite struct{ *site }

func newOwnerSite(t testing.TB, options ...func(*siteOptions)) *ownerSite {
	t.Helper()
	return &ownerSite{newSite(t, options...)}
}

// pending registers an agent that requests a claim, and returns its key and the token.
func (s *ownerSite) pending(handle string, more ...any) (key, token string) {
	s.Helper()
	key = s.verified(handle, more...)
	return key, s.startClaim(key, ownerOf(handle))
}

// inForce has an agent claimed, and returns its key and the page's token.
func (s *ownerSite) inForce(handle string, more ...any) (key, token string) {
	s.Helper()
	key, token = s.pending(handle, more...)
	s.actAsOwner(token, domain.OwnerSubmission{Act: domain.OwnerConfirm})
	return key, token
}

// awaiting has a request wait for the owner's receipt, and returns its id.
func (s *ownerSite) awaiting(key, handle, sender string) string {
	s.Helper()
	s.send("PATCH", "/api/me", key, `{"contact_policy":{"require_owner_receipt":true,"require_offering":false,"weekly_cap":50}}`).status(200)
	id := s.ask(sender, handle)
	s.send("POST", "/api/requests/"+id+"/accept", key, nil).status(200)
	return id
}

// unverify removes the verification of an agent but not its claim, which no request does but a
// file may contain.
func (s *ownerSite) unverify(handle string) {
	s.Helper()
	s.database.MustExec(`UPDATE agents SET verified_at = NULL WHERE id = (SELECT id FROM handles WHERE handle = ?)`, handle)
}

// open shows a page as a browser of this language does.
func (s *ownerSite) open(path, lang string) *result {
	s.Helper()
	return s.send("GET", path+"?lang="+lang, "", nil)
}

// form returns the present one-time token of the page.
func (s *ownerSite) form(token string) string {
	s.Helper()
	page := must(s.store.OwnerPage(context.Background(), token))(s)
	return page.Form
}

// submit posts a form to an owner's page; fields are names and values.
func (s *ownerSite) submit(token, query string, fields ...string) *result {
	s.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return s.send("POST", "/owner/"+token+query, "", form.Encode(), formType)
}

// press submits the present form of the page.
func (s *ownerSite) press(token string, act domain.OwnerAction, fields ...string) *result {
	s.Helper()
	return s.submit(token, "", append([]string{"form", s.form(token), "act", string(act)}, fields...)...)
}

func TestOwnerPage_OpeningChangesNothing(t *testing.T) {
	s := newOwnerSite(t)
	_, pending := s.pending("tide-reader")
	key, claimed := s.inForce("harbour-pilot")
	id := s.awaiting(key, "harbour-pilot", s.verified("lantern-keeper"))
	before := s.state()
	for token, want := range map[string]int{pending: 200, claimed: 200, "unknown": 404} {
		for _, query := range []string{"", "?lang=zh", "?act=confirm&form=" + s.form(pending), "?act=agree&request=" + id} {
			s.send("GET", "/owner/"+token+query, "", nil).status(want)
			s.send("HEAD", "/owner/"+token+query, "", nil).status(want)
		}
	}
	if diff := cmp.Diff(before, s.state()); diff != "" {
		t.Fatalf("a look at the page changed the directory:\n%s", diff)
	}
	s.press(pending, domain.OwnerConfirm).status(200)
	s.press(claimed, domain.OwnerAgree, "request", id).status(200)
	if cmp.Equal(before, s.state()) {
		t.Error("the buttons changed nothing")
	}
}

// ownerStates are the states that a page can be in.
var ownerStates = map[string]func(s *ownerSite, handle string) (token string){
	"pending": func(s *ownerSite, handle string) string {
		_, token := s.pending(handle)
		return token
	},
	"pending, not verified": func(s *ownerSite, handle string) string {
		_, token := s.pending(handle)
		s.unverify(handle)
		return token
	},
	"claimed": func(s *ownerSite, handle string) string {
		_, token := s.inForce(handle)
		return token
	},
	"another owner named": func(s *ownerSite, handle string) string {
		key, token := s.inForce(handle)
		s.send("PATCH", "/api/me", key, `{"owner":"Somebody Else"}`).status(200)
		return token
	},
	"mailbox changed": func(s *ownerSite, handle string) string {
		key, token := s.inForce(handle)
		s.send("PATCH", "/api/me", key, map[string]any{"mailbox": "new-" + handle + "@example.org"}).status(200)
		return token
	},
	"mailbox changed and verified": func(s *ownerSite, handle string) string {
		key, token := s.inForce(handle)
		s.send("PATCH", "/api/me", key, map[string]any{"mailbox": "new-" + handle + "@example.org"}).status(200)
		s.verify(key)
		return token
	},
	"about to be deleted": func(s *ownerSite, handle string) string {
		key, token := s.inForce(handle)
		s.send("DELETE", "/api/me?confirm="+handle, key, nil).status(204)
		return token
	},
}

// waits creates a request that waits for the owner's receipt, in any state of the claim.
func (s *ownerSite) waits(handle, sender string) string {
	s.Helper()
	s.database.MustExec(`UPDATE agents SET require_offering = FALSE WHERE id = (SELECT id FROM handles WHERE handle = ?)`, handle)
	id := s.ask(sender, handle)
	s.database.MustExec(`UPDATE requests SET status = 'awaiting_owner' WHERE id = ?`, id)
	return id
}

func TestOwnerPage_ButtonsAct(t *testing.T) {
	s := newOwnerSite(t)
	sender := s.verified("lantern-keeper")
	card := func(handle string) *result { return s.send("GET", "/api/agents/"+handle, "", nil) }

	key, token := s.pending("harbour-pilot")
	s.press(token, domain.OwnerConfirm).status(200)
	if card("harbour-pilot").value("agent", "trust", "level") != 2.0 {
		t.Error("confirmed, and not at level 2")
	}
	agreed := s.awaiting(key, "harbour-pilot", sender)
	if body := string(s.open("/owner/"+token, "en").Body); !strings.Contains(body, "Two CSV files") || !strings.Contains(body, "lantern-keeper") {
		t.Errorf("the request is not on the page: %s", body)
	}
	s.press(token, domain.OwnerAgree, "request", agreed).status(200)
	if a := s.send("GET", "/api/requests/"+agreed, sender, nil); a.text("request", "mailboxes", "to") != "harbour-pilot@example.org" {
		t.Errorf("agreed: %s", a.Body)
	}
	rejected := s.awaiting(key, "harbour-pilot", s.verified("diffwarden"))
	s.press(token, domain.OwnerRefuse, "request", rejected).status(200)
	if a := s.send("GET", "/api/requests/"+rejected, key, nil); a.text("request", "status") != "declined" || a.value("request", "mailboxes") != nil {
		t.Errorf("refused: %s", a.Body)
	}

	s.send("PATCH", "/api/me", key, `{"contact_policy":{"require_owner_receipt":false}}`).rejected(403, domain.CodeForbidden)
	s.press(token, domain.OwnerWaive).status(200)
	if card("harbour-pilot").value("agent", "contact_policy", "require_owner_receipt") != false {
		t.Error("waived, and the receipt is still required")
	}

	response := s.press(token, domain.OwnerRotateKey).status(200)
	fresh := string(response.Body[strings.Index(string(response.Body), "cq_"):][:52])
	if s.keyWorks(key) || !s.keyWorks(fresh) {
		t.Error("the old key works, or the one shown does not")
	}
	if strings.Contains(string(s.open("/owner/"+token, "en").Body), "cq_") {
		t.Error("the key is shown again")
	}

	s.press(token, domain.OwnerRetire, "confirm", "Harbour-Pilot").status(422)
	card("harbour-pilot").status(200)
	s.press(token, domain.OwnerRetire, "confirm", "harbour-pilot").status(200)
	card("harbour-pilot").status(404)

	_, token = s.inForce("tide-reader")
	s.press(token, domain.OwnerWithdraw).status(200)
	if card("tide-reader").value("agent", "trust", "level") != 1.0 {
		t.Error("withdrawn, and not at level 1")
	}
	s.open("/owner/"+token, "en").status(404)
}

func TestOwnerPage_ForeignFormsAreRejected(t *testing.T) {
	s := newOwnerSite(t)
	_, token := s.pending("harbour-pilot")
	const base, evil = "http://callbook.example.org", "https://evil.example.org"
	own := s.url
	origins := []string{"", "null", own, base, evil, base + ".evil.example.org", "https://callbook.example.org", "http://callbook.example.org:81"}
	passes := map[string][]string{ // by Sec-Fetch-Site
		"":            {"", "null", own, base},
		"same-origin": origins,
		"none":        origins,
		"same-site":   {base}, // what no browser sends
		"cross-site":  {base},
		"nonsense":    {base},
	}
	for site, pass := range passes {
		for _, origin := range origins {
			var headers []string
			if origin != "" {
				headers = append(headers, "Origin: "+origin)
			}
			if site != "" {
				headers = append(headers, "Sec-Fetch-Site: "+site)
			}
			want := 403
			if slices.Contains(pass, origin) {
				want = 409 // it got through to the form, which is out of date
			}
			a := s.send("POST", "/owner/"+token, "", "form=old&act=confirm", append(headers, formType)...)
			if a.Status != want {
				t.Errorf("POST from %q, %q: %d, want %d", origin, site, a.Status, want)
			}
			for _, method := range []string{"GET", "HEAD"} {
				s.send(method, "/owner/"+token, "", nil, headers...).status(200)
			}
		}
	}
	// A browser's ordinary press under this page's referrer policy.
	s.send("POST", "/owner/"+token, "", "act=confirm&form="+s.form(token), formType, "Origin: null", "Sec-Fetch-Site: same-origin").status(200)
}

func TestOwnerPage_ParsesFormsStrictly(t *testing.T) {
	s := newOwnerSite(t)
	_, token := s.pending("harbour-pilot")
	form := "form=" + s.form(token) + "&act=confirm"
	tests := map[string]struct {
		contentType, body string
		more              string
		want              int
	}{
		"JSON":              {"application/json", `{"act":"confirm"}`, "", 415},
		"compressed":        {"application/x-www-form-urlencoded", form, "Content-Encoding: gzip", 415},
		"bad escape":        {"application/x-www-form-urlencoded", form + "&x=%zz", "", 400},
		"too large":         {"application/x-www-form-urlencoded", form + "&x=" + strings.Repeat("x", 8<<10), "", 413},
		"unknown act":       {"application/x-www-form-urlencoded", strings.ReplaceAll(form, "confirm", "delete"), "", 422},
		"no form token":     {"application/x-www-form-urlencoded", "act=reject", "", 409},
		"fields as a query": {"application/x-www-form-urlencoded", "", "", 422},
	}
	for name, tt := range tests {
		headers := []string{"Content-Type: " + tt.contentType}
		if tt.more != "" {
			headers = append(headers, tt.more)
		}
		path := "/owner/" + token
		if name == "fields as a query" {
			path += "?" + form
		}
		a := s.send("POST", path, "", tt.body, headers...)
		if a.Status != tt.want || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %s, want %d", name, a.Status, a.Header.Get("Content-Type"), tt.want)
		}
	}
	s.send("POST", "/owner/"+token, "", form+"&x="+strings.Repeat("x", 8<<10-len(form)-3), formType+"; charset=UTF-8").status(200)
}

func TestOwnerPage_RequestsOfOthersAreNotFound(t *testing.T) {
	s := newOwnerSite(t)
	sender := s.verified("lantern-keeper")
	key, other := s.inForce("harbour-pilot")
	id := s.awaiting(key, "harbour-pilot", sender)
	_, token := s.inForce("tide-reader")
	for _, act := range []domain.OwnerAction{domain.OwnerAgree, domain.OwnerRefuse} {
		s.press(token, act, "request", id).status(409)
		s.press(token, act, "request", "req_unknown").status(409)
	}
	if a := s.send("GET", "/api/requests/"+id, key, nil); a.text("request", "status") != "awaiting_owner" {
		t.Errorf("another's owner acted: %s", a.Body)
	}
	s.clock.Advance(8 * 24 * time.Hour)
	s.press(other, domain.OwnerAgree, "request", id).status(409)
}

func TestOwnerPage_ErrorsArePages(t *testing.T) {
	s := newOwnerSite(t, func(o *siteOptions) {
		o.limits = ratelimit.Limits{limitReads: ratelimit.Limit{Requests: 40, Period: time.Minute}}
	})
	_, token := s.pending("harbour-pilot")
	for _, a := range []struct {
		call string
		want int
	}{
		{"GET /owner/", 404}, {"GET /owner/x", 404}, {"GET /owner/" + token + "/", 404}, {"GET /owner/" + token + "%2Fx", 404}, {"HEAD /owner/x", 404},
		{"POST /owner/x", 415}, {"GET /owner/" + strings.ToLower(token), 404}, {"GET /owner/" + token[1:], 404}, {"GET /owner/" + token + "0", 404},
		{"PUT /owner/" + token, 405}, {"DELETE /owner/" + token, 405},
	} {
		method, path, _ := strings.Cut(a.call, " ")
		got := s.send(method, path, "", nil).status(a.want)
		if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", a.call, got.Header)
		}
	}
	s.submit("unknown", "", "act", "confirm").status(404)
	s.clock.Advance(71 * time.Hour)
	s.open("/owner/"+token, "en").status(200)
	s.clock.Advance(time.Hour)
	s.open("/owner/"+token, "en").status(404)
	s.submit(token, "", "act", "confirm").status(404)
	var limited *result
	for range 41 {
		limited = s.open("/owner/x", "zh")
	}
	if limited.Status != 429 || limited.Header.Get("Retry-After") == "" || !strings.Contains(string(limited.Body), "访问过于频繁") {
		t.Errorf("%d %v", limited.Status, limited.Header)
	}
	s.submit(token, "", "act", "confirm").status(429)
}

func TestOwnerPage_FailureIsLogged(t *testing.T) {
	s := newOwnerSite(t)
	_, token := s.pending("harbour-pilot")
	s.database.MustExec(`ALTER TABLE owner_claims RENAME TO elsewhere`)
	for _, method := range []string{"GET", "POST"} {
		r := httptest.NewRequest(method, "/owner/"+token, strings.NewReader("act=confirm"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		id := w.Header().Get("X-Request-Id")
		if w.Code != 500 || !strings.Contains(w.Body.String(), id) || strings.Contains(w.Body.String(), "owner_claims") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
		logged := false
		for line := range strings.Lines(s.log.String()) {
			logged = logged || strings.Contains(line, id) && strings.Contains(line, "no such table") && strings.Contains(line, `"level":"error"`)
		}
		if !logged {
			t.Errorf("%s: the cause is not in the log: %s", method, s.log)
		}
	}
	w := httptest.NewRecorder()
	s.server.pages.RenderError(w, httptest.NewRequest("GET", "/owner/x", nil), api.NewError(domain.CodeUnavailable, ""))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "busy") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log holds the token")
	}
}

func TestOwnerPage_TokenIsNotLogged(t *testing.T) {
	s := newOwnerSite(t)
	_, token := s.pending("harbour-pilot")
	for _, path := range []string{
		"/owner/T", "/Owner/T", "/OWNER/T", "//owner/T", "/owner//T", "/owner/T/", "/owner/T/x", "/owner/x/T", "/%6fwner/T", "/owner%2FT", "/owner%2fT/x",
		"/owner%252FT", "/x/../owner/T", "/./owner/T", "/owner/./T", "/owner/%2e/T", "/%5Cowner/T", "/owner%5CT", "/ownerT", "/owner;T", "/owner/T?lang=zh", "/owner/T?token=T",
		"/owner?T", "/?T",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			r := must(http.NewRequest(method, s.url+strings.ReplaceAll(path, "T", token), nil))(t)
			response := must(s.client.Do(r))(t)
			_ = response.Body.Close()
			for name, values := range response.Header {
				if strings.Contains(strings.Join(values, " "), token) {
					t.Errorf("%s %s: the header %s holds the token", method, path, name)
				}
			}
			if log := s.log.String(); strings.Contains(log, token) {
				t.Fatalf("%s %s: the log holds the token: %s", method, path, log[max(0, len(log)-400):])
			}
		}
	}
	s.press(token, domain.OwnerConfirm).status(200)
	s.press(token, domain.OwnerWithdraw).status(200)
	if log := s.log.String(); strings.Contains(log, token) || !strings.Contains(log, `"path":"/owner/{token}"`) {
		t.Errorf("the log: %s", log)
	}
}
