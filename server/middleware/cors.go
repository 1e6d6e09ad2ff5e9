package middleware

import (
	"net/http"
	"slices"
)

// anyOrigin is the value of Access-Control-Allow-Origin for public reads.
var anyOrigin = []string{"*"}

// exposed are the headers of a response that scripts of other origins may read, beside those that
// CORS always shows.
var exposed = []string{
	"ETag, Link, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id",
}

// ShareWithAnyOrigin lets pages of any origin read a public response.
func ShareWithAnyOrigin(h http.Header) {
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Expose-Headers"] = exposed
}

// denyOtherOrigins removes what lets pages of any origin use a response. Those of an origin that
// the operator names still can.
func denyOtherOrigins(h http.Header) {
	h["Cross-Origin-Resource-Policy"] = sameOrigin
	if slices.Equal(h["Access-Control-Allow-Origin"], anyOrigin) {
		delete(h, "Access-Control-Allow-Origin")
		delete(h, "Access-Control-Expose-Headers")
	}
}

var sameOrigin = []string{"same-origin"}

// Preflight responds to OPTIONS. Public reads are allowed from any origin; nothing else is, and
// never with credentials.
func Preflight(w http.ResponseWriter, readable, searchable bool) {
	h := w.Header()
	if readable || searchable {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match, X-Request-Id")

		// A public read with a body is sent as POST.
		if searchable {
			h.Set("Access-Control-Allow-Methods", "POST")
			h.Set("Access-Control-Allow-Headers", "Content-Type, X-Request-Id")
		}

		h.Set("Access-Control-Max-Age", "86400")
	}

	w.WriteHeader(http.StatusNoContent)
}
