package middleware

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

func TestObserver_LogsOrdinaryPaths(t *testing.T) {
	for _, path := range []string{"/", "/owner", "/api/agents/owner-x", "/agents/owner/x", "/api/agents/%E6%BD%AE", "*"} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Observer{Secret: "/owner"}).loggedPath(u); got != path {
			t.Errorf("%s is logged as %s", path, got)
		}
	}
}

// logOf returns what an observer logs about a request from an address.
func logOf(o *Observer, log *bytes.Buffer, from string, h http.HandlerFunc) string {
	log.Reset()
	r := httptest.NewRequest("GET", "/api/agents/tide?q=secret", nil)
	r.RemoteAddr = from
	o.Observe(h, httptest.NewRecorder(), r)
	return log.String()
}

func newObserver(log *bytes.Buffer) *Observer {
	return &Observer{Log: zerolog.New(log), Metrics: NewMetrics(metrics.NewSet(), nil, nil), Memory: NewMemory(), Requests: NewRequests()}
}

// TestObserver_HashesNetworks: two addresses of one network are one client, and another key has other hashes.
func TestObserver_HashesNetworks(t *testing.T) {
	var log bytes.Buffer
	o := newObserver(&log)
	hash := func(key, from string) string {
		o.Clients = []byte(key)
		event := logOf(o, &log, from, func(http.ResponseWriter, *http.Request) {})
		found := regexp.MustCompile(`"network":"([0-9a-f]{16})"`).FindStringSubmatch(event)
		if found == nil {
			t.Fatalf("there is no network in %s", event)
		}
		return found[1]
	}
	for _, tt := range []struct {
		key, from string
		same      bool
	}{
		{"key", "[2001:db8::1]:1", true}, {"key", "[2001:db8::2]:2", true}, {"key", "[2001:db8:0:1::1]:1", false},
		{"key", "192.0.2.1:1", false}, {"other", "[2001:db8::1]:1", false},
	} {
		if same := hash(tt.key, tt.from) == hash("key", "[2001:db8::1]:1"); same != tt.same {
			t.Errorf("%s with %s: the same hash: %t", tt.from, tt.key, same)
		}
	}
}

func TestObserver_LogsOneLineASecondOfAFlood(t *testing.T) {
	for status, lines := range map[int]int{200: 5, 404: 1, 405: 1, 409: 5, 429: 1, 431: 1, 500: 5, 503: 1} {
		synctest.Test(t, func(t *testing.T) { // its clock stands still
			var log bytes.Buffer
			o, all := newObserver(&log), ""
			for range 5 {
				all += logOf(o, &log, "192.0.2.1:1", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			}
			if n := strings.Count(all, "\n"); n != lines {
				t.Errorf("5 responses with the status %d have %d lines, not %d", status, n, lines)
			}
		})
	}
}
