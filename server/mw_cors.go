package server

import "net/http"

// anyOrigin is the Access-Control-Allow-Origin of what any page may read.
var anyOrigin = []string{"*"}

// preflight answers OPTIONS. Public reads may be made from any origin; nothing
// else may, and never with credentials.
func preflight(w http.ResponseWriter, readable bool) {
	h := w.Header()
	if readable {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "If-None-Match, X-Request-Id")
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
}
