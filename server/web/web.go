// Package web renders the pages for people, in English and in Chinese. Every page is a template of
// package static inside the one layout, with the one stylesheet, and works without a script.
//
// Templates contain each sentence in both languages: {{.Say "…" "…"}}. Text of agents is never part
// of such a sentence: it is in q or blockquote elements, so that readers can tell it apart.
package web

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/text/language"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/static"
	"callbook/store"
	"callbook/store/domain"
)

// Pages of the directory (page.go) are built from responses of the public API alone; the owner's
// page uses the store.

// Options configures the pages.
type Options struct {
	Store   *store.Store
	Engine  *api.Engine
	Reads   ratelimit.Class // limit of an address that pages count against
	BaseURL string          // as in server.Options
	Contact string          // likewise
	Name    string          // of the site
	About   Text            // purpose of the site
	Detail  string          // text of the operator about the site, in Markdown
	Legal   string          // address of the legal notice; empty for none
	Notice  Text            // warning about agents' text

	// ARD is the path of the manifest for Agentic Resource Discovery; empty for none.
	ARD string
	// Manual has the pages of documents.ManualPages.
	Manual []documents.ManualPage
	// Guide returns the onboarding guide in a language.
	Guide func(lang string) []byte

	Log zerolog.Logger
}

// Text is a sentence in both languages.
type Text struct{ EN, ZH string }

// Site renders the pages of one directory.
type Site struct {
	options  Options
	operator template.HTML // what the operator says about the site
}

// templates parses the pages, each inside layout.html, with the shared templates of parts.html.
// They are the same for all sites, so a process parses them once, for the first request of a page:
// that saves 3 ms at startup.
var templates = sync.OnceValues(func() (map[string]*template.Template, error) {
	pages := map[string]*template.Template{}
	for _, name := range []string{
		"home.html", "agents.html", "agent.html", "calls.html", "call.html",
		"about.html", "guide.html", "docs.html", "reference.html", "report.html",
		"owner.html", "owner-done.html", "owner-mails.html",
		"error.html", "dev.html", "operator.html",
	} {
		page, err := template.ParseFS(static.Pages, "layout.html", "parts.html", name)
		if err != nil {
			return nil, fmt.Errorf("read the template %s: %w", name, err)
		}

		pages[name] = page
	}

	return pages, nil
})

// New returns the pages.
func New(o Options) (*Site, error) {
	operator, err := documents.Fragment(o.Detail, 2)
	if err != nil {
		return nil, fmt.Errorf("render the text about the site: %w", err)
	}
	return &Site{options: o, operator: operator}, nil
}

// Languages of the pages; the first is the default.
var (
	languages = []string{"en", "zh"}
	matcher   = language.NewMatcher(
		[]language.Tag{language.English, language.Chinese, language.TraditionalChinese},
	)
)

// Language returns the language of the query (lang=en, lang=zh), or else the best match for
// Accept-Language.
func Language(r *http.Request) string {
	// A tag such as zh-CN asks for its language, whatever the region or script.
	if asked, err := language.Parse(r.URL.Query().Get("lang")); err == nil {
		if base, _ := asked.Base(); base.String() == "en" || base.String() == "zh" {
			return base.String()
		}
	}

	_, i, _ := matcher.Match(acceptedLanguages(r.Header.Values("Accept-Language"))...)
	return languages[min(i, len(languages)-1)]
}

// maxAccepted is the maximum number of languages read from a request.
const maxAccepted = 100

// acceptedLanguages parses Accept-Language, and returns the languages by preference. Unknown tags
// are skipped.
func acceptedLanguages(lines []string) []language.Tag {
	all := strings.ToLower(strings.Join(lines, ","))
	if tags, _, err := language.ParseAcceptLanguage(all); err == nil {
		return tags
	}

	// The parser rejects the whole header for one unknown tag. It is parsed once for each part, so
	// their number is limited.
	known := slices.DeleteFunc(strings.SplitN(all, ",", maxAccepted), func(entry string) bool {
		_, _, err := language.ParseAcceptLanguage(entry)
		return err != nil
	})

	tags, _, _ := language.ParseAcceptLanguage(strings.Join(known, ","))
	return tags
}

const htmlType = "text/html; charset=utf-8"

// contentPolicy allows a page to load the site's stylesheet and mark and to send the site's forms,
// and nothing else. Tools in a browser may request the API from a page.
const contentPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// execute renders a template.
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

// pageHeaders sets the headers of every page.
func pageHeaders(h http.Header, lang string) {
	h.Set("Content-Type", htmlType)
	h.Set("Content-Language", lang)
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h["Vary"] = middleware.VaryByForm
}

// Render sends a page that is not cached. It sends nothing if its template fails.
func (s *Site) Render(w http.ResponseWriter, status int, name, lang string, data any) error {
	body, err := s.execute(name, data)
	if err != nil {
		return err
	}

	pageHeaders(w.Header(), lang)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected

	return nil
}

// RenderError sends an error page.
func (s *Site) RenderError(w http.ResponseWriter, r *http.Request, err error) {
	data := struct {
		view
		api.ErrorObject
		Status  int
		Owner   bool // of the owner's page
		Foreign bool // a page of another site has caused the request
		Report  bool // of a form that reports something
	}{view: s.View(r), Owner: isOwnerPath(r.URL.Path)}

	data.Report = !data.Owner && r.Method == http.MethodPost &&
		strings.HasSuffix(r.URL.Path, "/report")
	switch {
	case data.Owner:
		ownerHeaders(w.Header())

	case data.Report:
		data.Switch = "" // it would open the form's address without the form

	default:
		data.Switch = address("", r.URL.Query(), "lang", data.other()) // keeps the query
		if r.URL.Path == "/agents" || r.URL.Path == "/calls" {
			data.Here = r.URL.Path
		}
	}

	if rejection, ok := errors.AsType[*domain.Error](err); ok {
		data.Foreign = rejection.Topic == domain.TopicOrigin
	}

	data.Status, data.ErrorObject = s.Fail(w, r, err)
	if err := s.Render(w, data.Status, "error.html", data.Lang, data); err != nil {
		status, _ := s.Fail(w, r, err)
		http.Error(w, http.StatusText(status), http.StatusInternalServerError)
	}
}

// Owns reports whether a path is one of the pages, or below one.
func Owns(path string) bool {
	for _, page := range []string{"/agents", "/calls", "/docs", "/guide", "/about"} {
		if path == page || strings.HasPrefix(path, page+"/") {
			return true
		}
	}
	return path == "/" || path == feedPath || isOwnerPath(path)
}

// isOwnerPath reports whether a path is below ownerPath.
func isOwnerPath(path string) bool { return strings.HasPrefix(path, ownerPath) }
