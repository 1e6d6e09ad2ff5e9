package alert

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"callbook/server/webhook"
	"callbook/store/txn"
)

// receiver is an HTTP server that records alerts. It responds with the statuses in turn, then with 204; status 0
// breaks the connection.
type receiver struct {
	*httptest.Server
	got      chan received
	mu       sync.Mutex
	statuses []int
}

type received struct {
	header http.Header
	path   string
	body   string
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	r := &receiver{got: make(chan received, 100), statuses: statuses}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		status := http.StatusNoContent
		r.mu.Lock()
		if len(r.statuses) > 0 {
			status, r.statuses = r.statuses[0], r.statuses[1:]
		}
		r.mu.Unlock()
		r.got <- received{req.Header, req.URL.String(), string(body)}
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

// next waits for an alert.
func (r *receiver) next(t *testing.T) received {
	t.Helper()
	select {
	case a := <-r.got:
		return a
	case <-time.After(10 * time.Second):
		t.Fatal("no alert arrives")
		return received{}
	}
}

// all returns the alerts so far.
func (r *receiver) all() (all []received) {
	for len(r.got) > 0 {
		all = append(all, <-r.got)
	}
	return all
}

// worker returns a Worker for the receiver, which retries at once, and its log.
func (r *receiver) worker(o Options) (*Worker, *bytes.Buffer) {
	log := &bytes.Buffer{}
	o.URL, o.Site, o.Log = r.URL+"/topic?token=hunter2", "https://directory.example.org", zerolog.New(log)
	w := New(o)
	w.backoff = time.Microsecond
	return w, log
}

var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// at returns a clock that stands still.
func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func TestWorker_ComposesBothFormats(t *testing.T) {
	r := newReceiver(t)
	for _, tt := range []struct {
		name  string
		text  bool
		count int64
		want  string
	}{
		{"JSON", false, 1, `{"title":"Callbook directory.example.org: new report","message":"callbook admin reports lists the open reports.","type":"report","count":1,"timestamp":"2026-11-20T09:30:00Z"}`},
		{"JSON of several", false, 3, `{"title":"Callbook directory.example.org: new report","message":"3 times since the last alert. callbook admin reports lists the open reports.","type":"report","count":3,"timestamp":"2026-11-20T09:30:00Z"}`},
		{"text", true, 1, "Callbook directory.example.org: new report. callbook admin reports lists the open reports."},
		{"text of several", true, 3, "Callbook directory.example.org: new report. 3 times since the last alert. callbook admin reports lists the open reports."},
	} {
		w, _ := r.worker(Options{Text: tt.text})
		if diff := cmp.Diff(tt.want, string(w.compose(Report, tt.count, start.Add(time.Millisecond)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	w, _ := r.worker(Options{Text: true})
	for _, kind := range []Kind{Report, Approval, Disk, Backup, Certificate, Mails, test} {
		if line := string(w.compose(kind, 2, start)); strings.Contains(line, "\n") || texts[kind].name == "" || texts[kind].title == "" || texts[kind].message == "" {
			t.Errorf("%d: %q", kind, line)
		}
	}
}

func TestWorker_SendsToTheURL(t *testing.T) {
	for _, text := range []bool{false, true} {
		r := newReceiver(t)
		w, _ := r.worker(Options{Text: text})
		w.Raise(Disk, 1)
		w.deliver(t.Context(), at(start))
		all := r.all()
		if len(all) != 1 || all[0].path != "/topic?token=hunter2" || !strings.Contains(all[0].body, "low disk space") {
			t.Fatalf("received %+v", all)
		}
		want := map[bool]string{false: "application/json", true: "text/plain; charset=utf-8"}[text]
		if got := all[0].header.Get("Content-Type"); got != want || all[0].header.Get("Webhook-Signature") != "" {
			t.Errorf("Content-Type %q, want %q; %v", got, want, all[0].header)
		}
	}
}

func TestWorker_SendsOneAnHourOfAKind(t *testing.T) {
	r := newReceiver(t)
	w, _ := r.worker(Options{})
	for _, step := range []struct {
		name   string
		after  time.Duration
		raised []Kind
		want   []string // parts of what is received, in order
		next   time.Duration
	}{
		{"nothing", 0, nil, nil, time.Hour},
		{"the first at once", 0, []Kind{Report}, []string{`"type":"report","count":1,`}, time.Hour},
		{"more within the hour", time.Minute, []Kind{Report, Report}, nil, 59 * time.Minute},
		{"another kind meanwhile", 20 * time.Minute, []Kind{Mails, Report}, []string{`"type":"mails","count":1,`}, 40 * time.Minute},
		{"their number after the hour", time.Hour, nil, []string{`"type":"report","count":3,`}, 20 * time.Minute},
		{"no more", 3 * time.Hour, nil, nil, time.Hour},
		{"at once again", 4 * time.Hour, []Kind{Report}, []string{`"type":"report","count":1,`}, time.Hour},
	} {
		for _, kind := range step.raised {
			w.Raise(kind, 1)
		}
		next := w.deliver(t.Context(), at(start.Add(step.after)))
		all := r.all()
		if next != step.next || len(all) != len(step.want) {
			t.Errorf("%s: next in %s, want %s; received %+v", step.name, next, step.next, all)
			continue
		}
		for i, want := range step.want {
			if !strings.Contains(all[i].body, want) {
				t.Errorf("%s: %s, want %s", step.name, all[i].body, want)
			}
		}
	}
}

// TestWorker_SendsOneAnHourAfterARetry: the hour begins when the receiver has accepted the alert.
func TestWorker_SendsOneAnHourAfterARetry(t *testing.T) {
	r := newReceiver(t, 503, 204)
	w, _ := r.worker(Options{})
	w.Raise(Report, 1)
	w.deliver(t.Context(), func() time.Time { return start.Add(time.Duration(len(r.got)) * 28 * time.Minute) }) // a try takes 28 minutes
	w.Raise(Report, 1)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{60 * time.Minute, 2}, {115 * time.Minute, 2}, {116 * time.Minute, 3}} {
		if w.deliver(t.Context(), at(start.Add(step.after))); len(r.got) != step.want {
			t.Errorf("%d requests after %s, want %d", len(r.got), step.after, step.want)
		}
	}
}

func TestWorker_RetriesWithTheSameSignedID(t *testing.T) {
	const secret = "a key of more than 24 bytes"
	key, err := webhook.ParseKey("whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t, 503, 429, 302, 404, 0, 500, 204)
	w, log := r.worker(Options{Key: key})
	w.Raise(Backup, 1)
	w.deliver(t.Context(), at(start))
	all := r.all()
	if len(all) != 7 || strings.Count(log.String(), "which is retried") != 6 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d requests; %s", len(all), log)
	}
	verifier, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if err := verifier.Verify([]byte(a.body), a.header); err != nil || a.body != all[0].body || a.header.Get("Webhook-Id") != all[0].header.Get("Webhook-Id") {
			t.Errorf("%v: %+v", err, a)
		}
	}
}

func TestWorker_RetriesAfterATimeout(t *testing.T) {
	release := make(chan struct{})
	var tries atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if tries.Add(1) == 1 {
			<-release
		}
	}))
	defer h.Close()
	w := New(Options{URL: h.URL, Log: zerolog.Nop()})
	w.backoff, w.client.Timeout = time.Microsecond, 20*time.Millisecond
	w.Raise(Disk, 1)
	w.deliver(t.Context(), at(start))
	close(release)
	if n := w.pending[Disk].Load(); tries.Load() != 2 || n > 0 {
		t.Errorf("%d tries, %d pending", tries.Load(), n)
	}
}

