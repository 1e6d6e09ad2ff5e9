package systemtest

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"callbook/store"
	"callbook/store/backup"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// The service is killed while clients write through every writing operation. Each client acts for agents of its own, one
// request after the other, so it knows their rows exactly: those of all requests with a response, and all or nothing of
// the one request without. That one is retried, and is then stored once.

const (
	crashClients  = 8
	crashFounders = 10 // of a client's agents: verified by the operator, with a mail left for a claim or another key
	crashAround   = 16 // newest agents of a client, for which it acts beside the founders
	crashCycles   = 50 // of a directory, before another is begun: so that a look at all of it stays cheap
)

// crashTally holds the results of all cycles.
type crashTally struct {
	cycles, acknowledged, lost, broken, repeated, doubled atomic.Int64

	ready time.Duration // the longest from a start after a kill until it is ready
	mu    sync.Mutex
	acted map[string]int // acknowledged calls by operation
}

func TestCrash_KillUnderLoad(t *testing.T) {
	t.Parallel()
	wantCrashDrivers(t)
	cycles, seed := proof.Rounds(3, crashCycles, 1000), rand.Uint64()
	random, tally := rand.New(rand.NewPCG(seed, 0)), &crashTally{acted: map[string]int{}}
	acknowledged := int64(proof.Rounds(0, 3000, 100_000)) // a busy machine needs more cycles for them
	for done := 0; (done < cycles || tally.acknowledged.Load() < acknowledged) && !t.Failed(); done += crashCycles {
		t.Run(fmt.Sprint("from cycle ", done), func(t *testing.T) {
			d, most := newCrashDirectory(t, tally, random, crashClients), min(cycles, crashCycles)
			for cycle := range most {
				d.cycle(cycle == most-1)
			}
			d.looksAtFile()
			d.delivers()
		})
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
	for _, driver := range crashDrivers {
		if cycles >= crashCycles && tally.acted[driver.operation] == 0 {
			t.Errorf("%s was never acknowledged: %v", driver.operation, tally.acted)
		}
	}
	t.Logf("acknowledged: %v", tally.acted)
	tally.figures(t)
	proof.Figure(t, "cycles", int(tally.cycles.Load()))
	proof.Figure(t, "ready ms", int(tally.ready.Milliseconds()))
}

func (s *crashTally) figures(t testing.TB) {
	for name, n := range map[string]*atomic.Int64{
		"acknowledged": &s.acknowledged, "lost": &s.lost, "broken": &s.broken, "repeated": &s.repeated, "doubled": &s.doubled,
	} {
		proof.Figure(t, name, int(n.Load()))
	}
}

// wantCrashDrivers checks that there is a driver for every writing operation.
func wantCrashDrivers(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile(root + "testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	undriven := map[string]bool{}
	for _, methods := range document.Paths {
		for method, operation := range methods {
			undriven[operation.OperationID] = method != "get"
		}
	}
	for _, driver := range crashDrivers {
		delete(undriven, driver.operation)
	}
	for operation, writes := range undriven {
		if writes {
			t.Errorf("%s is driven by no client", operation)
		}
	}
}

// crashDirectory is a database, and the clients of the service that is killed on it.
type crashDirectory struct {
	testing.TB
	tally   *crashTally
	random  *rand.Rand
	db      string
	mails   *crashMails
	clients []*crashClient
	killed  bool // once at least
	failing bool // its disk fails, and calls may
}

func newCrashDirectory(t testing.TB, tally *crashTally, random *rand.Rand, clients int) *crashDirectory {
	t.Helper()
	d := &crashDirectory{TB: t, tally: tally, random: random, db: newDB(t), mails: &crashMails{postOffice: newPostOffice(t), came: map[string]letter{}}}
	st := d.open()
	for i := range clients {
		c := &crashClient{crashDirectory: d, name: fmt.Sprintf("c%d", i), random: rand.New(rand.NewPCG(random.Uint64(), 0)), reported: map[string]bool{}}
		for range crashFounders {
			c.agents = append(c.agents, c.founder(st))
		}
		d.clients = append(d.clients, c)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// open opens the file of a directory that no process serves.
func (d *crashDirectory) open() *store.Store {
	d.Helper()
	st, err := store.Open(d.Context(), store.Options{Path: d.db, Normal: true})
	if err != nil {
		d.tally.broken.Add(1)
		d.Fatal(err)
	}
	return st
}

// cycle starts the service, checks its rows, sends requests, and kills it.
func (d *crashDirectory) cycle(last bool) {
	if d.killed && d.random.IntN(4) == 0 { // in the middle of the start after a kill
		p := newProcess(d, append([]string{"serve", "--addr=127.0.0.1:0", "--db=" + d.db}, d.mails.setting()...)...)
		<-time.After(time.Duration(d.random.IntN(int(60 * time.Millisecond))))
		p.kill()
	}
	begun := time.Now()
	p := spawn(d, d.db, append(d.mails.setting(), "--limit-mails=0")...)
	if status, text := p.call("GET", "/readyz", ""); status != 200 {
		d.broke("it starts and is not ready: %d %s", status, text)
	}
	if took := time.Since(begun); d.killed {
		d.tally.ready = max(d.tally.ready, took)
	}
	d.all(func(c *crashClient) { c.reaches(p.base); c.looks(last) })
	if _, err := backup.Verify(d.Context(), d.db, false); err != nil {
		d.broke("after a kill: %v", err)
	}
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		d.all((*crashClient).load)
	}()
	<-time.After(20*time.Millisecond + time.Duration(d.random.IntN(int(480*time.Millisecond))))
	p.kill()
	<-loaded
	d.killed = true
	d.tally.cycles.Add(1)
}

// all runs a function for every client concurrently.
func (d *crashDirectory) all(do func(*crashClient)) {
	var doing sync.WaitGroup
	for _, c := range d.clients {
		doing.Go(func() { do(c) })
	}
	doing.Wait()
}

// broke reports that the file is damaged, or that part of a request is stored.
func (d *crashDirectory) broke(format string, args ...any) {
	d.Helper()
	d.tally.broken.Add(1)
	d.Errorf(format, args...)
}

// looksAtFile compares the file of a killed service with what the clients know.
func (d *crashDirectory) looksAtFile() {
	d.Helper()
	d.whole()
	st := d.open()
	for _, c := range d.clients {
		exported := func(a *crashAgent) (crashRows, bool) { return d.exported(st, a), true }
		c.settle(exported)
		for _, a := range c.agents {
			c.compare(a, exported)
		}
	}
	if err := st.Close(); err != nil {
		d.Error(err)
	}
	inFile(d, d.db, func(file *sql.DB) error { return errors.Join(d.looksAtKeys(file), d.looksAtReports(file)) })
}

// whole checks a file that no process serves with SQLite's own checks.
func (d *crashDirectory) whole() {
	d.Helper()
	if _, err := backup.Verify(d.Context(), d.db, false); err != nil {
		d.broke("after a kill: %v", err)
	}
	inFile(d, d.db, func(file *sql.DB) error {
		return crashEach(file, `SELECT integrity_check, '' FROM pragma_integrity_check`, func(found, _ string) {
			if found != "ok" {
				d.broke("the file is not whole: %s", found)
			}
		})
	})
}

func (d *crashDirectory) exported(st *store.Store, a *crashAgent) crashRows {
	d.Helper()
	members, err := st.ExportAgent(d.Context(), a.handle)
	if errors.Is(err, &domain.Error{Code: domain.CodeNotFound}) {
		return crashRows{}
	}
	var tables crashTables
	if err = errors.Join(err, json.Unmarshal([]byte("{"+members+"}"), &tables)); err != nil {
		d.Fatal(err)
	}
	return tables.rows()
}

// looksAtKeys checks that the last key with a response works, that no handle is forgotten, and that no unrequested
// handle exists.
func (d *crashDirectory) looksAtKeys(file *sql.DB) error {
	hashes := map[string]string{}
	err := crashEach(file, `SELECT handle, COALESCE(key_hash, '') FROM handles LEFT JOIN agents USING (id)`, func(handle, hash string) { hashes[handle] = hash })
	for _, c := range d.clients {
		agents := c.agents
		if w := c.doubt; w != nil && w.operation == "registerAgent" && !w.found {
			agents = append(agents[:len(agents):len(agents)], w.of)
		}
		for _, a := range agents {
			hash, there := hashes[a.handle]
			delete(hashes, a.handle)
			doubted := c.doubt != nil && c.doubt.of == a
			if !there && !doubted || hash != crashHash(a.key) && a.key != "" && !a.gone && !(doubted && c.doubt.rekeys) {
				d.lose("the key or handle of %s", a.handle)
			}
			if slices.ContainsFunc(a.dead, func(key string) bool { return hash == crashHash(key) }) {
				d.lose("the rotation of a key of %s", a.handle)
			}
		}
	}
	if len(hashes) > 0 {
		d.broke("agents that nobody registered: %q", slices.Collect(maps.Keys(hashes)))
	}
	return err
}

func crashHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

// looksAtReports checks that the operator sees each report once.
func (d *crashDirectory) looksAtReports(file *sql.DB) error {
	reports := map[string]int{}
	err := crashEach(file, `SELECT subject, about FROM reports`, func(subject, _ string) { reports[subject]++ })
	for _, c := range d.clients {
		for post := range c.reported {
			if reports[post] == 0 {
				d.lose("the report of %s", post)
			}
		}
	}
	for subject, n := range reports {
		if n > 1 {
			d.tally.doubled.Add(1)
			d.Errorf("%d reports of %s", n, subject)
		}
	}
	return err
}

func crashEach(file *sql.DB, query string, see func(x, y string)) error {
	rows, err := file.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var x, y string
		if err := rows.Scan(&x, &y); err != nil {
			return err
		}
		see(x, y)
	}
	return rows.Err()
}

// delivers runs the service until no mail waits: each promised mail arrives, except one that was started twice and
// never finished.
func (d *crashDirectory) delivers() {
	d.Helper()
	pass(d, d.db, 4*untilNextTry)
	given, n := map[string]bool{}, 0
	inFile(d, d.db, func(file *sql.DB) error {
		return crashEach(file, `SELECT recipient, uncertain FROM outbox`, func(to, uncertain string) {
			if given[to] = uncertain == "2"; !given[to] {
				n++
			}
		})
	})
	p := spawn(d, d.db, d.mails.setting()...)
	if n > 0 {
		p.logs("a mail was delivered", n)
	}
	p.ends()
	came := d.mails.tally()
	for _, c := range d.clients {
		for _, a := range c.agents {
			if n := came["<"+a.mailTo+">"]; a.mailTo != "" && !a.gone && !given[a.mailTo] && n != 1 && n != 2 {
				d.lose("the mail to %s, which came %d times", a.mailTo, n)
			}
		}
	}
}

func (d *crashDirectory) lose(format string, args ...any) {
	d.Helper()
	d.tally.lost.Add(1)
	d.Errorf("lost: "+format, args...)
}

// crashMails holds the delivered mails by address.
type crashMails struct {
	*postOffice
	mu   sync.Mutex
	came map[string]letter
}

func (m *crashMails) to(address string) (letter, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		select {
		case l := <-m.delivers:
			m.came[l.to] = l
		default:
			l, ok := m.came["<"+address+">"]
			return l, ok
		}
	}
}
