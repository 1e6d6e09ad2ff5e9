package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"callbook/store"
)

// What a site that speaks https by itself answers beside its own address: plain http,
// and its further names.

// Redirect answers plain http for a site that speaks https: it leads readers to the
// site and the certificate authority to its challenges, if it answers them. A call that
// may change something, or that carries a key, is refused instead: its key has crossed
// the network readable, and a client that was led on would go on like this unnoticed.
func (s *Server) Redirect(challenges http.Handler) http.Handler {
	m := newMeter(s.meters, "redirect")
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.(*recorder).meter = m
		w.Header().Del("Strict-Transport-Security") // means nothing where anybody may have written it
		_, keyed := r.Header["Authorization"]
		switch {
		case keyed || r.Method != http.MethodGet && r.Method != http.MethodHead:
			s.engine.writeError(w, r, refuse(store.CodeForbidden, "plain"))
		case challenges != nil && strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/"):
			s.challenge(challenges, w, r)
		default:
			// The oldest clients know 301, and a reading call stays one.
			s.lead(w, r, http.StatusMovedPermanently)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.observe(http.HandlerFunc(answer), w, r) })
}

// challenge answers the certificate authority. What it did not ask for is not there.
func (s *Server) challenge(challenges http.Handler, w http.ResponseWriter, r *http.Request) {
	only := &successes{ResponseWriter: w}
	challenges.ServeHTTP(only, r)
	if only.failed {
		w.Header().Del("Content-Type")
		s.engine.writeError(w, r, refuse(store.CodeNotFound, ""))
	}
}

// successes keeps the failures of a handler, which words them otherwise than the site.
type successes struct {
	http.ResponseWriter
	failed bool
}

func (s *successes) WriteHeader(status int) {
	if s.failed = status >= 400; !s.failed {
		s.ResponseWriter.WriteHeader(status)
	}
}

func (s *successes) Write(b []byte) (int, error) {
	if s.failed {
		return len(b), nil
	}
	return s.ResponseWriter.Write(b)
}

// OneName answers as the site does, but leads whoever comes by another of its names to
// the one that its documents give; calls with keys too, which TLS keeps from others.
func (s *Server) OneName(names []string) http.Handler {
	own, _ := url.Parse(s.options.BaseURL) // as New has checked
	lead := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.lead(w, r, http.StatusPermanentRedirect) // the method and the body stay
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
		if name == own.Hostname() || !slices.Contains(names, name) {
			s.ServeHTTP(w, r)
			return
		}
		s.observe(lead, w, r)
	})
}

// lead sends a caller to the same path of the site, whichever host the call names. Of
// the target a request may write nothing but path and query: x:@example.org is one too.
func (s *Server) lead(w http.ResponseWriter, r *http.Request, status int) {
	target := s.options.BaseURL + "/"
	if path := r.URL.EscapedPath(); strings.HasPrefix(path, "/") {
		target = s.options.BaseURL + path
	}
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store") // an operator may change his mind
	h["Content-Type"] = nil            // no page
	http.Redirect(w, r, target, status)
}

// ShowCertificate adds a figure: the end of a name's certificate; 0 while there is none.
func (s *Server) ShowCertificate(name string, ends func() time.Time) {
	s.meters.NewGauge(`callbook_certificate_expires_seconds{domain="`+name+`"}`, func() float64 {
		if end := ends(); !end.IsZero() {
			return float64(end.Unix())
		}
		return 0
	})
}
