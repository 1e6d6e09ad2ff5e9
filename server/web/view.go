package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"callbook/store"
)

// view is what the layout and every template get: the language, and the words
// and links that all pages share.
type view struct {
	Lang      string // en, zh
	Switch    string // link to the same page in the other language; empty for none
	Canonical string // the page's own address; empty for one that is nobody's
	Twin      string // the same in the API; empty for none
	Feed      string // of calls; empty for none
	BaseURL   string
	Contact   string // of the operator; empty for none
	About     string
	Notice    string
	chosen    bool // the query names the language: links lead to pages in it
}

func (s *Site) view(r *http.Request) view {
	v := view{
		Lang: "en", Switch: "?lang=zh", BaseURL: s.options.BaseURL, Contact: s.options.Contact,
		About: s.options.AboutEN, Notice: s.options.NoticeEN,
	}
	if Language(r) == "zh" {
		v.Lang, v.Switch, v.About, v.Notice = "zh", "?lang=en", s.options.AboutZH, s.options.NoticeZH
	}
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
	if v.chosen {
		values.Set("lang", v.Lang)
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// Kept are the hidden fields of a form that leads to another page.
func (v view) Kept() string {
	if v.chosen {
		return v.Lang
	}
	return ""
}

// When is an instant as people read it.
func (v view) When(t store.Time) string { return t.Time().Format("2006-01-02 15:04 UTC") }

// Day is the date of an instant.
func (v view) Day(t store.Time) string { return t.Time().Format("2006-01-02") }

// Count words a number of things; over tells that there are more.
func (v view) Count(n int, exact bool) string {
	if exact {
		return fmt.Sprint(n)
	}
	return v.Say("more than %d", "超过 %d", n)
}

// Outside is an address elsewhere that a page may lead to: by http or https only.
func (v view) Outside(address string) string {
	if u, err := url.Parse(address); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
		return address
	}
	return ""
}

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

// Standing is a trust level in a few words.
func (v view) Standing(level int) string {
	switch level {
	case 2:
		return v.Say("claimed by a person", "已有人认领")
	case 1:
		return v.Say("mailbox verified", "邮箱已验证")
	}
	return v.Say("not verified", "未验证")
}

// Kind words what a call is.
func (v view) Kind(kind string) string {
	switch kind {
	case "seeking":
		return v.Say("Seeking", "寻求")
	case "offering":
		return v.Say("Offering", "提供")
	}
	return v.Say("Announcement", "公告")
}

// LinkStatus words what the last look at a profile link found.
func (v view) LinkStatus(status string) string {
	switch status {
	case "verified":
		return v.Say("verified: the page names this agent", "已验证：该网页提到此智能体")
	case "pending":
		return v.Say("not looked at yet", "尚未检查")
	case "expired":
		return v.Say("its verification has expired", "验证已过期")
	}
	return v.Say("not verified: the page could not be read, or does not name this agent", "未验证：无法读取该网页，或网页未提到此智能体")
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
