package server

import (
	"context"
	"net/http"
	"strings"

	"callbook/server/documents"
	"callbook/server/operator"
	"callbook/server/web"
	"callbook/static"
	"callbook/store"
)

// newPages builds the pages for people.
func (s *Server) newPages() (*web.Site, error) {
	s.addHomeOperation()
	manifest := ""
	if s.ard != nil {
		manifest = documents.ARDPath
	}

	return web.New(web.Options{
		Store:   s.store,
		Engine:  s.engine,
		Reads:   limitReads,
		BaseURL: s.options.BaseURL,
		Contact: s.options.Contact,
		Log:     s.options.Log,
		Name:    s.options.Operator.SiteName(),
		Detail:  s.options.Operator.About,
		Legal:   s.options.Operator.Legal,
		About:   web.Text(about),
		Notice:  web.Text(notice),
		ARD:     manifest,
		Manual:  documents.ManualPages(s.options.Settings),
		Guide:   s.guideText,
	})
}

// OperatorPage returns the handler of the listener of the operator's page. check finds problems,
// one a line.
func (s *Server) OperatorPage(check func(context.Context, *store.Store) string) http.Handler {
	return operator.New(operator.Options{
		Store: s.store,
		Pages: s.pages,
		Check: check,
		Log:   s.options.Log,
	})
}

// mountPages adds the pages for people.
func (s *Server) mountPages(r *routes) {
	r.public("/style.css", s.serveStatic("text/css; charset=utf-8", static.Style))
	r.public("/mark.svg", s.serveStatic("image/svg+xml", static.Mark))
	r.public("/mark.png", s.serveStatic("image/png", static.MarkPNG))

	for path, show := range s.pages.Routes() {
		r.public(path, show)
	}

	for path, show := range s.pages.SitemapRoutes() {
		r.public(path, show)
	}

	for path, report := range s.pages.ReportRoutes() {
		r.handle(http.MethodPost, path, report)
	}

	// Everything below it, so that a mistyped link gets the same response. Not public: a page of
	// another site must not read it.
	r.get("/owner/*token", s.pages.OwnerRoute())
	r.handle(http.MethodPost, "/owner/*token", s.pages.OwnerRoute())
}

// reject responds to an unknown path or method: with a page for people, with JSON for programs.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, err error) {
	if showsPage(r) {
		s.pages.RenderError(w, r, err)
		return
	}
	s.engine.WriteError(w, r, err)
}

// showsPage reports whether the response to a wrong request is a page.
func showsPage(r *http.Request) bool { return web.Owns(r.URL.Path) || wantsHTML(r) }

// wantsHTML reports whether a browser opened an address that is not a page: browsers prefer HTML
// to all else. Addresses for programs respond to browsers as they do to programs.
func wantsHTML(r *http.Request) bool {
	for _, part := range []string{"/api", "/mcp", "/ard", "/dev", "/.well-known"} {
		if r.URL.Path == part || strings.HasPrefix(r.URL.Path, part+"/") {
			return false
		}
	}
	return strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}
