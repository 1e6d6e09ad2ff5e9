package systemtest

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store"
	"callbook/testdata/proof"
)

const (
	crashClients = 8
	crashCycles  = 50 // of a directory; then another is created, so that checking all of it stays cheap
	crashAhead   = 8  // runs that a client has ready
)

func TestCrash_KillUnderLoad(t *testing.T) {
	t.Parallel()
	wantEveryWrite(t)
	crashStatesAfterSteps(t)
	cycles, seed := proof.Rounds(3, crashCycles, 1000), rand.Uint64()
	random, tally := rand.New(rand.NewPCG(seed, 0)), &crashCounts{}
	acknowledged := int64(proof.Rounds(0, 3000, 100_000)) // a busy machine needs more cycles for them
	for done := 0; (done < cycles || tally.acknowledged.Load() < acknowledged) && !t.Failed(); done += crashCycles {
		t.Run(fmt.Sprint("from cycle ", done), func(t *testing.T) {
			d := newCrashDirectory(t, tally)
			clients := make([]*crashWorker, crashClients)
			for i := range clients {
				clients[i] = &crashWorker{crashClient: crashClient{crashDirectory: d, mailTimeout: time.Second / 4}, name: fmt.Sprint("c", i)}
			}
			for range min(cycles, crashCycles) {
				d.cycle(clients, random)
			}
			p := spawn(d, d.db)
			d.checkRuns(clients, true)
			p.kill()
			d.checkIntegrity()
		})
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	tally.report(t)
	proof.Figure(t, "cycles", int(tally.cycles.Load()))
	proof.Figure(t, "ready ms", int(tally.ready.Milliseconds()))
}

func (s *crashCounts) report(t testing.TB) {
	proof.Figure(t, "acknowledged", int(s.acknowledged.Load()))
	proof.Figure(t, "lost", int(s.lost.Load()))
	proof.Figure(t, "broken", int(s.broken.Load()))
	proof.Figure(t, "repeated", int(s.repeated.Load()))
	proof.Figure(t, "doubled", int(s.doubled.Load()))
}

// wantEveryWrite checks that the session has every writing operation.
func wantEveryWrite(t testing.TB) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(readText(t, root+"testdata/openapi.json")), &document); err != nil {
		t.Fatal(err)
	}
	for _, methods := range document.Paths {
		for method, operation := range methods {
			if method != "get" && !slices.ContainsFunc(crashScript, func(s crashStep) bool { return s.operation == operation.OperationID }) {
				t.Errorf("%s is no part of the session", operation.OperationID)
			}
		}
	}
}

// crashWorker is a client that starts one run after another.
type crashWorker struct {
	crashClient
	name       string
	started    int
	runs, done []*crashRun
}

// sendAll sends the requests of its runs until one has no response. A run whose mail does not arrive continues in a later cycle.
func (c *crashWorker) sendAll(p *process) {
	for _, r := range c.runs {
		for waits := false; !r.finished() && !waits; {
			if waits = !c.next(r, p); r.unanswered {
				return
			}
		}
	}
}

// crashDirectory is a database on which the service is killed.
type crashDirectory struct {
	testing.TB
	counts  *crashCounts
	db      string
	mails   *crashMails
	killed  bool // once at least
	failing bool // its disk fails, and requests may
}

func newCrashDirectory(t testing.TB, tally *crashCounts) *crashDirectory {
	t.Helper()
	return &crashDirectory{TB: t, counts: tally, db: newDB(t), mails: newCrashMails(t)}
}

// read reads the file beside the service: only the service checkpoints the write-ahead log of a killed process.
func (d *crashDirectory) read(read func(*store.Store, *sql.DB)) {
	d.Helper()
	d.withStore(store.Options{Path: d.db, Beside: true}, read)
}

func (d *crashDirectory) withStore(o store.Options, use func(*store.Store, *sql.DB)) {
	d.Helper()
	st, err := store.Open(d.Context(), o)
	if err != nil {
		d.counts.broken.Add(1)
		d.Fatal(err)
	}
	withDatabase(d, d.db, func(file *sql.DB) error { use(st, file); return nil })
	if err := st.Close(); err != nil {
		d.Error(err)
	}
}

// newRun starts a run in a directory that no process serves.
func (d *crashDirectory) newRun(name string) (r *crashRun) {
	d.Helper()
	d.withStore(store.Options{Path: d.db, Normal: true}, func(st *store.Store, _ *sql.DB) { r = newCrashRun(d, st, name) })
	return r
}

