package server

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/store/domain"
	storetext "callbook/store/text"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// hostileCrew is many agents, each of which has written one text into every field.
type hostileCrew struct {
	*site
	gauge domain.Caller // confirms their work
	wrote []written
	pages int             // that were read
	shown map[string]bool // texts that a page quoted as they were written
	fed   map[string]bool // texts that the feed did
}

type written struct{ text, handle, post string }

func newHostileCrew(t testing.TB) *hostileCrew {
	s := newSite(t)
	c := &hostileCrew{site: s, gauge: s.registerFull(domain.Registration{Handle: "tide-gauge"}), shown: map[string]bool{}, fed: map[string]bool{}}
	c.createPost(c.gauge, domain.PostDraft{Kind: "announce", Title: "Plain", Body: "Plain"})
	return c
}

// write has new agents write these texts, at once.
func (c *hostileCrew) write(texts []string) {
	c.Helper()
	first := len(c.wrote)
	c.wrote = append(c.wrote, make([]written, len(texts))...)
	var all sync.WaitGroup
	for i, text := range texts {
		handle := fmt.Sprintf("crew-%04d", first+i)
		all.Go(func() { c.wrote[first+i] = written{text, handle, c.writeAll(handle, text)} })
	}
	all.Wait()
}

// writeAll bypasses the checks of the API, which would reject some texts as addresses: texts that
// an older program accepted must do no harm either.
func (c *hostileCrew) writeAll(handle, text string) (post string) {
	caller := c.registerFull(domain.Registration{Handle: handle, Name: text, Owner: text, Profile: domain.Profile{
		Tagline: text, DescriptionEN: text, DescriptionZH: text, Capabilities: []string{text}, Languages: []string{"en"}, Homepage: text, Model: text,
	}})
	menu := domain.Menu{Offerings: []domain.OfferingDraft{{Title: text, Deliverable: text, Mode: "free", ForWhom: text, NotDoing: text, TurnaroundDays: 3, Tags: []string{text, "berths"}}}}
	testkit.Must(c.store.ReplaceOfferings(c.Context(), caller, menu))(c)
	testkit.Must(c.store.UpdateAgent(c.Context(), caller, func(s *domain.Settings) error {
		s.ContactPolicy.Note = &text
		return nil
	}))(c)
	c.addLink(caller, text, domain.LinkCheck{})
	c.addLink(caller, "https://harbour.example.org/"+strings.ReplaceAll(text, "%", ""), domain.LinkCheck{Kind: "website", Verified: true, Proof: "mention"})
	c.recordCollab(caller, c.gauge, text)
	post = c.createPost(caller, domain.PostDraft{Kind: "seeking", Title: text, Body: text, Deliverable: text, Constraints: text, Languages: []string{"en"}, Tags: []string{text}})
	c.createReply(caller, post, text)
	return post
}

// of returns the author of the text that an element quotes: the agent of its entry in a list, or
// that of the whole page.
func (c *hostileCrew) of(n *html.Node, whole written) written {
	for ; n != nil; n = n.Parent {
		if !isEntry(n) {
			continue
		}
		for _, name := range elements(n) {
			if hasClass(name, "callsign") {
				handle := strings.TrimSpace(innerText(name))
				i := slices.IndexFunc(c.wrote, func(w written) bool { return w.handle == handle })
				return c.wrote[max(i, 0)]
			}
		}
	}
	return whole
}

// read opens a page and fails the test unless it quotes every text unchanged.
func (c *hostileCrew) read(path string, whole written) *html.Node {
	c.Helper()
	c.pages++
	a := c.openPage(path).status(200)
	if err := malformed(a.Body); err != nil {
		c.Errorf("%s, of %q: %v", path, whole.text, err)
	}
	doc := parsePage(c, a.Body)
	for _, q := range elements(doc, "q", "blockquote") {
		text := c.of(q, whole).text
		if got := innerText(q); got != text && got != oneLine(text) && got != lowered(text) && got != "Plain" && got != "berths" && got != "Agent tide-gauge" {
			c.Errorf("%s: %q is shown as %q", path, text, got)
		} else if got == text {
			c.shown[text] = true
		}
	}
	for _, a := range elements(doc, "a") {
		if hasClass(a.Parent.Parent, "tags") {
			c.isTag(a, path, whole.text)
		}
	}
	equal(c, 1, notices(doc), "%s, of %q: notices", path, whole.text)
	return doc
}

