package web

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strings"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
)

// view holds the data and methods that the layout and every template use: the language, texts and
// links.
type view struct {
	Here      string // the page's path; empty for an error page
	Lang      string // en, zh
	Switch    string // link to the page in the other language; empty for none
	Canonical string // the page's own URL; empty for an error page
	Alternate string // the same resource in the API; empty for none
	Feed      string // of calls; empty for none
	BaseURL   string
	Contact   string // of the operator; empty for none
	Site      string // name of the site
	Legal     string // address of the legal notice; empty for none
	About     string
	Notice    string
	today     string // date in UTC; empty for a page that has no calls
	// The query names the language: links lead to pages in it.
	chosen    bool
	highlight func(text string) []search.Span // of a search page: highlights its records
}

// View is the view of a page that another package renders: its data embeds one.
type View = view

// View returns the view of a request.
func (s *Site) View(r *http.Request) View {
	v := view{
		Lang:    Language(r),
		BaseURL: s.options.BaseURL,
		Contact: s.options.Contact,
		Site:    s.options.Name,
		Legal:   s.options.Legal,
	}

	v.Switch, v.About, v.Notice = "?lang="+v.other(), v.In(s.options.About), v.In(s.options.Notice)
	v.chosen = r.URL.Query().Get("lang") == v.Lang
	return v
}

// Say returns the sentence in the page's language, formatted with values.
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

// To returns a link to a page with a query of names and values. It keeps a chosen language.
func (v view) To(path string, query ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	return address(path, values, "lang", v.LangParam())
}

// LangParam returns the language for the parameter lang of links; empty unless the query names one.
func (v view) LangParam() string {
	if v.chosen {
		return v.Lang
	}
	return ""
}

// When formats a time for people.
func (v view) When(t domain.Time) string { return t.Time().Format("2006-01-02 15:04 UTC") }

// Day formats the date of a time.
func (v view) Day(t domain.Time) string { return t.Time().Format("2006-01-02") }

// Count formats a number, with the spaces around it that Chinese needs; an inexact one is a lower
// bound.
func (v view) Count(n int, exact bool) string {
	if exact {
		return v.Say("%d", " %d ", n)
	}
	return v.Say("more than %d", "超过 %d ", n)
}

// Within formats the hours that a response takes, rounded up.
func (v view) Within(hours float64) string {
	n := int(math.Ceil(hours))
	switch {
	case n <= 1:
		return v.Say("an hour", "一小时")

	case n <= 48:
		return v.Say("%d hours", " %d 小时", n)
	}

	return v.Days((n + 23) / 24)
}

// Days formats a number of days.
func (v view) Days(n int) string {
	if n == 1 {
		return v.Say("1 day", " 1 天")
	}
	return v.Say("%d days", " %d 天", n)
}

// Avatar returns a picture that is derived from a handle, so that people recognize an agent in a
// list.
func (v view) Avatar(handle string) template.HTML {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(handle))
	bits := hash.Sum64()
	next := func(n uint64) uint64 {
		part := bits % n
		bits /= n
		return part
	}

	hue := next(360)
	return template.HTML(
		fmt.Sprintf(
			`<svg class="avatar" viewBox="0 0 32 32" aria-hidden="true"><path fill="hsl(%d 42%% 80%%)" d="M0 0h32v32H0z"/>`+
				`<circle fill="hsl(%d 52%% 40%%)" cx="%d" cy="%d" r="%d"/><circle fill="hsl(%d 60%% 62%%)" cx="%d" cy="%d" r="%d"/></svg>`,
			hue,
			(hue+next(120))%360,
			4+next(25),
			4+next(25),
			9+next(6),
			(hue+120+next(120))%360,
			4+next(25),
			4+next(25),
			4+next(6),
		),
	)
}

// Address returns the operator's contact without its scheme.
func (v view) Address(contact string) string { return strings.TrimPrefix(contact, "mailto:") }

// Outside returns an external address that a page may link to, or the empty string. It must be
// http or https, show its host, and have no user information, which could look like a host.
func (v view) Outside(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" ||
		u.User != nil ||
		!text.CheckLine(address) || text.NormalizeLine(address) != address {
		return ""
	}
	return address
}

// Excerpt returns the beginning of a text, in one line.
func (v view) Excerpt(text string) string {
	const most = 220
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= most {
		return string(runes)
	}
	return strings.TrimSpace(string(runes[:most])) + "…"
}

// piece is the argument of a shared template: the page and one record.
type piece struct {
	Page   view
	Record any
}

// With returns a record for a shared template.
func (v view) With(record any) piece { return piece{v, record} }

// Chips returns texts that link to a search each, for a shared template.
func (v view) Chips(path, name string, items []string) piece {
	return piece{v, struct {
		Path, Name string
		Items      []string
	}{path, name, items}}
}
