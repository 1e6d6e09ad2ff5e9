package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// discard is a ResponseWriter that copies the header as net/http does.
type discard struct{ header, sent http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             { d.sent = d.header.Clone() }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkCachedRead is the cost of the whole chain for a cached card.
func BenchmarkCachedRead(b *testing.B) {
	s := newSite(b, func(o *siteOptions) { o.limits = Limits{Reads: Limit{1_000_000_000, time.Minute}} })
	s.agent("harbour-pilot")
	const path = "/api/agents/harbour-pilot"
	tag := s.call("GET", path, "", nil).status(200).Header.Get("ETag")
	for name, match := range map[string]string{"card": "", "304": tag} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("GET", path, nil)
				if match != "" {
					r.Header.Set("If-None-Match", match)
				}
				s.server.ServeHTTP(&discard{header: http.Header{}}, r)
			}
		})
	}
	b.Run("none", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := httptest.NewRequest("GET", path, nil)
			_ = r
			_ = &discard{header: http.Header{}}
		}
	})
}
