package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// testStore is a directory for a test: a real file and a clock that the test
// moves. Limits by the day are off unless the test sets them.
type testStore struct {
	*Store
	testing.TB
	clock  *testkit.Clock
	path   string
	closed *Store       // if it is
	posts  atomic.Int64 // that were drafted
	commit func(context.Context, *sqlx.Conn) error
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
	s, err := Open(context.Background(), Options{Path: path, Clock: testkit.Start})
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

// newStore returns a new directory, which is closed when the test ends.
func newStore(t testing.TB, set ...func(*Options)) *testStore {
	t.Helper()
	clock := testkit.NewClock()
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

// openStore opens a directory, with time for a busy machine.
func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	if o.ReadTimeout == 0 {
		o.ReadTimeout = slowRead
	}
	if o.QueryTimeout == 0 {
		o.QueryTimeout = slowRead
	}
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

// withQuotas sets the limits by the day.
func withQuotas(q domain.Quotas) func(*Options) { return func(o *Options) { o.Quotas = q } }

// ok fails the test unless a call succeeded.
func (s *testStore) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// execSQL changes the database as no operation does.
func (s *testStore) execSQL(query string, args ...any) {
	s.Helper()
	s.ok(s.write(context.Background(), func(t *tx) error { return t.Exec(ofTest+query, args...) }))
}

// ofTest begins the queries of tests, whose plans do not matter.
const ofTest = "/* of a test */ "

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

// outcome returns the code of an error for a client, "" for success, or the text of another error.
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

// outcomes counts the outcomes of calls.
func outcomes(errs []error) map[string]int {
	counts := map[string]int{}
	for _, err := range errs {
		counts[outcome(err)]++
	}
	return counts
}

// wantOutcome fails the test unless an error has this outcome.
func wantOutcome(t testing.TB, what string, err error, want string) {
	t.Helper()
	if got := outcome(err); got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const rush = 100

// crowd is a number of concurrent callers.
const crowd = 40

// wantOutcomes fails the test unless errors have these outcomes.
func wantOutcomes(t testing.TB, what string, errs []error, want map[string]int) {
	t.Helper()
	if got := outcomes(errs); !maps.Equal(got, want) {
		t.Errorf("%s: outcomes %v, want %v", what, got, want)
	}
}

// errOf and errOf3 return the error of a call whose other results do not matter.
func errOf[T any](_ T, err error) error { return err }

func errOf3[T, U any](_ T, _ U, err error) error { return err }

// errorOf returns the error for a client that an error wraps, or an empty one.
func errorOf(err error) domain.Error {
	if refusal, ok := errors.AsType[*domain.Error](err); ok {
		return *refusal
	}
	return domain.Error{}
}

// errorLine describes an error for a client in one line; times are since start.
func errorLine(err error, start time.Time) string {
	r := errorOf(err)
	line := strings.TrimSpace(outcome(err) + " " + r.Topic)
	if r.Limit > 0 && r.Topic != "min_level" {
		line += fmt.Sprintf(" %d", r.Limit)
	}
	if len(r.Fields) > 0 {
		line += " " + strings.ReplaceAll(fmt.Sprint(r.Fields), " }", "}") // most errors name no word
	}
	if !r.RetryAt.IsZero() {
		line += fmt.Sprintf(", retry after %v", r.RetryAt.Sub(start))
	}
	return line
}

// noCaps lifts the caps on mails.
func noCaps(o *Options) { o.Mails = &domain.MailCaps{} }

// reopen closes the store and opens it again, as a restart does.
func (s *testStore) reopen(set ...func(*Options)) {
	s.Helper()
	s.stop()
	o := Options{Path: s.path, Clock: s.clock.Now, Quotas: domain.Quotas{}, Normal: true}
	for _, f := range set {
		f(&o)
	}
	s.Store = openStore(s, o)
}

// dump returns the contents of the database by table.
func (s *testStore) dump() map[string]string {
	s.Helper()
	var tables []string
	s.ok(s.db.Select(context.Background(), &tables, ofTest+`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`))
	held, db := map[string]string{}, s.connection("ro")
	defer db.Close()
	for _, table := range tables {
		held[table] = fmt.Sprint(rowsOf(s, db, `SELECT * FROM "`+table+`"`))
	}
	return held
}

// wantUnchanged fails the test if the database holds something else than before.
func (s *testStore) wantUnchanged(what string, before map[string]string) {
	s.Helper()
	if diff := cmp.Diff(before, s.dump()); diff != "" {
		s.Errorf("%s left something (-before +after):\n%s", what, diff)
	}
}

// elapsed returns how long ago a time was by the store's clock.
func (s *testStore) elapsed(start time.Time) time.Duration { return s.clock.Now().Sub(start) }

func rowsOf(t testing.TB, db *sqlx.DB, query string) (all []map[string]any) {
	t.Helper()
	rows, err := db.Queryx(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row := map[string]any{}
		if err := rows.MapScan(row); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// holdWriter keeps the writer busy with a write until release is called.
func (s *testStore) holdWriter() (release func()) {
	started, released, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.write(context.Background(), func(*tx) error {
			close(started)
			<-released
			return nil
		})
	}()
	<-started
	return func() {
		s.Helper()
		close(released)
		s.ok(<-done)
	}
}

// queuedWrite is a write that waits for the writer.
type queuedWrite struct {
	err  error
	done chan struct{}
}

// queueWrite hands a write to the writer without waiting for its end.
func (s *testStore) queueWrite(act func(*tx) error) *queuedWrite {
	q := &queuedWrite{done: make(chan struct{})}
	s.tryWrite(act, func(err error) {
		q.err = err
		close(q.done)
	})
	return q
}

func insertBlockedWord(word string) func(*tx) error {
	return func(t *tx) error {
		t.Changes.Public = true // so that watchers hear of it
		return t.Exec(`INSERT INTO blocklist (kind, entry, created_at) VALUES ('word', ?, ?)`, word, t.Now)
	}
}

func (s *testStore) blockedWords() string {
	return value[string](s, `SELECT COALESCE(group_concat(entry, ' '), '') FROM (SELECT entry FROM blocklist ORDER BY entry)`)
}

// limitPages lets the file grow by no more than so many pages from now on.
func (s *testStore) limitPages(more int) {
	s.Helper()
	s.ok(s.db.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		var pages int
		if err := conn.GetContext(context.Background(), &pages, `PRAGMA page_count`); err != nil {
			return err
		}
		_, err := conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+more))
		return err
	}))
}

// leaveNoRoom fills the file up, until limitPages says otherwise.
func (s *testStore) leaveNoRoom() {
	s.Helper()
	s.limitPages(0)
	for n, size := 0, 20_000; size > 0; n++ {
		if s.write(context.Background(), insertBlockedWord(fmt.Sprintf("%d%s", n, strings.Repeat("x", size)))) != nil {
			size /= 2
		}
	}
}

// walSize looks at the write-ahead log without opening it: closing a file of a
// live database drops SQLite's locks on it.
func (s *testStore) walSize() int64 {
	s.Helper()
	info, err := os.Stat(s.path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	s.ok(err)
	return info.Size()
}

// occurrences counts bytes in the files of a store that is closed.
func (s *testStore) occurrences(b []byte) (n int) {
	s.Helper()
	for _, suffix := range []string{"", "-wal", "-journal"} {
		file, err := os.ReadFile(s.path + suffix)
		if errors.Is(err, os.ErrNotExist) && suffix != "" {
			continue
		}
		s.ok(err)
		n += bytes.Count(file, b)
	}
	return n
}
