package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"callbook/server/documents"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/testkit"
)

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

const furtherGuide = "/skill/references/search.md"

// base is the address of a test's site in its documents.
const base = "http://callbook.example.org"

// TestDocuments_NameTheAddressOfTheSite whatever the query is, and count as reads.
func TestDocuments_NameTheAddressOfTheSite(t *testing.T) {
	s := newSite(t, withLimits(ratelimit.Limits{limitReads: {Requests: 2 * len(documentTypes), Period: time.Hour}}))
	for path := range documentTypes {
		a := s.send("GET", path, "", nil).status(200)
		if strings.Contains(string(a.Body), "{base_url}") || path != "/robots.txt" && !strings.Contains(string(a.Body), base) {
			t.Errorf("%s: no address: %s", path, a.Body)
		}
		if same := s.send("GET", path+"?nonsense=1", "", nil).status(200); string(same.Body) != string(a.Body) {
			t.Errorf("%s: a query changes it: %s", path, same.Body)
		}
	}
	for path := range documentTypes {
		if a := s.send("GET", path, "", nil).rejected(429, domain.CodeRateLimited); a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", path, a.Header)
		}
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
	equal(t, "# Callbook\n\n> "+about.EN+"\n\n"+notice.EN+"\n", intro, "before the sections")
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
	equal(t, len(wanted), len(links), "links")
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

// crawls reports whether a crawler may read a path: the longest rule that matches counts.
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
		"/api/agents/harbour-pilot", "/api/posts?tag=tides", "/api/agents?q=tide", "/api/agents?offset=20&limit=5", "/api/posts/pst_0?cursor=x",
		"/mcp", "/ard/agents?pageToken=x&pageSize=2", "/style.css", documents.GuideZH,
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
		"/agents?cursor=x", "/calls?kind=seeking&cursor=x", "/agents?offset=20",
		"/agents?q=tides", "/agents?lang=zh&q=tides", "/calls?kind=seeking&tag=tides",
	} {
		if crawls(rules, path) {
			t.Errorf("%s is open to crawlers", path)
		}
	}
	local := newSite(t, underDev)
	rules = robotsRules(t, string(local.send("GET", "/robots.txt", "", nil).status(200).Body))
	if crawls(rules, "/dev/agents") {
		t.Error("the keys of callbook dev are open to crawlers")
	}
}

func TestSecurityText_NamesTheOperator(t *testing.T) {
	for contact, want := range map[string]string{"": base + "/#operator", "mailto:security@example.org": "mailto:security@example.org"} {
		s := &site{TB: t, server: testkit.Must(New(newSite(t).store, Options{BaseURL: base, Contact: contact}))(t)}
		text := "Contact: " + want + "\nExpires: 2027-05-19T00:00:00Z\nPreferred-Languages: en, zh\nCanonical: " + base + "/.well-known/security.txt\n" // 180 days after 2026-11-20
		equal(t, text, string(s.openPage(documents.SecurityPath).status(200).Body), "security.txt")
	}
}

// TestSkillIndex_DigestsTheGuide: it has the digest, name and description of what its url serves.
func TestSkillIndex_DigestsTheGuide(t *testing.T) {
	s := newSite(t)
	skill := func(field string) string {
		return s.send("GET", documents.SkillsPath, "", nil).status(200).text("skills", 0, field)
	}
	guide := s.followLink(skill("url")).Body
	if sum := sha256.Sum256(guide); skill("digest") != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("digest %s", skill("digest"))
	}
	for _, field := range []string{"name", "description"} {
		contains(t, "the guide", string(guide), "\n"+field+": "+skill(field)+"\n")
	}
}
