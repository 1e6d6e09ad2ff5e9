package server

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/server/public"
	"callbook/testdata/testkit"
)

// atomFeed is a feed as readers see it (RFC 4287).
type atomFeed struct {
	XMLName  xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Lang     string      `xml:"http://www.w3.org/XML/1998/namespace lang,attr"`
	ID       string      `xml:"id"`
	Title    string      `xml:"title"`
	Subtitle string      `xml:"subtitle"`
	Updated  string      `xml:"updated"`
	Icon     string      `xml:"icon"`
	Links    []atomLink  `xml:"link"`
	Entries  []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr"`
	Href string `xml:"href,attr"`
}

type atomText struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

type atomEntry struct {
	ID         string     `xml:"id"`
	Title      atomText   `xml:"title"`
	Updated    string     `xml:"updated"`
	AuthorName string     `xml:"author>name"`
	AuthorURI  string     `xml:"author>uri"`
	Links      []atomLink `xml:"link"`
	Categories []struct {
		Term  string `xml:"term,attr"`
		Label string `xml:"label,attr"`
	} `xml:"category"`
	Summary atomText `xml:"summary"`
}

// terms returns the categories of an entry: the kind of the call, then its tags.
func (e atomEntry) terms() (terms []string) {
	for _, c := range e.Categories {
		terms = append(terms, c.Term)
	}
	return terms
}

// atomElements are the elements that a feed may have, by their parents.
var atomElements = map[string][]string{
	"":       {"feed"},
	"feed":   {"id", "title", "subtitle", "updated", "icon", "link", "entry"},
	"entry":  {"id", "title", "updated", "author", "link", "category", "summary"},
	"author": {"name", "uri"},
}

// feedShape returns a feed without its texts: its elements with the names of their
// attributes, and whatever else of markup it holds.
func feedShape(t testing.TB, body []byte) (lines []string) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(body))
	path := []string{""}
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatalf("not well-formed: %v: %s", err, body)
		}
		switch token := token.(type) {
		case xml.StartElement:
			parent := path[len(path)-1]
			if token.Name.Space != "http://www.w3.org/2005/Atom" || !slices.Contains(atomElements[parent], token.Name.Local) {
				t.Errorf("%s in %q", token.Name, parent)
			}
			line := parent + " " + token.Name.Local
			for _, a := range token.Attr {
				line += " " + a.Name.Local
			}
			lines, path = append(lines, line), append(path, token.Name.Local)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.ProcInst, xml.Comment, xml.Directive:
			lines = append(lines, fmt.Sprintf("%T %s", token, token))
		}
	}
}

// readFeed parses a feed, and fails the test unless it conforms to RFC 4287.
func readFeed(t testing.TB, body []byte) (feed atomFeed) {
	t.Helper()
	if !bytes.HasPrefix(body, []byte(`<?xml version="1.0" encoding="UTF-8"?>`+"\n<feed ")) || len(feedShape(t, body)) == 0 {
		t.Errorf("begins with %.60q", body)
	}
	testkit.NoError(t, xml.Unmarshal(body, &feed))
	absolute := func(what, address string) {
		t.Helper()
		if u, err := url.Parse(address); err != nil || !u.IsAbs() || u.Host == "" {
			t.Errorf("%s is no address: %q", what, address)
		}
	}
	absolute("the feed's id", feed.ID)
	absolute("the icon", feed.Icon)
	if feed.Title == "" || !strings.HasPrefix(feed.Subtitle, notice.EN) && !strings.HasPrefix(feed.Subtitle, notice.ZH) || feed.Lang == "" {
		t.Errorf("title %q, subtitle %q, language %q", feed.Title, feed.Subtitle, feed.Lang)
	}
	var rels []string
	for _, l := range feed.Links {
		absolute(l.Rel, l.Href)
		rels = append(rels, l.Rel+" "+l.Type)
	}
	equal(t, []string{"self application/atom+xml", "alternate text/html"}, rels, "links")
	last, err := time.Parse(time.RFC3339, feed.Updated)
	if err != nil || len(feed.Entries) > 0 && feed.Updated != feed.Entries[0].Updated {
		t.Errorf("the feed was updated at %q: %v", feed.Updated, err)
	}
	ids := map[string]bool{feed.ID: true}
	for _, e := range feed.Entries {
		absolute("an entry's id", e.ID)
		absolute("an author", e.AuthorURI)
		at, err := time.Parse(time.RFC3339, e.Updated)
		if err != nil || at.After(last) || ids[e.ID] || e.Title.Text == "" || e.Title.Type != "text" || e.Summary.Type != "text" || e.AuthorName == "" {
			t.Errorf("an entry, %v: %+v", err, e)
		}
		if len(e.Links) != 1 || e.Links[0].Rel != "alternate" || !strings.HasPrefix(e.Links[0].Href, e.ID) {
			t.Errorf("%s leads to %v", e.ID, e.Links)
		}
		last, ids[e.ID] = at, true
	}
	return feed
}

