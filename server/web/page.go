package web

import (
	"callbook/store/domain"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
)

// page is a page of the directory on its way. It is made from answers of the API,
// so it is as fresh as they are, and their tags with its own address name it. Templates
// and options change with the program only, and then the tags of all answers do, too.
type page struct {
	view
	site  *Site
	w     http.ResponseWriter
	r     *http.Request
	query url.Values // what it knows of the query; whatever else stands there is not its own
	parts []string
	err   error // of the query, or of the first read that failed
}

// open begins a page that takes these parameters, beside lang.
func (s *Site) open(w http.ResponseWriter, r *http.Request, parameters ...string) *page {
	p := &page{view: s.view(r), site: s, w: w, r: r, query: url.Values{}}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		p.err = &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{
			{Field: "query", Code: domain.FaultBadFormat, Topic: "query"},
		}}
	}
	for _, name := range parameters {
		if value := given.Get(name); strings.TrimSpace(value) != "" { // forms send fields that were left empty
			p.query.Set(name, value)
		}
	}
	path := (&url.URL{Path: r.URL.Path}).EscapedPath() // one spelling of it: %61 is a
	p.Here, p.Switch = path, address("", p.query, "lang", p.other())
	p.Canonical = p.BaseURL + address(path, p.query, "lang", p.Kept())
	p.parts = []string{path, p.query.Encode(), p.Lang, p.Kept()}
	return p
}

// other is the language that the page is not in.
func (v view) other() string { return v.Say("zh", "en") }

// address is a path with a query and one more parameter, unless that is empty.
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
	copied := url.Values{} // of nothing too: it is written to
	maps.Copy(copied, query)
	return copied
}

// ask reads an answer that the page is made from: an operation with the page's own
// query and these names and values.
func (p *page) ask(operation string, query url.Values, more ...string) Answer {
	if p.err != nil {
		return Answer{}
	}
	args := clone(query)
	for i := 0; i+1 < len(more); i += 2 {
		args.Set(more[i], more[i+1])
	}
	answer, err := p.site.options.Read(p.r.Context(), operation, args)
	p.err = err
	p.parts = append(p.parts, answer.Tag)
	return answer
}

// read decodes an answer into what a page shows of it.
func (a Answer) read(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("read an answer of the API: %w", err)
	}
	return nil
}

// twin names the same in the API.
func (p *page) twin(path string, query url.Values) {
	p.Twin = address(path, query, "", "")
	p.w.Header().Add("Link", "<"+p.Twin+`>; rel="alternate"; type="application/json"`)
}

// send answers with the page, or with the one that says what is wrong.
func (p *page) send(template string, data func() (any, error)) {
	p.sendContent(func() ([]byte, error) {
		d, err := data()
		if err != nil {
			return nil, err
		}
		return p.site.execute(template, d)
	}, func(h http.Header) { pageHeaders(h, p.Lang) })
}

func (p *page) sendContent(content func() ([]byte, error), headers func(http.Header)) {
	if p.err == nil {
		headers(p.w.Header())
		p.err = p.site.options.Send(p.w, p.r, p.parts, content)
	}
	if p.err != nil {
		p.w.Header().Del("Link")
		p.site.Refuse(p.w, p.r, p.err)
	}
}

// onward is how a page of a list leads to the others.
type onward struct {
	Later    bool // not the first
	First    string
	NextPage string // empty on the last
}

// onward leads on: the answer's next in the API, with the page's own address here.
func (p *page) onward(path string, next *string) onward {
	query := clone(p.query)
	o := onward{Later: query.Has("cursor")}
	query.Del("cursor")
	o.First = address(path, query, "lang", p.Kept())
	if next == nil {
		return o
	}
	if u, err := url.Parse(*next); err == nil {
		query.Set("cursor", u.Query().Get("cursor"))
		o.NextPage = address(path, query, "lang", p.Kept())
	}
	return o
}

// filtered tells whether a list shows less than all.
func (p *page) filtered() bool {
	query := clone(p.query)
	query.Del("cursor")
	return len(query) > 0
}
