package exporter

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWrite_AddsHelpAndType(t *testing.T) {
	const samples = `go_goroutines 9
callbook_http_request_seconds_bucket{route="/api",le="1"} 1
callbook_http_request_seconds_bucket{route="/api",le="+Inf"} 2
callbook_http_request_seconds_sum{route="/api"} 3.5
callbook_http_request_seconds_count{route="/api"} 2
go_gomaxprocs 2
process_io_read_bytes_total 7
callbook_mails_left{pool="a b{"} 1
callbook_database_up 1
callbook_mails_left{pool="c"} 2
`
	const want = `# HELP callbook_database_up 1 while the database can be read, else 0.
# TYPE callbook_database_up gauge
callbook_database_up 1
# HELP callbook_http_request_seconds Duration of requests by route, with the time in which clients send and take bodies.
# TYPE callbook_http_request_seconds histogram
callbook_http_request_seconds_bucket{route="/api",le="1"} 1
callbook_http_request_seconds_bucket{route="/api",le="+Inf"} 2
callbook_http_request_seconds_sum{route="/api"} 3.5
callbook_http_request_seconds_count{route="/api"} 2
# HELP callbook_mails_left Mails that the site may still send today, by pool.
# TYPE callbook_mails_left gauge
callbook_mails_left{pool="a b{"} 1
callbook_mails_left{pool="c"} 2
# HELP go_goroutines Goroutines.
# TYPE go_goroutines gauge
go_goroutines 9
`
	var got strings.Builder
	if err := Write(&got, []byte(samples)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestHandler_ServesProfilesIfWanted(t *testing.T) {
	for _, profiles := range []bool{false, true} {
		h := Handler(func(_ context.Context, w io.Writer) { _, _ = io.WriteString(w, "go_goroutines 1\n") }, profiles)
		for path, served := range map[string]bool{
			"/metrics": true, "/debug/pprof/profile?seconds=300": profiles, "/debug/pprof/heap": profiles, "/debug/pprof/goroutine?debug=1": profiles,
			"/debug/pprof/cmdline": false, "/debug/pprof/profile?seconds=301": false, "/": false,
		} {
			w := httptest.NewRecorder()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // a profile of the processor's time ends when its client has disconnected
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
			if served != (w.Code == 200) || !served && w.Code != 404 && w.Code != 400 {
				t.Errorf("profiles %t: %s: %d", profiles, path, w.Code)
			}
		}
	}
}

func TestHandler_ProfilesBeyondTheWriteTimeout(t *testing.T) {
	s := httptest.NewUnstartedServer(Handler(nil, true))
	s.Config.WriteTimeout = time.Millisecond
	s.Start()
	defer s.Close()
	r, err := s.Client().Get(s.URL + "/debug/pprof/profile?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 {
		t.Errorf("%d bytes: %v", len(body), err)
	}
}

// docs is the folder of the manual, the alert rules and the dashboard.
const docs = "../../static/docs/"

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(docs + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocs_NameMetricsThatExist checks the manual, the alert rules and the dashboard, and that the manual describes
// each metric of the program.
func TestDocs_NameMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, m := range metrics {
		known[m.name] = true
		if strings.HasPrefix(m.name, "callbook_") && !strings.Contains(read(t, "operation.md"), "\n| `"+m.name+"` | ") {
			t.Errorf("operation.md has no row for %s", m.name)
		}
	}
	files, err := os.ReadDir(docs)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names := regexp.MustCompile(`\b(callbook|process|go)_[a-z_]+\b`)
		if strings.HasSuffix(file.Name(), ".md") {
			names = regexp.MustCompile(`\bcallbook_[a-z_]+\b`)
		}
		for _, name := range names.FindAllString(read(t, file.Name()), -1) {
			if !known[nameOf([]byte(name+" "))] {
				t.Errorf("%s names %s, which does not exist", file.Name(), name)
			}
		}
	}
}
