package server

import (
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/mcp"
	"callbook/server/middleware"
	"callbook/server/web"
	"callbook/store/domain"
)

const (
	plainType    = "text/plain; charset=utf-8"
	markdownType = "text/markdown; charset=utf-8"
	// The profile tells a catalogue of APIs from other sets of links (RFC 9727, 4.2).
	linksetType = `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`
)

// mountDocuments adds the small documents. They are generated from the list of operations, the
// options and the guide.
func (s *Server) mountDocuments(r *routes) {
	site := documents.Site{
		BaseURL:     s.options.BaseURL,
		Contact:     s.options.Contact,
		Uncrawled:   s.options.Uncrawled,
		About:       about.EN,
		Notice:      notice.EN,
		Guide:       s.guideText("en"),
		Version:     s.options.Version,
		MCPVersions: mcp.Versions(),
		ARD:         s.ard != nil,
	}

	for _, op := range s.engine.Operations {
		if op.Reads() && !op.Keyed && len(op.Input.Path) == 0 {
			link := documents.Link{Name: op.String(), Path: op.Path, Note: op.Summary + "."}
			site.Reads = append(site.Reads, link)
		}
	}

	openAPI := func(http.Header, *http.Request) *api.Cached { return s.openAPI() }
	r.public(documents.OpenAPIPath, s.serveDocument(api.JSONType, openAPI))
	for path, guide := range s.guides {
		r.public(path, s.serveGuide(guide))
	}

	r.public("/llms.txt", s.serveStatic(plainType, site.LLMs()))
	r.public("/robots.txt", s.serveStatic(plainType, site.Robots()))
	r.public(documents.SkillsPath, s.serveStatic(api.JSONType, string(site.Skills())))

	catalog := api.NewCached([]byte(site.Catalog()))
	catalog.Link = "<" + s.options.BaseURL + documents.CatalogPath + `>; rel="api-catalog"`
	r.public(documents.CatalogPath, s.serveCached(linksetType, catalog))

	card := site.ServerCard()
	r.public(documents.CardPath, s.serveStatic(documents.CardType, card))
	r.public(documents.CardOfSite, s.serveStatic(documents.CardType, card))

	if s.ard != nil {
		s.mountARD(r)
	}

	// Generated for each request, since it contains the date.
	security := func(http.Header, *http.Request) *api.Cached {
		return api.NewCached([]byte(site.Security(s.store.Now())))
	}
	r.public(documents.SecurityPath, s.serveDocument(plainType, security))
}

// serveGuide returns a handler for a page of the onboarding guide, whose languages are given.
func (s *Server) serveGuide(languages map[string]*api.Cached) httprouter.Handle {
	return s.serveDocument(markdownType, func(h http.Header, r *http.Request) *api.Cached {
		lang := web.Language(r)
		h.Set("Content-Language", lang)
		h["Vary"] = middleware.VaryByLanguage
		return languages[lang]
	})
}

// mountARD adds the manifest and the registry of Agentic Resource Discovery.
func (s *Server) mountARD(r *routes) {
	manifest := s.ard.Manifest()
	r.public(documents.ARDPath, s.serveStatic(api.JSONType, manifest))
	r.public(documents.OldARDPath, s.serveStatic(api.JSONType, manifest))

	for _, op := range s.ard.Reads() {
		r.public(op.Path, s.engine.Handler(op))
	}

	for path, search := range s.ard.Searches() {
		r.search(path, search)
	}
}

// serveStatic returns a handler for a document that never changes while the program runs.
func (s *Server) serveStatic(contentType, content string) httprouter.Handle {
	return s.serveCached(contentType, api.NewCached([]byte(content)))
}

// serveCached returns a handler for a document that is the same for each request.
func (s *Server) serveCached(contentType string, document *api.Cached) httprouter.Handle {
	return s.serveDocument(
		contentType,
		func(http.Header, *http.Request) *api.Cached { return document },
	)
}

// serveDocument returns a handler for a document; choose selects its form and sets the headers
// of that form.
func (s *Server) serveDocument(
	contentType string,
	choose func(h http.Header, r *http.Request) *api.Cached,
) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		h := w.Header()
		middleware.ShareWithAnyOrigin(h)
		if err := s.engine.Allow(w, r, limitReads); err != nil {
			s.engine.WriteError(w, r, err)
			return
		}

		h.Set("Content-Type", contentType)
		_ = s.engine.WriteCached(w, r, choose(h, r))
	}
}

// makeGuides inserts the address and name of the site, who may register, and where mails are read
// into the pages of the onboarding guide. It returns them by path and language.
func makeGuides(
	o Options,
	mode domain.RegistrationMode,
) (map[string]map[string]*api.Cached, error) {
	mails := map[string]string{"en": o.MailNote.EN, "zh": o.MailNote.ZH}
	texts, err := documents.Guides(func(text, lang string) string {
		return strings.NewReplacer(
			"{base_url}", o.BaseURL,
			"{site_name}", o.Operator.SiteName(),
			"{registration}", documents.Registration(mode, lang),
			"{mails}", mails[lang],
		).Replace(text)
	})
	if err != nil {
		return nil, err
	}

	guides := map[string]map[string]*api.Cached{}
	for path, languages := range texts {
		guides[path] = map[string]*api.Cached{}
		for lang, text := range languages {
			guides[path][lang] = api.NewCached([]byte(text))
		}
	}

	return guides, nil
}

// guideText returns the onboarding guide in a language (en, zh), as /skill.md serves it.
func (s *Server) guideText(lang string) []byte { return s.guides[documents.GuidePath][lang].Body }