// cycle starts the service, checks what the last kill left, sends requests, and kills it.
func (d *crashDirectory) cycle(clients []*crashWorker, random *rand.Rand) {
	if !d.killed || random.IntN(4) == 0 {
		d.prepareRuns(clients)
	}
	if d.killed && random.IntN(4) == 0 { // in the middle of the start after a kill
		p := newServeProcess(d, d.db, d.mails.flags()...)
		<-time.After(time.Duration(random.IntN(int(60 * time.Millisecond))))
		p.kill()
	}
	begun := time.Now()
	p := spawn(d, d.db, d.mails.flags()...)
	if status, text := p.call("GET", "/readyz", ""); status != 200 {
		d.reportDamage("it starts and is not ready: %d %s", status, text)
	}
	if took := time.Since(begun); d.killed {
		d.counts.ready = max(d.counts.ready, took)
	}
	d.checkRuns(clients, false)
	var sending sync.WaitGroup
	for _, c := range clients {
		c.connect(p.base)
		sending.Go(func() { c.sendAll(p) })
	}
	<-time.After(20*time.Millisecond + time.Duration(random.IntN(int(480*time.Millisecond))))
	p.kill()
	sending.Wait()
	d.killed = true
	d.counts.cycles.Add(1)
}

// prepareRuns starts runs, and makes undelivered mails due at once.
func (d *crashDirectory) prepareRuns(clients []*crashWorker) {
	d.Helper()
	d.withStore(store.Options{Path: d.db, Normal: true}, func(st *store.Store, _ *sql.DB) {
		for _, c := range clients {
			c.runs = slices.DeleteFunc(c.runs, func(r *crashRun) bool {
				if r.finished() {
					c.done = append(c.done, r)
				}
				return r.finished()
			})
			for len(c.runs) < crashAhead {
				c.started++
				c.runs = append(c.runs, newCrashRun(d, st, fmt.Sprint(c.name, "r", c.started)))
			}
		}
	})
	shiftTimes(d, d.db, retryDelay)
}

// checkRuns compares what is stored about the current runs, or about all, with the expected rows.
func (d *crashDirectory) checkRuns(clients []*crashWorker, all bool) {
	d.Helper()
	d.read(func(st *store.Store, file *sql.DB) {
		for _, c := range clients {
			runs := c.runs
			if all {
				runs = slices.Concat(c.done, c.runs)
			}
			for _, r := range runs {
				if all || r.unanswered || r.done > r.checked {
					d.checkRun(r, st, file)
				}
			}
		}
	})
}

// checkRun checks what is stored about a run: all of its steps with a response, and all or nothing of the one without.
func (d *crashDirectory) checkRun(r *crashRun, st *store.Store, file *sql.DB) {
	d.Helper()
	want, got := crashStatesAfterSteps(d), r.storedRows(d, st, file)
	r.checked = r.done
	after := min(r.done+1, len(crashScript))
	switch step := crashScript[after-1]; {
	case got == want[r.done]:
	case r.unanswered && (got == want[after] || step.twoWrites):
	case slices.Contains(want[:r.done], got):
		d.counts.lost.Add(1)
		d.Errorf("lost, after step %d of %s (-want +got):\n%s", r.done, r.name, cmp.Diff(want[r.done], got))
	case r.unanswered:
		d.reportDamage("step %d of %s, %s, is stored in part (-before +now):\n%s\n(-after +now):\n%s", r.done, r.name, step.operation, cmp.Diff(want[r.done], got), cmp.Diff(want[after], got))
	default:
		d.counts.doubled.Add(1)
		d.Errorf("after step %d of %s (-want +got):\n%s", r.done, r.name, cmp.Diff(want[r.done], got))
	}
	for _, agent := range crashAgents {
		key := r.values["key of "+agent]
		if key == "" || r.unanswered && crashScript[r.done].value == "key of "+agent {
			continue
		}
		sum := sha256.Sum256([]byte(key))
		err := queryPairs(file, `SELECT COALESCE(key_hash, ''), '' FROM handles JOIN agents USING (id) WHERE handle = '`+r.handle(agent)+`'`, func(hash, _ string) {
			if hash != string(sum[:]) {
				d.counts.lost.Add(1)
				d.Errorf("lost: the key of %s", r.handle(agent))
			}
		})
		if err != nil {
			d.Error(err)
		}
	}
}

// reportDamage reports that the file is damaged, or that part of a request is stored.
func (d *crashDirectory) reportDamage(format string, args ...any) {
	d.Helper()
	d.counts.broken.Add(1)
	d.Errorf(format, args...)
}

// checkIntegrity checks a file that no process serves with SQLite's own checks.
func (d *crashDirectory) checkIntegrity() {
	d.Helper()
	if _, err := store.VerifyFile(d.Context(), d.db, false); err != nil {
		d.reportDamage("after a kill: %v", err)
	}
	if torn := integrityErrors(d.db); torn != "" {
		d.reportDamage("the file is not whole: %s", torn)
	}
}
