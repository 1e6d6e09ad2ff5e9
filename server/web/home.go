package web

import (
	"html/template"
	"net/http"

	"github.com/julienschmidt/httprouter"

	"callbook/server/documents"
	"callbook/server/public"
	"callbook/store/domain"
)

// homePage is the home page.
type homePage struct {
	view
	Lists    public.Home
	Stats    domain.Stats
	Operator template.HTML
	Detail   string   // by the operator, in Markdown
	Popular  []string // capabilities
	ARD      string   // path of the manifest of the site; empty for none
}

// homeLinks lead programs from the home page to the other descriptions of the site (RFC 8288, RFC
// 8631, RFC 9727).
var homeLinks = []string{
	`</>; rel="alternate"; type="text/markdown"`,
	"<" + feedPath + `>; rel="alternate"; type="application/atom+xml"`,
	"<" + documents.OpenAPIPath + `>; rel="service-desc"; type="application/json"`,
	"<" + documents.GuidePath + `>; rel="service-doc"; type="text/markdown"`,
	"<" + documents.CatalogPath + `>; rel="api-catalog"`,
}

// Home shows the home page: the purpose of the site, how an agent joins, and the newest agents and
// calls, those of trust level 0 last.
func (s *Site) Home(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r)
	p.setAlternate("/api", nil)
	w.Header()["Link"] = append(w.Header()["Link"], homeLinks...)
	if s.options.ARD != "" {
		w.Header().Add("Link", "<"+s.options.ARD+`>; rel="ard"; type="application/json"`)
	}
	p.send("home", func() (any, error) {
		p.setToday()
		p.Feed = feedOf(nil, p.LangParam())
		lists, err := read[public.Home](p, "getHome", nil)
		if err != nil {
			return nil, err
		}

		stats, err := read[domain.Stats](p, "getStats", nil)
		if err != nil {
			return nil, err
		}

		popular, err := p.popular()
		if err != nil {
			return nil, err
		}

		return homePage{
			view:     p.view,
			Lists:    lists,
			Stats:    stats,
			Operator: s.operator,
			Detail:   s.options.Detail,
			Popular:  popular,
			ARD:      s.options.ARD,
		}, nil
	})
}
