package server

import (
	"os"
	"regexp"
	"strings"
	"testing"

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
	if err := writeSamples(&got, []byte(samples)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// docs is the folder of the manual, the alert rules and the dashboard.
const docs = "../static/docs/"

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
	for _, m := range exportedMetrics {
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
