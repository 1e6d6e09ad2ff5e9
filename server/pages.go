package server

import (
	"net/http"

	"github.com/julienschmidt/httprouter"

	"callbook/server/web"
	"callbook/static"
)

// newPages makes the pages for people.
func newPages(s *Server) (*web.Site, error) {
	return web.New(web.Options{
		Store: s.store, BaseURL: s.options.BaseURL, Log: s.options.Log, NoticeEN: notice.EN, NoticeZH: notice.ZH,
		Fail: func(w http.ResponseWriter, r *http.Request, err error) int {
			status, _ := s.fail(w, r, err)
			return status
		},
	})
}

// mountPages mounts the pages for people. constant mounts what never changes
// while the program runs.
func (s *Server) mountPages(router *httprouter.Router, constant func(path, contentType, content string)) {
	constant("/style.css", "text/css; charset=utf-8", static.Style)
	constant("/mark.svg", "image/svg+xml", static.Mark)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		// All below it, so that no mistyped link gets another answer.
		router.Handle(method, "/owner/*token", s.ownerPage)
	}
}

func (s *Server) ownerPage(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
	from := subject{network: network(clientAddress(r, s.options.TrustedProxies))}
	if err := s.limiter.take(w.Header(), limitReads, from); err != nil {
		s.pages.Refuse(w, r, err)
		return
	}
	s.pages.Owner(w, r, params.ByName("token")[len("/"):])
}

// refuse answers a path or a method that there is not: on the owner's page to a
// person, elsewhere to a program.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if web.OfOwner(r.URL.Path) {
		s.pages.Refuse(w, r, err)
		return
	}
	s.writeError(w, r, err)
}
