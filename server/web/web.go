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
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/text/language"

	"callbook/static"
	"callbook/store"
)

// Options is what the pages stand on.
type Options struct {
	Store    *store.Store
	BaseURL  string // as in server.Options
	NoticeEN string // what agents' text is
	NoticeZH string
	Log      zerolog.Logger // for what the operator should know of
	// Fail gives an answer the headers of an error, tells the request's log event
	// of it, and returns its status.
	Fail func(w http.ResponseWriter, r *http.Request, err error) (status int)
}

// Site renders the pages of one directory.
type Site struct {
	options   Options
	origins   *http.CrossOriginProtection
	owner     *template.Template
	ownerDone *template.Template
	failure   *template.Template
}

// New makes the pages.
func New(o Options) (*Site, error) {
	s := &Site{options: o, origins: http.NewCrossOriginProtection()}
	base, err := url.Parse(o.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	if err := s.origins.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
		return nil, fmt.Errorf("trust the base URL: %w", err)
	}
	for name, page := range map[string]**template.Template{
		"owner.html": &s.owner, "owner-done.html": &s.ownerDone, "error.html": &s.failure,
	} {
		if *page, err = template.ParseFS(static.Pages, "layout.html", name); err != nil {
			return nil, fmt.Errorf("read the template %s: %w", name, err)
		}
	}
	return s, nil
}

// The languages of the pages; the first is for those who ask for neither.
var (
	languages = []string{"en", "zh"}
	matcher   = language.NewMatcher([]language.Tag{language.English, language.Chinese, language.TraditionalChinese})
)

// languageOf is the language of the query, or else what the browser asks for.
func languageOf(r *http.Request) string {
	if asked := r.URL.Query().Get("lang"); asked == "en" || asked == "zh" {
		return asked
	}
	_, i := language.MatchStrings(matcher, r.Header.Get("Accept-Language"))
	return languages[min(i, len(languages)-1)]
}

// view is what the layout and every template get.
type view struct {
	Lang   string // en, zh
	Switch string // link to the same page in the other language; empty for none
	Notice string
}

func (s *Site) view(r *http.Request) view {
	if languageOf(r) == "zh" {
		return view{Lang: "zh", Switch: "?lang=en", Notice: s.options.NoticeZH}
	}
	return view{Lang: "en", Switch: "?lang=zh", Notice: s.options.NoticeEN}
}

// Say returns the sentence in the page's language, with the values put in.
func (v view) Say(en, zh string, values ...any) string {
	text := en
	if v.Lang == "zh" {
		text = zh
	}
	if len(values) == 0 {
		return text
	}
	return fmt.Sprintf(text, values...)
}

// When is an instant as people read it.
func (v view) When(t store.Time) string { return t.Time().Format("2006-01-02 15:04 UTC") }

// Level words a trust level.
func (v view) Level(level int) string {
	switch level {
	case 2:
		return v.Say("2: a person is accountable for it", "2：有人对它负责")
	case 1:
		return v.Say("1: its mailbox is verified", "1：邮箱已验证")
	}
	return v.Say("0: nothing is verified", "0：未经任何验证")
}

// Compensation words how a contact request says it would be paid for.
func (v view) Compensation(compensation string) string {
	switch compensation {
	case "none":
		return v.Say("none", "无")
	case "discuss":
		return v.Say("to be discussed", "面议")
	}
	return v.Say("paid, settled outside this site", "有偿，在本站之外结算")
}

// Mode words how an entry of a menu is paid for.
func (v view) Mode(mode string) string {
	switch mode {
	case "free":
		return v.Say("free of charge", "免费")
	case "quote":
		return v.Say("by quote", "按报价")
	}
	return v.Say("paid, settled outside this site", "有偿，在本站之外结算")
}

// contentPolicy lets a page load the site's own stylesheet and mark and send its
// own forms, and nothing else.
const contentPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// render sends a page. Nothing is sent when its template fails.
func (s *Site) render(w http.ResponseWriter, status int, page *template.Template, lang string, data any) error {
	var body bytes.Buffer
	if err := page.ExecuteTemplate(&body, "layout", data); err != nil {
		return fmt.Errorf("render a page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Language", lang)
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept-Language")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a reader who has gone is nobody's error
	return nil
}

// Refuse sends the page that says what is wrong with a request.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	data := struct {
		view
		Status    int
		Owner     bool // of the owner's page
		RequestID string
	}{view: s.view(r), Owner: OfOwner(r.URL.Path), RequestID: w.Header().Get("X-Request-Id")}
	if data.Owner {
		ownerHeaders(w.Header())
	}
	data.Status = s.options.Fail(w, r, err)
	if err := s.render(w, data.Status, s.failure, data.Lang, data); err != nil {
		http.Error(w, http.StatusText(s.options.Fail(w, r, err)), http.StatusInternalServerError)
	}
}

// OfOwner tells whether a path belongs to the owner's page.
func OfOwner(path string) bool { return strings.HasPrefix(path, ownerPath) }
