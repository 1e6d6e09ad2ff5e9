package server

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/static"
	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// leadsWithinManual is where a page of the manual may lead, beside the pages of the directory.
var leadsWithinManual = regexp.MustCompile(`^/docs(/[a-z]+(/[A-Za-z]+)?)?(\?lang=(en|zh))?(#[a-z0-9-]+)?$`)

// openGoodPage opens a page that is HTML like all pages, and leads nowhere else.
func (s *site) openGoodPage(path, lang string) (*result, *html.Node) {
	s.Helper()
	a := s.openPage(path, "Accept-Language: "+lang).status(200)
	if err := malformed(a.Body); err != nil {
		s.Errorf("%s, %s: %v", path, lang, err)
	}
	doc := parsePage(s, a.Body)
	leads := func(address string) bool {
		return leadsOn.MatchString(address) || leadsWithinManual.MatchString(address)
	}
	for _, problem := range append(pageProblems(doc, leads), loadProblems(doc)...) {
		s.Errorf("%s, %s: %s", path, lang, problem)
	}
	return a, doc
}

// TestDocs_AreGoodPages: the manual's pages are HTML like all pages, in the site's layout, and are cached by clients.
func TestDocs_AreGoodPages(t *testing.T) {
	s := newSite(t)
	paths := []string{"/docs"}
	for _, page := range documents.ManualPages("") {
		paths = append(paths, "/docs/"+page.Topic)
	}
	for _, lang := range []string{"en", "zh"} {
		for _, path := range paths {
			a, _ := s.openGoodPage(path, lang)
			if a.Header.Get("Content-Language") != lang || a.Header.Get("Content-Security-Policy") == "" || a.Header.Get("Cache-Control") != "public, max-age=0, must-revalidate" {
				t.Errorf("%s, %s: %v", path, lang, a.Header)
			}
			s.openPage(path, "Accept-Language: "+lang, "If-None-Match: "+a.Header.Get("Etag")).status(304)
		}
	}
}

// TestDocs_FollowTheLanguage: navigation and titles are in the site's language, the text is in English and says so.
func TestDocs_FollowTheLanguage(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string][]string{
		"/docs?lang=en":            {"<h1>Manual</h1>", `<a href="/docs/backup?lang=en">Back up, restore and upgrade</a>`},
		"/docs?lang=zh":            {"<h1>手册</h1>", "手册正文为英文", `<a href="/docs/backup?lang=zh">备份、恢复与升级</a>`, `<dd lang="en">Make backups`},
		"/docs/moderation?lang=zh": {"<title>管理内容 · 手册 · Callbook</title>", `<article class="doc" lang="en">`, `<a href="/docs/security?lang=zh#deleted-data">`, `<a href="/docs/moderation?lang=zh" aria-current="page">管理内容</a>`},
		"/agents?lang=zh":          {`<li><a href="/docs?lang=zh">手册</a></li>`},
		"/llms.txt":                {"- [Manual](" + s.server.options.BaseURL + "/docs): "},
	} {
		body := string(s.openPage(path).status(200).Body)
		contains(t, path, body, want...)
	}
}

// The link to an owner's page works like a key, and nginx logs the paths of requests.
// It holds promise 16 of SECURITY.md.
func TestManual_KeepsOwnersLinksOutOfLogs(t *testing.T) {
	body := string(newSite(t).openPage("/docs/operation").status(200).Body)
	_, location, found := strings.Cut(body, "location /owner/ {")
	lines, _, _ := strings.Cut(location, "}")
	if !found || !strings.Contains(lines, "access_log off;") || !strings.Contains(lines, "proxy_pass") {
		t.Errorf("the lines for nginx log owner's links: %q", lines)
	}
}

// TestReference_HasEveryOperation: its page names parameters, members of the body and error codes.
func TestReference_HasEveryOperation(t *testing.T) {
	s := newSite(t)
	list := parsePage(t, s.openPage("/docs/reference").status(200).Body)
	equal(t, len(s.server.engine.Operations), len(elements(list, "article")), "operations in the list")
	for _, op := range s.server.engine.Operations {
		_, doc := s.openGoodPage("/docs/reference/"+op.ID, "en")
		text := innerText(elements(doc, "main")[0])
		want := []string{op.Method + " " + op.Path, op.Summary, "rate_limited"}
		for _, p := range op.Input.Params {
			want = append(want, p.Name+" ("+p.In+")")
		}
		if op.Input.Body != nil {
			for name := range api.Resolve(s.server.engine.Registry, op.Input.Body.Schema).Properties {
				want = append(want, name)
			}
		}
		for _, code := range op.Errors {
			want = append(want, string(code))
		}
		contains(t, op.ID, text, want...)
	}
	menu := innerText(parsePage(t, s.openPage("/docs/reference/replaceOfferings").Body))
	contains(t, "the menu", menu, "offerings[].title", "string, 1 to 40 characters", "free | quote | offsite_paid", "at most 3 items")
	for _, path := range []string{"/docs/nothing", "/docs/Backup", "/docs/", "/docs/reference/nothing", "/docs/backup/getAgent", "/docs/reference/", "/docs/reference/getAgent/x"} {
		s.openPage(path, "Accept: text/html").status(404)
	}
}

// TestGuide_IsAPageToo: the guide for agents as HTML, after a part for people.
func TestGuide_IsAPageToo(t *testing.T) {
	s := newSite(t)
	for lang, want := range map[string][]string{
		"en": {"For people", "Claim it", "The rules", base + "/skill.md"},
		"zh": {"给人看的部分", "认领它", "规则", base + "/skill.md?lang=zh"},
	} {
		a, doc := s.openGoodPage("/guide", lang)
		contains(t, lang, innerText(doc), want...)
		if text := innerText(doc); strings.Contains(text, "compatibility:") || strings.Contains(text, "{base_url}") || len(a.Body) > heaviest {
			t.Errorf("%s, %d bytes: front matter or placeholders are left", lang, len(a.Body))
		}
	}
}

// TestDocs_NameTheRetentions compares the durations in the manual's table of stored data with the
// constants that the jobs use.
func TestDocs_NameTheRetentions(t *testing.T) {
	retentions := map[string]time.Duration{
		"address of a visitor": domain.UsageRetention,
		"events of an agent":   domain.EventRetention,
		"network that an agent was registered from (of IPv6 the /48)":                          domain.NetworkRetention,
		"responses for `Idempotency-Key`":                                                      domain.IdempotencyRetention,
		"number of requests a day that limits, block lists and the registration mode rejected": domain.AbuseRetention,
		"closed reports":               domain.ReportRetention,
		"links to the operator's page": domain.PageLinkAge,
	}
	words := map[time.Duration]string{12 * time.Hour: "12 hours", domain.Day: "a day", 30 * domain.Day: "30 days", 90 * domain.Day: "90 days", 365 * domain.Day: "a year"}
	duration := regexp.MustCompile(`^(a|[0-9]+) (hour|day|year)s?$`)
	text := testkit.Must(fs.ReadFile(static.Docs, "docs/security.md"))(t)
	_, table, _ := strings.Cut(string(text), "| data | who sees it | how long |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(row, "|\n"), "|")
		data, documented := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[len(cells)-1])
		retention, listed := retentions[data]
		if listed != duration.MatchString(documented) {
			t.Errorf("%q has the retention %q in the manual: list its constant in this test", data, documented)
		}
		if listed && words[retention] != documented {
			t.Errorf("%q: the manual says %q, the constant is %v", data, documented, retention)
		}
		delete(retentions, data)
	}
	for data := range retentions {
		t.Errorf("the manual has no row %q", data)
	}
}