// isTag checks a link to a search for a capability or tag.
func (c *hostileCrew) isTag(a *html.Node, path, text string) {
	c.Helper()
	href, _ := attribute(a, "href")
	u, shown := testkit.Must(url.Parse(href))(c), innerText(a)
	sought := u.Query().Get(map[string]string{"/agents": "capability", "/calls": "tag"}[u.Path])
	if sought != shown || shown != text && shown != lowered(text) {
		c.Errorf("%s: the tag %q is shown as %q and leads to %s", path, text, shown, href)
	}
}

// same fails the test unless a page has the structure that it has with texts that mean no harm.
func (c *hostileCrew) same(want []string, doc *html.Node, what string) {
	c.Helper()
	if got := structure(doc); !slices.Equal(want, got) {
		c.Errorf("%s changes the page:\n%s", what, cmp.Diff(want, got))
	}
}

// likeFeed checks the feed of the newest calls.
func (c *hostileCrew) likeFeed(want []string) {
	c.Helper()
	body := c.openPage("/calls.atom").status(200).Body
	if got := feedShape(c, body); !slices.Equal(want, got) {
		c.Errorf("the feed is changed:\n%s", cmp.Diff(want, got))
	}
	for _, e := range readFeed(c, body).Entries {
		i := slices.IndexFunc(c.wrote, func(w written) bool { return w.handle == e.AuthorName })
		text := c.wrote[i].text
		equal(c, []string{text, oneLine(text), lowered(text)}, []string{e.Title.Text, e.Summary.Text, e.Categories[1].Term}, "the feed, of %q", text)
		c.fed[text] = true
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
func lowered(text string) string { return storetext.Normalize(strings.ToLower(text)) }

// longLists are those that go on for pages.
var longLists = []string{"/agents", "/agents?q=berths", "/calls", "/calls?kind=seeking"}

// benignShapes returns the structures of the pages of a crew that means no harm, by
// language and path; of a list, that of its second page too.
func benignShapes(t testing.TB) map[string][]string {
	c := newHostileCrew(t)
	c.write(slices.Repeat([]string{"Plain words"}, 50))
	shapes := map[string][]string{"feed": feedShape(t, c.openPage("/calls.atom").Body)}
	for _, lang := range []string{"en", "zh"} {
		w := c.wrote[0]
		shape := func(kind, path string) *html.Node {
			doc := parsePage(t, c.openPage(path).status(200).Body)
			shapes[lang+" "+kind] = structure(doc)
			return doc
		}
		shape("card", inLanguage("/agents/"+w.handle, lang))
		shape("call", inLanguage("/calls/"+w.post, lang))
		shape("home", inLanguage("/", lang))
		for _, list := range longLists {
			shape(list+", next", nextLink(shape(list, inLanguage(list, lang))))
		}
	}
	return shapes
}

func TestPages_HostileTextStaysText(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	want, c := benignShapes(t), newHostileCrew(t)
	texts := variedHostileTexts()
	if len(texts) < proof.Rounds(25, 300, 300) {
		t.Fatalf("only %d hostile texts", len(texts))
	}
	languages := []string{"en", "zh"}
	batches := 0
	for batch := range slices.Chunk(texts, 4) { // as many calls as the home page shows
		c.write(batch)
		if batches++; batches > 1 { // the home page is full
			lang := languages[batches%2]
			c.same(want[lang+" home"], c.read(inLanguage("/", lang), written{}), fmt.Sprintf("%q", batch))
		}
		if batches%5 == 0 { // as many calls as the feed holds
			c.likeFeed(want["feed"])
		}
	}
	c.likeFeed(want["feed"])
	for i, w := range c.wrote {
		lang := languages[i%2]
		c.same(want[lang+" card"], c.read(inLanguage("/agents/"+w.handle, lang), w), w.text)
		c.same(want[lang+" call"], c.read(inLanguage("/calls/"+w.post, lang), w), w.text)
	}
	for _, list := range longLists {
		for _, lang := range languages {
			c.readList(want, list, lang)
		}
	}
	if len(c.shown) != len(texts) || len(c.fed) != len(texts) {
		t.Errorf("pages quoted %d and the feed %d of %d texts", len(c.shown), len(c.fed), len(texts))
	}
	proof.Figure(t, "texts on pages", len(c.shown))
	proof.Figure(t, "texts in the feed", len(c.fed))
	proof.Figure(t, "pages", c.pages)
}

// readList reads a list to its end. Its last page is shorter than that of others.
func (c *hostileCrew) readList(want map[string][]string, list, lang string) {
	c.Helper()
	kind := lang + " " + list
	for path := inLanguage(list, lang); path != ""; kind = lang + " " + list + ", next" {
		doc := c.read(path, written{})
		if next := nextLink(doc); next != "" {
			c.same(want[kind], doc, path)
			path = next
		} else {
			path = ""
		}
	}
}

// TestPages_CapabilitiesMakeNoPageAnother: pages are cached by their parts, of which the last one on /agents is what
// agents can do.
func TestPages_CapabilitiesMakeNoPageAnother(t *testing.T) {
	const markdown = "text/markdown; charset=utf-8"
	s := newSite(t)
	older := []string{s.verified("older-1"), s.verified("older-2")}
	have := func(capabilities ...string) {
		for _, key := range older {
			s.send("PATCH", "/api/me", key, map[string]any{"capabilities": capabilities}).status(200)
		}
	}
	have("tides")
	for i := range 20 {
		s.agent(fmt.Sprintf("newer-%d", i))
	}
	equal(t, markdown, s.send("GET", "/agents", "", nil, "Accept: text/markdown").status(200).Header.Get("Content-Type"), "the type of the page in Markdown")
	have("tides", markdown)
	contains(t, "the page", string(s.openPage("/agents", "Accept: text/html").status(200).Body), "<html")
}

func TestPages_HostileQueriesStayText(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newSite(t)
	texts := variedHostileTexts()
	// Each ends in one way whatever the text is.
	questions := []struct {
		path   string
		status int
	}{
		{"/agents?q=T&capability=T&utm_source=T&T=1", 200}, {"/calls?q=T&tag=T&lang=T", 200}, {"/calls.atom?tag=T&q=T", 200},
		{"/agents?language=TT!&cursor=T&min_level=T!", 400}, {"/calls?kind=T&open=T!&lang=zh", 400}, {"/agents/T!", 404}, {"/T/T", 404},
	}
	for _, question := range questions {
		ask := func(text string) (shape []string, shown string) {
			path, query, _ := strings.Cut(question.path, "?")
			path = strings.ReplaceAll(path, "T", url.PathEscape(text)) + "?" + strings.ReplaceAll(query, "T", url.QueryEscape(text))
			a := s.openPage(path, "Accept: text/html").status(question.status)
			if strings.HasPrefix(question.path, "/calls.atom") && question.status == 200 {
				return feedShape(t, a.Body), ""
			}
			if err := malformed(a.Body); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			doc := parsePage(t, a.Body)
			equal(t, 1, notices(doc), "%s: notices", path)
			return structure(doc), innerText(doc)
		}
		want, usual := ask("plain")
		for _, text := range texts {
			got, shown := ask(text)
			if !slices.Equal(want, got) {
				t.Errorf("%s with %q:\n%s", question.path, text, cmp.Diff(want, got))
			}
			if len(text) > 2 && strings.Contains(shown, text) && !strings.Contains(usual, text) {
				t.Errorf("%s repeats %q", question.path, text)
			}
		}
	}
	proof.Figure(t, "texts in queries", len(texts))
}
