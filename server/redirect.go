package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store/domain"
)

// Handlers of a site that terminates TLS itself: for plain HTTP, and for its other names.

// Redirect returns the handler for plain HTTP: it redirects reads to the site, and passes
// challenges of the certificate authority to challenges, if that is not nil. It rejects a
// request that may change something or carries a key.
func (s *Server) Redirect(challenges http.Handler) http.Handler {
	m := s.observer.Metrics.AnyMethod("redirect")
	onward := middleware.RedirectTo(s.options.BaseURL, http.StatusMovedPermanently)
	respond := s.countUnrouted(func(w http.ResponseWriter, r *http.Request) {
		middleware.RecordOf(w).Route = m.Of(r)
		// The header means nothing over plain HTTP, where anybody may have written it.
		w.Header().Del("Strict-Transport-Security")
		_, keyed := r.Header["Authorization"]
		switch {
		// The key has crossed the network readable, and a redirected client would continue
		// unnoticed.
		case keyed || r.Method != http.MethodGet && r.Method != http.MethodHead:
			s.engine.WriteError(w, r, api.NewError(domain.CodeForbidden, "plain"))

		case challenges != nil && strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/"):
			s.challenge(challenges, w, r)

		default:
			// The oldest clients know 301, and a read stays a read.
			onward.ServeHTTP(w, r)
		}
	})

	return http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { s.observer.Observe(respond, w, r) },
	)
}

// challenge responds to the certificate authority, with 404 to anything that it did not ask for.
func (s *Server) challenge(challenges http.Handler, w http.ResponseWriter, r *http.Request) {
	only := &middleware.SuccessWriter{ResponseWriter: w}
	challenges.ServeHTTP(only, r)
	if only.Failed {
		w.Header().Del("Content-Type")
		s.engine.WriteError(w, r, api.NewError(domain.CodeNotFound, ""))
	}
}

// OneName returns the handler of a site with other names: it redirects requests for one of them
// to the name in the documents. Requests with keys are redirected as well, since TLS protects
// them.
func (s *Server) OneName(names []string) http.Handler {
	// The method and the body of a request stay.
	lead := s.countUnrouted(
		middleware.RedirectTo(s.options.BaseURL, http.StatusPermanentRedirect).ServeHTTP,
	)
	own, _ := url.Parse(s.options.BaseURL) // valid, as New has checked
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
		if name == own.Hostname() || !slices.Contains(names, name) {
			s.ServeHTTP(w, r)
			return
		}

		s.observer.Observe(lead, w, r)
	})
}

// ShowCertificate adds a metric for the expiry of a certificate, which is 0 while there is none.
func (s *Server) ShowCertificate(name string, ends func() time.Time) {
	s.metrics.NewGauge(`callbook_certificate_expires_seconds{domain="`+name+`"}`, func() float64 {
		if end := ends(); !end.IsZero() {
			return float64(end.Unix())
		}
		return 0
	})
}
