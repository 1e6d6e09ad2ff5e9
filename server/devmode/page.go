package devmode

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/web"
	"callbook/store/domain"
)

// pageNotice is the warning below the page.
var pageNotice = web.Text{
	EN: "This page exists only under callbook dev. It shows every key and can delete everything: never expose it.",
	ZH: "此页面仅在 callbook dev 下存在。它会显示所有密钥，并可删除一切：切勿对外开放。",
}

// page is the data of dev.html.
type page struct {
	web.View
	Now    domain.Time
	Ahead  int    // hours that the clock is ahead of that of the machine
	Mails  []Mail // newest ones
	Older  int    // number of mails that are not among Mails
	Agents []Agent
	Faults []Fault
	Calls  []Entry  // newest requests to the API: with those for this page, it would change itself
	IDs    []string // of the operations
}

// Effect describes a fault, as POST /dev/faults takes it.
func (f Fault) Effect() string {
	switch {
	case f.Status != 0:
		return fmt.Sprintf("status %d", f.Status)
	case f.Drop != "":
		return "drop " + f.Drop
	}
	return fmt.Sprintf("delay_ms %d", f.DelayMS)
}

// Links returns the links in the text of a mail, which has each in both languages.
func (p page) Links(text string) []string {
	link := regexp.MustCompile(regexp.QuoteMeta(p.BaseURL) + `/owner/\S+`)
	return slices.Compact(link.FindAllString(text, -1))
}

// EndsMails reports whether a link ends all mails to its address.
func (p page) EndsMails(link string) bool {
	return strings.HasPrefix(link, p.BaseURL+"/owner/mails/")
}

// showPage handles GET /dev: for a program that asks for JSON, it lists the endpoints.
func (d *Server) showPage(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	w.Header().Set("Vary", "Accept")
	if strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		list := api.Marshal(map[string]any{"endpoints": d.endpoints()})
		_ = api.WriteJSON(w, http.StatusOK, append(list, '\n'))
		return
	}

	p := page{
		View:  d.pages.View(r),
		Now:   domain.Time(d.store.Now().UnixMilli()),
		Ahead: int(time.Duration(d.options.Clock.offset.Load()).Hours()),
	}

	mails, err := d.listMail(r.Context(), nil)
	if err != nil {
		d.Site.WriteError(w, r, err)
		return
	}

	p.Agents, err = d.listAgents(r.Context(), nil)
	if err != nil {
		d.Site.WriteError(w, r, err)
		return
	}

	p.Mails = mails[:min(len(mails), 20)]
	p.Faults, _ = d.listFaults(r.Context(), nil) // it has no errors
	p.Calls = d.journal.list(func(e Entry) bool { return strings.HasPrefix(e.Path, "/api/") })
	p.Calls = p.Calls[:min(len(p.Calls), 30)]
	p.IDs = d.operationIDs()
	p.Older = len(mails) - len(p.Mails)

	w.Header().Set("Cache-Control", "no-store")
	err = d.pages.Render(w, http.StatusOK, "dev.html", p.Lang, p)
	if err != nil {
		d.Site.WriteError(w, r, err)
	}
}

// isForm reports whether a browser sends a form. curl -d declares JSON as one, but does not ask
// for a page.
func isForm(r *http.Request) bool {
	return r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" &&
		strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}

// formJSON returns the fields of a form as a JSON object. A value that is valid JSON, such as
// true, becomes that; an empty field is left out.
func formJSON(form []byte) []byte {
	// A malformed part is left out: the action rejects missing fields.
	fields, _ := url.ParseQuery(string(form))
	members := map[string]any{}
	for name := range fields {
		if value := fields.Get(name); jsontext.Value(value).IsValid() {
			members[name] = jsontext.Value(value)
		} else if value != "" {
			members[name] = value
		}
	}

	return api.Marshal(members)
}
