package outbound

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"callbook/store"
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

// worker returns a Worker for the receiver, and its log.
func (r *receiver) worker(o AlertOptions) (*AlertWorker, *bytes.Buffer) {
	log := &bytes.Buffer{}
	o.URL, o.Site, o.Log = r.URL+"/topic?token=hunter2", "https://directory.example.org", zerolog.New(log)
	return NewAlertWorker(o), log
}

var start = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

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
		w, _ := r.worker(AlertOptions{Text: tt.text})
		if diff := cmp.Diff(tt.want, string(w.compose(ReportAlert, tt.count, start.Add(time.Millisecond)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	w, _ := r.worker(AlertOptions{Text: true})
	for _, kind := range []AlertKind{ReportAlert, ApprovalAlert, DiskAlert, BackupAlert, CertificateAlert, MailsAlert, testAlert} {
		if line := string(w.compose(kind, 2, start)); strings.Contains(line, "\n") || alertTexts[kind].name == "" || alertTexts[kind].title == "" || alertTexts[kind].message == "" {
			t.Errorf("%d: %q", kind, line)
		}
	}
}

func TestWorker_SendsToTheURL(t *testing.T) {
	for _, text := range []bool{false, true} {
		r := newReceiver(t)
		w, _ := r.worker(AlertOptions{Text: text})
		w.Raise(DiskAlert, 1)
		w.deliver(t.Context(), start)
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
	w, _ := r.worker(AlertOptions{})
	for _, step := range []struct {
		name   string
		after  time.Duration
		raised []AlertKind
		want   []string // parts of what is received, in order
	}{
		{"nothing", 0, nil, nil},
		{"the first at once", 0, []AlertKind{ReportAlert}, []string{`"type":"report","count":1,`}},
		{"more within the hour", time.Minute, []AlertKind{ReportAlert, ReportAlert}, nil},
		{"another kind meanwhile", 20 * time.Minute, []AlertKind{MailsAlert, ReportAlert}, []string{`"type":"mails","count":1,`}},
		{"their number after the hour", time.Hour, nil, []string{`"type":"report","count":3,`}},
		{"no more", 3 * time.Hour, nil, nil},
		{"at once again", 4 * time.Hour, []AlertKind{ReportAlert}, []string{`"type":"report","count":1,`}},
	} {
		for _, kind := range step.raised {
			w.Raise(kind, 1)
		}
		w.deliver(t.Context(), start.Add(step.after))
		all := r.all()
		if len(all) != len(step.want) {
			t.Errorf("%s: received %+v", step.name, all)
			continue
		}
		for i, want := range step.want {
			if !strings.Contains(all[i].body, want) {
				t.Errorf("%s: %s, want %s", step.name, all[i].body, want)
			}
		}
	}
}

// TestWorker_TriesAgainWhatIsNotAccepted checks that each try is signed and counts what was raised meanwhile, and that
// the hour begins when the receiver has accepted the alert.
func TestWorker_TriesAgainWhatIsNotAccepted(t *testing.T) {
	const secret = "a key of more than 24 bytes"
	key, err := ParseWebhookKey("whsec_" + base64.StdEncoding.EncodeToString([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	statuses := []int{503, 429, 302, 404, 0, 500, 204}
	r := newReceiver(t, statuses...)
	w, log := r.worker(AlertOptions{Key: key})

	now := start
	for i := range statuses {
		w.Raise(BackupAlert, 1)
		w.deliver(t.Context(), now)
		w.deliver(t.Context(), now.Add(alertPause-1))
		a := r.next(t)
		if err := verifier.Verify([]byte(a.body), a.header); err != nil || !strings.Contains(a.body, fmt.Sprintf(`"count":%d,`, i+1)) || len(r.got) > 0 {
			t.Errorf("try %d: %v: %+v, and %d more", i+1, err, a, len(r.got))
		}
		now = now.Add(alertPause)
	}
	if n := strings.Count(log.String(), "which is tried again"); n != len(statuses)-1 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d failures are logged: %s", n, log)
	}

	w.Raise(BackupAlert, 1)
	accepted := now.Add(-alertPause)
	if w.deliver(t.Context(), accepted.Add(alertPeriod-1)); len(r.got) != 0 {
		t.Errorf("%d alerts within the hour", len(r.got))
	}
	if w.deliver(t.Context(), accepted.Add(alertPeriod)); len(r.got) != 1 {
		t.Errorf("%d alerts after the hour", len(r.got))
	}
}

func TestWorker_GivesUpAReceiverThatDoesNotRespond(t *testing.T) {
	release := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer h.Close()
	defer close(release)
	w := NewAlertWorker(AlertOptions{URL: h.URL, Log: zerolog.Nop()})
	w.client.Timeout = 20 * time.Millisecond
	w.Raise(DiskAlert, 1)
	w.deliver(t.Context(), start)
	if n := w.pending[DiskAlert].Load(); n != 1 {
		t.Errorf("%d pending", n)
	}
}

// TestWorker_RunsUntilItsContextEnds: it wakes for an alert, and ends although a receiver is unreachable.
func TestWorker_RunsUntilItsContextEnds(t *testing.T) {
	r := newReceiver(t)
	w, log := r.worker(AlertOptions{Text: true})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	w.Notify(store.Changes{Public: true})
	w.Notify(store.Changes{Approvals: 2})
	if a := r.next(t); !strings.Contains(a.body, "an agent waits for approval. 2 times") {
		t.Errorf("received %+v", a)
	}
	w.Notify(store.Changes{Reports: 1})
	if a := r.next(t); !strings.Contains(a.body, "new report. callbook") {
		t.Errorf("received %+v", a)
	}
	r.Close()
	w.Raise(DiskAlert, 1)
	cancel()
	if <-ended; strings.Contains(log.String(), "hunter2") {
		t.Errorf("logged %s", log)
	}
}

func TestWorker_LogsNoToken(t *testing.T) {
	r := newReceiver(t)
	w, _ := r.worker(AlertOptions{})
	r.Close()
	if err := w.Test(t.Context()); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error: %v", err)
	}
}

func TestWorker_IsNilWithoutURL(t *testing.T) {
	w := NewAlertWorker(AlertOptions{})
	w.Raise(ReportAlert, 1)
	w.Notify(store.Changes{Reports: 1})
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
