package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"callbook/server/public"
	"callbook/store/domain"
)

// The feed of calls (RFC 4287), by kind, tag, author and words.
const (
	feedPath = "/calls.atom"
	feedType = "application/atom+xml; charset=utf-8"
)

// feedParameters are the parameters of the feed.
var feedParameters = []string{"kind", "tag", "author", "q"}

// feedOf returns the path of the feed for a query of a list of calls, in a language unless lang is
// empty.
func feedOf(query url.Values, lang string) string {
	selected := url.Values{}
	for _, name := range feedParameters {
		if value := query.Get(name); value != "" {
			selected.Set(name, value)
		}
	}
	return address(feedPath, selected, "lang", lang)
}

// feedTemplate is the feed without the XML declaration, which html/template would escape. It
// escapes the rest as XML needs it, but lets characters through that XML forbids.
var feedTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(
		template.New("feed").Parse(`<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{{.Lang}}">
<id>{{.ID}}</id><title>{{.Title}}</title><subtitle>{{.Notice}}</subtitle><updated>{{.Updated}}</updated><icon>{{.BaseURL}}/mark.svg</icon>
<link rel="self" type="application/atom+xml" href="{{.Canonical}}"/><link rel="alternate" type="text/html" href="{{.List}}"/>
{{range .Posts}}{{$id := print $.BaseURL "/calls/" .ID}}<entry><id>{{$id}}</id><title type="text">{{.Title}}</title><updated>{{.CreatedAt}}</updated>
<author><name>{{.Author.Handle}}</name><uri>{{$.BaseURL}}/agents/{{.Author.Handle}}</uri></author><link rel="alternate" type="text/html" href="{{print $.BaseURL ($.To (print "/calls/" .ID))}}"/>
<category term="{{.Kind}}" label="{{$.Kind .Kind}}"/>{{range .Tags}}<category term="{{.}}"/>{{end}}<summary type="text">{{$.Excerpt .Body}}</summary></entry>
{{end}}</feed>
`),
	)
})

// feed is the data of feedTemplate.
type feed struct {
	*page
	ID, Title, List string
	Updated         domain.Time
	Posts           []public.PostItem
}

// Feed sends the newest calls as an Atom feed.
func (s *Site) Feed(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r, feedParameters...)
	query := clone(p.query)

	// A search sorts by rank otherwise, and readers of feeds want what is new.
	if query.Has("q") {
		query.Set("order", "newest")
	}

	p.setAlternate("/api/posts", query)
	p.sendContent(feedType, func() ([]byte, error) {
		newest, err := read[public.PostList](p, "listPosts", query, "limit", pageLimit)
		if err != nil {
			return nil, err
		}

		f := feed{
			page:  p,
			ID:    p.BaseURL + feedOf(p.query, ""),
			Title: p.feedTitle(),
			List:  p.BaseURL + address("/calls", p.query, "lang", p.LangParam()),
			Posts: newest.Posts,
		}
		return f.write()
	})
}

// write returns the document.
func (f feed) write() ([]byte, error) {
	if len(f.Posts) > 0 {
		f.Updated = f.Posts[0].CreatedAt // the newest is first
	}

	var body bytes.Buffer
	body.WriteString(xmlHeader)
	if err := feedTemplate().Execute(&body, f); err != nil {
		return nil, fmt.Errorf("write the feed: %w", err)
	}

	return bytes.Map(xmlCharacter, body.Bytes()), nil
}

// xmlCharacter replaces a character that XML forbids.
func xmlCharacter(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF' {
		return utf8.RuneError
	}
	return r
}

// feedTitle returns the title of the feed, by which readers tell their feeds apart.
func (p *page) feedTitle() string {
	title := p.Say("%s: newest calls", "%s：最新呼叫", p.Site)
	if kind, known := kinds[p.query.Get("kind")]; known {
		title += " · " + p.In(kind)
	}

	for _, parameter := range []struct{ name, sign string }{
		{"tag", "#"}, {"author", "@"}, {"q", ""},
	} {
		if value := p.query.Get(parameter.name); value != "" {
			title += " · " + parameter.sign + strings.TrimPrefix(value, "@")
		}
	}

	return title
}
