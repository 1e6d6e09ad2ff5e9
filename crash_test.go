package main

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/proof"
	"callbook/store"
)

// The service is killed while clients write through every operation that writes. Each
// client acts for agents of its own, one call after the other, and so knows exactly
// what has to be stored of them: all that was answered, and of the one call that was
// not, all or nothing. That one is repeated, and is then stored once.

const (
	crashClients  = 8
	crashFounders = 10 // of a client's agents: verified by the operator, with a mail left for a claim or another key
	crashAround   = 16 // newest agents of a client, for which it acts beside the founders
	crashCycles   = 50 // of a directory, before another is begun: so that a look at all of it stays cheap
)

// crashTally is what all came to.
type crashTally struct {
	cycles, acknowledged, lost, broken, repeated, doubled atomic.Int64

	ready time.Duration // the longest from a start after a kill until it is ready
	mu    sync.Mutex
	acted map[string]int // acknowledged calls by operation
}

func TestAKillUnderLoadLosesNothing(t *testing.T) {
	wantCrashDrivers(t)
	cycles, seed := proof.Rounds(3, crashCycles, 1000), rand.Uint64()
	random, tally := rand.New(rand.NewPCG(seed, 0)), &crashTally{acted: map[string]int{}}
	for done := 0; done < cycles && !t.Failed(); done += crashCycles {
		t.Run(fmt.Sprint("from cycle ", done), func(t *testing.T) {
			d, most := newCrashDirectory(t, tally, random, crashClients), min(cycles-done, crashCycles)
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

// wantCrashDrivers: no writing operation is left out.
func wantCrashDrivers(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile("testdata/openapi.json")
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

// open opens the file of a directory that nobody serves.
func (d *crashDirectory) open() *store.Store {
	d.Helper()
	st, err := store.Open(d.Context(), store.Options{Path: d.db, Normal: true})
	if err != nil {
		d.tally.broken.Add(1)
		d.Fatal(err)
	}
	return st
}

// cycle starts the service, looks at what it has stored, calls it, and kills it.
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
	if _, err := store.Examine(d.Context(), d.db); err != nil {
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

// all has every client do something at once.
func (d *crashDirectory) all(do func(*crashClient)) {
	var doing sync.WaitGroup
	for _, c := range d.clients {
		doing.Go(func() { do(c) })
	}
	doing.Wait()
}

// broke tells that the file is not whole, or that part of a call is stored.
func (d *crashDirectory) broke(format string, args ...any) {
	d.Helper()
	d.tally.broken.Add(1)
	d.Errorf(format, args...)
}

// looksAtFile holds the file of a service that was killed against what the clients know.
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

// whole looks at a file that nobody serves as SQLite does.
func (d *crashDirectory) whole() {
	d.Helper()
	if _, err := store.Examine(d.Context(), d.db); err != nil {
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
	if errors.Is(err, &store.Error{Code: store.CodeNotFound}) {
		return crashRows{}
	}
	var tables crashTables
	if err = errors.Join(err, json.Unmarshal([]byte("{"+members+"}"), &tables)); err != nil {
		d.Fatal(err)
	}
	return tables.rows()
}

// looksAtKeys: the key that works is the last one that was answered; a handle is never
// forgotten, and none is there that nobody asked for.
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

// looksAtReports: they are the operator's, who sees each once.
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

// delivers runs the service once more until no mail waits: each that was promised comes,
// but for one that was begun twice and never ended.
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
		p.logs("a mail is delivered", n)
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

// crashMails are the mails that came, by address.
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

// crashRows are what is stored about an agent, by table and id, or by table and content
// where rows have no id.
type crashRows map[string]string

// crashTables are what an agent's export shows.
type crashTables map[string][]map[string]any

// crashColumns are those that a client can foretell. A question mark asks whether there
// is a value. The first of a table's columns is its id, unless it is empty.
var crashColumns = map[string][]string{
	"agents":       {"handle", "name", "tagline", "mailbox", "policy_note", "verified_at?", "claimed_at?"},
	"offerings":    {"id", "title", "deliverable", "mode", "position"},
	"links":        {"url", "status", "failure"},
	"owner_claims": {"", "status"},
	"codes":        {"", "purpose", "mailbox", "wrong_tries"},
	"mail_log":     {""},
	"posts":        {"id", "kind", "title", "body", "reply_count"},
	"replies":      {"id", "post_id", "body"},
	"requests": {"id", "status", "from_handle", "to_handle", "purpose", "deliverable", "compensation", "offering.title",
		"decline_reason", "from_mailbox", "to_mailbox"},
	"blocks":      {"", "blocked"},
	"collabs":     {"id", "status", "initiator", "partner", "summary"},
	"events":      {"", "type", "subject.id", "subject.handle", "subject.post_id"},
	"usage":       {"", "act"},
	"idempotency": {""},
	"reports":     {"", "about", "subject", "reason"},
}

const crashCut = "\x1f" // between the columns of a row

func (t crashTables) rows() crashRows {
	rows := crashRows{}
	for table, all := range t {
		columns := crashColumns[table]
		for _, row := range all {
			values := make([]string, 0, len(columns))
			for _, column := range columns[1:] {
				values = append(values, crashValue(row, column))
			}
			if columns[0] == "" {
				rows.add(table, values...)
			} else {
				rows.put(table, row[columns[0]].(string), values...)
			}
		}
	}
	return rows
}

func crashValue(row map[string]any, column string) string {
	if outer, inner, ok := strings.Cut(column, "."); ok {
		of, _ := row[outer].(map[string]any)
		return crashValue(of, inner)
	}
	column, whether := strings.CutSuffix(column, "?")
	switch v := row[column]; {
	case whether:
		return fmt.Sprint(v != nil)
	case v == nil:
		return ""
	default:
		return fmt.Sprint(v)
	}
}

func (r crashRows) put(table, id string, values ...string) {
	r[table+" "+id] = strings.Join(values, crashCut)
}

// add adds a row without an id; there may be another that is equal.
func (r crashRows) add(table string, values ...string) {
	name := table + " " + strings.Join(values, crashCut)
	for n := 1; ; n++ {
		if _, taken := r[fmt.Sprint(name, " ", n)]; !taken {
			r[fmt.Sprint(name, " ", n)] = ""
			return
		}
	}
}

// take is the opposite of add.
func (r crashRows) take(table string, values ...string) {
	delete(r, table+" "+strings.Join(values, crashCut)+" 1")
}

func (r crashRows) has(table string, values ...string) bool {
	_, is := r[table+" "+strings.Join(values, crashCut)+" 1"]
	return is
}

func (r crashRows) value(table, id, column string) string {
	return strings.Split(r[table+" "+id]+strings.Repeat(crashCut, len(crashColumns[table])), crashCut)[slices.Index(crashColumns[table], column)-1]
}

func (r crashRows) set(table, id, column, value string) {
	values := strings.Split(r[table+" "+id], crashCut)
	values[slices.Index(crashColumns[table], column)-1] = value
	r.put(table, id, values...)
}

// ids of a table, in their order.
func (r crashRows) ids(table string) (ids []string) {
	for name := range r {
		if of, id, _ := strings.Cut(name, " "); of == table {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// crashDraft is what would be stored about some agents after a call.
type crashDraft map[*crashAgent]crashRows

func (d crashDraft) of(a *crashAgent) crashRows {
	if d[a] == nil {
		d[a] = maps.Clone(a.rows)
	}
	return d[a]
}

// crashAgent is an agent, and what has to be stored about it.
type crashAgent struct {
	handle, mailbox string
	key             string   // empty while nobody knows it
	dead            []string // its earlier keys
	mailTo          string   // whom the service has promised a mail
	rows            crashRows
	gone            bool
	changed         bool // since the last look
}

func (a *crashAgent) is(column string) bool {
	return a.rows.value("agents", a.handle, column) == "true"
}

// crashPost is a call.
type crashPost struct {
	id      string
	title   string
	author  *crashAgent
	replies map[string]*crashAgent // who wrote them
	gone    bool
	changed bool // since the last look
}

// crashRequest is a contact request, or a collaboration.
type crashRequest struct {
	id, status string
	from, to   *crashAgent
}

// crashWrite is a call that writes.
type crashWrite struct {
	operation, method, path string
	body                    any
	by                      *crashAgent // whose key it carries; nil for a public call
	of                      *crashAgent // whose rows tell whether it is stored; nil where none do
	once                    string      // its Idempotency-Key
	makes                   string      // table of a row that gets its id from the service
	stored                  func(d crashDraft, id string)
	half                    func(d crashDraft) // what may be stored alone, where a call is two writes
	then                    func(id string)    // what the client may do from then on
	refused                 int                // status of a repeat of what is stored already
	rekeys                  bool               // it gives another key to whom it is of
	again                   bool               // a repeat is stored in the place of the first

	bearer   string
	answered bool // with success, though the answer may have broken off
	found    bool // stored, though it was not answered
	unseen   bool // nobody can tell whether it is
}

func (w *crashWrite) draft(id string) crashDraft {
	d := crashDraft{}
	if w.stored != nil {
		w.stored(d, id)
	}
	switch {
	case w.once == "":
	case w.by == nil:
		d.of(w.of).add("idempotency")
	default:
		d.of(w.by).add("idempotency")
	}
	return d
}

// crashClient makes one call after the other, for agents of its own.
type crashClient struct {
	*crashDirectory
	name     string
	random   *rand.Rand
	words    int
	base     string
	http     *http.Client
	agents   []*crashAgent
	posts    []*crashPost
	requests []*crashRequest
	collabs  []*crashRequest
	reported map[string]bool
	doubt    *crashWrite // the call that was not answered
}

func (c *crashClient) founder(st *store.Store) *crashAgent {
	a := c.newAgent()
	r, _, err := st.Register(c.Context(), store.Registration{
		Handle: a.handle, Name: a.handle, Owner: "B", Mailbox: a.mailbox, AcceptRules: true, Profile: store.Profile{DescriptionEN: "D"},
	}, store.Once{})
	if err = errors.Join(err, st.Verify(c.Context(), a.handle)); err != nil {
		c.Fatal(err)
	}
	a.key, a.rows = r.Key, c.exported(st, a)
	return a
}

func (c *crashClient) newAgent() *crashAgent {
	word := c.word()
	return &crashAgent{handle: word, mailbox: word + "@example.org", rows: crashRows{}}
}

// word is another each time.
func (c *crashClient) word() string {
	c.words++
	return fmt.Sprintf("%sword%06d", c.name, c.words)
}

// text is another each time, and of any length up to some.
func (c *crashClient) text(most int) string {
	text := strings.Repeat(c.word()+" ", 1+c.random.IntN(1+c.random.IntN(200)))
	return strings.TrimSpace(text[:min(most, len(text))])
}

func (c *crashClient) reaches(base string) {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.base, c.http = base, &http.Client{Timeout: patience, Transport: &http.Transport{DisableCompression: true}}
}

type crashAnswer struct {
	status   int
	replayed bool
	text     []byte
}

func (c *crashClient) send(method, path, key string, body any, once string) (a crashAnswer, err error) {
	r, err := http.NewRequest(method, c.base+path, crashBody(body))
	if err != nil {
		return a, err
	}
	if _, form := body.(url.Values); form {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if once != "" {
		r.Header.Set("Idempotency-Key", once)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	a.status, a.replayed = answer.StatusCode, answer.Header.Get("Idempotent-Replayed") == "true"
	a.text, err = io.ReadAll(answer.Body)
	return a, err
}

func crashBody(body any) io.Reader {
	switch body := body.(type) {
	case nil:
		return http.NoBody
	case url.Values:
		return strings.NewReader(body.Encode())
	}
	text, _ := json.Marshal(body)
	return bytes.NewReader(text)
}

// get reads from a service that has to answer.
func (c *crashClient) get(path, key string, into any) (status int) {
	a, err := c.send("GET", path, key, nil, "")
	if err == nil {
		err = json.Unmarshal(a.text, into)
	}
	if err != nil || a.status >= 500 {
		c.broke("GET %s: %d %s %v", path, a.status, a.text, err)
	}
	return a.status
}

// load repeats the call that was not answered, and goes on until another is not.
func (c *crashClient) load() {
	for answered := c.doubt == nil || c.repeat(); answered; {
		w, how := c.next(), c.random.IntN(20)
		switch {
		case w.once == "" || w.by == nil: // a registration that is repeated gets another key
			answered = c.write(w)
		case how == 0:
			answered = c.cuts(w)
		case how == 1:
			answered = c.writesTwice(w)
		default:
			answered = c.write(w)
		}
	}
}

func (c *crashClient) next() *crashWrite {
	for {
		driver := crashDrivers[c.random.IntN(len(crashDrivers))]
		if w := driver.next(c); w != nil {
			w.operation = driver.operation
			return w
		}
	}
}

// write makes a call. False tells that it was not answered.
func (c *crashClient) write(w *crashWrite) bool {
	a, err := c.send(w.method, w.path, w.key(), w.body, w.once)
	switch {
	case err != nil || a.status >= 500:
		w.answered, c.doubt = a.status/100 == 2, w
		return false
	case a.status/100 != 2:
		c.Errorf("%s: %d %s", w.operation, a.status, a.text)
		return true
	}
	c.acknowledged(w, a)
	return true
}

// key is the one that it is made with first: so is a rotation repeated.
func (w *crashWrite) key() string {
	if w.by != nil && w.bearer == "" {
		w.bearer = w.by.key
	}
	return w.bearer
}

// cuts makes a call, hangs up and makes it again, perhaps at the same moment.
func (c *crashClient) cuts(w *crashWrite) bool {
	w.unseen, c.doubt = true, w
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		return false
	}
	body, _ := io.ReadAll(crashBody(w.body))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		w.method, w.path, w.once, w.key(), len(body), body)
	_ = conn.Close()
	return c.repeat()
}

// writesTwice makes a call, and once it was answered makes it again.
func (c *crashClient) writesTwice(w *crashWrite) bool {
	if !c.write(w) {
		return false
	}
	w.found, c.doubt = true, w
	return c.repeat()
}

// acknowledged keeps what a call has stored.
func (c *crashClient) acknowledged(w *crashWrite, a crashAnswer) {
	if !w.answered {
		c.tally.mu.Lock()
		c.tally.acted[w.operation]++
		c.tally.mu.Unlock()
		c.tally.acknowledged.Add(1)
	}
	w.answered = true
	var answer map[string]any
	if len(a.text) > 0 && a.text[0] == '{' {
		if err := json.Unmarshal(a.text, &answer); err != nil {
			c.Errorf("%s: %v", w.operation, err)
		}
	}
	if key, ok := answer["api_key"].(string); ok {
		c.rekey(w.of, key)
	}
	switch id := crashID(w.makes, answer); {
	case !w.found:
		c.keep(w, id)
	case w.makes != "" && w.of.rows[w.makes+" "+id] == "":
		c.tally.doubled.Add(1)
		c.Errorf("%s: repeated, it makes %s", w.operation, id)
	}
}

// rekey: from now on another key is good, perhaps one that nobody knows.
func (c *crashClient) rekey(a *crashAgent, key string) {
	if a.key != "" {
		a.dead = append(a.dead, a.key)
	}
	a.key, a.changed = key, true
}

func crashID(table string, answer map[string]any) string {
	switch table {
	case "":
		return ""
	case "offerings":
		menu := answer[table].([]any)
		return menu[len(menu)-1].(map[string]any)["id"].(string)
	case "replies":
		return answer["reply"].(map[string]any)["id"].(string)
	}
	return answer[strings.TrimSuffix(table, "s")].(map[string]any)["id"].(string)
}

// keep takes for stored what a call stores.
func (c *crashClient) keep(w *crashWrite, id string) {
	for a, rows := range w.draft(id) {
		a.rows, a.changed = rows, true
	}
	if w.then != nil {
		w.then(id)
	}
}

// repeat makes the call again that was not answered.
func (c *crashClient) repeat() bool {
	w := c.doubt
	a, err := c.send(w.method, w.path, w.key(), w.body, w.once)
	if err != nil || a.status >= 500 {
		w.answered = w.answered || a.status/100 == 2
		return false
	}
	c.doubt = nil
	c.tally.repeated.Add(1)
	switch {
	case a.status/100 == 2 && w.once != "" && !w.unseen && a.replayed != w.found:
		c.tally.doubled.Add(1)
		c.Errorf("%s: it was stored: %v, replayed: %v", w.operation, w.found, a.replayed)
	case a.status/100 == 2:
	case a.status == w.refused && w.found:
		return true
	case a.status == w.refused && w.unseen:
		c.keep(w, "")
		return true
	default:
		c.broke("%s, repeated: %d %s; it was stored: %v", w.operation, a.status, a.text, w.found)
		return true
	}
	c.acknowledged(w, a)
	return true
}

// crashReader reads what is stored about an agent, if that can be read.
type crashReader func(*crashAgent) (rows crashRows, seen bool)

// settle finds out whether the call that was not answered is stored: as a whole or not
// at all.
func (c *crashClient) settle(read crashReader) {
	w := c.doubt
	if w == nil || w.found {
		return
	}
	got, appeared := w.touched(read)
	id := w.made(got[w.of])
	w.unseen = len(got) == 0 && !appeared
	switch after := w.draft(id); {
	case w.unseen:
	case !appeared && got.equal(nil):
		if w.answered {
			c.lose("%s, answered with success", w.operation)
		}
	case appeared && w.rekeys:
		c.rekey(w.of, "")
		fallthrough
	case appeared, got.equal(after):
		c.keep(w, id)
		w.found = !w.again
	case w.half != nil && got.equal(w.first()):
		for a, rows := range w.first() {
			a.rows = rows
		}
	default:
		for a, rows := range got {
			c.broke("%s is stored in part (-before +now):\n%s\n(-after +now):\n%s", w.operation, cmp.Diff(a.rows, rows), cmp.Diff(after[a], rows))
		}
	}
}

// touched is what is there now about those whom a call is about. Of an agent that cannot
// show it, a new one or one with another key, it shows that the call is stored.
func (w *crashWrite) touched(read crashReader) (got crashDraft, appeared bool) {
	got = crashDraft{}
	for a := range w.draft("?") {
		rows, seen := read(a)
		if seen {
			got[a] = rows
		} else {
			appeared = appeared || len(a.rows) == 0 || w.rekeys && a.key != ""
		}
	}
	return got, appeared
}

// made is the id of what a call has made, among the rows of whom it is about.
func (w *crashWrite) made(rows crashRows) string {
	if w.makes == "" {
		return ""
	}
	before := w.of.rows.ids(w.makes)
	return strings.Join(slices.DeleteFunc(rows.ids(w.makes), func(id string) bool { return slices.Contains(before, id) }), " ")
}

func (w *crashWrite) first() crashDraft {
	d := crashDraft{}
	w.half(d)
	return d
}

// equal tells whether what is there is what is wanted; of nil, what was there before.
func (d crashDraft) equal(want crashDraft) bool {
	for a, rows := range d {
		wanted := a.rows
		if want != nil {
			wanted = want.of(a)
		}
		if !maps.Equal(rows, wanted) {
			return false
		}
	}
	return true
}

// looks holds what the service tells against what the client knows: all of it, or what
// has changed since the last look.
func (c *crashClient) looks(all bool) {
	c.settle(c.shown)
	for _, a := range c.agents {
		if !all && !a.changed {
			continue
		}
		a.changed = false
		c.compare(a, c.shown)
		c.looksAtCard(a)
		for _, key := range a.dead {
			if status := c.get("/api/me", key, &struct{}{}); status != 401 {
				c.lose("the rotation of a key of %s: %d", a.handle, status)
			}
		}
	}
	for _, p := range c.posts {
		if all || p.changed {
			p.changed = false
			c.looksAtPost(p)
		}
	}
	c.searches()
}

// shown is what the service tells of an agent by its key. Where there is no such agent,
// nothing is stored about it.
func (c *crashClient) shown(a *crashAgent) (crashRows, bool) {
	var export struct{ Tables crashTables }
	if a.key != "" && c.get("/api/me/export", a.key, &export) == 200 {
		return export.Tables.rows(), true
	}
	return crashRows{}, c.get("/api/agents/"+a.handle, "", &struct{}{}) == 404
}

func (c *crashClient) compare(a *crashAgent, read crashReader) {
	rows, seen := read(a)
	switch {
	case !seen && a.key != "":
		c.lose("the key of %s", a.handle)
	case !seen || maps.Equal(rows, a.rows):
		return
	}
	for name, value := range a.rows {
		if got, ok := rows[name]; !ok || got != value {
			c.tally.lost.Add(1)
		}
	}
	for name := range rows {
		if _, ok := a.rows[name]; !ok {
			c.tally.doubled.Add(1)
		}
	}
	c.Errorf("%s (-acknowledged +stored):\n%s", a.handle, cmp.Diff(a.rows, rows))
}

// crashCard is what the public sees of an agent.
type crashCard struct {
	Name, Tagline          string
	Level, Evidence, Posts int
	Menu, Links            []string
}

// card is the agent's as it has to be.
func (c *crashClient) card(a *crashAgent) crashCard {
	card := crashCard{
		Name: a.rows.value("agents", a.handle, "name"), Tagline: a.rows.value("agents", a.handle, "tagline"),
		Posts: min(5, len(a.rows.ids("posts"))), // the newest
	}
	for _, reached := range []string{"verified_at?", "claimed_at?"} {
		if a.is(reached) {
			card.Level++
		}
	}
	for _, r := range c.collabs {
		if r.status == "confirmed" && (r.from == a || r.to == a) && r.from.is("claimed_at?") && r.to.is("claimed_at?") {
			card.Evidence++
		}
	}
	for _, id := range a.rows.ids("offerings") {
		card.Menu = append(card.Menu, id+" "+a.rows.value("offerings", id, "title"))
	}
	for _, link := range a.rows.ids("links") {
		card.Links = append(card.Links, link+" "+a.rows.value("links", link, "status"))
	}
	return card
}

// looksAtCard: what was derived from an agent's rows goes with them.
func (c *crashClient) looksAtCard(a *crashAgent) {
	var shown struct {
		Agent struct {
			Name, Tagline string
			Trust         struct {
				Level int
				Links []struct{ URL, Status string }
			}
			Offerings []struct{ ID, Title string }
		}
		Evidence struct {
			Confirmed int `json:"confirmed_collaborations"`
		}
		RecentPosts []any `json:"recent_posts"`
	}
	if status := c.get("/api/agents/"+a.handle, "", &shown); status == 404 || a.gone {
		if !a.gone || status != 404 {
			c.broke("the card of %s: %d, deleted: %v", a.handle, status, a.gone)
		}
		return
	}
	got := crashCard{shown.Agent.Name, shown.Agent.Tagline, shown.Agent.Trust.Level, shown.Evidence.Confirmed, len(shown.RecentPosts), nil, nil}
	for _, o := range shown.Agent.Offerings {
		got.Menu = append(got.Menu, o.ID+" "+o.Title)
	}
	for _, l := range shown.Agent.Trust.Links {
		got.Links = append(got.Links, l.URL+" "+l.Status)
	}
	slices.Sort(got.Menu)
	slices.Sort(got.Links)
	if diff := cmp.Diff(c.card(a), got); diff != "" {
		c.broke("the card of %s (-stored +shown):\n%s", a.handle, diff)
	}
}

func (c *crashClient) looksAtPost(p *crashPost) {
	var thread struct {
		Post struct {
			Title      string
			ReplyCount int `json:"reply_count"`
		}
		Replies []struct{ ID string }
	}
	status := c.get("/api/posts/"+p.id, "", &thread)
	if p.gone || status == 404 {
		if !p.gone || status != 404 {
			c.broke("a call: %d, deleted: %v", status, p.gone)
		}
		return
	}
	replies := map[string]bool{}
	for _, r := range thread.Replies {
		replies[r.ID] = true
	}
	if thread.Post.Title != p.title || thread.Post.ReplyCount != len(p.replies) || !maps.EqualFunc(replies, p.replies, func(bool, *crashAgent) bool { return true }) {
		c.broke("a call with the replies %v: %+v", p.replies, thread)
	}
}

// searches finds what is there, and nothing else.
func (c *crashClient) searches() {
	words := map[string]bool{} // of agents and calls, and whether they are there
	for _, p := range c.posts[max(0, len(c.posts)-2):] {
		words["posts?q="+p.title] = !p.gone
	}
	for _, a := range c.agents[len(c.agents)-2:] {
		words["agents?q="+a.handle] = !a.gone
	}
	for word, there := range words {
		var found struct{ Total int }
		if c.get("/api/"+word, "", &found); (found.Total == 1) != there {
			c.broke("%s finds %d; it is there: %v", word, found.Total, there)
		}
	}
}

// crashDriver makes a client's next call of an operation; nil where there is nothing to
// do it to.
type crashDriver struct {
	operation string // its id in the API's description, where it stands there
	next      func(*crashClient) *crashWrite
}

// crashDrivers in this order find each something to do.
var crashDrivers = []crashDriver{
	{"registerAgent", (*crashClient).registers},
	{"updateMe", (*crashClient).updates},
	{"replaceOfferings", (*crashClient).replacesMenu},
	{"startVerify", (*crashClient).verifies},
	{"confirmVerify", (*crashClient).confirmsCode},
	{"claimOwner", (*crashClient).claims},
	{"the owner's page", (*crashClient).confirmsClaim},
	{"setLink", (*crashClient).setsLink},
	{"rotateKey", (*crashClient).rotates},
	{"startRecovery", (*crashClient).recovers},
	{"confirmRecovery", (*crashClient).confirmsRecovery},
	{"sendRequest", (*crashClient).asks},
	{"acceptRequest", (*crashClient).accepts},
	{"sendRequest", (*crashClient).asks},
	{"declineRequest", (*crashClient).declines},
	{"sendRequest", (*crashClient).asks},
	{"withdrawRequest", (*crashClient).withdraws},
	{"sendRequest", (*crashClient).asks},
	{"reportRequest", (*crashClient).reportsRequest},
	{"recordCollab", (*crashClient).records},
	{"confirmCollab", (*crashClient).confirmsCollab},
	{"recordCollab", (*crashClient).records},
	{"declineCollab", (*crashClient).declinesCollab},
	{"createPost", (*crashClient).calls},
	{"createReply", (*crashClient).replies},
	{"reportPost", (*crashClient).reportsPost},
	{"deletePost", (*crashClient).deletesPost},
	{"deleteMe", (*crashClient).leaves},
}

type crashFields map[string]any

// crashDraw draws one of those that fit, if any does.
func crashDraw[T any](c *crashClient, all []*T, fits func(*T) bool) *T {
	for i, from := 0, c.random.IntN(len(all)+1); i < len(all); i++ {
		if x := all[(from+i)%len(all)]; fits(x) {
			return x
		}
	}
	return nil
}

// around are the agents that the client acts for now.
func (c *crashClient) around() []*crashAgent {
	newest := max(crashFounders, len(c.agents)-crashAround)
	return append(c.agents[:crashFounders:crashFounders], c.agents[newest:]...)
}

func (c *crashClient) isFounder(a *crashAgent) bool {
	return slices.Contains(c.agents[:crashFounders], a)
}

// agent draws one whose key is known.
func (c *crashClient) agent(fits func(*crashAgent) bool) *crashAgent {
	return crashDraw(c, c.around(), func(a *crashAgent) bool { return !a.gone && a.key != "" && fits(a) })
}

func (c *crashClient) anyAgent() *crashAgent { return c.agent(func(*crashAgent) bool { return true }) }

// post draws one of the newest calls.
func (c *crashClient) post(fits func(*crashPost) bool) *crashPost {
	return crashDraw(c, c.posts[max(0, len(c.posts)-crashAround):], func(p *crashPost) bool { return !p.gone && fits(p) })
}

// creates is a call that is repeated by its Idempotency-Key.
func (c *crashClient) creates(by *crashAgent, path, makes string, body crashFields, stored func(d crashDraft, id string), then func(id string)) *crashWrite {
	return &crashWrite{method: "POST", path: path, by: by, of: by, body: body, once: "once-" + c.word(), makes: makes, stored: stored, then: then}
}

func (c *crashClient) registers() *crashWrite {
	a, name := c.newAgent(), c.word()
	w := c.creates(nil, "/api/agents", "", crashFields{
		"handle": a.handle, "name": name, "owner": "B", "mailbox": a.mailbox, "description_en": "D", "accept_rules": true,
	}, func(d crashDraft, _ string) {
		d.of(a).put("agents", a.handle, name, "", a.mailbox, "", "false", "false")
	}, func(string) { c.agents = append(c.agents, a) })
	w.of = a
	return w
}

func (c *crashClient) updates() *crashWrite {
	a, values := c.anyAgent(), map[string]string{"name": c.word(), "tagline": c.word(), "policy_note": c.word()}
	return &crashWrite{method: "PATCH", path: "/api/me", by: a, of: a, body: crashFields{
		"name": values["name"], "tagline": values["tagline"], "contact_policy": crashFields{"note": values["policy_note"]},
	}, stored: func(d crashDraft, _ string) {
		for column, value := range values {
			d.of(a).set("agents", a.handle, column, value)
		}
	}}
}

// replacesMenu keeps one offering by its id, and makes one.
func (c *crashClient) replacesMenu() *crashWrite {
	a, title := c.anyAgent(), c.word()
	menu, kept := []crashFields{}, a.rows.ids("offerings")
	if kept = kept[:min(1, len(kept))]; len(kept) == 1 {
		menu = append(menu, crashFields{"id": kept[0], "title": a.rows.value("offerings", kept[0], "title"), "deliverable": "D", "mode": "free"})
	}
	menu = append(menu, crashFields{"title": title, "deliverable": "D", "mode": "free"})
	return &crashWrite{method: "PUT", path: "/api/me/offerings", by: a, of: a, body: menu, makes: "offerings", again: true, stored: func(d crashDraft, id string) {
		rows := d.of(a)
		maps.DeleteFunc(rows, func(name, _ string) bool {
			return strings.HasPrefix(name, "offerings ") && !(len(kept) == 1 && name == "offerings "+kept[0])
		})
		if len(kept) == 1 {
			rows.set("offerings", kept[0], "position", "0")
		}
		rows.put("offerings", id, title, "D", "free", fmt.Sprint(len(kept)))
	}}
}

// mailed draws an agent about whom a mail of some kind has come.
func (c *crashClient) mailed(fits func(*crashAgent) bool) (a *crashAgent, l letter) {
	a = crashDraw(c, c.around(), func(a *crashAgent) (came bool) {
		if a.mailTo != "" && !a.gone && fits(a) {
			l, came = c.mails.to(a.mailTo)
		}
		return came
	})
	return a, l
}

// promises is a call that has a mail sent: of each agent one, for the next would have to wait
// for a minute.
func (c *crashClient) promises(a *crashAgent, to string, w crashWrite, table string, row ...string) *crashWrite {
	w.method, w.of = "POST", a
	w.stored = func(d crashDraft, _ string) {
		d.of(a).add(table, row...)
		d.of(a).add("mail_log")
	}
	w.then = func(string) { a.mailTo = to }
	return &w
}

func (c *crashClient) verifies() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return a.mailTo == "" && !a.is("verified_at?") })
	if a == nil {
		return nil
	}
	return c.promises(a, a.mailbox, crashWrite{path: "/api/me/verify", by: a, refused: 429}, "codes", "verify", a.mailbox, "0")
}

func (c *crashClient) confirmsCode() *crashWrite {
	a, l := c.mailed(func(a *crashAgent) bool { return a.key != "" && !a.is("verified_at?") })
	if a == nil {
		return nil
	}
	return &crashWrite{method: "POST", path: "/api/me/verify/confirm", by: a, of: a, body: crashFields{"code": l.code()}, refused: 409, stored: func(d crashDraft, _ string) {
		d.of(a).take("codes", "verify", a.mailbox, "0")
		d.of(a).set("agents", a.handle, "verified_at?", "true")
		d.of(a).add("events", "trust.changed", "", a.handle, "")
	}}
}

func (c *crashClient) claims() *crashWrite {
	a := c.agent(func(a *crashAgent) bool { return a.mailTo == "" && a.is("verified_at?") })
	if a == nil {
		return nil
	}
	owner := "owner-" + a.mailbox
	return c.promises(a, owner, crashWrite{path: "/api/me/owner-claim", by: a, body: crashFields{"owner_email": owner}, refused: 429}, "owner_claims", "pending")
}

var crashForm = regexp.MustCompile(`name="form" value="(\w+)"`)

func (c *crashClient) confirmsClaim() *crashWrite {
	a, l := c.mailed(func(a *crashAgent) bool { return a.mailTo != a.mailbox && !a.is("claimed_at?") })
	if a == nil {
		return nil
	}
	path := strings.TrimPrefix(mailedLink.FindString(l.text), site)
	page, _ := c.send("GET", path, "", nil, "")
	form := crashForm.FindSubmatch(page.text)
	if form == nil {
		return nil // the service is gone
	}
	return &crashWrite{method: "POST", path: path, of: a, body: url.Values{"form": {string(form[1])}, "act": {"confirm"}}, refused: 409, stored: func(d crashDraft, _ string) {
		d.of(a).take("owner_claims", "pending")
		d.of(a).add("owner_claims", "claimed")
		d.of(a).set("agents", a.handle, "claimed_at?", "true")
		d.of(a).add("events", "trust.changed", "", a.handle, "")
	}}
}

// setsLink adds a link, which leads to where the service does not go, or removes one.
func (c *crashClient) setsLink() *crashWrite {
	a := c.anyAgent()
	w := &crashWrite{method: "POST", path: "/api/me/links", by: a, of: a}
	if links := a.rows.ids("links"); len(links) > 2 {
		w.body = crashFields{"url": links[0], "remove": true}
		w.stored = func(d crashDraft, _ string) { delete(d.of(a), "links "+links[0]) }
		return w
	}
	link := "https://" + c.word() + ".invalid/"
	w.body = crashFields{"url": link}
	w.half = func(d crashDraft) { d.of(a).put("links", link, "pending", "") }
	w.stored = func(d crashDraft, _ string) { d.of(a).put("links", link, "failed", "blocked") }
	return w
}

func (c *crashClient) rotates() *crashWrite {
	a := c.anyAgent()
	return &crashWrite{method: "POST", path: "/api/me/rotate-key", by: a, of: a, rekeys: true, refused: 401, stored: func(d crashDraft, _ string) { d.of(a) }}
}

// recovers asks for another key, rather for one that was lost with an answer.
func (c *crashClient) recovers() *crashWrite {
	fits := func(a *crashAgent) bool { return a.mailTo == "" && a.is("verified_at?") }
	a := crashDraw(c, c.around(), func(a *crashAgent) bool { return a.key == "" && fits(a) })
	if a == nil {
		a = c.agent(fits)
	}
	if a == nil {
		return nil
	}
	return c.promises(a, a.mailbox, crashWrite{path: "/api/recover", body: crashFields{"handle": a.handle}}, "codes", "recover", a.mailbox, "0")
}

func (c *crashClient) confirmsRecovery() *crashWrite {
	a, l := c.mailed(func(a *crashAgent) bool { return a.rows.has("codes", "recover", a.mailbox, "0") })
	if a == nil {
		return nil
	}
	return &crashWrite{method: "POST", path: "/api/recover/confirm", of: a, body: crashFields{"handle": a.handle, "code": l.code()}, rekeys: true, refused: 410,
		stored: func(d crashDraft, _ string) { d.of(a).take("codes", "recover", a.mailbox, "0") }}
}

// asks sends a request from a founder, of which each asks an agent once.
func (c *crashClient) asks() *crashWrite {
	var from *crashAgent
	to := c.agent(func(to *crashAgent) bool {
		if c.isFounder(to) || len(to.rows.ids("offerings")) == 0 {
			return false
		}
		from = c.agent(func(a *crashAgent) bool {
			return c.isFounder(a) && !slices.ContainsFunc(c.requests, func(r *crashRequest) bool { return r.from == a && r.to == to })
		})
		return from != nil
	})
	if to == nil {
		return nil
	}
	offering, purpose := to.rows.ids("offerings")[0], c.word()
	title := to.rows.value("offerings", offering, "title")
	return c.creates(from, "/api/agents/"+to.handle+"/requests", "requests", crashFields{
		"purpose": purpose, "deliverable": "D", "compensation": "none", "offering_id": offering,
	}, func(d crashDraft, id string) {
		for _, side := range []*crashAgent{from, to} {
			d.of(side).put("requests", id, "pending", from.handle, to.handle, purpose, "D", "none", title, "", "", "")
		}
		d.of(from).add("usage", "request")
		d.of(to).add("events", "request.received", id, from.handle, "")
	}, func(id string) { c.requests = append(c.requests, &crashRequest{id, "pending", from, to}) })
}

// moves does something to a request or collaboration that waits, and tells the other
// side; columns change beside the status.
func (c *crashClient) moves(table string, all []*crashRequest, act, to string, columns func(*crashRequest) map[string]string, body any) *crashWrite {
	r := crashDraw(c, all, func(r *crashRequest) bool { return r.status == "pending" && r.from.key != "" && r.to.key != "" })
	if r == nil {
		return nil
	}
	side, other := r.to, r.from
	if act == "withdraw" {
		side, other = r.from, r.to
	}
	return &crashWrite{method: "POST", path: "/api/" + table + "/" + r.id + "/" + act, by: side, of: side, body: body, stored: func(d crashDraft, _ string) {
		for _, a := range []*crashAgent{r.from, r.to} {
			d.of(a).set(table, r.id, "status", to)
			for column, value := range columns(r) {
				d.of(a).set(table, r.id, column, value)
			}
		}
		d.of(other).add("events", strings.TrimSuffix(table, "s")+"."+to, r.id, side.handle, "")
		if act == "report" {
			d.of(side).add("blocks", other.handle)
			d.of(side).add("reports", "request", r.id, "R")
		}
	}, then: func(string) { r.status = to }}
}

func crashNoColumns(*crashRequest) map[string]string { return nil }

func (c *crashClient) accepts() *crashWrite {
	return c.moves("requests", c.requests, "accept", "accepted", func(r *crashRequest) map[string]string {
		return map[string]string{"from_mailbox": r.from.mailbox, "to_mailbox": r.to.mailbox}
	}, nil)
}

func (c *crashClient) declines() *crashWrite {
	return c.moves("requests", c.requests, "decline", "declined", func(*crashRequest) map[string]string {
		return map[string]string{"decline_reason": "busy"}
	}, crashFields{"reason": "busy"})
}

func (c *crashClient) withdraws() *crashWrite {
	return c.moves("requests", c.requests, "withdraw", "withdrawn", crashNoColumns, nil)
}

func (c *crashClient) reportsRequest() *crashWrite {
	return c.moves("requests", c.requests, "report", "declined", crashNoColumns, crashFields{"reason": "R"})
}

func (c *crashClient) confirmsCollab() *crashWrite {
	return c.moves("collabs", c.collabs, "confirm", "confirmed", crashNoColumns, nil)
}

func (c *crashClient) declinesCollab() *crashWrite {
	return c.moves("collabs", c.collabs, "decline", "declined", crashNoColumns, nil)
}

// records keeps a collaboration, of two agents one with the other once: only 5 of an agent
// may wait, and after a refusal none for a month.
func (c *crashClient) records() *crashWrite {
	var from *crashAgent
	partner := c.agent(func(partner *crashAgent) bool {
		from = c.agent(func(a *crashAgent) bool {
			waiting, met := 0, a == partner || partner.rows.has("blocks", a.handle)
			for _, r := range c.collabs {
				if r.from == a && r.status == "pending" {
					waiting++
				}
				met = met || r.from == a && r.to == partner
			}
			return waiting < 5 && !met
		})
		return from != nil
	})
	if partner == nil {
		return nil
	}
	summary := c.text(300)
	return c.creates(from, "/api/collabs", "collabs", crashFields{"partner": partner.handle, "summary": summary}, func(d crashDraft, id string) {
		for _, side := range []*crashAgent{from, partner} {
			d.of(side).put("collabs", id, "pending", from.handle, partner.handle, summary)
		}
		d.of(from).add("usage", "collab")
		d.of(partner).add("events", "collab.received", id, from.handle, "")
	}, func(id string) { c.collabs = append(c.collabs, &crashRequest{id, "pending", from, partner}) })
}

func (c *crashClient) calls() *crashWrite {
	a, title, body := c.anyAgent(), c.word(), c.text(4000)
	return c.creates(a, "/api/posts", "posts", crashFields{"kind": "seeking", "title": title, "body": body}, func(d crashDraft, id string) {
		d.of(a).put("posts", id, "seeking", title, body, "0")
		d.of(a).add("usage", "post")
	}, func(id string) {
		c.posts = append(c.posts, &crashPost{id: id, title: title, author: a, replies: map[string]*crashAgent{}, changed: true})
	})
}

func (c *crashClient) replies() *crashWrite {
	p := c.post(func(*crashPost) bool { return true })
	if p == nil {
		return nil
	}
	a, body := c.agent(func(a *crashAgent) bool { return a != p.author }), c.text(2000)
	return c.creates(a, "/api/posts/"+p.id+"/replies", "replies", crashFields{"body": body}, func(d crashDraft, id string) {
		d.of(a).put("replies", id, p.id, body)
		d.of(a).add("usage", "reply")
		d.of(p.author).set("posts", p.id, "reply_count", fmt.Sprint(len(p.replies)+1))
		d.of(p.author).add("events", "reply.received", id, a.handle, p.id)
	}, func(id string) { p.replies[id], p.changed = a, true })
}

func (c *crashClient) reportsPost() *crashWrite {
	p := c.post(func(p *crashPost) bool { return !c.reported[p.id] })
	if p == nil {
		return nil
	}
	return &crashWrite{method: "POST", path: "/api/posts/" + p.id + "/report", body: crashFields{"reason": "R"}, then: func(string) { c.reported[p.id] = true }}
}

func (c *crashClient) deletesPost() *crashWrite {
	p := c.post(func(p *crashPost) bool { return p.author.key != "" })
	if p == nil {
		return nil
	}
	return &crashWrite{method: "DELETE", path: "/api/posts/" + p.id, by: p.author, of: p.author, refused: 404,
		stored: func(d crashDraft, _ string) { p.deleted(d) }, then: func(string) { p.gone, p.changed = true, true }}
}

func (p *crashPost) deleted(d crashDraft) {
	delete(d.of(p.author), "posts "+p.id)
	for id, by := range p.replies {
		delete(d.of(by), "replies "+id)
	}
}

// leaves deletes an agent, with all that hangs on it.
func (c *crashClient) leaves() *crashWrite {
	if len(c.agents) < crashFounders+5 {
		return nil
	}
	a := c.agent(func(a *crashAgent) bool { return !c.isFounder(a) })
	if a == nil {
		return nil
	}
	return &crashWrite{method: "DELETE", path: "/api/me?confirm=" + a.handle, by: a, of: a, refused: 401, stored: func(d crashDraft, _ string) {
		for _, p := range c.posts {
			switch {
			case p.gone:
			case p.author == a:
				p.deleted(d)
			default:
				p.loses(a, d)
			}
		}
		for _, r := range c.requests {
			r.ended("requests", a, d)
		}
		for _, r := range c.collabs {
			r.ended("collabs", a, d)
		}
		clear(d.of(a))
	}, then: func(string) { c.left(a) }}
}

// loses takes an agent's replies out of a call.
func (p *crashPost) loses(a *crashAgent, d crashDraft) {
	left := 0
	for id, by := range p.replies {
		if by == a {
			delete(d.of(a), "replies "+id)
		} else {
			left++
		}
	}
	if left < len(p.replies) {
		d.of(p.author).set("posts", p.id, "reply_count", fmt.Sprint(left))
	}
}

// ended is what the other side keeps of a request or collaboration.
func (r *crashRequest) ended(table string, a *crashAgent, d crashDraft) {
	other, mailbox, to := r.to, "from_mailbox", "declined"
	switch {
	case a == r.to:
		other, mailbox = r.from, "to_mailbox"
	case a != r.from:
		return
	case table == "requests":
		to = "withdrawn"
	}
	if other.gone {
		return
	}
	if table == "requests" {
		d.of(other).set(table, r.id, mailbox, "")
		d.of(other).take("blocks", a.handle)
	}
	if r.status == "pending" {
		d.of(other).set(table, r.id, "status", to)
		d.of(other).add("events", strings.TrimSuffix(table, "s")+"."+to, r.id, a.handle, "")
	}
}

// left is what the client can no longer do.
func (c *crashClient) left(a *crashAgent) {
	a.gone = true
	for _, p := range c.posts {
		replies := len(p.replies)
		maps.DeleteFunc(p.replies, func(_ string, by *crashAgent) bool { return by == a })
		p.changed = p.changed || p.author == a || len(p.replies) < replies
		p.gone = p.gone || p.author == a
	}
	for _, r := range slices.Concat(c.requests, c.collabs) {
		if r.status == "pending" && (r.from == a || r.to == a) {
			r.status = "ended"
		}
	}
}
