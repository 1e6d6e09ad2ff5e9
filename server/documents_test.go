package server

import (
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// documentTypes are the media types of the small documents.
var documentTypes = map[string]string{
	"/skill.md":            "text/markdown; charset=utf-8",
	furtherGuide:           "text/markdown; charset=utf-8",
	"/llms.txt":            "text/plain; charset=utf-8",
	"/robots.txt":          "text/plain; charset=utf-8",
	documents.CatalogPath:  `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`,
	documents.SecurityPath: "text/plain; charset=utf-8",
	documents.SkillsPath:   "application/json; charset=utf-8",
	"/openapi.json":        "application/json; charset=utf-8",
	documents.CardPath:     documents.CardType,
	documents.CardOfSite:   documents.CardType,
	documents.SitemapPath:  "application/xml; charset=utf-8",
	documents.ARDPath:      "application/json; charset=utf-8",
	documents.OldARDPath:   "application/json; charset=utf-8",
}

// furtherGuide is one of the guide's further pages.
const furtherGuide = "/skill/references/search.md"

// base is the address of a test's site in its documents.
const base = "http://callbook.example.org"

func TestDocuments_NameTheAddressOfTheSite(t *testing.T) {
	s := newSite(t)
	for path := range documentTypes {
		a := s.send("GET", path, "", nil).status(200)
		if strings.Contains(string(a.Body), "{base_url}") || path != "/robots.txt" && !strings.Contains(string(a.Body), base) {
			t.Errorf("%s: no address: %s", path, a.Body)
		}
		if same := s.send("GET", path+"?nonsense=1", "", nil).status(200); string(same.Body) != string(a.Body) {
			t.Errorf("%s: a query changes it: %s", path, same.Body)
		}
	}
}

func TestDocuments_CountAsReads(t *testing.T) {
	for path := range documentTypes {
		s := newSite(t, func(o *siteOptions) {
			o.limits = ratelimit.Limits{limitReads: ratelimit.Limit{Requests: 1, Period: time.Minute}}
		})
		s.send("GET", path, "", nil).status(200)
		if a := s.send("GET", path, "", nil).rejected(429, domain.CodeRateLimited); a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
}

func TestGuide_FollowsTheLanguage(t *testing.T) {
	s := newSite(t)
	tests := []struct{ name, query, accept, want string }{
		{"nothing asked for", "", "", "en"},
		{"English", "", "en-GB", "en"},
		{"Chinese", "", "zh", "zh"},
		{"simplified", "", "zh-CN,zh;q=0.9,en;q=0.8", "zh"},
		{"traditional", "", "zh-Hant", "zh"},
		{"of Taiwan", "", "zh-TW", "zh"},
		{"Chinese liked less", "", "zh;q=0.2, en;q=0.9", "en"},
		{"Chinese liked more", "", "en;q=0.2, zh-Hans;q=0.9", "zh"},
		{"Chinese refused", "", "zh;q=0", "en"},
		{"after one that there is not", "", "de, zh;q=0.3", "zh"},
		{"one that there is not", "", "de", "en"},
		{"nonsense", "", ";;q=x,,", "en"},
		{"beside no known region", "", "zh-CN,zh;q=0.9,en-EN;q=0.8", "zh"},
		{"beside no known language", "", "xx;q=0.1, en;q=0.2, zh;q=0.7", "zh"},
		{"liked less, beside no known language", "", "xx, zh;q=0.2, en;q=0.7", "en"},
		{"in capitals", "", "EN;Q=0.2, ZH;Q=0.9", "zh"},
		{"very many", "", strings.Repeat("xx,", 4000) + "zh", "en"},
		{"by the query", "?lang=zh", "", "zh"},
		{"query against header", "?lang=en", "zh", "en"},
		{"query against header, Chinese", "?lang=zh", "en", "zh"},
		{"unknown in the query", "?lang=de", "zh", "zh"},
		{"empty in the query", "?lang=", "", "en"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			if tt.accept != "" {
				headers = append(headers, "Accept-Language: "+tt.accept)
			}
			a := s.send("GET", "/skill.md"+tt.query, "", nil, headers...).status(200)
			if string(a.Body) != string(s.server.guideText(tt.want)) || a.Header.Get("Content-Language") != tt.want {
				t.Errorf("%s instead of %s", a.Header.Get("Content-Language"), tt.want)
			}
			if vary := a.Header.Values("Vary"); !slices.Equal(vary, []string{"Accept-Encoding, Accept-Language"}) {
				t.Errorf("Vary %q", vary)
			}
		})
	}
}

// A tag of one language must not be taken for the other's text.
func TestGuide_HasOneETagPerLanguage(t *testing.T) {
	s := newSite(t)
	english := s.send("GET", documents.GuideEN, "", nil).status(200)
	s.send("GET", "/skill.md", "", nil, "Accept-Language: zh", "If-None-Match: "+english.Header.Get("ETag")).status(200)
	chinese := s.send("GET", documents.GuideZH, "", nil, "If-None-Match: "+english.Header.Get("ETag")).status(200)
	if !regexp.MustCompile(`\p{Han}{4}`).Match(chinese.Body) || string(english.Body) == string(chinese.Body) {
		t.Errorf("not Chinese: %s", chinese.Body)
	}
	again := s.send("GET", documents.GuideZH, "", nil, "If-None-Match: "+chinese.Header.Get("ETag")).status(304)
	if again.Header.Get("Content-Language") != "zh" {
		t.Errorf("304: %v", again.Header)
	}
}

// What reads the front matter knows plain values on one line only.
func TestGuide_HasFrontMatterOfASkill(t *testing.T) {
	s := newSite(t)
	matter := documents.FrontMatter(s.server.guideText("en"))
	name, description := matter["name"].(string), matter["description"].(string)
	if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(name) || len(name) > 64 {
		t.Errorf("name %q", name)
	}
	if !regexp.MustCompile(`^\p{L}`).MatchString(description) || len(description) > 1024 || strings.Contains(description, ": ") || strings.Contains(description, " #") {
		t.Errorf("the description is no plain value of YAML: %q", description)
	}
	for _, path := range []string{documents.GuideEN, documents.GuideZH} {
		guide := string(s.send("GET", path, "", nil).status(200).Body)
		head, body, found := strings.Cut(strings.TrimPrefix(guide, "---\n"), "\n---\n")
		if !strings.HasPrefix(guide, "---\n") || !found || !strings.HasPrefix(strings.TrimSpace(body), "# ") {
			t.Errorf("%s: no front matter, or no title below it", path)
		}
		if strings.Count("\n"+head, "\nname: "+name+"\n") != 1 || strings.Count("\n"+head, "\ndescription: ") != 1 {
			t.Errorf("%s: %s", path, head)
		}
	}
}

// llmsLink is a line of a file list: a link, then notes.
var llmsLink = regexp.MustCompile(`^- \[([^\]]+)\]\((\S+)\): (\S.*)$`)

func TestLLMsText_FollowsTheConvention(t *testing.T) {
	s := newSite(t)
	text := string(s.send("GET", "/llms.txt", "", nil).status(200).Body)
	intro, sections, _ := strings.Cut(text, "\n## ")
	if intro != "# Callbook\n\n> "+aboutEN+"\n\n"+notice.EN+"\n" {
		t.Errorf("before the sections: %q", intro)
	}
	links := map[string]bool{}
	for section := range strings.SplitSeq(sections, "\n## ") {
		title, list, _ := strings.Cut(section, "\n\n")
		if title == "" || strings.Contains(title, "\n") {
			t.Errorf("title %q", title)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(list, "\n"), "\n") {
			m := llmsLink.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("no link with notes: %q", line)
				continue
			}
			if links[m[2]] {
				t.Errorf("%s is linked twice", m[2])
			}
			links[m[2]] = true
			s.followLink(m[2])
		}
	}
	wanted := []string{documents.GuideEN, documents.GuideZH, "/openapi.json", "/mcp", "/", "/agents", "/calls", "/guide", "/docs", "/docs/reference", "/calls.atom", documents.CatalogPath, documents.SkillsPath, documents.CardPath, documents.SitemapPath, documents.ARDPath}
	for _, op := range s.server.engine.Operations {
		if op.Method == "GET" && !op.Keyed && !strings.Contains(op.Path, "{") {
			wanted = append(wanted, op.Path)
		}
	}
	for _, path := range wanted {
		if !links[base+path] {
			t.Errorf("no link to %s", path)
		}
	}
	if len(links) != len(wanted) {
		t.Errorf("%d links instead of %d: %v", len(links), len(wanted), links)
	}
}

