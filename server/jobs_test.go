package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"callbook/server/api"
	"callbook/server/outbound"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/testdata/testkit"
)

// TestJobs_LogLowDiskSpaceOnce, and that there is more again.
func TestJobs_LogLowDiskSpaceOnce(t *testing.T) {
	s := newSite(t)
	var d sqlitedb.Disk
	var fails error
	s.server.disk = func() (sqlitedb.Disk, error) { return d, fails }
	said := func() (low, enough int) {
		return strings.Count(s.log.String(), "is almost full"), strings.Count(s.log.String(), "has enough free space again")
	}
	for _, tt := range []struct {
		when        string
		disk        sqlitedb.Disk
		err         error
		low, enough int
	}{
		{"enough", sqlitedb.Disk{Free: 300 << 20, Total: 1 << 40}, nil, 0, 0},
		{"less than 200 MiB", sqlitedb.Disk{Free: 199 << 20, Total: 1 << 40}, nil, 1, 0},
		{"less still", sqlitedb.Disk{Free: 0, Total: 1 << 40}, nil, 1, 0},
		{"unknown", sqlitedb.Disk{}, errors.New("it does not tell"), 1, 0},
		{"enough again", sqlitedb.Disk{Free: 201 << 20, Total: 1 << 40}, nil, 1, 1},
		{"a tenth of a small disk", sqlitedb.Disk{Free: 100 << 20, Total: 900 << 20}, nil, 1, 1},
		{"less than that", sqlitedb.Disk{Free: 80 << 20, Total: 900 << 20}, nil, 2, 1},
	} {
		d, fails = tt.disk, tt.err
		if err := s.server.reportDiskSpace(context.Background()); err != nil {
			t.Errorf("%s: %v", tt.when, err)
		}
		if low, enough := said(); low != tt.low || enough != tt.enough {
			t.Errorf("%s: logged %d and %d times, want %d and %d", tt.when, low, enough, tt.low, tt.enough)
		}
	}
}

// TestJobs_LogOnceThatWritesFail, and that they work again.
func TestJobs_LogOnceThatWritesFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other := testkit.Must(sql.Open("sqlite", "file:"+s.path+"?_txlock=immediate"))(t)
	defer other.Close()
	lock := testkit.Must(other.BeginTx(t.Context(), nil))(t)
	for _, when := range []string{"while another program writes", "later", "afterwards"} {
		if when == "afterwards" {
			_ = lock.Rollback()
		}
		s.clock.Advance(time.Minute) // an earlier probe does not count
		if err := s.server.reportWrites(t.Context()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	if n, again := strings.Count(s.log.String(), "writes fail; reads work"), strings.Count(s.log.String(), "writes work again"); n != 1 || again != 1 {
		t.Errorf("logged %d and %d times:\n%s", n, again, s.log)
	}
}

// TestJobs_AlertTheOperator about a low disk, a failed backup and a spent pool of mails, which /readyz reports as well.
func TestJobs_AlertTheOperator(t *testing.T) {
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer receiver.Close()
	s := newSite(t, withMailCaps, func(o *siteOptions) { o.mails.Site = 2 })
	s.server.options.Alerts = outbound.NewAlertWorker(outbound.AlertOptions{URL: receiver.URL, Text: true, Site: base, Log: zerolog.Nop()})
	go s.server.options.Alerts.Run(t.Context())
	s.send("POST", "/api/me/verify", s.agent("tide-reader"), nil).status(202)
	s.server.disk = func() (sqlitedb.Disk, error) { return sqlitedb.Disk{Total: 1 << 40}, nil }
	s.server.options.Backups = store.BackupSchedule{Path: s.path, Folder: filepath.Join(t.TempDir(), "none"), Every: domain.Day, Keep: 7}
	if err := s.server.RunLocalJobs(t.Context()); err == nil {
		t.Error("the backup does not fail")
	}
	var alerts []string
	for len(alerts) < 3 {
		select {
		case alert := <-got:
			alerts = append(alerts, alert)
		case <-time.After(10 * time.Second):
			t.Fatalf("received only %q", alerts)
		}
	}
	slices.Sort(alerts)
	for i, want := range []string{"backup failed", "low disk space", "mails are used up"} {
		if !strings.HasPrefix(alerts[i], "Callbook "+strings.TrimPrefix(base, "http://")+": "+want+". ") {
			t.Errorf("received %q, want %q", alerts[i], want)
		}
	}
	ready := string(s.send("GET", "/readyz", "", nil).status(200).Body)
	for _, code := range []string{api.ProblemDisk, api.ProblemBackup, api.ProblemMails} {
		contains(t, "/readyz", ready, `"`+code+`"`)
	}
}

// TestJobs_RunPeriodically counts the runs of jobs in a day.
func TestJobs_RunPeriodically(t *testing.T) {
	for _, tt := range []struct {
		job   job
		times int
	}{
		{job{}, 1440},
		{job{atStart: true}, 1441},
		{job{every: time.Hour}, 24},
		{job{every: time.Hour, atStart: true}, 25},
	} {
		synctest.Test(t, func(t *testing.T) {
			times := 0
			tt.job.run = func(context.Context) error {
				times++
				return nil
			}
			day, stop := context.WithTimeout(t.Context(), domain.Day+time.Second)
			defer stop()
			if (&Server{}).runPeriodically(day, tt.job); times != tt.times {
				t.Errorf("every %s, at the start %t: %d times, want %d", tt.job.every, tt.job.atStart, times, tt.times)
			}
		})
	}
}

// TestServe_EndsWhenTheStoreFails: soon, although requests are still running.
func TestServe_EndsWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.agent("tide-reader")
	testkit.NoError(t, s.store.CheckFile(t.Context())) // or the check at the start may meet the failure first, and call it damage
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	begun := make(chan struct{})
	endless := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(context.Background(), Front{Listener: listener, Handler: endless}) }()
	go http.Get("http://" + listener.Addr().String())
	<-begun
	if err := os.Truncate(s.path+"-shm", 0); err != nil {
		t.Skip("no file becomes shorter here while it is open:", err)
	}
	began := time.Now()
	a := testkit.Must(s.client.Get(s.url + "/api/agents/tide-reader"))(t)
	a.Body.Close()
	if err := <-ended; !errors.Is(err, sqlitedb.ErrDisk) {
		t.Errorf("it ends with %v", err)
	}
	if took := time.Since(began); took > shutdownTimeout/2 {
		t.Errorf("it ends after %s", took)
	}
}

