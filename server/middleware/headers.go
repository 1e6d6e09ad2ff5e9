package middleware

import "net/http"

// vary is the Vary header of every response, which may be compressed.
var vary = []string{"Accept-Encoding"}

// VaryByForm is the Vary header of a page, which is sent as HTML or Markdown.
var VaryByForm = []string{"Accept-Encoding, Accept-Language, Accept"}

// VaryByLanguage is the Vary header of a response that depends on the language as well. It is one
// line: nginx before 1.23 reads only the last one, and would serve compressed responses to every
// client.
var VaryByLanguage = []string{"Accept-Encoding, Accept-Language"}

// securityHeaders are the headers of every response: the service has no scripts, no frames and no
// foreign resources. Package web sets those that only pages need: each header costs a cached response
// two per cent of its speed, and net/http sends a header and a body of more than 4096 bytes in two
// parts.
var securityHeaders = []struct {
	name  string
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
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