// followLink fails the test unless the site serves the target of a link.
func (s *site) followLink(link string) *result {
	s.Helper()
	path, own := strings.CutPrefix(link, base)
	if !own {
		s.Fatalf("a link to elsewhere: %s", link)
	}
	a := s.send("GET", path, "", nil)
	if path == documents.MCPPath {
		if a.Status == 404 {
			s.Errorf("%s: there is none", link)
		}
		return a // it is called by POST
	}
	return a.status(200)
}

// robotsRules reads a robots.txt of one group, strictly (RFC 9309).
func robotsRules(t *testing.T, text string) (rules [][2]string) {
	t.Helper()
	group, sitemap, _ := strings.Cut(text, "\n\nSitemap: ")
	if u, err := url.Parse(strings.TrimSuffix(sitemap, "\n")); err != nil || !u.IsAbs() || u.Path != documents.SitemapPath {
		t.Errorf("sitemap %q", sitemap)
	}
	lines := strings.Split(group, "\n")
	if lines[0] != "User-agent: *" {
		t.Fatalf("not for all: %s", text)
	}
	for _, line := range lines[1:] {
		name, pattern, found := strings.Cut(line, ": ")
		if name == "Agentmap" { // of no crawler
			continue
		}
		if !found || name != "Allow" && name != "Disallow" || !regexp.MustCompile(`^/[!-~]*$`).MatchString(pattern) {
			t.Fatalf("no rule: %q", line)
		}
		rules = append(rules, [2]string{name, pattern})
	}
	return rules
}

