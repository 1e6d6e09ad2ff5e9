package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"callbook/server/messages"
	"callbook/store/domain"
)

const testPrimary = "https://primary.example.org"

// copyTo replaces the file at a path by a copy of the site's database.
func (s *site) copyTo(path string) {
	s.Helper()
	_, err := s.database.Exec(`VACUUM INTO ?`, path+".next")
	if err = errors.Join(err, os.Rename(path+".next", path)); err != nil {
		s.Fatal(err)
	}
}

func replicaOf(t testing.TB, primary *site) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	primary.copyTo(path)
	s := newSite(t, func(o *siteOptions) {
		o.path, o.replica = path, Replica{Primary: testPrimary, MaxLag: time.Minute}
	})
	s.pathValues = primary.pathValues
	return s
}

// TestReplica_ServesPublicReadsOnly sends every operation, with a key that is valid on the primary. A public read gets the
// same response as on the primary; any other gets an error that names the primary.
func TestReplica_ServesPublicReadsOnly(t *testing.T) {
	primary := newSite(t)
	key := primary.agent("tide-reader")
	post := primary.post(key, "Tide tables wanted")
	primary.pathValues["{handle}"], primary.pathValues["/api/posts"] = "tide-reader", post
	s := replicaOf(t, primary)
	served := 0
	for _, op := range s.server.engine.Operations {
		path := s.pathOf(op)
		a := s.send(op.Method, path, key, nil)
		if a.Header.Get("Callbook-Primary") != testPrimary || a.Header.Get("Callbook-Lag") != "0" {
			t.Errorf("%s: headers %v", op, a.Header)
		}
		if op.Reads() && !op.Keyed {
			served++
			if want := primary.send(op.Method, path, "", nil).status(200); string(a.status(200).Body) != string(want.Body) {
				t.Errorf("%s: %s, want %s", op, a.Body, want.Body)
			}
			continue
		}
		for _, language := range []string{"message_en", "message_zh"} {
			contains(t, op.ID, a.rejected(503, domain.CodeUnavailable).text("error", language), testPrimary)
		}
	}
	if served < 7 {
		t.Errorf("%d operations are served", served)
	}
	for _, request := range [][2]string{
		{"POST", "/agents/tide-reader/report"}, {"POST", "/calls/" + post + "/report"}, {"GET", "/owner/token"}, {"POST", "/owner/token"}, {"GET", "/owner/mails/token"},
	} {
		if a := s.sendRaw(request[0], request[1], "Accept: text/html"); a.Status != 503 || !strings.Contains(string(a.Body), testPrimary) || !strings.Contains(string(a.Body), "<html") {
			t.Errorf("%s: %d %s", request, a.Status, a.Body)
		}
	}
	s.openPage("/agents/tide-reader").status(200)
	s.sendRaw("POST", "/api/nothing").status(404)
	if log := s.log.String(); strings.Contains(log, `"level":"error"`) {
		t.Errorf("rejections are logged as errors: %s", log)
	}
	equal(t, "", primary.send("GET", "/api", "", nil).Header.Get("Callbook-Lag"), "the lag of the primary")
}

// TestReplica_ReportsItsLag compares what the probe, the metrics and the header report while the clock goes on.
func TestReplica_ReportsItsLag(t *testing.T) {
	s := replicaOf(t, newSite(t))
	for _, tt := range []struct {
		pass   time.Duration
		lag    string
		status string
		codes  int
	}{
		{0, "0", "ok", 0}, {1500 * time.Millisecond, "2", "ok", 0}, {58500 * time.Millisecond, "60", "ok", 0}, {time.Millisecond, "61", "degraded", 1}, {-time.Hour, "0", "ok", 0},
	} {
		s.clock.Advance(tt.pass)
		a := s.send("GET", "/readyz", "", nil).status(200)
		var found Readiness
		a.into(&found)
		if found.Replica == nil || found.Replica.Primary != testPrimary || found.Status != tt.status || len(found.Problems) != tt.codes ||
			tt.codes > 0 && found.Problems[0].Code != messages.ProblemLag {
			t.Errorf("after %v more: %s", tt.pass, a.Body)
		}
		if got := a.Header.Get("Callbook-Lag"); got != tt.lag || !strings.Contains(string(a.Body), `"lag_seconds":`+tt.lag) || !strings.Contains(s.figures(), "\ncallbook_replica_lag_seconds "+tt.lag+"\n") {
			t.Errorf("after %v more the lag is %s, want %s: %s", tt.pass, got, tt.lag, a.Body)
		}
		if err := s.server.reportLag(t.Context()); (err != nil) != (tt.codes > 0) {
			t.Errorf("after %v more the log has %v", tt.pass, err)
		}
	}
}

// TestReplica_ServesANewerCopy: cached responses of the one before are not served any longer. A broken copy is reported.
func TestReplica_ServesANewerCopy(t *testing.T) {
	primary := newSite(t)
	s := replicaOf(t, primary)
	s.send("GET", "/api/agents", "", nil).status(200)
	s.send("GET", "/api/agents/tide-reader", "", nil).status(404)
	primary.agent("tide-reader")
	primary.copyTo(s.path)
	s.awaitSlow("the newer copy is served", func() bool {
		return s.send("GET", "/api/agents/tide-reader", "", nil).Status == 200
	})
	equal(t, 1, s.send("GET", "/api/agents", "", nil).len("agents"), "agents")
	noError(t, errors.Join(os.WriteFile(s.path+".next", []byte(strings.Repeat("garbage", 1000)), 0o600), os.Rename(s.path+".next", s.path)))
	s.awaitSlow("the broken copy is reported", func() bool { return s.server.reportCopy(t.Context()) != nil })
	if a := s.send("GET", "/readyz", "", nil).status(200); a.text("status") != "degraded" || a.text("problems", 0, "code") != messages.ProblemCopy {
		t.Errorf("%s", a.Body)
	}
	s.send("GET", "/api/agents/tide-reader", "", nil).status(200)
}

// awaitSlow is await for what takes a second.
func (s *site) awaitSlow(what string, is func() bool) {
	s.Helper()
	for late := time.Now().Add(grace); !is(); {
		if time.Now().After(late) {
			s.Fatalf("it never comes that %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestReplica_RunsNoJobsThatWrite: the jobs and the background tasks of a replica succeed on a file that takes no write.
func TestReplica_RunsNoJobsThatWrite(t *testing.T) {
	s := replicaOf(t, newSite(t))
	for _, j := range s.server.jobs() {
		if err := j.run(t.Context()); err != nil {
			t.Errorf("%s: %v", j.failure, err)
		}
	}
	equal(t, 3, len(s.server.jobs()), "jobs")
}

// TestReplica_KnowsTheTimeOfAnIdlePrimary: a job of the primary writes the time without a request.
func TestReplica_KnowsTheTimeOfAnIdlePrimary(t *testing.T) {
	primary := newSite(t)
	primary.clock.Advance(time.Hour)
	noError(t, primary.server.reportWrites(t.Context()))
	s := replicaOf(t, primary)
	s.clock.Advance(time.Hour + 5*time.Second)
	if lag, err := s.server.lag(); lag != 5*time.Second || err != nil {
		t.Errorf("lag %v, %v", lag, err)
	}
}
