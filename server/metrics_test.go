package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"callbook/server/ratelimit"
)

// metricsText returns the metrics as Prometheus reads them.
func (s *site) metricsText() string {
	s.Helper()
	w := httptest.NewRecorder()
	s.server.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	equal(s, 200, w.Code, "the status of the metrics")
	return w.Body.String()
}

// hasLines fails the test unless metrics have lines that begin like these.
func hasLines(t testing.TB, figures string, beginnings ...string) {
	t.Helper()
	for _, beginning := range beginnings {
		contains(t, "the metrics", figures, "\n"+beginning)
	}
}

var figureLine = regexp.MustCompile(`^[a-z_]+(\{([A-Za-z]+="[^"]*",?)+\})? ([-+0-9.eE]+|NaN)$`)

func TestMetrics_CountRequestsByRoute(t *testing.T) {
	s := newSite(t)
	key := s.agent("tide-reader")
	s.send("GET", "/api/agents/tide-reader", "", nil).status(200)
	s.send("HEAD", "/api/agents/tide-reader", "", nil).status(200)
	s.send("GET", "/api/agents/nobody", "", nil).status(404)
	s.send("GET", "/api/me", key, nil).status(200)
	s.send("GET", "/agents/tide-reader", "", nil).status(200)
	s.send("GET", "/owner/secret-token", "", nil).status(404)
	s.send("GET", "/no/such?key="+key, "", nil).status(404)
	text := s.metricsText()
	hasLines(t, text,
		`callbook_http_requests_total{method="POST",route="/api/agents",status="2xx"} 1`,
		`callbook_http_requests_total{method="GET",route="/api/agents/{handle}",status="2xx"} 1`,
		`callbook_http_requests_total{method="HEAD",route="/api/agents/{handle}",status="2xx"} 1`,
		`callbook_http_requests_total{method="GET",route="/api/agents/{handle}",status="4xx"} 1`,
		`callbook_http_requests_total{method="GET",route="/api/me",status="2xx"} 1`,
		`callbook_http_requests_total{method="GET",route="/agents/{handle}",status="2xx"} 1`,
		`callbook_http_requests_total{method="GET",route="/owner/*token",status="4xx"} 1`,
		`callbook_http_requests_total{method="GET",route="none",status="4xx"} 1`,
		`callbook_http_request_seconds_count{route="/api/me"} 1`,
		`callbook_refusals_total{code="not_found"} 3`, `callbook_refusals_total{code="rate_limited"} 0`,
		`callbook_build_info{goversion="`+runtime.Version()+`",version="test"} 1`,
		`callbook_agents 1`, `callbook_mails_waiting 0`, `callbook_commits_total`, `callbook_database_bytes`, `go_goroutines`, `process_open_fds`)
	for _, secret := range []string{key, "tide-reader", "secret-token", "nobody"} {
		if strings.Contains(text, secret) {
			t.Errorf("the figures hold %s", secret)
		}
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !figureLine.MatchString(line) {
			t.Errorf("not in Prometheus' format: %s", line)
		}
	}
	if strings.Contains(text, "callbook_backup_timestamp_seconds") {
		t.Error("there is the time of a backup without a folder for backups")
	}
}

// samples returns the metrics with their labels, without their values.
func samples(figures string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(figures) {
		if line[0] != '#' {
			all[line[:strings.LastIndexByte(line, ' ')]] = true
		}
	}
	return all
}

// TestMetrics_AllAreListed: the page leaves out what the list does not have.
func TestMetrics_AllAreListed(t *testing.T) {
	s := newSite(t, withMailCaps, func(o *siteOptions) {
		o.serve = func(o *Options) { o.Backups.Folder = "unused" }
	})
	s.server.ShowCertificate("directory.example.org", func() time.Time { return time.Time{} })
	var raw strings.Builder
	s.server.writeMetrics(t.Context(), &raw)
	written := samples(s.metricsText())
	for sample := range samples(raw.String()) {
		if strings.HasPrefix(sample, "callbook_") && !written[sample] {
			t.Errorf("exportedMetrics does not list %s", sample)
		}
	}
}

// TestMetrics_ClientsAddNoLabels: a client that makes up methods, paths, hosts and errors must not fill the memory of
// Prometheus.
func TestMetrics_ClientsAddNoLabels(t *testing.T) {
	s := newSite(t, withMailCaps, func(o *siteOptions) { o.limits = ratelimit.Limits{"failed_keys": {Requests: 1, Period: time.Minute}} })
	key := s.agent("tide-reader")
	s.send("POST", "/api/me/verify", key, nil).status(202)
	before := samples(s.metricsText())
	for i := range 5 {
		s.sendRaw(fmt.Sprintf("BREW%d", i), "/api/agents")
		s.sendRaw("GET", fmt.Sprintf("/made-up-%d", i))
		s.sendRaw("DELETE", fmt.Sprintf("/api/agents/agent-%d", i))
		s.send("GET", "/api/me", fmt.Sprintf("cq_%d", i), nil)
		s.send("POST", "/api/me/verify", key, nil)
		s.send("PATCH", "/api/me", key, fmt.Sprintf(`{"made-up-%d":1}`, i)).status(422)
	}
	figures := s.metricsText()
	for sample := range samples(figures) {
		if !before[sample] {
			t.Errorf("%s is new", sample)
		}
	}
	hasLines(t, figures, `callbook_http_requests_total{method="OTHER",route="none",status="4xx"} 5`,
		`callbook_rate_limited_total{limit="failed_keys"} 4`, `callbook_rate_limited_total{limit="mail_pause"} 5`)
	if most := 4000; len(before) > most {
		t.Errorf("there are %d samples, at most %d are wanted", len(before), most)
	}
}

// TestMetrics_SurviveTheDatabase: they are wanted most when it cannot be read.
func TestMetrics_SurviveTheDatabase(t *testing.T) {
	s := newSite(t)
	contains(t, "the metrics", s.metricsText(), "\ncallbook_database_up 1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as good as a file that cannot be read
	var figures strings.Builder
	s.server.writeMetrics(ctx, &figures)
	contains(t, "the metrics", "\n"+figures.String(), "\ncallbook_database_up 0", "\ngo_goroutines", "callbook_http_requests_total")
}
