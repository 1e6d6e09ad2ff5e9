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
	crashCycles  = 50 // of a directory, before another is begun: so that a look at all of it stays cheap
	crashAhead   = 8  // runs that a client has for some cycles
)

func TestCrash_KillUnderLoad(t *testing.T) {
	t.Parallel()
	wantCrashSteps(t)
	wantCrashStates(t)
	cycles, seed := proof.Rounds(3, crashCycles, 1000), rand.Uint64()
	random, tally := rand.New(rand.NewPCG(seed, 0)), &crashTally{}
	acknowledged := int64(proof.Rounds(0, 3000, 100_000)) // a busy machine needs more cycles for them
	for done := 0; (done < cycles || tally.acknowledged.Load() < acknowledged) && !t.Failed(); done += crashCycles {
		t.Run(fmt.Sprint("from cycle ", done), func(t *testing.T) {
			d := newCrashDirectory(t, tally)
			clients := make([]*crashLoad, crashClients)
			for i := range clients {
				clients[i] = &crashLoad{crashClient: crashClient{crashDirectory: d, mailsLate: time.Second / 4}, name: fmt.Sprint("c", i)}
			}
			for range min(cycles, crashCycles) {
				d.cycle(clients, random)
			}
			p := spawn(d, d.db)
			d.looks(clients, true)
			p.kill()
			d.whole()
		})
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	tally.figures(t)
	proof.Figure(t, "cycles", int(tally.cycles.Load()))
	proof.Figure(t, "ready ms", int(tally.ready.Milliseconds()))
}

func (s *crashTally) figures(t testing.TB) {
	proof.Figure(t, "acknowledged", int(s.acknowledged.Load()))
	proof.Figure(t, "lost", int(s.lost.Load()))
	proof.Figure(t, "broken", int(s.broken.Load()))
	proof.Figure(t, "repeated", int(s.repeated.Load()))
	proof.Figure(t, "doubled", int(s.doubled.Load()))
}

// wantCrashSteps checks that the session has every writing operation.
func wantCrashSteps(t testing.TB) {
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

// crashLoad is a client that begins runs again and again.
type crashLoad struct {
	crashClient
	name        string
	begun       int
	runs, ended []*crashRun
}

// sends sends the requests of its runs until one has no response. A run whose mail does not come goes on in a later cycle.
func (c *crashLoad) sends(p *process) {
	for _, r := range c.runs {
		for waits := false; !r.ended() && !waits; {
			if waits = !c.next(r, p); r.doubt {
				return
			}
		}
	}
}

// crashDirectory is a database on which the service is killed.
type crashDirectory struct {
	testing.TB
	tally   *crashTally
	db      string
	mails   *crashMails
	killed  bool // once at least
	failing bool // its disk fails, and requests may
}

func newCrashDirectory(t testing.TB, tally *crashTally) *crashDirectory {
	t.Helper()
	return &crashDirectory{TB: t, tally: tally, db: newDB(t), mails: newCrashMails(t)}
}

// reads reads the file beside the service: only the service itself folds in the log that a kill has left.
func (d *crashDirectory) reads(read func(*store.Store, *sql.DB)) {
	d.Helper()
	d.opens(store.Options{Path: d.db, Beside: true}, read)
}

func (d *crashDirectory) opens(o store.Options, use func(*store.Store, *sql.DB)) {
	d.Helper()
	st, err := store.Open(d.Context(), o)
	if err != nil {
		d.tally.broken.Add(1)
		d.Fatal(err)
	}
	inFile(d, d.db, func(file *sql.DB) error { use(st, file); return nil })
	if err := st.Close(); err != nil {
		d.Error(err)
	}
}

// begins begins a run in a directory that no process serves.
func (d *crashDirectory) begins(name string) (r *crashRun) {
	d.Helper()
	d.opens(store.Options{Path: d.db, Normal: true}, func(st *store.Store, _ *sql.DB) { r = newCrashRun(d, st, name) })
	return r
}

// cycle starts the service, looks at what the last kill has left, sends requests, and kills it.
func (d *crashDirectory) cycle(clients []*crashLoad, random *rand.Rand) {
	if !d.killed || random.IntN(4) == 0 {
		d.prepares(clients)
	}
	if d.killed && random.IntN(4) == 0 { // in the middle of the start after a kill
		p := newProcess(d, append([]string{"serve", "--addr=127.0.0.1:0", "--db=" + d.db}, d.mails.setting()...)...)
		<-time.After(time.Duration(random.IntN(int(60 * time.Millisecond))))
		p.kill()
	}
	begun := time.Now()
	p := spawn(d, d.db, d.mails.setting()...)
	if status, text := p.call("GET", "/readyz", ""); status != 200 {
		d.broke("it starts and is not ready: %d %s", status, text)
	}
	if took := time.Since(begun); d.killed {
		d.tally.ready = max(d.tally.ready, took)
	}
	d.looks(clients, false)
	var sending sync.WaitGroup
	for _, c := range clients {
		c.reaches(p.base)
		sending.Go(func() { c.sends(p) })
	}
	<-time.After(20*time.Millisecond + time.Duration(random.IntN(int(480*time.Millisecond))))
	p.kill()
	sending.Wait()
	d.killed = true
	d.tally.cycles.Add(1)
}

// prepares begins runs, and has mails that were on their way go again at once.
func (d *crashDirectory) prepares(clients []*crashLoad) {
	d.Helper()
	d.opens(store.Options{Path: d.db, Normal: true}, func(st *store.Store, _ *sql.DB) {
		for _, c := range clients {
			c.runs = slices.DeleteFunc(c.runs, func(r *crashRun) bool {
				if r.ended() {
					c.ended = append(c.ended, r)
				}
				return r.ended()
			})
			for len(c.runs) < crashAhead {
				c.begun++
				c.runs = append(c.runs, newCrashRun(d, st, fmt.Sprint(c.name, "r", c.begun)))
			}
		}
	})
	pass(d, d.db, untilNextTry)
}

// looks compares what is stored about the present runs, or about all, with what has to be.
func (d *crashDirectory) looks(clients []*crashLoad, all bool) {
	d.Helper()
	d.reads(func(st *store.Store, file *sql.DB) {
		for _, c := range clients {
			runs := c.runs
			if all {
				runs = slices.Concat(c.ended, c.runs)
			}
			for _, r := range runs {
				if all || r.doubt || r.done > r.settled {
					d.settle(r, st, file)
				}
			}
		}
	})
}

// settle checks what is stored about a run: all of its steps with a response, and all or nothing of the one without.
func (d *crashDirectory) settle(r *crashRun, st *store.Store, file *sql.DB) {
	d.Helper()
	want, got := wantCrashStates(d), r.stored(d, st, file)
	r.settled = r.done
	after := min(r.done+1, len(crashScript))
	switch step := crashScript[after-1]; {
	case got == want[r.done]:
	case r.doubt && (got == want[after] || step.inTwo):
	case slices.Contains(want[:r.done], got):
		d.tally.lost.Add(1)
		d.Errorf("lost, after step %d of %s (-want +got):\n%s", r.done, r.name, cmp.Diff(want[r.done], got))
	case r.doubt:
		d.broke("step %d of %s, %s, is stored in part (-before +now):\n%s\n(-after +now):\n%s", r.done, r.name, step.operation, cmp.Diff(want[r.done], got), cmp.Diff(want[after], got))
	default:
		d.tally.doubled.Add(1)
		d.Errorf("after step %d of %s (-want +got):\n%s", r.done, r.name, cmp.Diff(want[r.done], got))
	}
	for _, agent := range crashAgents {
		key := r.values["key of "+agent]
		if key == "" || r.doubt && crashScript[r.done].takes == "key of "+agent {
			continue
		}
		sum := sha256.Sum256([]byte(key))
		err := crashEach(file, `SELECT COALESCE(key_hash, ''), '' FROM handles JOIN agents USING (id) WHERE handle = '`+r.handle(agent)+`'`, func(hash, _ string) {
			if hash != string(sum[:]) {
				d.tally.lost.Add(1)
				d.Errorf("lost: the key of %s", r.handle(agent))
			}
		})
		if err != nil {
			d.Error(err)
		}
	}
}

// broke reports that the file is damaged, or that part of a request is stored.
func (d *crashDirectory) broke(format string, args ...any) {
	d.Helper()
	d.tally.broken.Add(1)
	d.Errorf(format, args...)
}

// whole checks a file that no process serves with SQLite's own checks.
func (d *crashDirectory) whole() {
	d.Helper()
	if _, err := store.VerifyFile(d.Context(), d.db, false); err != nil {
		d.broke("after a kill: %v", err)
	}
	if torn := integrityOf(d.db); torn != "" {
		d.broke("the file is not whole: %s", torn)
	}
}
