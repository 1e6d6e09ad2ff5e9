package sqlitedb

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jmoiron/sqlx"
)

// wantStopped waits until the DB has stopped for good: it reads and writes nothing more.
func (d *testDB) wantStopped(cause error) {
	d.Helper()
	select {
	case <-d.Broken():
	case <-time.After(time.Minute):
		d.Fatal("it goes on")
	}
	ctx, n := context.Background(), 0
	wantError(d, "the cause", d.Failure(), cause)
	wantError(d, "a write afterwards", d.Write(ctx, addWord("late")), ErrStopped)
	wantError(d, "an exclusive call afterwards", d.Exclusive(ctx, func(*sqlx.Conn) error { return nil }), ErrStopped)
	wantError(d, "a read afterwards", d.Get(ctx, &n, `SELECT 1`), ErrStopped)
	_, err := d.Ready(ctx)
	wantError(d, "readiness", err, cause)
}

func TestCheck_StopsAtDamage(t *testing.T) {
	d := newDB(t)
	d.addMany()
	d.ok(d.Check(context.Background(), nil))
	d.stop()
	damage(t, d.path, "words")
	d = openDB(t, d.path)
	wantError(t, "the check", d.Check(context.Background(), nil), ErrDamaged)
	d.wantStopped(ErrDamaged)
}

func TestWatch_StopsWhenTheFileIsReplaced(t *testing.T) {
	d := newDB(t)
	d.add("word")
	d.ok(os.Rename(d.path, d.path+".old"))
	wantError(t, "a write into the file that has gone", d.Write(t.Context(), addWord("late")), ErrStopped)
	d.wantStopped(ErrReplaced)
	d.stop()
	if words := wordsOf(t, d.path+".old"); words != "word" {
		t.Errorf("the file that was served holds %q", words)
	}
}

// stopping is a database that stops during a batch of writes, before a statement of it.
type stopping struct {
	*testDB
	stop      func() // stops the database
	before    int    // the number of the statement; 0 for none
	statement int    // the number of the last one that was begun
}

// next counts a statement, and stops the database before the one that is chosen.
func (s *stopping) next() {
	if s.statement++; s.statement == s.before {
		s.stop()
	}
}

// runBatch has the writer run three writes of two statements each, of which the middle one is rejected, and checks that each that
// returned nil is stored, and no other. It returns how many statements ran.
func (s *stopping) runBatch(cause error, before int) (statements int) {
	s.Helper()
	release := s.hold()
	words := []string{"a", "b", "c"}
	var jobs []*queuedWrite
	for i, word := range words {
		jobs = append(jobs, s.queue(context.Background(), func(tx *Tx) error {
			for _, half := range []string{"first", "second"} {
				s.next()
				if err := addWord(half + " " + word)(tx); err != nil {
					return err
				}
			}
			s.next()
			if i == 1 {
				return errors.New("rejected")
			}
			return nil
		}))
	}
	s.statement, s.before = 0, before
	release()

	var want []string
	for i, j := range jobs {
		if j.wait() == nil {
			want = append(want, "first "+words[i], "second "+words[i])
		}
	}
	if before > 0 {
		s.wantStopped(cause)
	}
	s.testDB.stop()
	slices.Sort(want)
	if got := wordsOf(s, s.path); got != strings.Join(want, " ") {
		s.Errorf("stopped before statement %d by %v: stored %q, acknowledged %q", before, cause, got, want)
	}
	return s.statement
}

