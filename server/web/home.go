package web

import (
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
	p.setAlternate("/api", nil)
	w.Header()["Link"] = append(w.Header()["Link"], homeLinks...)
	if s.options.ARD != "" {
		w.Header().Add("Link", "<"+s.options.ARD+`>; rel="ard"; type="application/json"`)
	}
	p.send("home", func() (any, error) {
		p.setToday()
		p.Feed = feedOf(nil, p.LangParam())
		data := homePage{view: p.view, Operator: s.operator, Detail: s.options.Detail, ARD: s.options.ARD}
		if err := p.read(&data.Lists, "getHome", nil); err != nil {
			return nil, err
		}
		if err := p.read(&data.Stats, "getStats", nil); err != nil {
			return nil, err
		}

		var err error
		data.Popular, err = p.popular()
		return data, err
	})
}
