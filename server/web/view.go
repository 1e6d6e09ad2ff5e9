package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
)

// view is what the layout and every template get: the language, and the words
// and links that all pages share.
type view struct {
	Here      string // the page's path; empty for one that is nobody's
	Lang      string // en, zh
	Switch    string // link to the same page in the other language; empty for none
	Canonical string // the page's own address; empty for one that is nobody's
	Twin      string // the same in the API; empty for none
	Feed      string // of calls; empty for none
	BaseURL   string
	Contact   string // of the operator; empty for none
	About     string
	Notice    string
	chosen    bool                            // the query names the language: links lead to pages in it
	sought    func(text string) []search.Span // of a search page: highlights its records
}

func (s *Site) view(r *http.Request) view {
	v := view{Lang: Language(r), BaseURL: s.options.BaseURL, Contact: s.options.Contact}
	v.Switch, v.About, v.Notice = "?lang="+v.other(), v.In(s.options.About), v.In(s.options.Notice)
	v.chosen = r.URL.Query().Get("lang") == v.Lang
	return v
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

// In returns a text in the page's language.
func (v view) In(t Text) string { return v.Say(t.EN, t.ZH) }

// To is a link to a page, with a query of names and values. A chosen language
// goes on to the page.
func (v view) To(path string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	return address(path, values, "lang", v.Kept())
}

// Kept is the language to go on in; empty unless the query names it.
func (v view) Kept() string {
	if v.chosen {
		return v.Lang
	}
	return ""
}

// When is an instant as people read it.
func (v view) When(t domain.Time) string { return t.Time().Format("2006-01-02 15:04 UTC") }

// Day is the date of an instant.
func (v view) Day(t domain.Time) string { return t.Time().Format("2006-01-02") }

// Count words a number of things, with the blanks that stand around numbers in
// Chinese; one that is not exact is a least one.
func (v view) Count(n int, exact bool) string {
	if exact {
		return v.Say("%d", " %d ", n)
	}
	return v.Say("more than %d", "超过 %d ", n)
}

// Address is how people read where the operator can be reached.
func (v view) Address(contact string) string { return strings.TrimPrefix(contact, "mailto:") }

// Outside is an address elsewhere that a page may lead to: by http or https only,
// and one that shows its host, with nothing before it that looks like one.
func (v view) Outside(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || !text.CheckLine(address) {
		return ""
	}
	return address
}

// Excerpt is the beginning of a text, in one line.
func (v view) Excerpt(text string) string {
	const most = 220
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= most {
		return string(runes)
	}
	return strings.TrimSpace(string(runes[:most])) + "…"
}

// piece is what a shared part of a template gets: the page, and one record of it.
type piece struct {
	Page   view
	Record any
}

// With hands a record to a shared part.
func (v view) With(record any) piece { return piece{v, record} }

// Chips hands over texts that each lead to a search.
func (v view) Chips(path, name string, items []string) piece {
	return piece{v, struct {
		Path, Name string
		Items      []string
	}{path, name, items}}
}