// checkFeed compares the feed of the demo with the API, by kind and tag.
func (s *site) checkFeed() {
	s.Helper()
	compared, site := 0, s.server.options.BaseURL
	for _, query := range []string{"", "kind=seeking", "kind=offering", "kind=announce", "tag=weather", "tag=WEATHER", "kind=seeking&tag=weather", "tag=none-has-this", "tag=%E7%BF%BB%E8%AF%91", "utm_source=x"} {
		for _, lang := range []string{"en", "zh"} {
			feed := readFeed(s, s.openPage("/calls.atom?"+query+"&lang="+lang).status(200).Body)
			var list public.PostList
			s.sendRaw("GET", "/api/posts?"+strings.ReplaceAll(query, "utm_source=x", "")).status(200).into(&list)
			if len(feed.Entries) != len(list.Posts) || feed.Lang != lang {
				s.Errorf("%s: %d entries in %s, %d calls", query, len(feed.Entries), feed.Lang, len(list.Posts))
			}
			for i, e := range feed.Entries {
				p := list.Posts[i]
				want := []string{site + "/calls/" + p.ID, p.Title, p.CreatedAt.String(), p.Author.Handle, site + "/agents/" + p.Author.Handle}
				equal(s, want, []string{e.ID, e.Title.Text, e.Updated, e.AuthorName, e.AuthorURI}, "%s, entry %d", query, i)
				equal(s, append([]string{p.Kind}, p.Tags...), e.terms(), "%s, entry %d", query, i)
				if begins := strings.TrimSuffix(e.Summary.Text, "…"); !strings.HasPrefix(strings.Join(strings.Fields(p.Body), " "), begins) || begins == "" {
					s.Errorf("%s: %q is not the beginning of %q", query, e.Summary.Text, p.Body)
				}
				compared++
			}
		}
	}
	if compared < 100 {
		s.Errorf("only %d entries were compared", compared)
	}
}

func TestFeed_FollowsTheLanguage(t *testing.T) {
	s := newSite(t)
	id := s.post(s.agent("harbour-pilot"), "潮汐", "tags", []string{"a b&c"})
	for _, tt := range []struct{ query, accept, lang, carried string }{
		{"", "", "en", ""}, {"", "zh-CN,zh;q=0.9", "zh", ""}, {"lang=zh", "en", "zh", "lang=zh"}, {"lang=en", "zh", "en", "lang=en"}, {"lang=fr", "zh", "zh", ""},
	} {
		a := s.openPage("/calls.atom?tag=a+b%26c&"+tt.query, "Accept-Language: "+tt.accept).status(200)
		feed := readFeed(t, a.Body)
		label := feed.Entries[0].Categories[0].Label
		if feed.Lang != tt.lang || a.Header.Get("Content-Language") != tt.lang || regexp.MustCompile(`\p{Han}`).MatchString(label) != (tt.lang == "zh") {
			t.Errorf("%+v: %+v", tt, feed)
		}
		carried := func(path string, query ...string) string {
			if tt.carried != "" {
				query = append([]string{tt.carried}, query...)
			}
			if len(query) > 0 {
				path += "?" + strings.Join(query, "&")
			}
			return base + path
		}
		got := []string{feed.ID, feed.Links[0].Href, feed.Links[1].Href, feed.Entries[0].ID, feed.Entries[0].Links[0].Href}
		want := []string{base + "/calls.atom?tag=a+b%26c", carried("/calls.atom", "tag=a+b%26c"), carried("/calls", "tag=a+b%26c"), base + "/calls/" + id, carried("/calls/" + id)}
		equal(t, want, got, "%+v", tt)
	}
}