// crawls reports whether a crawler may read a path: the longest rule that matches
// counts.
func crawls(rules [][2]string, path string) bool {
	allowed, longest := true, 0
	for _, rule := range rules {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(rule[1]), `\*`, ".*")
		if regexp.MustCompile(pattern).MatchString(path) && len(rule[1]) > longest {
			allowed, longest = rule[0] == "Allow", len(rule[1])
		}
	}
	return allowed
}

func TestRobotsText_DisallowsEndlessPages(t *testing.T) {
	s := newSite(t)
	rules := robotsRules(t, string(s.send("GET", "/robots.txt", "", nil).status(200).Body))
	readable := []string{
		"/", "/?lang=zh", "/agents", "/agents/harbour-pilot", "/calls", "/calls/pst_0", "/calls?kind=seeking", "/calls.atom", "/calls.atom?tag=tides",
		"/api/agents/harbour-pilot", "/api/posts?tag=tides", "/style.css", documents.GuideZH,
	}
	for path := range documentTypes {
		readable = append(readable, path)
	}
	for _, op := range s.server.engine.Operations {
		if op.Method == "GET" && !op.Keyed {
			readable = append(readable, op.Path)
		}
	}
	for _, path := range readable {
		if !crawls(rules, path) {
			t.Errorf("%s is kept from crawlers", path)
		}
	}
	for _, path := range []string{
		"/owner/secret", "/mcp", "/agents?cursor=x", "/calls?kind=seeking&cursor=x", "/api/posts/pst_0?cursor=x", "/api/agents?offset=20",
		"/agents?q=tides", "/agents?lang=zh&q=tides", "/calls?kind=seeking&tag=tides",
	} {
		if crawls(rules, path) {
			t.Errorf("%s is open to crawlers", path)
		}
	}
	s.checkRobotsRules(rules)
	local := newSite(t, underDev)
	rules = robotsRules(t, string(local.send("GET", "/robots.txt", "", nil).status(200).Body))
	if crawls(rules, "/dev/agents") {
		t.Error("the keys of callbook dev are open to crawlers")
	}
}

// checkRobotsRules reports rules for paths and query parameters that no route has.
func (s *site) checkRobotsRules(rules [][2]string) {
	s.Helper()
	parameters := map[string]bool{}
	for _, op := range s.server.engine.Operations {
		for _, p := range op.Input.Params {
			parameters[p.Name] = parameters[p.Name] || p.In == "query" && op.Reads() && !op.Keyed
		}
	}
	for _, rule := range rules {
		pattern := rule[1]
		if name, found := strings.CutPrefix(pattern, "/*?*"); found {
			if name = strings.TrimSuffix(name, "="); name != "&" && !parameters[name] {
				s.Errorf("%s: no public read takes %s", pattern, name)
			}
			continue
		}
		// Neither the owner's page nor MCP responses without more; both respond.
		if a := s.send("POST", pattern, "", nil); a.Status == 404 && a.Header.Get("Content-Type") == api.JSONType {
			s.Errorf("%s: there is none", pattern)
		}
	}
}

