package middleware

import (
	"net/http"
	"testing"
)

func TestAcceptsGzip(t *testing.T) {
	for accept, want := range map[string]bool{
		"br, gzip":              true,
		"br, GZIP":              true,
		"deflate, gzip ; q=0.5": true,
		"br":                    false,
		"gzip;q=0":              false,
		"gzip; Q=0.000, br":     false,
		"xgzip":                 false,
		"":                      false,
	} {
		r := &http.Request{Header: http.Header{"Accept-Encoding": {accept}}}
		if got := AcceptsGzip(r); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
}
