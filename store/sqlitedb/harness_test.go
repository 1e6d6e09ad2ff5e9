package sqlitedb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jmoiron/sqlx"
)

// testFormat is that of the databases of these tests: words, and notes that refer to them.
var testFormat = Format{ApplicationID: 0x54657374, Migrations: fstest.MapFS{"00001_words.sql": &fstest.MapFile{Data: []byte(`-- +goose Up
CREATE TABLE site (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
CREATE TABLE words (word TEXT NOT NULL PRIMARY KEY) STRICT;
CREATE TABLE notes (word TEXT NOT NULL REFERENCES words (word), note TEXT NOT NULL) STRICT;
`)}}}

// testDB is a database for a test: a real file, a clock that stands still and a count of the
// hooks' calls.
type testDB struct {
	*DB
	testing.TB
	path   string
	closed bool

	mu          sync.Mutex
	committed   int
	invalidated int
}

// testStart is when tests begin.
var testStart = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// slowRead is the timeout of reads and queries, except in the tests of the timeouts: on a busy machine
// a query may take longer than the defaults.
const slowRead = 10 * time.Second

// testOptions are the options of a database at path.
func testOptions(path string) Options {
	return Options{
		Path: path, Format: testFormat, Normal: true, Clock: func() time.Time { return testStart },
		ReadTimeout: slowRead, QueryTimeout: slowRead,
		Hooks: Hooks{Begin: func(*Tx) {}, BeforeCommit: func() error { return nil }, Committed: func() {}, Invalidate: func() {}},
	}
}

// newDB opens a new database, and closes it after the test.
func newDB(t testing.TB, set ...func(*Options)) *testDB {
	t.Helper()
	return openDB(t, filepath.Join(t.TempDir(), "callbook.db"), set...)
}

func openDB(t testing.TB, path string, set ...func(*Options)) *testDB {
	t.Helper()
	d := &testDB{TB: t, path: path}
	o := testOptions(path)
	o.Hooks.Committed = func() { d.count(&d.committed) }
	o.Hooks.Invalidate = func() { d.count(&d.invalidated) }
	for _, f := range set {
		f(&o)
	}
	var err error
	d.DB, err = Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := d.ReadStats().InUse; n != 0 && !d.closed {
			t.Errorf("%d reading connections were not given back", n)
		}
		d.stop()
	})
	return d
}

func (d *testDB) count(n *int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*n++
}

func (d *testDB) counted(n *int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *n
}

// Close closes the database, and remembers that.
func (d *testDB) Close() error {
	d.closed = true
	return d.DB.Close()
}

// stop closes the database, once.
func (d *testDB) stop() {
	d.Helper()
	if d.closed {
		return
	}
	if err := d.Close(); err != nil {
		d.Errorf("close the database: %v", err)
	}
}

// ok fails the test unless a call succeeded.
func (d *testDB) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func addWord(word string) func(*Tx) error {
	return func(tx *Tx) error { return tx.Exec(`INSERT INTO words (word) VALUES (?)`, word) }
}

// add stores words.
func (d *testDB) add(words ...string) {
	d.Helper()
	for _, word := range words {
		d.ok(d.Write(context.Background(), addWord(word)))
	}
}

// words returns the stored words, sorted.
func (d *testDB) words() string {
	d.Helper()
	var words []string
	d.ok(d.Select(context.Background(), &words, `SELECT word FROM words ORDER BY word`))
	return strings.Join(words, " ")
}

// wordsOf returns the words of a database file that nobody serves, sorted.
func wordsOf(t testing.TB, path string) string {
	t.Helper()
	var words []string
	err := withFile(context.Background(), path, readOnly, func(file *sqlx.DB) error {
		return file.Select(&words, `SELECT word FROM words ORDER BY word`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(words, " ")
}

// counting returns the format of the tests' databases, which counts the words of a file into n.
func counting(n *int) Format {
	f := testFormat
	f.Inspect = func(ctx context.Context, file *sqlx.DB) error {
		return file.GetContext(ctx, n, `SELECT COUNT(*) FROM words`)
	}
	return f
}

// addMany stores so many words that they fill a few dozen pages.
func (d *testDB) addMany() {
	d.Helper()
	for i := range 100 {
		d.add(fmt.Sprintf("%d%s", i, strings.Repeat("x", 2000)))
	}
}

// connection opens the file beside the DB, as another program would.
func (d *testDB) connection(mode mode, pragmas ...string) *sqlx.DB {
	d.Helper()
	file, err := connect(context.Background(), d.path, mode, 1, pragmas...)
	d.ok(err)
	d.Cleanup(func() { _ = file.Close() })
	return file
}

// set changes a pragma of the writing connection.
func (d *testDB) set(pragma string) {
	d.Helper()
	d.ok(d.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		_, err := conn.ExecContext(context.Background(), "PRAGMA "+pragma)
		return err
	}))
}

// pragma reads a setting of the writing connection.
func (d *testDB) pragma(name string) (value int) {
	d.Helper()
	d.ok(d.Exclusive(context.Background(), func(conn *sqlx.Conn) error {
		return conn.GetContext(context.Background(), &value, "PRAGMA "+name)
	}))
	return value
}

// pageSize is that of every database: SQLite's own default.
const pageSize = 4096

// limitPages lets the file grow by no more than so many pages from now on.
func (d *testDB) limitPages(more int) {
	d.Helper()
	d.set(fmt.Sprintf(`max_page_count = %d`, d.pragma("page_count")+more))
}

// lockFile lets another program write until unlock is called.
func (d *testDB) lockFile() (unlock func()) {
	d.Helper()
	other := d.connection(readWrite)
	_, err := other.Exec(`BEGIN IMMEDIATE`)
	d.ok(err)
	return func() {
		d.Helper()
		_, err := other.Exec(`ROLLBACK`)
		d.ok(err)
	}
}

// hold keeps the writer busy until release is called.
func (d *testDB) hold() (release func()) {
	started, released, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- d.Exclusive(context.Background(), func(*sqlx.Conn) error {
			close(started)
			<-released
			return nil
		})
	}()
	<-started
	return func() {
		d.Helper()
		close(released)
		d.ok(<-done)
	}
}

// queue hands a write to the writer without waiting for its end.
func (d *testDB) queue(ctx context.Context, fn func(*Tx) error) *queuedWrite {
	q := newQueuedWrite(ctx, fn)
	d.writer.queue <- q
	return q
}

// wait returns the result of a write that was queued.
func (q *queuedWrite) wait() error { return (<-q.done).Err() }

// crash copies the files as a kill would leave them, and returns the name of the database.
func (d *testDB) crash() (path string) {
	d.Helper()
	path = filepath.Join(d.TempDir(), "callbook.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(d.path + suffix) // nobody misses the locks that this drops
		d.ok(err)
		d.ok(os.WriteFile(path+suffix, data, 0o600))
	}
	return path
}

// damage overwrites the first page of a table or index.
func damage(t testing.TB, path, table string) {
	t.Helper()
	var page int64
	err := withFile(context.Background(), path, readOnly, func(file *sqlx.DB) error {
		return file.Get(&page, `SELECT rootpage FROM sqlite_schema WHERE name = ?`, table)
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, pageSize), (page-1)*pageSize)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless err is want, or nil where that is nil.
func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