func TestAPICatalog_IsALinkset(t *testing.T) {
	s := newSite(t)
	a := s.send("GET", documents.CatalogPath, "", nil).status(200)
	if link := a.Header.Get("Link"); link != "<"+base+documents.CatalogPath+`>; rel="api-catalog"` {
		t.Errorf("Link %q", link)
	}
	var catalog struct {
		Linkset []map[string]any `json:"linkset"`
	}
	a.into(&catalog)
	got := map[string][]string{} // anchor and relation → links
	for _, context := range catalog.Linkset {
		anchor := context["anchor"].(string)
		for relation, links := range context {
			if relation == "anchor" {
				continue
			}
			for _, link := range links.([]any) {
				target := link.(map[string]any)
				got[anchor+" "+relation] = append(got[anchor+" "+relation], target["href"].(string))
				s.checkLinkTarget(target)
			}
		}
	}
	guides, status := []string{base + "/skill.md?lang=en", base + "/skill.md?lang=zh"}, []string{base + "/healthz"}
	if diff := cmp.Diff(map[string][]string{
		base + "/.well-known/api-catalog item": {base + "/api", base + "/mcp"},
		base + "/api service-desc":             {base + "/openapi.json"},
		base + "/api service-doc":              guides,
		base + "/api status":                   status,
		base + "/mcp service-doc":              guides,
		base + "/mcp status":                   status,
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// checkLinkTarget follows a link of a linkset and compares its attributes with the target.
func (s *site) checkLinkTarget(target map[string]any) {
	s.Helper()
	a := s.followLink(target["href"].(string))
	if want, given := target["type"]; given {
		if got, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); got != want {
			s.Errorf("%v is %s", target, got)
		}
	}
	if want, given := target["hreflang"]; given && cmp.Diff(want, []any{a.Header.Get("Content-Language")}) != "" {
		s.Errorf("%v speaks %s", target, a.Header.Get("Content-Language"))
	}
}

// securityFields reads a security.txt, strictly: a field once, a line each.
func securityFields(t *testing.T, text string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		name, value, found := strings.Cut(line, ": ")
		if _, twice := fields[name]; !found || twice || !regexp.MustCompile(`^[!-~]+( [!-~]+)*$`).MatchString(value) {
			t.Fatalf("no field: %q", line)
		}
		fields[name] = value
	}
	return fields
}

func TestSecurityText_NamesTheOperator(t *testing.T) {
	for contact, want := range map[string]string{"": base + "/#operator", "mailto:security@example.org": "mailto:security@example.org"} {
		s := &site{TB: t, server: must(New(newSite(t).store, Options{BaseURL: base, Contact: contact}))(t)}
		fields := securityFields(t, string(s.openPage(documents.SecurityPath).status(200).Body))
		if diff := cmp.Diff(map[string]string{
			"Contact": want, "Canonical": base + "/.well-known/security.txt", "Preferred-Languages": "en, zh",
			"Expires": "2027-05-19T00:00:00Z", // 180 days after 2026-11-20
		}, fields); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestSecurityText_StaysValid(t *testing.T) {
	s := newSite(t)
	read := func() (expires time.Time, tag string) {
		a := s.send("GET", documents.SecurityPath, "", nil).status(200)
		expires, err := time.Parse(time.RFC3339, securityFields(t, string(a.Body))["Expires"])
		if err != nil {
			t.Fatal(err)
		}
		if left := expires.Sub(s.clock.Now()); left < 30*domain.Day || left > 364*domain.Day {
			t.Errorf("at %v it holds good for %v", s.clock.Now(), left)
		}
		return expires, a.Header.Get("ETag")
	}
	first, tag := read()
	s.clock.Advance(14*time.Hour + 29*time.Minute + 59*time.Second) // to the day's last second
	s.send("GET", documents.SecurityPath, "", nil, "If-None-Match: "+tag).status(304)
	s.clock.Advance(time.Second)
	s.send("GET", documents.SecurityPath, "", nil, "If-None-Match: "+tag).status(200)
	if next, _ := read(); next.Sub(first) != domain.Day {
		t.Errorf("a day later it expires at %v after %v", next, first)
	}
	s.clock.Advance(3 * 365 * domain.Day)
	read()
}

func TestSkillIndex_DigestsTheGuide(t *testing.T) {
	s := newSite(t)
	var index struct {
		Schema string              `json:"$schema"`
		Skills []map[string]string `json:"skills"`
	}
	s.send("GET", documents.SkillsPath, "", nil).status(200).into(&index)
	if index.Schema != "https://schemas.agentskills.io/discovery/0.2.0/schema.json" || len(index.Skills) != 1 {
		t.Fatalf("%+v", index)
	}
	skill := index.Skills[0]
	at, err := url.Parse(skill["url"])
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for _, headers := range [][]string{nil, {"Accept-Language: zh"}, {"Accept-Language: en"}, {"Accept-Encoding: gzip"}, {"Accept-Encoding: identity", "Accept-Language: zh-TW"}} {
		a := s.send("GET", at.RequestURI(), "", nil, headers...).status(200)
		if a.Header.Get("Content-Encoding") == "gzip" {
			continue // compressed by request: the digest is of what it holds
		}
		body = a.Body
		if sum := sha256.Sum256(body); skill["digest"] != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("with %q the digest is not %s", headers, skill["digest"])
		}
	}
	delete(skill, "digest")
	want := map[string]string{"type": "skill-md", "url": base + "/skill.md?lang=en"}
	for _, field := range []string{"name", "description"} {
		_, rest, _ := strings.Cut(string(body), "\n"+field+": ")
		want[field], _, _ = strings.Cut(rest, "\n")
	}
	if diff := cmp.Diff(want, skill); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
