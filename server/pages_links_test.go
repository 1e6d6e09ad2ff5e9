package server

import (
	"net/url"
	"strings"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/server/web"
	"callbook/testdata/testkit"
)

// crawler follows every link of the pages in one language, which the address names or the browser requests.
type crawler struct {
	*site
	origin  string
	lang    string
	chosen  bool
	seen    map[string]bool
	shapes  map[string]int // how many of a kind were opened
	outside int
}

// opensOfAShape is the maximum number of similar pages that a crawler opens.
const opensOfAShape = 12

func (c *crawler) open(address string) {
	address, _, _ = strings.Cut(address, "#")
	if c.seen[address] {
		return
	}
	c.seen[address] = true
	shape := addressShape(&html.Node{}, address)
	if c.shapes[shape]++; c.shapes[shape] <= opensOfAShape {
		c.read(address)
	}
}

func (c *crawler) read(address string) {
	u := testkit.Must(url.Parse(address))(c)
	a := c.openPage(address, "Accept-Language: "+c.lang).status(200)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		return
	}
	for _, n := range elements(parsePage(c, a.Body)) {
		if href, ok := attribute(n, "href"); ok && !strings.HasPrefix(href, "#") {
			c.follow(u, n, href)
		}
	}
}

// follow checks the target of a link, and opens it. A link to another site has a rel attribute, and shows the host.
func (c *crawler) follow(from *url.URL, n *html.Node, href string) {
	to := from.ResolveReference(testkit.Must(url.Parse(strings.TrimPrefix(href, c.origin)))(c))
	if to.Path == "/dev" {
		return // its links of mails are good once
	}
	if to.Host != "" {
		c.outside++
		if rel, _ := attribute(n, "rel"); !strings.Contains(rel, "nofollow") || !strings.Contains(rel, "noopener") || !strings.Contains(rel, "ugc") || !strings.Contains(innerText(n), to.Host) {
			c.Errorf("%s: rel %q of the link to %s, shown as %q", from, rel, href, innerText(n))
		}
		return
	}
	lang := ""
	if c.chosen {
		lang = c.lang
	}
	if _, switches := attribute(n, "hreflang"); switches {
		want := from.Query()
		want.Set("lang", map[string]string{"en": "zh", "zh": "en"}[c.lang])
		if diff := cmp.Diff(want, to.Query()); from.Path != to.Path || diff != "" {
			c.Errorf("%s switches to %s: %s", from, to, diff)
		}
		return // the other crawler's
	}
	switch {
	case strings.HasPrefix(to.Path, "/skill"):
		lang = c.lang
	case !web.Owns(to.Path):
		lang = ""
	}
	equal(c, lang, to.Query().Get("lang"), "%s, read in %s: lang in the link to %s", from, c.lang, to)
	if to.Fragment != "" && !strings.Contains(string(c.openPage(to.Path).Body), ` id="`+to.Fragment+`"`) {
		c.Errorf("%s: no such part: %s", from, href)
	}
	c.open(to.String())
}

// crawl opens all pages that can be reached from these. origin is the address of the site.
func (s *site) crawl(origin, lang string, chosen bool, starts ...string) {
	s.Helper()
	c := &crawler{site: s, origin: origin, lang: lang, chosen: chosen, seen: map[string]bool{}, shapes: map[string]int{}}
	for _, start := range starts {
		if chosen {
			start = inLanguage(start, lang)
		}
		c.read(canonicalQuery(start))
	}
	if len(c.seen) < 100 || c.outside < 5 {
		s.Errorf("in %s: only %d links, %d to elsewhere", lang, len(c.seen), c.outside)
	}
}

// canonicalQuery returns an address as links write it, without empty fields.
func canonicalQuery(address string) string {
	u, _ := url.Parse(address)
	query := u.Query()
	for name, values := range query {
		if values[0] == "" {
			delete(query, name)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}
