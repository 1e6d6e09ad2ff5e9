package web

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/httpcache"
)

// pageTag returns the ETag of a page from everything that it is made from. Clients choose some
// of that, and pages are cached under their ETag, so two pages must never share one.
func pageTag(parts []string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts)) // quoted, so that no part continues in the next
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// sendCached sends the page that the parts identify. They are everything that it is made from, so
// a page that is cached under their tag never expires. It calls content only if neither the client nor the cache has
// the page.
func (s *Site) sendCached(w http.ResponseWriter, r *http.Request, parts []string, content func() ([]byte, error)) error {
	tag := pageTag(parts)
	if api.MatchesETag(r.Header["If-None-Match"], tag) {
		return s.options.Engine.WriteCached(w, r, &api.Cached{ETag: tag})
	}
	cache, now := s.options.Engine.Cache, s.options.Store.Now()
	cached, version, ok := cache.Get(tag, now)
	if !ok {
		body, err := content()
		if err != nil {
			return err
		}
		cached = &api.Cached{Body: body, ETag: tag}
		cache.Add(tag, httpcache.Item[api.Tag, *api.Cached]{Value: cached, Size: cached.Size(), Added: now}, version)
	}
	return s.options.Engine.WriteCached(w, r, cached)
}

// Fail is the ErrorResponse of the engine.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, err error) (int, api.ErrorObject) {
	return s.options.Engine.ErrorResponse(w, r, err)
}

// Routes returns the handlers of the pages of the directory by path.
func (s *Site) Routes() map[string]httprouter.Handle {
	routes := map[string]httprouter.Handle{
		"/": s.Home, "/agents": s.Agents, "/agents/{handle}": s.Agent,
		"/calls": s.Calls, "/calls/{id}": s.Call, feedPath: s.Feed, badgePath: s.Badge,
		"/guide": s.Guide, "/about": s.About,
		"/docs": s.Docs, "/docs/{topic}": s.Docs, "/docs/{topic}/{operation}": s.Reference,
	}
	for path, show := range routes {
		counted := s.counted(show)
		routes[path] = func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
			w.Header().Set("Access-Control-Allow-Origin", "*")
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
