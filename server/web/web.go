// Package web renders the pages for people, in English and in Chinese. Every
// page is a template of package static inside the one layout, with the one
// stylesheet, and works without a script.
//
// Sentences stand in the templates in both languages side by side: {{.Say "…"
// "…"}}. Text by agents is never part of such a sentence: it stands in q or
// blockquote, so that everybody sees whose words they are.
package web

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/text/language"

	"callbook/server/manual"
	"callbook/static"
	"callbook/store"
)

// The pages of the directory (page.go) are made from the answers of the API
// alone, as any client would make them; the owner's page has no such twin.

// Options is what the pages stand on.
type Options struct {
	Store   *store.Store
	BaseURL string         // as in server.Options
	Contact string         // likewise
	About   Text           // what the site is
	Notice  Text           // what agents' text is
	Manual  []manual.Page  // as manual.Pages returns it
	Log     zerolog.Logger // for what the operator should know of
	// Read answers a public read of the API by its operation id and parameters.
	Read func(ctx context.Context, operation string, args url.Values) (Answer, error)
	// Send answers with content that these parts name: all that it is made from.
	// It calls for the content only where neither the caller nor the site has it.
	Send func(w http.ResponseWriter, r *http.Request, parts []string, content func() ([]byte, error)) error
	// Fail gives an answer the headers of an error, tells the request's log event
	// of it, and words it.
	Fail func(w http.ResponseWriter, r *http.Request, err error) Failure
}

// Answer is the API's answer to a read, and its entity tag.
type Answer struct {
	Body []byte
	Tag  string
}

// Failure is an error as pages tell of it.
type Failure struct {
	Status  int
	Text    Text
	Details []Detail // of a query: every fault of it
}

// Detail is what is wrong with one field.
type Detail struct {
	Field string
	Text  Text
}

// Text is a sentence in both languages.
type Text struct{ EN, ZH string }

// Site renders the pages of one directory.
type Site struct {
	options Options
	origins *http.CrossOriginProtection
}

// templates are the pages, each inside layout.html. What pages share stands in
// parts.html. Nothing in them is of one site, so a process reads them once, for the
// first who asks for a page: a start would take 3 ms longer.
var templates = sync.OnceValues(func() (map[string]*template.Template, error) {
	pages := map[string]*template.Template{}
	for _, name := range []string{
		"home.html", "agents.html", "agent.html", "calls.html", "call.html",
		"docs.html", "owner.html", "owner-done.html", "error.html",
	} {
		page, err := template.ParseFS(static.Pages, "layout.html", "parts.html", name)
		if err != nil {
			return nil, fmt.Errorf("read the template %s: %w", name, err)
		}
		pages[name] = page
	}
	return pages, nil
})

// New makes the pages.
func New(o Options) (*Site, error) {
	s := &Site{options: o, origins: http.NewCrossOriginProtection()}
	if err := s.origins.AddTrustedOrigin(o.BaseURL); err != nil {
		return nil, fmt.Errorf("trust the base URL: %w", err)
	}
	return s, nil
}

// The languages of the pages; the first is for those who ask for neither.
var (
	languages = []string{"en", "zh"}
	matcher   = language.NewMatcher([]language.Tag{language.English, language.Chinese, language.TraditionalChinese})
)

// Language is that of the query (lang=en, lang=zh), or else what the browser asks
// for.
func Language(r *http.Request) string {
	if asked := r.URL.Query().Get("lang"); asked == "en" || asked == "zh" {
		return asked
	}
	_, i, _ := matcher.Match(wished(r.Header.Values("Accept-Language"))...)
	return languages[min(i, len(languages)-1)]
}

// mostWishes is how many languages of a request are looked at.
const mostWishes = 100

// wished are the languages of Accept-Language, the most wanted first. One that is no
// known tag takes none of the others with it.
func wished(lines []string) []language.Tag {
	all := strings.ToLower(strings.Join(lines, ","))
	if tags, _, err := language.ParseAcceptLanguage(all); err == nil {
		return tags
	}
	known := slices.DeleteFunc(strings.SplitN(all, ",", mostWishes), func(entry string) bool {
		_, _, err := language.ParseAcceptLanguage(entry)
		return err != nil
	})
	tags, _, _ := language.ParseAcceptLanguage(strings.Join(known, ","))
	return tags
}

// contentPolicy lets a page load the site's own stylesheet and mark and send its
// own forms, and nothing else.
const contentPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// execute makes a page from its template.
func (s *Site) execute(name string, data any) ([]byte, error) {
	pages, err := templates()
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := pages[name].ExecuteTemplate(&body, "layout", data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return body.Bytes(), nil
}

// pageHeaders are what every page has.
func pageHeaders(h http.Header, lang string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", lang)
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	varies(h)
}

// varies tells that the language asked for counts, once.
func varies(h http.Header) {
	if !slices.Contains(h.Values("Vary"), "Accept-Language") {
		h.Add("Vary", "Accept-Language")
	}
}

// render sends a page that nobody keeps. Nothing is sent when its template fails.
func (s *Site) render(w http.ResponseWriter, status int, name, lang string, data any) error {
	body, err := s.execute(name, data)
	if err != nil {
		return err
	}
	pageHeaders(w.Header(), lang)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a reader who has gone is nobody's error
	return nil
}

// Refuse sends the page that says what is wrong with a request.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	data := struct {
		view
		Failure
		Owner     bool // of the owner's page
		RequestID string
	}{view: s.view(r), Owner: ofOwner(r.URL.Path), RequestID: w.Header().Get("X-Request-Id")}
	if data.Owner {
		ownerHeaders(w.Header())
	} else {
		data.Switch = address("", r.URL.Query(), "lang", data.other()) // what was asked for stays
		if r.URL.Path == "/agents" || r.URL.Path == "/calls" {
			data.Here = r.URL.Path
		}
	}
	data.Failure = s.options.Fail(w, r, err)
	if err := s.render(w, data.Status, "error.html", data.Lang, data); err != nil {
		http.Error(w, http.StatusText(s.options.Fail(w, r, err).Status), http.StatusInternalServerError)
	}
}

// Owns tells whether a path is one of the pages, or below one.
func Owns(path string) bool {
	for _, page := range []string{"/agents", "/calls", "/docs"} {
		if path == page || strings.HasPrefix(path, page+"/") {
			return true
		}
	}
	return path == "/" || path == feedPath || ofOwner(path)
}

func ofOwner(path string) bool { return strings.HasPrefix(path, ownerPath) }
