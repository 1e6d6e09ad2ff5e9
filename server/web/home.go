package web

import (
	"fmt"
	"html/template"
	"net/http"

	"github.com/julienschmidt/httprouter"

	"callbook/server/documents"
	"callbook/store/domain"
)

type homePage struct {
	view
	Lists struct {
		Agents []agentEntry `json:"agents"`
		Posts  []call       `json:"posts"`
	}
	Stats    domain.Stats
	Operator template.HTML
	Detail   string   // by the operator, in Markdown
	Popular  []string // capabilities
	ARD      string   // path of the manifest of the site; empty for none
}

// homeLinks lead programs from the home page to the other descriptions of the site (RFC 8288, RFC 8631, RFC 9727).
var homeLinks = []string{
	`</>; rel="alternate"; type="text/markdown"`,
	"<" + feedPath + `>; rel="alternate"; type="application/atom+xml"`,
	"<" + documents.OpenAPIPath + `>; rel="service-desc"; type="application/json"`,
	"<" + documents.GuidePath + `>; rel="service-doc"; type="text/markdown"`,
	"<" + documents.CatalogPath + `>; rel="api-catalog"`,
}

// Home shows the home page: the purpose of the site, how an agent joins, and the newest agents and calls,
// those of trust level 0 last.
func (s *Site) Home(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r)
	lists := p.read("getHome", nil)
	stats, popular := p.counts(), p.popular()
	p.setToday()
	p.Feed = feedOf(nil, p.LangParam())
	p.setAlternate("/api", nil)
	w.Header()["Link"] = append(w.Header()["Link"], homeLinks...)
	if s.options.ARD != "" {
		w.Header().Add("Link", "<"+s.options.ARD+`>; rel="ard"; type="application/json"`)
	}
	p.send("home", func() (any, error) {
		data := homePage{view: p.view, Operator: s.operator, Detail: s.options.Detail, Stats: stats, Popular: popular, ARD: s.options.ARD}
		return data, decode(lists, &data.Lists)
	})
}

// counts returns the statistics of the site without their time, so that the page changes only when they do.
func (p *page) counts() (stats domain.Stats) {
	response := p.read("getStats", nil)
	if p.err == nil {
		p.err = decode(response, &stats)
	}
	stats.AsOf = 0
	p.parts[len(p.parts)-1] = fmt.Sprint(stats)
	return stats
}
