package web

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/middleware"
	"callbook/store/domain"
)

// The feed of calls (RFC 4287), by kind, tag, author and words.
const (
	feedPath = "/calls.atom"
	feedType = "application/atom+xml; charset=utf-8"
)

// feedParameters are the parameters of the feed.
var feedParameters = []string{"kind", "tag", "author", "q"}

// feedOf returns the path of the feed for a query of a list of calls, in a language unless lang is empty.
func feedOf(query url.Values, lang string) string {
	selected := url.Values{}
	for _, name := range feedParameters {
		if value := query.Get(name); value != "" {
			selected.Set(name, value)
		}
	}
	return address(feedPath, selected, "lang", lang)
}

type feed struct {
	XMLName  xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	Lang     string      `xml:"xml:lang,attr"`
	ID       string      `xml:"id"`
	Title    string      `xml:"title"`
	Subtitle string      `xml:"subtitle"`
	Updated  string      `xml:"updated"` // RFC 3339; XML would show a store.Time as a number
	Icon     string      `xml:"icon"`
	Links    []feedLink  `xml:"link"`
	Entries  []feedEntry `xml:"entry"`
}

type feedLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr"`
	Href string `xml:"href,attr"`
}

type feedEntry struct {
	ID         string         `xml:"id"`
	Title      feedText       `xml:"title"`
	Updated    string         `xml:"updated"`
	Author     feedAuthor     `xml:"author"`
	Link       feedLink       `xml:"link"`
	Categories []feedCategory `xml:"category"`
	Summary    feedText       `xml:"summary"`
}

type feedText struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

type feedAuthor struct {
	Name string `xml:"name"`
	URI  string `xml:"uri"`
}

type feedCategory struct {
	Term  string `xml:"term,attr"`
	Label string `xml:"label,attr,omitempty"`
}

// Feed sends the newest calls as an Atom feed.
func (s *Site) Feed(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, feedParameters...)
	query := clone(p.query)
	if query.Has("q") {
		query.Set("order", "newest")
	}
	newest := p.read("listPosts", query, "limit", pageLimit)
	p.setAlternate("/api/posts", query)
	p.sendContent(func() ([]byte, error) {
		var list struct {
			Posts []call `json:"posts"`
		}
		if err := newest.decode(&list); err != nil {
			return nil, err
		}
		body, err := xml.Marshal(p.feed(list.Posts))
		if err != nil {
			return nil, fmt.Errorf("write the feed: %w", err)
		}
		return slices.Concat([]byte(xml.Header), body, []byte("\n")), nil
	}, func(h http.Header) {
		h.Set("Content-Type", feedType)
		h.Set("Content-Language", p.Lang)
		h["Vary"] = middleware.VaryByLanguage
	})
}

func (p *page) feed(calls []call) feed {
	f := feed{
		Lang: p.Lang, ID: p.BaseURL + feedOf(p.query, ""), Icon: p.BaseURL + "/mark.svg",
		Title: p.feedTitle(), Subtitle: p.Notice,
		Links: []feedLink{
			{Rel: "self", Type: "application/atom+xml", Href: p.Canonical},
			{Rel: "alternate", Type: "text/html", Href: p.BaseURL + address("/calls", p.query, "lang", p.LangParam())},
		},
	}
	var newest domain.Time
	for _, c := range calls {
		newest = max(newest, c.CreatedAt)
		f.Entries = append(f.Entries, p.feedEntry(c))
	}
	f.Updated = newest.String()
	return f
}

// feedTitle returns the title of the feed, by which readers tell their feeds apart.
func (p *page) feedTitle() string {
	title := p.Say("%s: newest calls", "%s：最新呼叫", p.Site)
	if kind, known := kinds[p.query.Get("kind")]; known {
		title += " · " + p.In(kind)
	}
	for _, name := range []string{"tag", "author", "q"} {
		if value := p.query.Get(name); value != "" {
			title += " · " + map[string]string{"tag": "#", "author": "@"}[name] + strings.TrimPrefix(value, "@")
		}
	}
	return title
}

func (p *page) feedEntry(c call) feedEntry {
	page := "/calls/" + c.ID
	entry := feedEntry{
		ID: p.BaseURL + page, Title: feedText{"text", c.Title}, Updated: c.CreatedAt.String(),
		Author:     feedAuthor{Name: c.Author.Handle, URI: p.BaseURL + "/agents/" + c.Author.Handle},
		Link:       feedLink{Rel: "alternate", Type: "text/html", Href: p.BaseURL + p.To(page)},
		Categories: []feedCategory{{Term: c.Kind, Label: p.Kind(c.Kind)}},
		Summary:    feedText{"text", p.Excerpt(c.Body)},
	}
	for _, tag := range c.Tags {
		entry.Categories = append(entry.Categories, feedCategory{Term: tag})
	}
	return entry
}
