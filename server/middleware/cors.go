package middleware

import "net/http"

// AnyOrigin is the Access-Control-Allow-Origin of what any page may read.
var AnyOrigin = []string{"*"}

// Preflight answers OPTIONS. Public reads may be made from any origin; nothing
// else may, and never with credentials.
func Preflight(w http.ResponseWriter, readable bool) {
	h := w.Header()
	if readable {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "If-None-Match, X-Request-Id")
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
}
