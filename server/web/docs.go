package web

import (
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/documents"
	"callbook/store/domain"
)

// docsPage is a page of the manual, or the list of its pages.
type docsPage struct {
	view
	Pages   []documents.ManualPage
	Topic   string // empty for the list
	Content template.HTML
	Source  string // the page in Markdown
}

// Docs shows a page of the manual, or without a topic the list of its pages.
func (s *Site) Docs(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	topic, p := params.ByName("topic"), s.open(w, r)
	if topic == referenceTopic {
		s.Reference(w, r, params)
		return
	}

	i := slices.IndexFunc(
		s.options.Manual,
		func(page documents.ManualPage) bool { return page.Topic == topic },
	)
	if i < 0 && topic != "" {
		p.err = &domain.Error{Code: domain.CodeNotFound}
	}

	p.send("docs", func() (any, error) {
		data := docsPage{view: p.view, Pages: s.options.Manual, Topic: topic}
		var err error
		if i >= 0 {
			query := address("", nil, "lang", p.LangParam())
			data.Source = data.Pages[i].Linked(p.BaseURL, query)
			data.Content, err = data.Pages[i].HTML(query)
		}

		return data, err
	})
}

// Guide shows the onboarding guide for agents, after a part for people.
func (s *Site) Guide(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r)
	p.send("guide", func() (any, error) {
		// After the front matter.
		_, guide, _ := strings.Cut(string(s.options.Guide(p.Lang)), "\n---\n")
		content, err := documents.Fragment(guide, 2)
		return struct {
			view
			Content template.HTML
			Guide   string
		}{p.view, content, guide}, err
	})
}

// About shows who runs the site.
func (s *Site) About(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
	p := s.open(w, r)
	p.send("about", func() (any, error) {
		return struct {
			view
			Operator template.HTML
			Detail   string
		}{p.view, s.operator, s.options.Detail}, nil
	})
}