// TestHealth_ReportsAFailedStore: by health and readiness, and to whatever client writes or reads.
func TestHealth_ReportsAFailedStore(t *testing.T) {
	s := newSite(t)
	s.agent("tide-reader")
	s.send("GET", "/healthz", "", nil).status(200)
	if err := os.Truncate(s.path+"-shm", 0); err != nil {
		t.Skip("no file becomes shorter here while it is open:", err)
	}
	a, err := s.client.Get(s.url + "/api/agents/tide-reader") // call would take its status for a bug
	if err != nil || a.StatusCode != 500 {
		t.Fatalf("%v, %v", a, err)
	}
	a.Body.Close()
	for _, path := range []string{"/healthz", "/readyz", "/api/agents/tide-reader"} {
		s.send("GET", path, "", nil).rejected(503, domain.CodeUnavailable)
	}
	s.send("POST", "/api/agents", "", registrationOf("late-comer")).rejected(503, domain.CodeUnavailable)
}

// TestJobs_MakeBackupsOnSchedule: by its clock, and not again and again where it fails.
func TestJobs_MakeBackupsOnSchedule(t *testing.T) {
	s := newSite(t)
	s.agent("tide-reader")
	folder := filepath.Join(t.TempDir(), "copies")
	s.server.options.Backups = store.BackupSchedule{Path: s.path, Folder: folder, Every: domain.Day, Keep: 7}
	copies := func(want int) {
		t.Helper()
		if entries, _ := os.ReadDir(folder); len(entries) != want {
			t.Errorf("there are %d copies, want %d", len(entries), want)
		}
	}
	if err := s.server.RunJobs(t.Context()); err == nil {
		t.Error("it does not tell that the folder is missing")
	}
	contains(t, "the metrics without a backup", s.metricsText(), "\ncallbook_backup_timestamp_seconds 0\n")
	if r := s.send("GET", "/readyz", "", nil).status(200); r.value("status") != "degraded" || r.value("problems", 0, "code") != "backup_failed" {
		t.Errorf("readiness after a failed backup: %v, %v", r.value("status"), r.value("problems"))
	}
	testkit.NoError(t, os.Mkdir(folder, 0o700))
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 0}, {backupRetry, 1}, {time.Hour, 1}, {domain.Day, 2}} {
		s.clock.Advance(step.later)
		testkit.NoError(t, s.server.RunJobs(t.Context()))
		copies(step.want)
	}
	contains(t, "the metrics", s.metricsText(), fmt.Sprintf("\ncallbook_backup_timestamp_seconds %d\n", s.clock.Now().Unix()))
	if strings.Count(s.log.String(), "wrote a backup") != 2 {
		t.Errorf("the log: %s", s.log)
	}
}

// TestJobs_DropUnverifiedAgentsWhereMailIsSent: where no mail is sent, no agent can verify its mailbox, so
// that the time without mail does not count.
// It holds promise 10 of SECURITY.md.
func TestJobs_DropUnverifiedAgentsWhereMailIsSent(t *testing.T) {
	const long, almost = domain.UnverifiedRetention, domain.UnverifiedRetention - time.Millisecond
	type period struct {
		mail bool
		time time.Duration
	}
	for name, tt := range map[string]struct {
		periods []period
		want    int
	}{
		"with mail":        {[]period{{true, long}}, 404},
		"without mail":     {[]period{{false, long}}, 200},
		"switched on":      {[]period{{false, long}, {true, 0}}, 200},
		"on, not for long": {[]period{{false, long}, {true, almost}}, 200},
		"on for long":      {[]period{{false, long}, {true, long}}, 404},
		"off meanwhile":    {[]period{{true, almost}, {false, 0}, {true, almost}}, 200},
	} {
		s := newSite(t)
		s.agent("harbour-pilot")
		for _, p := range tt.periods {
			if s.server.options.Mail = nil; p.mail {
				s.server.options.Mail = s.outgoing
			}
			for _, passes := range []time.Duration{p.time, 0} {
				testkit.NoError(t, s.server.RunLocalJobs(t.Context()))
				s.clock.Advance(passes)
			}
		}
		equal(t, tt.want, s.send("GET", "/api/agents/harbour-pilot", "", nil).Status, "%s", name)
	}
}
