package web

import (
	"callbook/server/api"
	"callbook/store/domain"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
)

// page is a page that is being built from responses of the API. It is as current as they are: its entity tag is made
// from their tags and its own address. Templates and options change only with the program, and then the tags of all
// responses change too.
type page struct {
	view
	site  *Site
	w     http.ResponseWriter
	r     *http.Request
	query url.Values // the parameters that the page accepts
	parts []string
	err   error // of the query, or of the first read that failed
}

// open starts a page that accepts these query parameters and lang.
func (s *Site) open(w http.ResponseWriter, r *http.Request, parameters ...string) *page {
	p := &page{view: s.View(r), site: s, w: w, r: r, query: url.Values{}}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		p.err = &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{
			{Field: "query", Code: domain.FaultBadFormat, Topic: "query"},
		}}
	}
	for _, name := range parameters {
		value := given.Get(name)
		if name == "author" {
			value = api.ParseHandle(value)
		}
		if strings.TrimSpace(value) != "" { // forms send empty fields
			p.query.Set(name, value)
		}
	}
	path := (&url.URL{Path: r.URL.Path}).EscapedPath() // normalized: %61 is a
	p.Here, p.Switch = path, address("", p.query, "lang", p.other())
	p.Canonical = p.BaseURL + address(path, p.query, "lang", p.LangParam())
	p.parts = []string{path, p.query.Encode(), p.Lang, p.LangParam()}
	return p
}

// other returns the language that the page is not in.
func (v view) other() string { return v.Say("zh", "en") }

// address returns a path with a query and one more parameter, unless that is empty.
func address(path string, query url.Values, name, value string) string {
	query = clone(query)
	if value != "" {
		query.Set(name, value)
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func clone(query url.Values) url.Values {
	copied := url.Values{} // not nil, because it is written to
	maps.Copy(copied, query)
	return copied
}

// read calls a public read operation of the API with a query and further names and values, and adds the tag of its
// response to the parts of the page; getHome is the operation behind the home page. After an error it returns an empty
// response.
func (p *page) read(id string, query url.Values, more ...string) *api.Cached {
	if p.err != nil {
		return &api.Cached{}
	}
	engine, op, args := p.site.options.Engine, p.site.options.Home, clone(query)
	if id != op.ID {
		op = engine.Operation(id)
	}
	for i := 0; i+1 < len(more); i += 2 {
		args.Set(more[i], more[i+1])
	}
	response, err := engine.Read(p.r.Context(), op, args)
	if err != nil {
		p.err = err
		return &api.Cached{}
	}
	p.parts = append(p.parts, response.ETag)
	return response
}

// decode parses the body of a response.
func decode(response *api.Cached, into any) error {
	if err := json.Unmarshal(response.Body, into); err != nil {
		return fmt.Errorf("decode a response of the API: %w", err)
	}
	return nil
}

// setAlternate links to the same resource in the API.
func (p *page) setAlternate(path string, query url.Values) {
	p.Alternate = address(path, query, "", "")
	p.w.Header().Add("Link", "<"+p.Alternate+`>; rel="alternate"; type="application/json"`)
}

// send sends the page with this name, in HTML or in Markdown, or an error page.
func (p *page) send(name string, data func() (any, error)) {
	inMarkdown := prefersMarkdown(p.r.Header.Values("Accept"))
	if inMarkdown {
		p.parts = append(p.parts, markdownType)
	}
	p.sendContent(func() ([]byte, error) {
		d, err := data()
		if err != nil {
			return nil, err
		}
		if inMarkdown {
			return executeMarkdown(name, d)
		}
		return p.site.execute(name+".html", d)
	}, func(h http.Header) {
		pageHeaders(h, p.Lang)
		if inMarkdown {
			h.Set("Content-Type", markdownType)
		}
	})
}

func (p *page) sendContent(content func() ([]byte, error), headers func(http.Header)) {
	if p.err == nil {
		headers(p.w.Header())
		p.err = p.site.sendCached(p.w, p.r, p.parts, content)
	}
	if p.err != nil {
		p.w.Header().Del("Link")
		p.site.RenderError(p.w, p.r, p.err)
	}
}

// pagination holds the links between the pages of a list.
type pagination struct {
	Later    bool // not the first
	First    string
	NextPage string // empty on the last
}

// pagination returns the links to the first and the next page, given the API's link to the next.
func (p *page) pagination(next *string) pagination {
	query := clone(p.query)
	o := pagination{Later: query.Has("cursor")}
	query.Del("cursor")
	o.First = address(p.Here, query, "lang", p.LangParam())
	if next == nil {
		return o
	}
	if u, err := url.Parse(*next); err == nil {
		query.Set("cursor", u.Query().Get("cursor"))
		o.NextPage = address(p.Here, query, "lang", p.LangParam())
	}
	return o
}

// selection is what a list shows.
type selection struct {
	Query    url.Values
	Filtered bool // not everything
	Narrowed bool // by more than words
}

func (p *page) selection() selection {
	query := clone(p.query)
	query.Del("cursor")
	selected := selection{Query: p.query, Filtered: len(query) > 0}
	query.Del("q")
	selected.Narrowed = len(query) > 0
	return selected
}
