package server

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store"
)

// What a site that speaks https by itself answers beside its own address: plain http,
// and its further names.

// Redirect answers plain http for a site that speaks https: it leads readers to the
// site and the certificate authority to its challenges, if it answers them. A call that
// may change something, or that carries a key, is refused instead: its key has crossed
// the network readable, and a client that was led on would go on like this unnoticed.
func (s *Server) Redirect(challenges http.Handler) http.Handler {
	m := s.observer.Metrics.Route("redirect")
	onward := middleware.RedirectTo(s.options.BaseURL, http.StatusMovedPermanently)
	answer := func(w http.ResponseWriter, r *http.Request) {
		middleware.SetRoute(w, m)
		w.Header().Del("Strict-Transport-Security") // means nothing where anybody may have written it
		_, keyed := r.Header["Authorization"]
		switch {
		case keyed || r.Method != http.MethodGet && r.Method != http.MethodHead:
			s.engine.WriteError(w, r, api.NewError(store.CodeForbidden, "plain"))
		case challenges != nil && strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/"):
			s.challenge(challenges, w, r)
		default:
			// The oldest clients know 301, and a reading call stays one.
			onward.ServeHTTP(w, r)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.observer.Observe(http.HandlerFunc(answer), w, r) })
}

// challenge answers the certificate authority. What it did not ask for is not there.
func (s *Server) challenge(challenges http.Handler, w http.ResponseWriter, r *http.Request) {
	only := &middleware.SuccessWriter{ResponseWriter: w}
	challenges.ServeHTTP(only, r)
	if only.Failed {
		w.Header().Del("Content-Type")
		s.engine.WriteError(w, r, api.NewError(store.CodeNotFound, ""))
	}
}

// OneName answers as the site does, but leads whoever comes by another of its names to
// the one that its documents give; calls with keys too, which TLS keeps from others.
func (s *Server) OneName(names []string) http.Handler {
	lead := middleware.RedirectTo(s.options.BaseURL, http.StatusPermanentRedirect) // the method and the body stay
	observed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.observer.Observe(lead, w, r) })
	own, _ := url.Parse(s.options.BaseURL) // as New has checked
	return middleware.CanonicalHost(own.Hostname(), names, s, observed)
}

// ShowCertificate adds a figure: the end of a name's certificate; 0 while there is none.
func (s *Server) ShowCertificate(name string, ends func() time.Time) {
	s.metrics.NewGauge(`callbook_certificate_expires_seconds{domain="`+name+`"}`, func() float64 {
		if end := ends(); !end.IsZero() {
			return float64(end.Unix())
		}
		return 0
	})
}
