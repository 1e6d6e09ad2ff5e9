package web

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store/domain"
)

// page is a page that is being built from responses of the API. It is cached by its address, its
// language and its form.
type page struct {
	view
	site  *Site
	w     http.ResponseWriter
	r     *http.Request
	query url.Values // parameters that the page accepts
	err   error      // error of the request, which is sent instead of the page
}

// open starts a page that accepts these query parameters and lang.
func (s *Site) open(w http.ResponseWriter, r *http.Request, parameters ...string) *page {
	p := &page{
		view:  s.View(r),
		site:  s,
		w:     w,
		r:     r,
		query: url.Values{},
	}

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

		// Forms send empty fields.
		if strings.TrimSpace(value) != "" {
			p.query.Set(name, value)
		}
	}

	// Normalized, so that a page has one address: %61 is a.
	path := (&url.URL{Path: r.URL.Path}).EscapedPath()
	p.Here = path
	p.Switch = address("", p.query, "lang", p.other())
	p.Canonical = p.BaseURL + address(path, p.query, "lang", p.LangParam())

	return p
}

// filtersOf returns the names of the query parameters of a filter.
func filtersOf[T any]() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name := field.Tag.Get("query"); name != "" {
			names = append(names, name)
		}
	}
	return names
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

// clone returns a copy of a query, which is not nil.
func clone(query url.Values) url.Values {
	copied := url.Values{}
	maps.Copy(copied, query)
	return copied
}

// read returns the response of a public read operation of the API to a query and further names and
// values; T is the type of the operation's handler. Pages share the response, and change nothing in
// it.
func read[T any](p *page, id string, query url.Values, more ...string) (response T, err error) {
	args := clone(query)
	for i := 0; i+1 < len(more); i += 2 {
		args.Set(more[i], more[i+1])
	}

	engine := p.site.options.Engine
	cached, err := engine.Read(p.r.Context(), engine.Operation(id), args)
	if err != nil {
		return response, err
	}
	return cached.Value.(T), nil
}

// setAlternate links to the same resource in the API.
func (p *page) setAlternate(path string, query url.Values) {
	p.Alternate = address(path, query, "", "")
	p.w.Header().Add("Link", "<"+p.Alternate+`>; rel="alternate"; type="application/json"`)
}

// send sends the page with this name, in HTML or in Markdown, or an error page.
func (p *page) send(name string, data func() (any, error)) {
	form := htmlType
	if prefersMarkdown(p.r.Header.Values("Accept")) {
		form = markdownType
	}

	p.sendContent(form, func() ([]byte, error) {
		d, err := data()
		if err != nil {
			return nil, err
		}
		if form == markdownType {
			return executeMarkdown(name, d)
		}
		return p.site.execute(name+".html", d)
	})
}

// sendContent sends the page in a form, which is a media type, or an error page. It calls content
// only if the page is not cached.
func (p *page) sendContent(form string, content func() ([]byte, error)) {
	if p.err == nil {
		p.err = p.sendCached(form, content)
	}
	if p.err != nil {
		// The links lead to forms of the page, which an error does not have.
		p.w.Header().Del("Link")
		p.site.RenderError(p.w, p.r, p.err)
	}
}

// sendCached sends the page from the cache, or renders and caches it.
func (p *page) sendCached(form string, content func() ([]byte, error)) error {
	// The keys of operations begin with a slash.
	variant := form + " " + p.Lang + " " + p.LangParam()
	key := variant + " " + address(p.Here, p.query, "", "")
	load := func(ctx context.Context) (*api.Cached, error) {
		// Several clients may wait for the same page: it is rendered under a context of its own.
		p.r = p.r.WithContext(ctx)
		body, err := content()
		if err != nil {
			return nil, err
		}
		return api.NewCached(body), nil
	}

	engine := p.site.options.Engine
	now := p.site.options.Store.Now()
	cached, err := engine.Cache.Load(p.r.Context(), key, now, 0, load)
	if err != nil {
		return err
	}

	h := p.w.Header()
	if form == htmlType || form == markdownType {
		pageHeaders(h, p.Lang)
	} else {
		h.Set("Content-Language", p.Lang)
		h["Vary"] = middleware.VaryByLanguage
	}
	h.Set("Content-Type", form)
	return engine.WriteCached(p.w, p.r, cached)
}

// pagination holds the links between the pages of a list.
type pagination struct {
	Later    bool   // the page is not the first
	First    string // address of the first page
	NextPage string // address of the next page; empty on the last
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

// selection describes the records that a list shows.
type selection struct {
	Query    url.Values
	Filtered bool // the list does not show everything
	Narrowed bool // it is filtered by more than words
}

// selection returns the selection of the query, whatever the page of the list.
func (p *page) selection() selection {
	query := clone(p.query)
	query.Del("cursor")
	selected := selection{Query: p.query, Filtered: len(query) > 0}
	query.Del("q")
	selected.Narrowed = len(query) > 0
	return selected
}
