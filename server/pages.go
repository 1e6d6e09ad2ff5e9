package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/julienschmidt/httprouter"

	"callbook/server/api"
	"callbook/server/httpcache"
	"callbook/server/manual"
	"callbook/server/web"
	"callbook/static"
)

// newPages builds the pages for people.
func newPages(s *Server) (*web.Site, error) {
	return web.New(web.Options{
		Store: s.store, BaseURL: s.options.BaseURL, Contact: s.options.Contact, Log: s.options.Log,
		About: web.Text{EN: aboutEN, ZH: aboutZH}, Notice: web.Text(notice), Manual: manual.Pages(s.options.Settings),
		Read: s.readForPage, Send: s.sendPage, Fail: s.failPage,
	})
}

func (s *Server) readForPage(ctx context.Context, id string, args url.Values) (web.Response, error) {
	op := s.home
	if id != op.ID {
		op = s.engine.Operation(id)
	}
	cached, err := s.engine.Read(ctx, op, args)
	if err != nil {
		return web.Response{}, err
	}
	return web.Response{Body: cached.Body, Tag: cached.ETag}, nil
}

// pageTag returns the ETag of a page from everything that it is made from. Clients choose some
// of that, and pages are cached under their ETag, so two pages must never share one.
func pageTag(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// sendPage sends the page that the parts identify. They are everything that it is made from, so
// a page that is cached under their tag never expires.
func (s *Server) sendPage(w http.ResponseWriter, r *http.Request, parts []string, content func() ([]byte, error)) error {
	tag := pageTag(parts)
	if api.MatchesETag(r.Header["If-None-Match"], tag) {
		return api.WriteCached(w, r, &api.Cached{ETag: tag})
	}
	now := s.store.Now()
	cached, version, ok := s.engine.Cache.Get(tag, now)
	if !ok {
		body, err := content()
		if err != nil {
			return err
		}
		cached = &api.Cached{Body: body, ETag: tag}
		s.engine.Cache.Add(tag, httpcache.Item[api.Tag, *api.Cached]{Value: cached, Size: cached.Size(), Added: now}, version)
	}
	return api.WriteCached(w, r, cached)
}

func (s *Server) failPage(w http.ResponseWriter, r *http.Request, err error) web.Failure {
	status, object := s.engine.ErrorResponse(w, r, err)
	failure := web.Failure{Status: status, Text: web.Text{EN: object.MessageEN, ZH: object.MessageZH}}
	for _, d := range object.Details {
		failure.Details = append(failure.Details, web.Detail{Field: d.Field, Text: web.Text{EN: d.MessageEN, ZH: d.MessageZH}})
	}
	return failure
}

// mountPages adds the pages for people.
func (s *Server) mountPages(r *routes) {
	r.public("/style.css", s.serveStatic("text/css; charset=utf-8", static.Style))
	r.public("/mark.svg", s.serveStatic("image/svg+xml", static.Mark))
	for path, show := range map[string]httprouter.Handle{
		"/": s.pages.Home, "/agents": s.pages.Agents, "/agents/{handle}": s.pages.Agent,
		"/calls": s.pages.Calls, "/calls/{id}": s.pages.Call, "/calls.atom": s.pages.Feed,
		"/docs": s.pages.Docs, "/docs/{topic}": s.pages.Docs,
	} {
		counted := s.countPage(show)
		r.public(path, func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			counted(w, r, params)
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		// Everything below it, so that a mistyped link gets the same response.
		r.handle(method, "/owner/*token", s.countPage(s.pages.Owner))
	}
}

// countPage counts a request for a page against the limit of its address.
func (s *Server) countPage(show httprouter.Handle) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		if err := s.engine.Allow(w, r, limitReads); err != nil {
			s.pages.RenderError(w, r, err)
			return
		}
		show(w, r, params)
	}
}

// reject responds to an unknown path or method: with a page for people, with JSON for programs.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, err error) {
	if web.Owns(r.URL.Path) || wantsHTML(r) {
		s.pages.RenderError(w, r, err)
		return
	}
	s.engine.WriteError(w, r, err)
}

// wantsHTML reports whether a browser opened an address that is not a page: browsers prefer HTML
// to all else. Addresses for programs respond to browsers as they do to programs.
func wantsHTML(r *http.Request) bool {
	for _, part := range []string{"/api", "/mcp", "/dev", "/.well-known"} {
		if r.URL.Path == part || strings.HasPrefix(r.URL.Path, part+"/") {
			return false
		}
	}
	return strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}
