package web

import (
	"net/http"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/middleware"
)

// Fail is the ErrorResponse of the engine.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, err error) (int, api.ErrorObject) {
	return s.options.Engine.ErrorResponse(w, r, err)
}

// Routes returns the handlers of the pages of the directory by path.
func (s *Site) Routes() map[string]httprouter.Handle {
	routes := map[string]httprouter.Handle{
		"/":                         s.Home,
		"/agents":                   s.Agents,
		"/agents/{handle}":          s.Agent,
		"/calls":                    s.Calls,
		"/calls/{id}":               s.Call,
		feedPath:                    s.Feed,
		badgePath:                   s.Badge,
		"/guide":                    s.Guide,
		"/about":                    s.About,
		"/docs":                     s.Docs,
		"/docs/{topic}":             s.Docs,
		"/docs/{topic}/{operation}": s.Reference,
	}

	for path, show := range routes {
		counted := s.counted(show)
		routes[path] = func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
			middleware.ShareWithAnyOrigin(w.Header())
			counted(w, r, params)
		}
	}

	return routes
}

// OwnerRoute returns the handler of owners' pages, for every method and all paths below ownerPath.
func (s *Site) OwnerRoute() httprouter.Handle { return s.counted(s.Owner) }

// counted counts a request for a page against the limit of its address.
func (s *Site) counted(show httprouter.Handle) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		if err := s.options.Engine.Allow(w, r, s.options.Reads); err != nil {
			s.RenderError(w, r, err)
			return
		}
		show(w, r, params)
	}
}
