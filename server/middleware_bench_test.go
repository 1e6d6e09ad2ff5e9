package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"callbook/server/ratelimit"
)

// discard is a ResponseWriter that copies the header, as net/http does.
type discard struct{ header, sent http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             { d.sent = d.header.Clone() }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkServer_CachedCard measures the whole chain for a card that is cached. The benchmark
// "alone" is what making the request costs.
func BenchmarkServer_CachedCard(b *testing.B) {
	s := newSite(b, withLimits(ratelimit.Limits{limitReads: ratelimit.Limit{Requests: 1_000_000_000, Period: time.Minute}}))
	s.agent("harbour-pilot")
	const path = "/api/agents/harbour-pilot"
	tag := s.call("GET", path, "", nil).status(200).Header.Get("ETag")
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, bench := range []struct {
		name, match string
		handler     http.Handler
	}{{"card", "", s.server}, {"304", tag, s.server}, {"alone", "", nothing}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("GET", path, nil)
				if bench.match != "" {
					r.Header.Set("If-None-Match", bench.match)
				}
				bench.handler.ServeHTTP(&discard{header: http.Header{}}, r)
			}
		})
	}
}
