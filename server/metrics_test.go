package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// figures returns the metrics as Prometheus reads them.
func (s *site) figures() string {
	s.Helper()
	metrics := httptest.NewServer(s.server.Metrics())
	defer metrics.Close()
	a, err := http.Get(metrics.URL + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		s.Fatalf("%d, %v", a.StatusCode, err)
	}
	return string(text)
}

var figureLine = regexp.MustCompile(`^[a-z_]+(\{([A-Za-z]+="[^"]*",? ?)+\})? ([-+0-9.eE]+|NaN)$`)

func TestMetrics_CountRequestsByRoute(t *testing.T) {
	s := newSite(t)
	key := s.agent("tide-reader")
	s.send("GET", "/api/agents/tide-reader", "", nil).status(200)
	s.send("GET", "/api/agents/nobody", "", nil).status(404)
	s.send("GET", "/api/me", key, nil).status(200)
	s.send("GET", "/agents/tide-reader", "", nil).status(200)
	s.send("GET", "/owner/secret-token", "", nil).status(404)
	s.send("GET", "/no/such?key="+key, "", nil).status(404)
	text := s.figures()
	for _, want := range []string{
		`callbook_http_requests_total{route="/api/agents",status="2xx"} 1`,
		`callbook_http_requests_total{route="/api/agents/{handle}",status="2xx"} 1`,
		`callbook_http_requests_total{route="/api/agents/{handle}",status="4xx"} 1`,
		`callbook_http_requests_total{route="/api/me",status="2xx"} 1`,
		`callbook_http_requests_total{route="/agents/{handle}",status="2xx"} 1`,
		`callbook_http_requests_total{route="/owner/*token",status="4xx"} 1`,
		`callbook_http_requests_total{route="none",status="4xx"} 1`,
		`callbook_http_request_seconds_count{route="/api/me"} 1`,
		`callbook_refusals_total{code="not_found"} 3`, `callbook_refusals_total{code="rate_limited"} 0`,
		`callbook_agents 1`, `callbook_mails_waiting 0`, `callbook_commits_total`, `callbook_database_bytes`, `go_goroutines`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("there is no line %s", want)
		}
	}
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
}

// TestMetrics_SurviveTheDatabase: they are wanted most when it cannot be read.
func TestMetrics_SurviveTheDatabase(t *testing.T) {
	s := newSite(t)
	if text := s.figures(); !strings.Contains(text, "\ncallbook_database_up 1") {
		t.Error("the database is not up")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as good as a file that cannot be read
	var figures strings.Builder
	s.server.writeMetrics(ctx, &figures)
	text := "\n" + figures.String()
	for _, want := range []string{"\ncallbook_database_up 0", "\ngo_goroutines", "callbook_http_requests_total"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// TestMetrics_OmitUnknownDiskSpace: none is not 0.
func TestMetrics_OmitUnknownDiskSpace(t *testing.T) {
	var path string
	s := newSite(t, func(o *siteOptions) { path = o.path })
	const figure = "\ncallbook_disk_free_bytes "
	if !strings.Contains(s.figures(), figure) {
		t.Error("the disk does not tell")
	}
	folder := filepath.Dir(path)
	if err := os.Rename(folder, folder+".gone"); err != nil {
		t.Fatal(err)
	}
	text := s.figures()
	if err := os.Rename(folder+".gone", folder); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, figure) || !strings.Contains(text, "\ncallbook_agents ") {
		t.Error("without the folder:", text[:300])
	}
}
