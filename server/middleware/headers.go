package middleware

import "net/http"

// vary tells, as compress does, what an answer hangs on.
var vary = []string{"Accept-Encoding"}

// securityHeaders go with every answer. The service has no script, no frame and
// nothing from elsewhere. What steers a document's window, links and features goes
// with the pages for people, in package web: data has none of these, and each header
// costs an answer from the cache two per cent of its speed.
var securityHeaders = []struct {
	name  string
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}},
	{"Cross-Origin-Resource-Policy", []string{"cross-origin"}},
}

var strictTransportSecurity = []string{"max-age=31536000"}

// setCommonHeaders sets the headers of every response.
func setCommonHeaders(h http.Header, id []string, secure bool) {
	h["Vary"] = vary
	h["X-Request-Id"] = id
	for i := range securityHeaders {
		h[securityHeaders[i].name] = securityHeaders[i].value
	}
	if secure {
		h["Strict-Transport-Security"] = strictTransportSecurity
	}
}
