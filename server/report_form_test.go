package server

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/server/ratelimit"
	"callbook/testdata/testkit"
)

// submitForm sends a form as the browser of a page does.
func (s *site) submitForm(path string, form url.Values, headers ...string) *result {
	s.Helper()
	if !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "Content-Type: ") }) {
		headers = append(headers, "Content-Type: application/x-www-form-urlencoded")
	}
	return s.send("POST", path, "", form.Encode(), headers...)
}

func (s *site) reportReasons() (reasons []string) {
	s.Helper()
	testkit.NoError(s, s.database.Select(&reasons, `SELECT COALESCE(reason, '') FROM reports ORDER BY seq`))
	return reasons
}

// TestReportForms_ReachTheOperator submits the form of each page that has one, as the page itself describes it.
func TestReportForms_ReachTheOperator(t *testing.T) {
	s := newSite(t)
	pilot := s.agent("harbour-pilot")
	call := s.post(pilot, "A call")
	s.send("POST", "/api/posts/"+call+"/replies", pilot, `{"body":"A reply."}`).status(201)
	for _, path := range []string{"/agents/harbour-pilot?lang=zh", "/calls/" + call} {
		for _, form := range elements(parsePage(t, s.openPage(path).Body), "form") {
			if method, _ := attribute(form, "method"); method != "post" {
				continue
			}
			action, _ := attribute(form, "action")
			a := s.submitForm(action, url.Values{"reason": {" Not\r\n\r\ntrue: " + path + " "}}, "Sec-Fetch-Site: same-origin", "Origin: null").status(200)
			doc := parsePage(t, a.Body)
			back := ""
			for _, n := range elements(elements(doc, "main")[0], "a") {
				back, _ = attribute(n, "href")
			}
			if want := map[bool]string{true: "感谢你的举报", false: "Thank you for the report"}[strings.HasSuffix(path, "zh")]; innerText(elements(doc, "h1")[0]) != want || back != path {
				t.Errorf("%s: %s", action, a.Body)
			}
			if problems := pageProblems(doc, leadsOn.MatchString); len(problems) > 0 || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %q, %v", action, problems, a.Header)
			}
		}
	}
	want := []string{"Not true: /agents/harbour-pilot?lang=zh", "Not true: /calls/" + call, "Not true: /calls/" + call}
	equal(t, want, s.reportReasons(), "reasons")
}

func TestReportForms_SayWhatWasWrong(t *testing.T) {
	s := newSite(t, withLimits(ratelimit.Limits{limitReports: ratelimit.Limit{Requests: 6, Period: time.Hour}}))
	path := "/calls/" + s.post(s.agent("harbour-pilot"), "A call") + "/report"
	reason := func(text string) url.Values { return url.Values{"reason": {text}} }
	for _, tt := range []struct {
		name, path string
		form       url.Values
		headers    []string
		status     int
		says       string
	}{
		{"no reason", path, nil, nil, 200, "Thank you"},
		{"a long reason", path, reason(strings.Repeat("x", 301)), nil, 422, "300"},
		{"a hostile reason", path, reason("\x07<b>x</b>"), nil, 422, "not allowed"},
		{"an unknown call", "/calls/pst_0/report", nil, nil, 404, "The report was not sent."},
		{"an unknown reply", "/calls/pst_0/replies/rpl_0/report", nil, nil, 404, "The report was not sent."},
		{"an unknown agent", "/agents/nobody-here/report", nil, nil, 404, "The report was not sent."},
		{"another site", path, nil, []string{"Sec-Fetch-Site: cross-site", "Origin: https://elsewhere.example"}, 403, "A web page of another site"},
		{"an old browser elsewhere", path, nil, []string{"Origin: https://elsewhere.example"}, 403, "A web page of another site"},
		{"a large form", path, reason(strings.Repeat("x", 70_000)), nil, 413, "The report was not sent."},
		{"not a form", path, nil, []string{"Content-Type: text/plain"}, 415, "The report was not sent."},
	} {
		a := s.submitForm(tt.path, tt.form, tt.headers...)
		main := innerText(elements(parsePage(t, a.Body), "main")[0])
		if a.Status != tt.status || !strings.Contains(main, tt.says) || strings.Contains(main, "<b>") {
			t.Errorf("%s: %d %q", tt.name, a.Status, main)
		}
	}
	s.submitForm(path, nil).status(200)
	s.submitForm(path, nil).status(200)
	a := s.submitForm(path, nil).status(429)
	if a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), "The report was not sent.") {
		t.Errorf("over the limit: %v %s", a.Header, a.Body)
	}
	if reasons := s.reportReasons(); len(reasons) != 1 {
		t.Errorf("stored %q", reasons)
	}
	s.sendRaw("GET", path).status(405)
}
