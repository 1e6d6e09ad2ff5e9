package middleware

import (
	"net/http"
	"strings"
)

// RedirectTo returns a handler that redirects to the same path of the site, whichever host the
// request names.
func RedirectTo(base string, status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request can set only the path and the query of the target. x:@example.org is a path,
		// too, and would make the host of the base a user.
		target := base + "/"
		if path := r.URL.EscapedPath(); strings.HasPrefix(path, "/") {
			target = base + path
		}

		if r.URL.RawQuery != "" {
			target += "?" + r.URL.RawQuery
		}

		h := w.Header()
		h.Set("Cache-Control", "no-store") // the operator may change the names
		h["Content-Type"] = nil            // without a page as its body
		http.Redirect(w, r, target, status)
	})
}

// SuccessWriter drops error responses of a handler, so that its caller can send one of its own.
type SuccessWriter struct {
	http.ResponseWriter
	Failed bool // the handler has sent an error response
}

// WriteHeader sends the status of a success.
func (s *SuccessWriter) WriteHeader(status int) {
	s.Failed = status >= 400
	if !s.Failed {
		s.ResponseWriter.WriteHeader(status)
	}
}

// Write sends a part of the body of a success.
func (s *SuccessWriter) Write(b []byte) (int, error) {
	if s.Failed {
		return len(b), nil
	}
	return s.ResponseWriter.Write(b)
}
