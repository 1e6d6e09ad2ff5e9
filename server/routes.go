package server

import (
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/middleware"
	"callbook/store/domain"
)

// routes collects the routes of the server by path and method.
type routes struct {
	router       *httprouter.Router
	publicRoutes *httprouter.Router // readable from any origin, by GET or, with a body, by POST
	wrap         func(method, route string, h httprouter.Handle) httprouter.Handle
}

// handle adds a route; {name} is a parameter.
func (r *routes) handle(method, path string, h httprouter.Handle) {
	r.router.Handle(method, pattern(path), r.wrap(method, path, h))
}

// get adds a route for GET and HEAD.
func (r *routes) get(path string, h httprouter.Handle) {
	r.handle(http.MethodGet, path, h)
	r.handle(http.MethodHead, path, h)
}

// public adds a route for GET and HEAD that any origin may read.
func (r *routes) public(path string, h httprouter.Handle) {
	r.get(path, h)
	r.publicRoutes.GET(pattern(path), h)
}

// search adds a route for a POST that changes nothing, which any origin may send.
func (r *routes) search(path string, h httprouter.Handle) {
	r.handle(http.MethodPost, path, h)
	r.publicRoutes.POST(pattern(path), h)
}

// isPublic reports whether any origin may send a method to a path.
func (r *routes) isPublic(method, path string) bool {
	h, _, _ := r.publicRoutes.Lookup(method, path)
	return h != nil
}

// pattern converts a path to the notation of httprouter: :handle for {handle}.
func pattern(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// newHandler builds the router of all routes.
func (s *Server) newHandler() http.Handler {
	router := httprouter.New()
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	r := &routes{router, httprouter.New(), s.countRoute}
	router.GlobalOPTIONS = s.countUnrouted(
		func(w http.ResponseWriter, req *http.Request) { s.preflight(w, req, r) },
	)
	notFound := s.countUnrouted(s.rejectPath)
	router.NotFound = notFound
	router.MethodNotAllowed = s.countUnrouted(s.rejectMethod)

	s.mountOperations(r)
	s.mountPages(r)
	s.mountDocuments(r)

	serveMCP := func(w http.ResponseWriter, req *http.Request, _ httprouter.Params) {
		s.mcp.ServeHTTP(w, req)
	}
	r.handle(http.MethodPost, documents.MCPPath, serveMCP)
	r.get("/healthz", s.health(s.live))
	r.get("/readyz", s.health(s.ready))

	foreignHost := s.countUnrouted(func(w http.ResponseWriter, req *http.Request) {
		s.reject(w, req, api.NewError(domain.CodeForbidden, "host"))
	})

	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s.options.Private && !s.mcp.Gate.IsOwnHost(req) {
			foreignHost.ServeHTTP(w, req)
			return
		}
		// A path has one spelling only: an encoded slash is rejected.
		if strings.Contains(strings.ToLower(req.URL.RawPath), "%2f") {
			notFound.ServeHTTP(w, req)
			return
		}

		router.ServeHTTP(w, req)
	})
}

// preflight responds to OPTIONS.
func (s *Server) preflight(w http.ResponseWriter, req *http.Request, r *routes) {
	// Browsers get what the gate allows: pages of other origins read it by configuration alone.
	if req.URL.Path == documents.MCPPath {
		s.mcp.Gate.Preflight(w, req)
		return
	}

	isShared := func(method string) bool {
		return !s.options.Private && r.isPublic(method, req.URL.Path)
	}
	middleware.Preflight(w, isShared(http.MethodGet), isShared(http.MethodPost))
}

// rejectPath responds to a path that no route has.
func (s *Server) rejectPath(w http.ResponseWriter, r *http.Request) {
	if showsPage(r) {
		s.pages.RenderError(w, r, api.NewError(domain.CodeNotFound, ""))
		return
	}
	s.engine.WriteError(w, r, s.engine.UnknownPath(r))
}

// rejectMethod responds to a method that the route of the path does not take.
func (s *Server) rejectMethod(w http.ResponseWriter, r *http.Request) {
	// A program that takes a page for an operation sends a body.
	if wantsHTML(r) || showsPage(r) && r.ContentLength == 0 {
		s.pages.RenderError(w, r, api.NewError(api.CodeMethodNotAllowed, "page"))
		return
	}

	// The router has set the header.
	s.engine.WriteError(w, r, s.engine.OtherMethod(r, w.Header().Get("Allow")))
}

// countUnrouted counts requests that reach no operation against the limit of their address.
func (s *Server) countUnrouted(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.engine.Allow(w, r, limitReads); err != nil {
			s.reject(w, r, err)
			return
		}
		handler(w, r)
	})
}

func (s *Server) mountOperations(r *routes) {
	for _, op := range s.engine.Operations {
		switch {
		case !op.Reads():
			r.handle(op.Method, op.Path, s.engine.Handler(op))

		case op.Keyed:
			r.get(op.Path, s.engine.Handler(op))

		default:
			r.public(op.Path, s.engine.Handler(op))
		}
	}
}
