package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/testdata/testkit"
)

const formType = "Content-Type: application/x-www-form-urlencoded"

// ownerOf returns the address of an agent's owner; each has its own.
func ownerOf(handle string) string { return "canary-of-" + handle + "@harbour.example.org" }

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
	id := s.requestWithoutOffering(sender, handle)
	s.send("POST", "/api/requests/"+id+"/accept", key, nil).status(200)
	return id
}

// open shows a page as a browser of this language does.
func (s *ownerSite) open(path, lang string) *result {
	s.Helper()
	return s.send("GET", path+"?lang="+lang, "", nil)
}

func (s *ownerSite) form(token string) string {
	s.Helper()
	page := testkit.Must(s.store.OwnerPage(context.Background(), token))(s)
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

// ownerStates are the states that a page can be in.
var ownerStates = map[string]func(s *ownerSite, handle string) (token string){
	"pending": func(s *ownerSite, handle string) string {
		_, token := s.pending(handle)
		return token
	},
	"pending, not verified": func(s *ownerSite, handle string) string {
		_, token := s.pending(handle)
		// No request removes the verification but not the claim; a file may have it so.
		s.database.MustExec(`UPDATE agents SET verified_at = NULL WHERE id = (SELECT id FROM handles WHERE handle = ?)`, handle)
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
	id := s.requestWithoutOffering(sender, handle)
	s.database.MustExec(`UPDATE requests SET status = 'awaiting_owner' WHERE id = ?`, id)
	return id
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
			equal(t, want, a.Status, "POST from %q, %q", origin, site)
			for _, method := range []string{"GET", "HEAD"} {
				s.send(method, "/owner/"+token, "", nil, headers...).status(200)
			}
		}
	}
	// A browser's ordinary press under this page's referrer policy.
	s.send("POST", "/owner/"+token, "", "act=confirm&form="+s.form(token), formType, "Origin: null", "Sec-Fetch-Site: same-origin").status(200)
}

func TestOwnerPage_FailureIsLogged(t *testing.T) {
	s := newOwnerSite(t)
	_, token := s.pending("harbour-pilot")
	s.database.MustExec(`ALTER TABLE owner_claims RENAME TO elsewhere`)
	for _, method := range []string{"GET", "POST"} {
		a := s.handle(requestFrom(method, "/owner/"+token, strings.NewReader("act=confirm"), "192.0.2.1:1", formType))
		id := a.Header.Get("X-Request-Id")
		if text := string(a.Body); a.Status != 500 || !strings.Contains(text, id) || strings.Contains(text, "owner_claims") {
			t.Errorf("%s: %d %s", method, a.Status, text)
		}
		logged := false
		for line := range strings.Lines(s.log.String()) {
			logged = logged || strings.Contains(line, id) && strings.Contains(line, "no such table") && strings.Contains(line, `"level":"error"`)
		}
		if !logged {
			t.Errorf("%s: the cause is not in the log: %s", method, s.log)
		}
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log holds the token")
	}
}

// FuzzOwnerPage requests owner's pages and submits forms to them: never a 5xx, always a complete page, and no change
// without a form of that page. In the input, TOKEN is the token of a page, and OTHER the form of another.
func FuzzOwnerPage(f *testing.F) {
	s := newOwnerSite(f)
	key, token := s.inForce("harbour-pilot")
	_, other := s.pending("tide-reader")
	id := s.awaiting(key, "harbour-pilot", s.verified("lantern-keeper"))
	form := s.form(other)
	for _, body := range []string{
		"", "%", "form=OTHER&act=retire&handle=harbour-pilot", "act=confirm", "form=&act=withdraw", "form=OTHER&form=x&act=rotate-key", "form=OTHER;act=agree", "form=%ff&act=%00",
		"form=OTHER&act=agree&request=" + id, "act=refuse&request=" + id + "&form=" + strings.Repeat("a", 5000), "{}", strings.Repeat("a=b&", 3000),
	} {
		for _, path := range []string{"TOKEN", "TOKEN/", "token", "%00", "TOKEN?lang=zh&act=confirm&form=OTHER", "..%2fTOKEN", ""} {
			f.Add(true, path, body, "application/x-www-form-urlencoded", "", "en")
		}
		f.Add(true, "TOKEN", body, "multipart/form-data; boundary=x", "same-origin", "zh")
		f.Add(true, "TOKEN", body, "", "cross-site", ";;q=,")
		f.Add(false, "TOKEN?"+body, body, "text/plain", "none", "zh;q=0.1,en")
	}
	here := func(text string) string { return strings.NewReplacer("TOKEN", token, "OTHER", form).Replace(text) }
	before := s.version()
	f.Fuzz(func(t *testing.T, posts bool, path, body, media, site, language string) {
		at, err := url.ParseRequestURI("/owner/" + here(path))
		if err != nil || !strings.HasPrefix(at.Path, "/owner/") {
			t.Skip("no address below the pages'")
		}
		method := "GET"
		if posts {
			method = "POST"
		}
		r := httptest.NewRequest(method, "/owner/", strings.NewReader(here(body)))
		r.URL, r.RequestURI = at, at.RequestURI()
		r.Header = http.Header{"Content-Type": {media}, "Sec-Fetch-Site": {site}, "Accept-Language": {language}}
		a := s.handle(r)
		if a.Status >= 500 || a.Status < 300 && posts || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %q: %d %v %s", method, path, a.Status, a.Header, a.Body)
		}
		problems := pageProblems(parsePage(t, a.Body), func(string) bool { return true })
		if err := malformed(a.Body); err != nil || len(problems) > 0 {
			t.Errorf("%s %q: %v, %v\n%s", method, path, err, problems, a.Body)
		}
		page, err := s.store.OwnerPage(t.Context(), token)
		if err != nil || page.Form == form {
			t.Errorf("the page is gone, or has another's form: %v", err)
		}
		same := *s.site
		same.TB = t
		if after := same.version(); after != before {
			t.Errorf("%s %q changes the directory", method, path)
			before = after
		}
	})
}