func TestWorker_CountsUnsentAlertsInTheNext(t *testing.T) {
	r := newReceiver(t, 503)
	w, _ := r.worker(Options{})
	w.Raise(Report, 1)
	w.Raise(Report, 1)
	ctx, cancel := context.WithCancel(t.Context())
	w.backoff = time.Hour
	go func() {
		<-r.got
		cancel() // while it waits for the second try
	}()
	w.deliver(ctx, at(start))
	w.Raise(Report, 1)
	w.deliver(t.Context(), at(start.Add(time.Hour)))
	if all := r.all(); len(all) != 1 || !strings.Contains(all[0].body, `"count":3,`) {
		t.Errorf("an hour later: %+v", all)
	}
}

// TestWorker_RunsUntilItsContextEnds: it wakes for an alert, and ends although a receiver is unreachable.
func TestWorker_RunsUntilItsContextEnds(t *testing.T) {
	r := newReceiver(t)
	w, log := r.worker(Options{Text: true})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	w.Watch(txn.Changes{Posts: true})
	w.Watch(txn.Changes{Approvals: 2})
	if a := r.next(t); !strings.Contains(a.body, "an agent waits for approval. 2 times") {
		t.Errorf("received %+v", a)
	}
	w.Watch(txn.Changes{Reports: 1})
	if a := r.next(t); !strings.Contains(a.body, "new report. callbook") {
		t.Errorf("received %+v", a)
	}
	r.Close()
	w.Raise(Disk, 1)
	cancel()
	if <-ended; strings.Contains(log.String(), "hunter2") {
		t.Errorf("logged %s", log)
	}
}

func TestWorker_LogsNoToken(t *testing.T) {
	r := newReceiver(t)
	w, _ := r.worker(Options{})
	r.Close()
	if err := w.Test(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error: %v", err)
	}
}

func TestWorker_IsNilWithoutURL(t *testing.T) {
	w := New(Options{})
	w.Raise(Report, 1)
	w.Watch(txn.Changes{Reports: 1})
	w.Run(t.Context())
	if w != nil {
		t.Error("there is a worker")
	}
}

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://ntfy.example.org/hunter2": "https://ntfy.example.org", "https://user:hunter2@ntfy.example.org:8443/a?b=c": "https://ntfy.example.org:8443",
		"https://10.0.0.1/x": "https://10.0.0.1", "https://localhost": "https://localhost", "http://127.0.0.1:8081/hunter2": "http://127.0.0.1:8081",
		"http://localhost/x": "http://localhost", "http://[::1]:80/message?token=hunter2": "http://[::1]:80",
		"": "", "ntfy.example.org/hunter2": "", "http://ntfy.example.org/hunter2": "", "http://127.0.0.1.example.org/hunter2": "", "http://10.0.0.1/hunter2": "",
		"ftp://127.0.0.1/hunter2": "", "https:///hunter2": "", "https://": "", "https:hunter2": "", "https://[hunter2/": "", "https://%zz/hunter2": "",
		"https://a b/hunter2": "", "file:///hunter2": "",
	} {
		got, err := Origin(address)
		if got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %q, %v", address, got, err)
		}
	}
}
