package middleware

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// RedirectTo sends a caller to the same path of the site, whichever host the call names. Of
// the target a request may write nothing but path and query: x:@example.org is one too.
func RedirectTo(base string, status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := base + "/"
		if path := r.URL.EscapedPath(); strings.HasPrefix(path, "/") {
			target = base + path
		}
		if r.URL.RawQuery != "" {
			target += "?" + r.URL.RawQuery
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store") // an operator may change his mind
		h["Content-Type"] = nil            // no page
		http.Redirect(w, r, target, status)
	})
}

// CanonicalHost has next answer for its own name and for names that are not listed, and other
// for the rest.
func CanonicalHost(own string, names []string, next, other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
		if name == own || !slices.Contains(names, name) {
			next.ServeHTTP(w, r)
			return
		}
		other.ServeHTTP(w, r)
	})
}

// SuccessWriter keeps the failures of a handler, which words them otherwise than the site.
type SuccessWriter struct {
	http.ResponseWriter
	Failed bool
}

func (s *SuccessWriter) WriteHeader(status int) {
	if s.Failed = status >= 400; !s.Failed {
		s.ResponseWriter.WriteHeader(status)
	}
}

func (s *SuccessWriter) Write(b []byte) (int, error) {
	if s.Failed {
		return len(b), nil
	}
	return s.ResponseWriter.Write(b)
}
