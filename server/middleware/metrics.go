package middleware

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"callbook/store/domain"
)

// Metrics counts requests by route, and error responses by their code.
type Metrics struct {
	set        *metrics.Set
	unrouted   MethodMetrics // of requests that meet no route
	rejections map[domain.Code]*metrics.Counter
	limits     map[string]*metrics.Counter
	abuse      atomic.Int64 // requests rejected as abuse since TakeAbuse was last called
}

// NewMetrics returns metrics in a set, with a counter for each error code and each limit. Labels
// have no other values than these, names of routes, and methods that the log names.
func NewMetrics(set *metrics.Set, codes []domain.Code, limits []string) *Metrics {
	m := &Metrics{
		set:        set,
		rejections: map[domain.Code]*metrics.Counter{},
		limits:     map[string]*metrics.Counter{},
	}

	m.unrouted = m.AnyMethod("none")
	for _, code := range codes {
		m.rejections[code] = set.NewCounter(fmt.Sprintf(`callbook_refusals_total{code=%q}`, code))
	}

	for _, limit := range limits {
		name := fmt.Sprintf(`callbook_rate_limited_total{limit=%q}`, limit)
		m.limits[limit] = set.NewCounter(name)
	}

	return m
}

// RouteMetrics counts the requests of one method to one route.
type RouteMetrics struct {
	name      string
	responses [4]*metrics.Counter // by the first digit of the status, from 2 on
	seconds   *metrics.PrometheusHistogram
}

// durations are the upper bounds of the histogram in seconds: from a cached response to one that
// waits for events.
var durations = []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30}

// Route returns the metrics of a method of a route.
func (m *Metrics) Route(method, name string) *RouteMetrics {
	r := &RouteMetrics{
		name: name,
		seconds: m.set.GetOrCreatePrometheusHistogramExt(
			fmt.Sprintf(`callbook_http_request_seconds{route=%q}`, name),
			durations,
		),
	}

	for class := range r.responses {
		r.responses[class] = m.set.GetOrCreateCounter(fmt.Sprintf(
			`callbook_http_requests_total{method=%q,route=%q,status="%dxx"}`,
			method,
			name,
			class+2,
		))
	}
	return r
}

// MethodMetrics are the metrics of a route that takes any method, by method as the log shows it.
type MethodMetrics map[string]*RouteMetrics

// AnyMethod returns the metrics of a route that takes any method.
func (m *Metrics) AnyMethod(name string) MethodMetrics {
	all := MethodMetrics{}
	for _, method := range append([]string{otherMethod}, methods...) {
		all[method] = m.Route(method, name)
	}
	return all
}

// Of returns the metrics of the method of a request.
func (m MethodMetrics) Of(r *http.Request) *RouteMetrics { return m[loggedMethod(r.Method)] }

// CountAbuse counts a request that is rejected as abuse (see domain.Error.IsAbuse) or with ErrBusy.
func CountAbuse(w http.ResponseWriter) {
	if r, ok := recorderOf(w); ok {
		r.observer.Metrics.AddAbuse(1)
	}
}

// AddAbuse adds requests that TakeAbuse returns.
func (m *Metrics) AddAbuse(requests int64) { m.abuse.Add(requests) }

// TakeAbuse returns how many requests were rejected as abuse since the last call.
func (m *Metrics) TakeAbuse() int64 { return m.abuse.Swap(0) }

// count counts a completed request.
func (m *Metrics) count(rec *responseRecorder, took time.Duration) {
	rec.Route.responses[min(max(rec.status/100, 2), 5)-2].Inc()
	rec.Route.seconds.Update(took.Seconds())
	if rejections, ok := m.rejections[rec.Code]; ok {
		rejections.Inc()
	}
	if rejections, ok := m.limits[rec.Limit]; ok {
		rejections.Inc()
	}
}
