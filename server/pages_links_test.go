package server

import (
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/server/web"
)

// crawler follows every link of the pages in one language, which the address names or the browser
// requests.
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
	u := must(url.Parse(address))(c)
	a := c.openPage(address, "Accept-Language: "+c.lang).status(200)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		return
	}
	doc := parsePage(c, a.Body)
	for _, n := range elements(doc) {
		if method, _ := attribute(n, "method"); n.Data == "form" && method == "" {
			c.submit(address, n)
		}
		if href, ok := attribute(n, "href"); ok && !strings.HasPrefix(href, "#") {
			c.follow(u, n, href)
		}
	}
}

// follow checks the target of a link, and opens it.
func (c *crawler) follow(from *url.URL, n *html.Node, href string) {
	to := from.ResolveReference(must(url.Parse(strings.TrimPrefix(href, c.origin)))(c))
	if to.Host != "" {
		c.leave(from, n, href)
		return
	}
	lang := ""
	if c.chosen {
		lang = c.lang
	}
	_, switches := attribute(n, "hreflang")
	switch {
	case switches:
		c.switches(from, to)
		return // the other crawler's
	case strings.HasPrefix(to.Path, "/skill"):
		lang = c.lang
	case !web.Owns(to.Path):
		lang = ""
	}
	if got := to.Query().Get("lang"); got != lang {
		c.Errorf("%s, read in %s: lang %q in the link to %s", from, c.lang, got, to)
	}
	if to.Fragment != "" && !strings.Contains(string(c.openPage(to.Path).Body), ` id="`+to.Fragment+`"`) {
		c.Errorf("%s: no such part: %s", from, href)
	}
	c.open(to.String())
}

// leave checks a link to another site: its rel attribute, and that it shows the host.
func (c *crawler) leave(from *url.URL, n *html.Node, href string) {
	c.outside++
	rel, _ := attribute(n, "rel")
	words := strings.Fields(rel)
	host := must(url.Parse(href))(c).Host
	for _, want := range []string{"nofollow", "noopener", "ugc"} {
		if !slices.Contains(words, want) {
			c.Errorf("%s: rel %q of the link to %s", from, rel, href)
		}
	}
	if n.Data != "a" || !strings.HasPrefix(href, "https://") && !strings.HasPrefix(href, "http://") || !strings.Contains(innerText(n), host) {
		c.Errorf("%s: %s to %s is shown as %q", from, n.Data, href, innerText(n))
	}
	if _, ok := attribute(n, "target"); ok {
		c.Errorf("%s: the link to %s opens a window", from, href)
	}
}

// switches checks that the link to the other language leads to the same page with
// the same search.
func (c *crawler) switches(from, to *url.URL) {
	want := from.Query()
	want.Set("lang", map[string]string{"en": "zh", "zh": "en"}[c.lang])
	if diff := cmp.Diff(want, to.Query()); from.Path != to.Path || diff != "" {
		c.Errorf("%s switches to %s: %s", from, to, diff)
	}
}

// submit submits a search form unchanged, which must request the same page.
func (c *crawler) submit(from string, form *html.Node) {
	method, _ := attribute(form, "method")
	action, _ := attribute(form, "action")
	query := url.Values{}
	for _, n := range elements(form, "input", "select") {
		name, _ := attribute(n, "name")
		value, _ := attribute(n, "value")
		kind, _ := attribute(n, "type")
		_, checked := attribute(n, "checked")
		if n.Data == "select" {
			value = selected(n)
		}
		if kind != "checkbox" || checked {
			query.Set(name, value)
		}
	}
	address := action + "?" + query.Encode()
	c.openPage(address, "Accept-Language: "+c.lang).status(200)
	for name, values := range query {
		if values[0] == "" {
			delete(query, name)
		}
	}
	u := must(url.Parse(from))(c)
	want := u.Query()
	want.Del("cursor")
	if diff := cmp.Diff(want, query); method != "" || u.Path == action && diff != "" {
		c.Errorf("%s: the form (%s) asks for %s", from, method, diff)
	}
}

// selected returns the selected value of a select element.
func selected(choice *html.Node) (value string) {
	for i, option := range elements(choice, "option") {
		if _, ok := attribute(option, "selected"); ok || i == 0 {
			value, _ = attribute(option, "value")
		}
	}
	return value
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