// TestStop_AcknowledgesOnlyWhatIsStored: a read, a check or the watch may find at any statement of a batch that the file cannot be
// trusted.
func TestStop_AcknowledgesOnlyWhatIsStored(t *testing.T) {
	run := func(cause error, before int) (statements int) {
		s := &stopping{}
		s.testDB = newDB(t, func(o *Options) {
			o.Hooks.Begin = func(*Tx) { s.next() }
			o.Hooks.BeforeCommit = func() error { s.next(); return nil }
			o.Hooks.Committed = func() { s.next() }
			o.Commit = func(ctx context.Context, conn *sqlx.Conn) error {
				s.next()
				err := commit(ctx, conn)
				s.next()
				return err
			}
		})
		s.stop = func() { s.DB.stop(cause) }
		if errors.Is(cause, ErrDamaged) {
			s.ok(s.Write(t.Context(), func(tx *Tx) error {
				return tx.Exec(`INSERT INTO site (name, value) VALUES ('big', zeroblob(100000))`)
			}))
			_, err := s.TruncateLog(t.Context())
			s.ok(err)
			damage(t, s.path, "site")
			s.stop = func() { wantError(t, "the check", s.Check(context.Background(), nil), ErrDamaged) }
		}
		return s.runBatch(cause, before)
	}

	for _, cause := range []error{ErrReplaced, ErrDamaged} {
		statements := run(cause, 0)
		for before := 1; before <= statements; before++ {
			if n := run(cause, before); n < before {
				t.Errorf("%d statements ran, want %d at least", n, before)
			}
		}
		t.Logf("%v: %d statements", cause, statements)
	}
}

// TestTruncateLog_WaitsForShortReads, of which there is always one. On a busy machine, one may not be short.
func TestTruncateLog_WaitsForShortReads(t *testing.T) {
	d := newDB(t)
	d.addMany()
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	defer func() { cancel(); readers.Wait() }()
	for range readConnections {
		readers.Go(func() {
			for n := 0; ctx.Err() == nil; {
				if err := d.Get(context.Background(), &n, `SELECT COUNT(*) FROM words`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	truncated := 0
	for range 20 {
		d.ok(d.Write(ctx, func(tx *Tx) error { return tx.Exec(`UPDATE words SET word = word || 'x'`) }))
		done, err := d.TruncateLog(ctx)
		if d.ok(err); done {
			truncated++
		}
	}
	if truncated < 15 {
		t.Errorf("the log is truncated %d times of 20", truncated)
	}
}

func TestCompact_ShrinksTheFileAndTruncatesTheLog(t *testing.T) {
	d := newDB(t)
	d.addMany()
	done, err := d.TruncateLog(context.Background())
	if d.ok(err); !done {
		t.Error("the log is not truncated though nobody reads")
	}
	d.ok(d.Write(context.Background(), func(tx *Tx) error { return tx.Exec(`DELETE FROM words`) }))
	before, after, err := d.Compact(context.Background(), func(conn *sqlx.Conn) error {
		_, err := conn.ExecContext(context.Background(), `INSERT INTO words (word) VALUES ('compacted')`)
		return err
	})
	d.ok(err)
	if h := d.Health(); after >= before || h.FileBytes != after || h.LogBytes != 0 || d.words() != "compacted" {
		t.Errorf("%d bytes before, %d after, %+v, %q", before, after, h, d.words())
	}
}

// TestOpen_UpgradesAllOrNothing keeps a copy from before, and leaves the file as it was when a
// migration fails.
func TestOpen_UpgradesAllOrNothing(t *testing.T) {
	d := newDB(t)
	d.add("word")
	d.stop()
	with := func(sql string) func(*Options) {
		files := maps.Clone(testFormat.Migrations.(fstest.MapFS))
		files["00002_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + sql)}
		return func(o *Options) { o.Format.Migrations = files }
	}
	o := testOptions(d.path)
	with(`INSERT INTO words VALUES ('half'); SELECT raise_nosuch;`)(&o)
	if _, err := Open(context.Background(), o); err == nil || wordsOf(t, d.path) != "word" {
		t.Errorf("%v, and the file holds %q", err, wordsOf(t, d.path))
	}
	d = openDB(t, d.path, with(`INSERT INTO words VALUES ('whole');`))
	from, to, kept := d.Upgraded()
	if words := d.words(); from != 1 || to != 2 || words != "whole word" {
		t.Errorf("from %d to %d, with %q", from, to, words)
	}
	d.stop()
	if words := wordsOf(t, kept); words != "word" {
		t.Errorf("the copy holds %q", words)
	}
	_, err := Open(context.Background(), testOptions(d.path))
	wantError(t, "the earlier program", err, ErrNewerSchema)
}
