package server

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	htmlrenderer "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"

	"callbook/server/documents"
	"callbook/server/mcp"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// TestServerCard_SaysWhatTheEndpointIs at both of its addresses; the script of small documents reads it too.
func TestServerCard_SaysWhatTheEndpointIs(t *testing.T) {
	s := newSite(t)
	card := s.sendRaw("GET", documents.CardPath).status(200)
	var versions []string
	for i := range card.len("remotes", 0, "supportedProtocolVersions") {
		versions = append(versions, card.text("remotes", 0, "supportedProtocolVersions", i))
	}
	if n := len(card.text("description")); card.text("name") != "org.example.callbook/callbook" || card.text("websiteUrl") != base || n == 0 || n > 100 || !slices.Equal(versions, mcp.Versions()) {
		t.Errorf("%s", card.Body)
	}
	for i := range card.len("icons") {
		equal(t, card.text("icons", i, "mimeType"), s.followLink(card.text("icons", i, "src")).Header.Get("Content-Type"), "the type of icon %d", i)
	}
	if site := s.sendRaw("GET", documents.CardOfSite).status(200); string(site.Body) != string(card.Body) {
		t.Errorf("the card of the site differs: %s", site.Body)
	}
}

// sitemapAddresses parses a sitemap or an index, strictly, and returns the paths that it names.
func (s *site) sitemapAddresses(path, root string) (paths []string) {
	s.Helper()
	a := s.sendRaw("GET", path).status(200)
	var document struct {
		XMLName xml.Name
		Pages   []string `xml:"url>loc"`
		Parts   []string `xml:"sitemap>loc"`
	}
	if err := xml.Unmarshal(a.Body, &document); err != nil || document.XMLName.Space != "http://www.sitemaps.org/schemas/sitemap/0.9" || document.XMLName.Local != root {
		s.Fatalf("%s: %v, %v: %.200s", path, err, document.XMLName, a.Body)
	}
	for _, address := range append(document.Pages, document.Parts...) {
		path, own := strings.CutPrefix(address, base)
		if !own {
			s.Errorf("%s names %s", path, address)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestSitemap_NamesWhatThePublicSees(t *testing.T) {
	s := newSite(t, func(o *siteOptions) { o.mode = domain.RegistrationApprove })
	keys := map[string]string{}
	for _, handle := range []string{"harbour-pilot", "tide-gauge", "fog-horn", "gone-agent", "not-yet"} {
		keys[handle] = s.agent(handle)
		if handle != "not-yet" {
			testkit.NoError(t, s.store.ActOnAgent(t.Context(), domain.OperatorApprove, handle))
		}
	}
	call := s.post(keys["harbour-pilot"], "Tide data wanted")
	hidden := s.post(keys["fog-horn"], "Fog")
	s.suspend("fog-horn")
	s.send("DELETE", "/api/me?confirm=gone-agent", keys["gone-agent"], nil).status(204)
	before := s.sendRaw("GET", documents.SitemapPath)
	paths := s.sitemapAddresses(documents.SitemapPath, "urlset")
	for _, path := range []string{"/", "/agents", "/calls", "/docs/api", "/agents/harbour-pilot", "/agents/tide-gauge", "/calls/" + call} {
		if !slices.Contains(paths, path) {
			t.Errorf("%s is missing in %v", path, paths)
		}
	}
	for _, path := range []string{"/agents/fog-horn", "/agents/gone-agent", "/agents/not-yet", "/calls/" + hidden} {
		if slices.Contains(paths, path) {
			t.Errorf("names %s", path)
		}
	}
	for _, path := range paths {
		s.openPage(path).status(200)
	}
	s.sendRaw("GET", documents.SitemapPath, "If-None-Match: "+before.Header.Get("Etag")).status(304)
	testkit.NoError(t, s.store.ActOnAgent(t.Context(), domain.OperatorApprove, "not-yet"))
	s.sendRaw("GET", documents.SitemapPath, "If-None-Match: "+before.Header.Get("Etag")).status(200)
	if paths := s.sitemapAddresses(documents.SitemapPath, "urlset"); !slices.Contains(paths, "/agents/not-yet") {
		t.Errorf("an approved agent is missing in %v", paths)
	}
}

// TestSitemap_HasPartsForManyRecords has agents whose numbers are far apart: an index names the parts with agents alone.
func TestSitemap_HasPartsForManyRecords(t *testing.T) {
	s := newSite(t)
	handles := []string{"first-agent", "second-agent", "third-agent"}
	for i, handle := range handles {
		_, err := s.database.Exec(`UPDATE sqlite_sequence SET seq = ? WHERE name = 'handles'`, i*2000)
		testkit.Must(s.agent(handle), err)(t)
	}
	parts := s.sitemapAddresses(documents.SitemapPath, "sitemapindex")
	if diff := cmp.Diff([]string{"/sitemap/agents-0.xml", "/sitemap/agents-2.xml", "/sitemap/agents-4.xml", "/sitemap/pages.xml"}, parts); diff != "" {
		t.Fatal(diff)
	}
	for i, handle := range handles {
		equal(t, []string{"/agents/" + handle}, s.sitemapAddresses(parts[i], "urlset"), "%s", parts[i])
	}
	if pages := s.sitemapAddresses("/sitemap/pages.xml", "urlset"); !slices.Contains(pages, "/docs/api") {
		t.Errorf("%v", pages)
	}
	for _, part := range []string{"agents-1.xml", "agents-00.xml", "agents--1.xml", "agents-99999999999999.xml", "calls-0.xml", "agents-0", "all.xml", "x", "pages"} {
		s.sendRaw("GET", "/sitemap/"+part).rejected(404, domain.CodeNotFound)
	}
}

func TestBadge_ShowsWhatIsProven(t *testing.T) {
	s := newSite(t)
	s.claimed("harbour-pilot", "mei@harbour.example.org", "contact_public", true, "name", "Zq name", "owner", "Zq owner", "tagline", "Zq words")
	s.claimed("tide-gauge", "ada@harbour.example.org")
	s.verified("lighthouse")
	s.agent("bare-card")
	testkit.NoError(t, s.store.RunJobs(t.Context()))
	for _, tt := range []struct{ handle, query, lang, proven, title string }{
		{"harbour-pilot", "", "en", "claimed by a person · 0 confirmed", "harbour-pilot on Callbook: claimed by a person, 0 confirmed collaborations"},
		{"lighthouse", "?style=plain", "en", "mailbox verified · 0 confirmed", "lighthouse on Callbook: mailbox verified, 0 confirmed collaborations"},
		{"bare-card", "?style=flat&lang=zh", "zh", "未验证 · 0 次合作", "bare-card（Callbook）：未验证，0 次已确认的合作"},
		{"bare-card", "?lang=zh&style=&x=%3Cb%3E", "zh", "未验证 · 0 次合作", "bare-card（Callbook）：未验证，0 次已确认的合作"},
	} {
		path := "/agents/" + tt.handle + "/badge.svg" + tt.query
		a := s.sendRaw("GET", path).status(200)
		var badge struct {
			XMLName xml.Name
			Label   string   `xml:"aria-label,attr"`
			Lang    string   `xml:"http://www.w3.org/XML/1998/namespace lang,attr"`
			Title   string   `xml:"title"`
			Texts   []string `xml:"g>text"`
		}
		if err := xml.Unmarshal(a.Body, &badge); err != nil {
			t.Fatalf("%s: %v: %s", path, err, a.Body)
		}
		if diff := cmp.Diff([]string{tt.handle, tt.proven}, badge.Texts); diff != "" || badge.Title != tt.title || badge.Label != tt.title || badge.Lang != tt.lang || badge.XMLName.Space != "http://www.w3.org/2000/svg" {
			t.Errorf("%s: %+v", path, badge)
		}
		if bytes.Contains(a.Body, []byte("Zq")) || bytes.Contains(a.Body, []byte("example.org")) || len(a.Body) > 1200 {
			t.Errorf("%s: %d bytes: %s", path, len(a.Body), a.Body)
		}
		s.sendRaw("GET", path, "If-None-Match: "+a.Header.Get("Etag")).status(304)
	}
	tag := s.sendRaw("GET", "/agents/lighthouse/badge.svg").Header.Get("Etag")
	for _, other := range []string{"?style=plain", "?lang=zh"} {
		s.sendRaw("GET", "/agents/lighthouse/badge.svg"+other, "If-None-Match: "+tag).status(200)
	}
	s.suspend("lighthouse")
	for path, status := range map[string]int{"lighthouse/badge.svg": 404, "nobody/badge.svg": 404, "%3Cb%3E/badge.svg": 404, "bare-card/badge.svg?style=zqround": 400, "bare-card/badge.svg?style=%3Cb%3E": 400, "bare-card/badge.svg?a=%zz": 400} {
		a := s.openPage("/agents/" + path).status(status)
		if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") || strings.Contains(string(a.Body), "&lt;b") || strings.Contains(innerText(parsePage(t, a.Body)), "zqround") {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	contains(t, "the reason", innerText(parsePage(t, s.openPage("/agents/bare-card/badge.svg?style=zqround").Body)), "must be flat or plain")
}

// preview is what programs that show links, and search engines, read of a page.
type preview struct {
	Meta map[string]string
	Data map[string]any
}

func previewOf(t testing.TB, doc *html.Node) preview {
	t.Helper()
	p := preview{Meta: map[string]string{}}
	for _, n := range elements(doc, "meta") {
		name, _ := attribute(n, "property")
		if name == "" {
			name, _ = attribute(n, "name")
		}
		content, _ := attribute(n, "content")
		if _, twice := p.Meta[name]; twice && name != "" {
			t.Errorf("%s twice", name)
		}
		p.Meta[name] = content
	}
	for _, n := range elements(doc, "script") {
		if text := innerText(n); strings.ContainsAny(text, "<>") {
			t.Errorf("markup in data: %s", text)
		}
		testkit.NoError(t, json.Unmarshal([]byte(innerText(n)), &p.Data))
	}
	return p
}

func (p preview) at(path ...string) any {
	var v any = p.Data
	for _, name := range path {
		v, _ = v.(map[string]any)[name]
	}
	return v
}

func TestPreviews_DescribeThePage(t *testing.T) {
	s := newPeopleSite(t)
	for path, want := range map[string][4]string{ // title, type, beginning of the description, type of the data
		"/":                                {"A public directory for AI agents", "website", "A public directory", "WebSite"},
		"/?lang=zh":                        {"AI 智能体的公共通讯录", "website", "面向", "WebSite"},
		"/agents":                          {"Agents", "website", "A public directory", ""},
		"/agents/harbour-pilot":            {"harbour-pilot", "profile", "claimed by a person · 2 confirmed collaborations · “Berths & tides”", "ProfilePage"},
		"/agents/harbour-pilot?lang=zh":    {"harbour-pilot", "profile", "已有人认领 · 2 次已确认的合作 · “Berths & tides”", "ProfilePage"},
		"/calls/" + s.posts["whole"]:       {"", "article", "harbour-pilot (claimed by a person): “", "DiscussionForumPosting"},
		"/docs/api":                        {"", "website", "A public directory", ""},
		"/calls?tag=c%2B%2B+%26+more&q=ti": {"Calls", "website", "A public directory", ""},
	} {
		a := s.openPage(path).status(200)
		p := previewOf(t, parsePage(t, a.Body))
		kind, _ := p.Data["@type"].(string)
		if want[0] != "" && p.Meta["og:title"] != want[0] || p.Meta["og:title"] == "" || p.Meta["og:type"] != want[1] || !strings.HasPrefix(p.Meta["og:description"], want[2]) || kind != want[3] {
			t.Errorf("%s: %q, %s", path, p.Meta, kind)
		}
		u, err := url.Parse(p.Meta["og:url"])
		if err != nil || p.Meta["og:url"] == "" || s.followLink(p.Meta["og:url"]).Status != 200 || u.IsAbs() == false {
			t.Errorf("%s: address %q", path, p.Meta["og:url"])
		}
		if p.Meta["description"] != p.Meta["og:description"] || p.Meta["og:site_name"] != "Callbook" || p.Meta["twitter:card"] != "summary" || s.followLink(p.Meta["og:image"]).Header.Get("Content-Type") != "image/png" {
			t.Errorf("%s: %q", path, p.Meta)
		}
		if kind != "" && p.Data["@context"] != "https://schema.org" {
			t.Errorf("%s: %v", path, p.Data)
		}
		t.Logf("%s: %d bytes, of which %d describe it", path, len(a.Body), len(regexp.MustCompile(`(?s)<meta property.*</script>`).Find(a.Body)))
	}
	card := s.openPage("/agents/harbour-pilot")
	agent := previewOf(t, parsePage(t, card.Body))
	equal(t, []any{"https://harbour.example.org/verified"}, agent.at("mainEntity", "sameAs"), "sameAs")
	if data := fmt.Sprint(agent); strings.Contains(data, "@example.org") || strings.Contains(data, "@harbour") || !strings.Contains(string(card.Body), "harbour-pilot@example.org") {
		t.Errorf("the description has a mailbox, or the page has none: %s", data)
	}
	search := previewOf(t, parsePage(t, s.openPage("/").Body)).at("potentialAction", "target", "urlTemplate")
	s.followLink(strings.Replace(search.(string), "{search_term_string}", "tide", 1))
	if p := previewOf(t, parsePage(t, s.openPage("/agents/nobody").Body)); len(p.Data) > 0 || p.Meta["og:title"] != "" {
		t.Errorf("an error is described: %+v", p)
	}
}

// gfm renders Markdown as sites do that show the most markup: with HTML, tables, and links made of addresses.
var gfm = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(htmlrenderer.WithUnsafe()))

// openMarkdown requests a page in Markdown, and renders it.
func (s *site) openMarkdown(path string) (text string, doc *html.Node) {
	s.Helper()
	a := s.openPage(path, "Accept: text/markdown").status(200)
	if a.Header.Get("Content-Type") != markdownType || !bytes.HasPrefix(a.Body, []byte("> "+notice.EN)) && !bytes.HasPrefix(a.Body, []byte("> "+notice.ZH)) {
		s.Errorf("%s: %s: %.200s", path, a.Header.Get("Content-Type"), a.Body)
	}
	var rendered bytes.Buffer
	testkit.NoError(s, gfm.Convert(a.Body, &rendered))
	return string(a.Body), parsePage(s, rendered.Bytes())
}

// outline returns the elements of a page in Markdown, with where its links lead.
func outline(doc *html.Node) (lines []string) {
	for _, n := range elements(doc) {
		line := n.Data
		if href, found := attribute(n, "href"); found {
			if _, own := strings.CutPrefix(href, base); own {
				line += " " + addressShape(n, strings.TrimPrefix(href, base))
			} else {
				line += " elsewhere"
			}
		}
		for _, a := range n.Attr {
			if a.Key != "href" {
				line += " " + a.Key
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// quotation returns a text of an agent as pages in Markdown and descriptions of links quote it.
func quotation(text string) string {
	return "“" + regexp.MustCompile(`["“”„‟«»〝〞〟＂″]`).ReplaceAllString(oneLine(text), "'") + "”"
}

// quotations counts the ends of quotations in a page in Markdown. Quoted blocks and code need no marks.
func quotations(doc *html.Node) int {
	n := strings.Count(innerText(doc), "”")
	for _, block := range elements(doc, "blockquote", "code") {
		n -= strings.Count(innerText(block), "”")
	}
	return n
}

func TestMarkdown_HasThePagesData(t *testing.T) {
	s := newPeopleSite(t)
	call := s.posts["whole"]
	for path, want := range map[string][]string{
		"/":                             {"# Find an AI agent", "harbour-pilot", "<" + base + "/>"},
		"/agents?q=tide":                {"# Agents", "(<" + base + "/agents/harbour-pilot>)", "“Tide table”"},
		"/agents/harbour-pilot":         {"“Berths & tides”", "- **Model:** “a model”", "`@harbour-pilot`", "### “Tide table”", "2 confirmed collaborations"},
		"/agents/harbour-pilot?lang=zh": {"> 为小港口安排泊位。\n>\n> 按潮汐计划。", "- **模型:** “a model”"},
		"/calls/" + call:                {"harbour-pilot", "replies"},
		"/guide":                        {"# Callbook: a directory of AI agents", "## The rules"},
		"/docs/api":                     {"`callbook dev`", "# Use the API"},
		"/docs/reference/listPosts":     {"| Name | Type and limits | Meaning |\n| --- | --- | --- |\n", "integer, 1 to 100, default 20"},
		"/docs/reference/registerAgent": {"at most 12 items, each string, 1 to 60 characters"},
	} {
		text, doc := s.openMarkdown(path)
		plain := strings.ReplaceAll(text, `\`, "")
		contains(t, path, plain, want...)
		whole := len(s.openPage(path).Body)
		if n := len(elements(doc, "h1")); n != 1 || len(text) > whole {
			t.Errorf("%s: %d titles, %d bytes instead of %d", path, n, len(text), whole)
		}
		if path == "/agents/harbour-pilot" && strings.Contains(plain, "@example.org") {
			t.Errorf("shows a mailbox: %s", text)
		}
		t.Logf("%s: %d bytes of Markdown, %d of HTML", path, len(text), whole)
	}
	s.openPage("/agents/nobody", "Accept: text/markdown").status(404)
}

// TestMarkdown_EscapesOnlyMarkup: a number at the beginning of a line is no list, and each fact of a line is apart.
func TestMarkdown_EscapesOnlyMarkup(t *testing.T) {
	s := newSite(t)
	key := s.agent("harbour-pilot", "description_en", "2026 tide tables\n.5 m of water\n1. berths\n2) quays\n# locks", "languages", []string{"en"})
	s.send("PUT", "/api/me/offerings", key, map[string]any{"offerings": []any{map[string]any{"title": "Tide table", "deliverable": "Levels", "mode": "free", "tags": []string{"tide"}}}}).status(200)
	text := string(s.openPage("/agents/harbour-pilot", "Accept: text/markdown").status(200).Body)
	for _, want := range []string{
		"\n> 2026 tide tables\n>\n> .5 m of water\n>\n> 1\\. berths\n>\n> 2\\) quays\n>\n> \\# locks\n", "\nfree of charge · #“tide”\n", "\nharbour-pilot · not verified · en · joined 2026-11-20 · active 2026-11-20\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestMarkdown_IsChosenByAccept(t *testing.T) {
	s := newSite(t)
	s.agent("harbour-pilot")
	tags := map[string]bool{} // whether the form with a tag is Markdown
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/html": false, "text/*": false, "text/html,application/xhtml+xml,*/*;q=0.8": false, "text/markdown;q=0": false,
		"text/markdown": true, "text/markdown, text/html;q=0.9, */*;q=0.1": true, "TEXT/Markdown; charset=utf-8": true, "text/markdown;q=0.5, */*": true,
		"text/markdown;q=0.5, text/html": false, "text/html, text/markdown": true, ";;;, text/markdown": true, "text/markdown;q=x": true,
	} {
		a := s.openPage("/agents/harbour-pilot", "Accept: "+accept).status(200)
		if got := a.Header.Get("Content-Type"); (got == markdownType) != want || a.Header.Get("Vary") != "Accept-Encoding, Accept-Language, Accept" {
			t.Errorf("%q: %s, Vary %q", accept, got, a.Header.Get("Vary"))
		}
		tags[a.Header.Get("Etag")] = bytes.HasPrefix(a.Body, []byte("> "))
		s.openPage("/agents/harbour-pilot", "Accept: "+accept, "If-None-Match: "+a.Header.Get("Etag")).status(304)
	}
	if len(tags) != 2 || tags[s.openPage("/agents/harbour-pilot").Header.Get("Etag")] {
		t.Errorf("the forms have the entity tags %v", tags)
	}
}

// describes fails the test unless the card and the call of a hostile author describe themselves with its text, unchanged, and
// their Markdown has no other markup than that of an author who means no harm.
func (c *hostileCrew) describes(benign, w written, lang string) {
	c.Helper()
	card, call := inLanguage("/agents/"+w.handle, lang), inLanguage("/calls/"+w.post, lang)
	agent := previewOf(c, parsePage(c, c.openPage(card).Body))
	said := []any{quotation(w.text), w.text, w.text, []any{w.text}}
	_, quoted, _ := strings.Cut(agent.Meta["og:description"], "“")
	equal(c, said, []any{"“" + quoted, agent.at("mainEntity", "name"), agent.at("mainEntity", "description"), agent.at("mainEntity", "featureList")}, "%s", card)
	post := previewOf(c, parsePage(c, c.openPage(call).Body))
	_, quoted, _ = strings.Cut(post.Meta["og:description"], "“")
	equal(c, []any{said[0], w.text, w.text}, []any{"“" + quoted, post.at("headline"), post.at("text")}, "%s", call)
	for _, paths := range [][2]string{{card, "/agents/" + benign.handle}, {call, "/calls/" + benign.post}} {
		_, doc := c.openMarkdown(paths[0])
		_, plain := c.openMarkdown(inLanguage(paths[1], lang))
		equal(c, outline(plain), outline(doc), "%s, in Markdown, of %q", paths[0], w.text)
		equal(c, quotations(plain), quotations(doc), "quotations of %s, of %q", paths[0], w.text)
		if n := strings.Count(oneLine(innerText(doc)), quotation(w.text)); n < 2 {
			c.Errorf("%s: %q stands %d times in %s", paths[0], w.text, n, innerText(doc))
		}
	}
	badge := string(c.openPage("/agents/" + w.handle + "/badge.svg?lang=" + lang).status(200).Body)
	if want := string(c.openPage("/agents/" + benign.handle + "/badge.svg?lang=" + lang).Body); strings.ReplaceAll(badge, w.handle, benign.handle) != want {
		c.Errorf("the badge of %q: %s", w.text, badge)
	}
}

// TestDiscovery_HostileTextStaysText: in link previews, JSON-LD, Markdown and badges.
func TestDiscovery_HostileTextStaysText(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	c := newHostileCrew(t)
	c.write([]string{"Plain words"})
	benign := c.wrote[0]
	texts := append(variedHostileTexts(), "[x](//evil.example)", "![x](https://evil.example/x.png)", "# heading", "- item", "1. item", "1) item", "> quote", "```", "`code`", "***", "he said ” and “ then \"x\" „y‟ «z» 〝w〞", "---", "===",
		"at https://evil.example/ now", "www.evil.example", "x@evil.example", "mailto:x@evil.example", "<https://evil.example>", "[x]: //evil.example", "| a | b |", "~~x~~", "**x**", "__x__", "- [ ] x", "&copy;", "\\", "a\\*b*", "$x$", "+ x", "* x", "[^1]: x", "ftp://evil.example")
	for batch := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(texts))), 20) {
		c.write(batch)
	}
	for i, w := range c.wrote[1:] {
		c.describes(benign, w, []string{"en", "zh"}[i%2])
	}
	t.Logf("%d texts", len(c.wrote)-1)
}

func TestFeed_FollowsAnAuthorAndAQuery(t *testing.T) {
	s := newSite(t)
	pilot, gauge := s.agent("harbour-pilot"), s.agent("tide-gauge")
	s.post(pilot, "Tides of the harbour", "body", "Hourly levels.")
	s.post(pilot, "Berths", "body", "Nothing else.")
	newest := s.post(gauge, "Levels", "body", "Of the tides at noon.")
	s.post(gauge, "Boats", "body", "Of the harbour.", "kind", "offering")
	titles := func(query string) (titles []string, feed atomFeed) {
		feed = readFeed(t, s.openPage("/calls.atom?"+query).status(200).Body)
		for _, e := range feed.Entries {
			titles = append(titles, e.Title.Text)
		}
		return titles, feed
	}
	for query, want := range map[string][]string{
		"author=harbour-pilot":                   {"Berths", "Tides of the harbour"},
		"author=%40Harbour-Pilot":                {"Berths", "Tides of the harbour"},
		"author=harbour-pilot&q=tides":           {"Tides of the harbour"},
		"q=tides":                                {"Levels", "Tides of the harbour"}, // newest first, though the other has it in the title
		"q=tides+harbour":                        {"Tides of the harbour"},           // what matches every word alone
		"q=harbour&kind=offering":                {"Boats"},
		"q=%21":                                  nil,
		"author=nobody-here":                     nil,
		"author=harbour-pilot&kind=offering&x=y": nil,
	} {
		got, feed := titles(query)
		equal(t, want, got, "%s", query)
		if !strings.HasPrefix(feed.Title, "Callbook: newest calls · ") || !strings.HasPrefix(feed.ID, base+"/calls.atom?") {
			t.Errorf("%s: %q, %s", query, feed.Title, feed.ID)
		}
	}
	if doc := parsePage(t, s.openPage("/agents/harbour-pilot").Body); !slices.ContainsFunc(elements(doc, "link"), func(n *html.Node) bool {
		href, _ := attribute(n, "href")
		return href == "/calls.atom?author=harbour-pilot"
	}) {
		t.Error("the page of an agent does not name its feed")
	}
	first := s.sendRaw("GET", "/api/posts?q=tides&order=newest&limit=1").status(200)
	if rest := s.sendRaw("GET", first.text("next")).status(200); first.text("posts", 0, "id") != newest || rest.text("posts", 0, "title") != "Tides of the harbour" || rest.text("next") != "" {
		t.Errorf("by time: %s then %s", first.Body, rest.Body)
	}
	s.suspend("harbour-pilot")
	if got, _ := titles("author=harbour-pilot"); got != nil {
		t.Errorf("the feed of a suspended agent: %q", got)
	}
}
