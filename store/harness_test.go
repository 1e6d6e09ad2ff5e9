package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
)

// testStore is a directory for a test: a real file and a clock that the test
// moves. Limits by the day are off unless the test sets them.
type testStore struct {
	*Store
	testing.TB
	clock  *testClock
	path   string
	closed *Store       // if it is
	posts  atomic.Int64 // that were drafted
	commit func(context.Context, *sqlx.Conn) error
}

// testClock stands still until a test moves it.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newFile is the file of a new directory. Each test has a copy of it, as making one is
// many statements and waits for the disk.
var newFile = sync.OnceValues(func() (_ []byte, err error) {
	folder, err := os.MkdirTemp("", "callbook-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "callbook.db")
	s, err := Open(context.Background(), Options{Path: path, Clock: testStart})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// pageSize is that of every database.
const pageSize = 4096

// testStart is when tests begin.
func testStart() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

func newStore(t testing.TB, set ...func(*Options)) *testStore {
	t.Helper()
	clock := &testClock{now: testStart()}
	s := &testStore{TB: t, clock: clock, commit: commit}
	o := Options{Path: filepath.Join(t.TempDir(), "callbook.db"), Clock: clock.Now, Quotas: domain.Quotas{}, Normal: true}
	for _, f := range set {
		f(&o)
	}
	if o.commit == nil {
		o.commit = func(ctx context.Context, conn *sqlx.Conn) error { return s.commit(ctx, conn) }
	}
	if missing(o.Path) {
		file, err := newFile()
		if err := errors.Join(err, os.WriteFile(o.Path, file, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s.Store, s.path = openStore(t, o), o.Path
	t.Cleanup(func() {
		if n := s.db.ReadStats().InUse; n != 0 && s.closed != s.Store {
			t.Errorf("%d reading connections were not given back", n)
		}
		s.stop()
	})
	return s
}

// commit commits, as the store does by itself.
func commit(ctx context.Context, conn *sqlx.Conn) error {
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

// slowRead is the timeout of reads and queries: on a busy machine a query may take longer than the
// default.
const slowRead = 10 * time.Second

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	o.ReadTimeout, o.QueryTimeout = cmp.Or(o.ReadTimeout, slowRead), cmp.Or(o.QueryTimeout, slowRead)
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Close closes the store, and remembers that.
func (s *testStore) Close() error {
	s.closed = s.Store
	return s.Store.Close()
}

// stop closes the store, once.
func (s *testStore) stop() {
	s.Helper()
	if s.closed == s.Store {
		return
	}
	s.checkPlans()
	if err := s.Close(); err != nil {
		s.Errorf("close the store: %v", err)
	}
}

func withQuotas(q domain.Quotas) func(*Options) { return func(o *Options) { o.Quotas = q } }

// ok fails the test unless a call succeeded.
func (s *testStore) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// register adds an agent that only says what it must.
func (s *testStore) register(handle string, change ...func(*domain.Registration)) (domain.Caller, string) {
	s.Helper()
	r := registration(handle)
	for _, f := range change {
		f(&r)
	}
	registered, _, err := s.Register(context.Background(), r, domain.IdempotencyKey{})
	s.ok(err)
	return domain.Caller{ID: registered.Agent.ID, Handle: handle, KeyHash: string(domain.HashKey(registered.Key))}, registered.Key
}

// callerOf is the caller who has the key.
func (s *testStore) callerOf(key string) domain.Caller {
	s.Helper()
	caller, err := s.Authenticate(context.Background(), key)
	s.ok(err)
	return caller
}

func registration(handle string) domain.Registration {
	return domain.Registration{
		Handle: handle, Name: "Name of " + handle, Owner: "Mei Lin", Mailbox: handle + "@agents.example.org",
		AcceptRules: true, Profile: domain.Profile{DescriptionEN: "Does things."},
	}
}

// registerAgents registers n agents named prefix-0 to prefix-(n-1).
func (s *testStore) registerAgents(prefix string, n int) []domain.Caller {
	s.Helper()
	callers := make([]domain.Caller, n)
	for i := range callers {
		callers[i], _ = s.register(fmt.Sprintf("%s-%d", prefix, i))
	}
	return callers
}

// draft is a post that its author can publish again: the body of all but the first has a number.
func (s *testStore) draft(title, body string) domain.PostDraft {
	if n := s.posts.Add(1); n > 1 {
		body = fmt.Sprintf("%s %d", body, n)
	}
	return domain.PostDraft{Kind: "seeking", Title: title, Body: body}
}

func (s *testStore) post(author domain.Caller, change ...func(*domain.PostDraft)) domain.PublicPost {
	s.Helper()
	d := s.draft("Tide data", "Hourly tide levels.")
	for _, f := range change {
		f(&d)
	}
	doc, _, err := s.CreatePost(context.Background(), author, d, domain.IdempotencyKey{})
	s.ok(err)
	return doc
}

func (s *testStore) reply(author domain.Caller, p domain.PublicPost, body string) domain.Reply {
	s.Helper()
	r, _, err := s.CreateReply(context.Background(), author, p.ID, domain.ReplyDraft{Body: body}, domain.IdempotencyKey{})
	s.ok(err)
	return r
}

// execSQL runs SQL for what no operation does yet.
func (s *testStore) execSQL(query string, args ...any) {
	s.Helper()
	s.ok(s.write(context.Background(), func(t *tx) error { return t.Exec(ofTest+query, args...) }))
}

// editAgentRow changes an agent as no operation does yet.
func (s *testStore) editAgentRow(c domain.Caller, edit func(*agentRow)) {
	s.Helper()
	s.ok(s.write(context.Background(), func(t *tx) error {
		agent, err := t.agentByID(c.ID)
		if err != nil {
			return err
		}
		edit(agent)
		return agent.Store(t)
	}))
}

// ofTest begins the queries of tests, whose plans do not matter.
const ofTest = "/* of a test */ "

// claim puts an agent at level 2, its owner known by one byte.
func (s *testStore) claim(c domain.Caller, owner byte) {
	s.Helper()
	s.editAgentRow(c, func(a *agentRow) { a.ClaimedAt = nil }) // by another owner
	now := domain.TimeOf(s.clock.Now())
	s.editAgentRow(c, func(a *agentRow) {
		a.VerifiedAt = cmp.Or(a.VerifiedAt, &now)
		a.ClaimedAt = &now
		a.ClaimedBy = append([]byte{owner}, make([]byte, 31)...)
	})
}

// collab records a confirmed collaboration.
func (s *testStore) collab(id string, initiator, partner domain.Caller) {
	s.Helper()
	s.execSQL(`
		INSERT INTO collabs (id, initiator_id, partner_id, status, summary, created_at, decided_at)
		VALUES (?, ?, ?, 'confirmed', 'Done.', 1, 2)`, id, initiator.ID, partner.ID)
	s.ok(s.write(context.Background(), func(t *tx) error { return t.rebuildEvidence(initiator.ID) }))
}

// value reads one value on a reading connection.
func value[T any](s *testStore, query string, args ...any) T {
	s.Helper()
	var v T
	if err := s.db.Get(context.Background(), &v, ofTest+query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
	return v
}

// connection opens the store's file beside the store, as another program would.
func (s *testStore) connection(mode string, pragmas ...string) *sqlx.DB {
	s.Helper()
	db := connectFile(s, s.path, mode, pragmas...)
	s.Cleanup(func() { _ = db.Close() })
	return db
}

// connectFile opens a database file by SQLite's own means.
func connectFile(t testing.TB, path, mode string, pragmas ...string) *sqlx.DB {
	t.Helper()
	query := url.Values{"mode": {mode}, "_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}
	db, err := sqlx.Connect("sqlite", "file:"+filepath.ToSlash(path)+"?"+query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// setBusyTimeout sets how long the writer waits for another process.
func (s *testStore) setBusyTimeout(timeout time.Duration) {
	s.Helper()
	s.ok(s.db.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		_, err := conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA busy_timeout = %d`, timeout.Milliseconds()))
		return err
	}))
}

// missing reports whether there is no file of that name.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// together calls f from n goroutines that start at once, and returns their errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// outcome is the code of a refusal, "" for success, or the text of another error.
func outcome(err error) string {
	var refusal *domain.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal):
		return string(refusal.Code)
	}
	return err.Error()
}

// outcomes counts how calls ended.
func outcomes(errs []error) map[string]int {
	counts := map[string]int{}
	for _, err := range errs {
		counts[outcome(err)]++
	}
	return counts
}

func wantOutcome(t testing.TB, what string, err error, want string) {
	t.Helper()
	if got := outcome(err); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
