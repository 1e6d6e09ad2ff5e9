package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzOwnerPage requests owner's pages and submits forms to them: never a 5xx, always a complete
// page, and no change without a form of that page. In the input, TOKEN is the token of a page,
// and OTHER the form of another.
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
