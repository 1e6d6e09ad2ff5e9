package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"callbook/store"
)

// httpMetrics counts requests by route, and refusals by their code: which limits are met,
// and what callers get wrong.
type httpMetrics struct {
	set      *metrics.Set
	unrouted *routeMetrics // of calls that meet no route
	refusals map[store.Code]*metrics.Counter
}

func newHTTPMetrics(set *metrics.Set, codes []store.Code) *httpMetrics {
	m := &httpMetrics{set: set, refusals: map[store.Code]*metrics.Counter{}}
	m.unrouted = m.route("none")
	for _, code := range codes {
		m.refusals[code] = set.NewCounter(fmt.Sprintf(`callbook_refusals_total{code=%q}`, code))
	}
	return m
}

// routeMetrics counts the calls of one route.
type routeMetrics struct {
	answers [4]*metrics.Counter // by the first digit of the status, from 2 on
	seconds *metrics.PrometheusHistogram
}

// durations are the bounds of what a call takes, in seconds: from a cached answer
// to one that waits for events.
var durations = []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30}

// route returns the metrics of a route.
func (m *httpMetrics) route(name string) *routeMetrics {
	r := &routeMetrics{seconds: m.set.GetOrCreatePrometheusHistogramExt(fmt.Sprintf(`callbook_http_request_seconds{route=%q}`, name), durations)}
	for class := range r.answers {
		r.answers[class] = m.set.GetOrCreateCounter(fmt.Sprintf(`callbook_http_requests_total{route=%q,status="%dxx"}`, name, class+2))
	}
	return r
}

// setRoute says of which route a request is.
func setRoute(w http.ResponseWriter, route *routeMetrics) {
	if r, ok := w.(*recorder); ok {
		r.route = route
	}
}

// count counts a request that is done.
func (m *httpMetrics) count(rec *recorder, took time.Duration) {
	rec.route.answers[min(max(rec.status/100, 2), 5)-2].Inc()
	rec.route.seconds.Update(took.Seconds())
	if refusals := m.refusals[rec.code]; refusals != nil {
		refusals.Inc()
	}
}
