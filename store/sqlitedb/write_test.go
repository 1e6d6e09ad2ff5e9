package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

func TestWrite_WaitingWritesShareOneCommit(t *testing.T) {
	d := newDB(t)
	release := d.hold()
	before := d.counted(&d.committed)
	var jobs []*queuedWrite
	for i := range 50 {
		jobs = append(jobs, d.queue(context.Background(), addWord(fmt.Sprintf("w%d", i))))
	}
	release()
	for i, j := range jobs {
		wantError(t, fmt.Sprint("write ", i), j.wait(), nil)
	}
	if n, want := d.counted(&d.committed)-before, (len(jobs)+defaultBatch-1)/defaultBatch; n != want {
		t.Errorf("%d commits for %d waiting writes, want %d", n, len(jobs), want)
	}
	if n := len(strings.Fields(d.words())); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
}

func TestWrite_ReturnsAfterTheCommit(t *testing.T) {
	var commit atomic.Pointer[func()] // called before a commit
	nothing := func() {}
	commit.Store(&nothing)
	d := newDB(t, func(o *Options) {
		o.Commit = func(ctx context.Context, conn *sqlx.Conn) error {
			(*commit.Load())()
			_, err := conn.ExecContext(ctx, "COMMIT")
			return err
		}
	})
	release := d.hold()
	first := d.queue(context.Background(), addWord("first"))
	started, released := make(chan struct{}), make(chan struct{})
	second := d.queue(context.Background(), func(*Tx) error {
		close(started)
		<-released
		return nil
	})
	release()
	<-started
	select {
	case <-first.done:
		t.Error("a write returned while its transaction was open")
	default:
	}
	close(released)
	d.ok(first.wait())
	d.ok(second.wait())
	committing, goOn := make(chan struct{}), make(chan struct{})
	wait := func() {
		commit.Store(&nothing)
		close(committing)
		<-goOn
	}
	commit.Store(&wait)
	third := d.queue(context.Background(), addWord("third"))
	<-committing
	select {
	case <-third.done:
		t.Error("a write returned while it was committed")
	default:
	}
	close(goOn)
	d.ok(third.wait())

	file := d.connection(readOnly)
	for _, err := range testkit.Together(40, func(i int) error {
		word := fmt.Sprintf("word%d", i)
		if err := d.Write(context.Background(), addWord(word)); err != nil {
			return err
		}
		var seen string
		return file.Get(&seen, `SELECT word FROM words WHERE word = ?`, word)
	}) {
		wantError(t, "a write seen by another connection", err, nil)
	}
}

func TestWrite_FailsAlone(t *testing.T) {
	errOwn := errors.New("its own error")
	for name, tt := range map[string]struct {
		fn   func(*Tx) error
		want string // part of the error
	}{
		"error after a change": {func(tx *Tx) error { return errors.Join(addWord("bad")(tx), errOwn) }, errOwn.Error()},
		"panic after a change": {func(tx *Tx) error {
			_ = addWord("bad")(tx)
			panic("a bug")
		}, "a bug"},
		"statement that breaks a constraint": {func(tx *Tx) error {
			return errors.Join(addWord("bad")(tx), addWord("bad")(tx))
		}, "UNIQUE"},
		"syntax error":           {func(tx *Tx) error { return errors.Join(addWord("bad")(tx), tx.Exec("NONSENSE")) }, "syntax"},
		"hook before the commit": {addWord("hook"), errOwn.Error()},
		"hook that panics":       {addWord("panic"), "a bug"},
	} {
		t.Run(name, func(t *testing.T) {
			var gathered []string
			var shared *Tx
			d := newDB(t, func(o *Options) {
				o.Hooks.Begin = func(tx *Tx) { gathered, shared = nil, tx }
				o.Hooks.BeforeCommit = func() error {
					var words []string
					if err := shared.Select(&words, `SELECT word FROM words WHERE word IN ('hook', 'panic')`); err != nil {
						return err
					}
					switch strings.Join(words, " ") {
					case "hook":
						return errOwn
					case "panic":
						panic("a bug")
					}
					return nil
				}
			})
			release := d.hold()
			before := d.queue(context.Background(), func(tx *Tx) error { gathered = append(gathered, "a"); return addWord("a")(tx) })
			failing := d.queue(context.Background(), tt.fn)
			after := d.queue(context.Background(), addWord("b"))
			release()
			failed := failing.wait()
			wantError(t, "the others", errors.Join(before.wait(), after.wait()), nil)
			if err := d.Write(context.Background(), tt.fn); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("alone it got %v, want %s", err, tt.want)
			}
			if failed == nil || !strings.Contains(failed.Error(), tt.want) {
				t.Errorf("among others it got %v, want %s", failed, tt.want)
			}
			d.add("c")
			if got := d.words(); got != "a b c" {
				t.Errorf("stored: %s; want a b c", got)
			}
			if len(gathered) > 1 {
				t.Errorf("a transaction gathered %q: what one before it gathered is not void", gathered)
			}
		})
	}
}

func TestWrite_CancelledBeforeItsStartLeavesNothing(t *testing.T) {
	d := newDB(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantError(t, "alone", d.Write(ctx, addWord("alone")), context.Canceled)
	release := d.hold()
	ctx, cancel = context.WithCancel(context.Background())
	waiting := d.queue(ctx, addWord("waiting"))
	other := d.queue(context.Background(), addWord("other"))
	cancel()
	release()
	wantError(t, "waiting", waiting.wait(), context.Canceled)
	wantError(t, "other", other.wait(), nil)
	ctx, cancel = context.WithCancel(context.Background())
	d.ok(d.Write(ctx, func(tx *Tx) error {
		cancel() // a write that has started is finished
		return addWord("started")(tx)
	}))
	if got := d.words(); got != "other started" {
		t.Errorf("stored: %s", got)
	}
}

// TestWrite_IsRejectedWhenTooManyWait: those that wait are stored all the same, and background
// work waits with them.
func TestWrite_IsRejectedWhenTooManyWait(t *testing.T) {
	t.Parallel()
	d := newDB(t)
	release := d.hold()
	var waiting []*queuedWrite
	for range queueSize {
		waiting = append(waiting, d.queue(context.Background(), func(*Tx) error { return nil }))
	}
	background := make(chan error, 1)
	go func() { background <- d.WriteBackground(context.Background(), addWord("background")) }()
	gone, leave := context.WithCancel(context.Background())
	leave()
	wantError(t, "rejected", d.Write(context.Background(), addWord("rejected")), ErrBusy)
	wantError(t, "gone", d.Write(gone, addWord("gone")), context.Canceled)
	release()
	for _, j := range waiting {
		d.ok(j.wait())
	}
	d.ok(<-background)
	if words := d.words(); words != "background" {
		t.Errorf("stored: %s", words)
	}
}

// TestTryWrite_StoresOrDrops: it never waits.
func TestTryWrite_StoresOrDrops(t *testing.T) {
	d := newDB(t)
	done := make(chan error, 1)
	report := func(err error) { done <- err }
	d.TryWrite(addWord("stored"), report)
	d.ok(<-done)
	d.TryWrite(addWord("stored"), report)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("a second one: %v", err)
	}
	release := d.hold()
	var waiting []*queuedWrite
	for range queueSize {
		waiting = append(waiting, d.queue(context.Background(), func(*Tx) error { return nil }))
	}
	d.TryWrite(addWord("dropped"), report)
	wantError(t, "without a place", <-done, ErrBusy)
	release()
	for _, j := range waiting {
		d.ok(j.wait())
	}
	if words := d.words(); words != "stored" {
		t.Errorf("stored: %s", words)
	}
}

func TestClose_FinishesWaitingWrites(t *testing.T) {
	d := newDB(t)
	release := d.hold()
	waiting := d.queue(context.Background(), addWord("waiting"))
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	release()
	wantError(t, "what waits, and the end", errors.Join(waiting.wait(), <-closed), nil)
	wantError(t, "a write after the end", d.Write(context.Background(), addWord("late")), ErrClosed)
	wantError(t, "background work after the end", d.WriteBackground(context.Background(), addWord("late")), ErrClosed)
	d.TryWrite(addWord("later"), func(err error) { wantError(t, "one that may be lost", err, ErrClosed) })
	if words := wordsOf(t, d.path); words != "waiting" {
		t.Errorf("stored: %s", words)
	}
}

// TestWrite_OnAFullDiskFailsAndHeals: SQLite rolls back the whole transaction by itself, the
// savepoints of the other writes included.
func TestWrite_OnAFullDiskFailsAndHeals(t *testing.T) {
	d := newDB(t)
	d.limitPages(4)
	big := addWord("bad" + strings.Repeat("x", 1<<20))
	release := d.hold()
	before := d.queue(context.Background(), addWord("a"))
	failing := d.queue(context.Background(), big)
	after := d.queue(context.Background(), addWord("b"))
	release()
	wantError(t, "the write before", before.wait(), nil)
	wantError(t, "the big write", failing.wait(), ErrNoSpace)
	wantError(t, "the write after", after.wait(), nil)
	wantError(t, "the big write alone", d.Write(context.Background(), big), ErrNoSpace)
	if got := d.words(); got != "a b" {
		t.Errorf("stored: %.20s; want a b", got)
	}
	d.limitPages(1000)
	wantError(t, "once there is room", d.Write(context.Background(), big), nil)
}

func TestWrite_WhileAnotherProgramWritesFailsAndHeals(t *testing.T) {
	d := newDB(t)
	d.set(`busy_timeout = 0`)
	unlock := d.lockFile()
	wantError(t, "while another program writes", d.Write(context.Background(), addWord("a")), ErrBusy)
	unlock()
	wantError(t, "afterwards", d.Write(context.Background(), addWord("b")), nil)
	if got := d.words(); got != "b" {
		t.Errorf("stored: %s; want b", got)
	}
}

// TestWrite_BatchWaitsOnceForAnotherProgram: its writes do not wait one after the other.
func TestWrite_BatchWaitsOnceForAnotherProgram(t *testing.T) {
	const each = 500 * time.Millisecond
	d := newDB(t)
	d.set(fmt.Sprintf(`busy_timeout = %d`, each.Milliseconds()))
	unlock := d.lockFile()
	release := d.hold()
	var waiting []*queuedWrite
	for i := range defaultBatch {
		waiting = append(waiting, d.queue(context.Background(), addWord(fmt.Sprint(i))))
	}

	started := time.Now()
	release()
	for _, j := range waiting {
		wantError(t, "while another program writes", j.wait(), ErrBusy)
	}
	if took := time.Since(started); took > 2*each {
		t.Errorf("%d writes wait %s", len(waiting), took)
	}
	unlock()
	wantError(t, "afterwards", d.Write(context.Background(), addWord("b")), nil)
}

// TestWrite_InvalidatesIfTheCommitFails: nobody can tell whether it is stored.
func TestWrite_InvalidatesIfTheCommitFails(t *testing.T) {
	errCommit := errors.New("the commit fails")
	for _, persisted := range []bool{false, true} {
		var failing atomic.Bool
		d := newDB(t, func(o *Options) {
			o.Commit = func(ctx context.Context, conn *sqlx.Conn) error {
				query := "COMMIT"
				if failing.Load() && !persisted {
					query = "ROLLBACK"
				}
				_, err := conn.ExecContext(ctx, query)
				if failing.Load() {
					return errors.Join(errCommit, err)
				}
				return err
			}
		})
		failing.Store(true)
		before := d.counted(&d.committed)
		wantError(t, "a write", d.Write(context.Background(), addWord("a")), errCommit)
		if d.counted(&d.committed) != before || d.counted(&d.invalidated) != 1 {
			t.Errorf("persisted %v: %d commits, %d invalidations", persisted, d.counted(&d.committed)-before, d.counted(&d.invalidated))
		}
		failing.Store(false)
		d.add("b")
		if got, want := d.words(), map[bool]string{false: "b", true: "a b"}[persisted]; got != want {
			t.Errorf("persisted %v: stored %s, want %s", persisted, got, want)
		}
	}
}

// TestWriter_NoticesWritesOfAnotherProcess within a second, with nothing to do.
func TestWriter_NoticesWritesOfAnotherProcess(t *testing.T) {
	invalidated := make(chan struct{}, 10)
	d := newDB(t, func(o *Options) { o.Hooks.Invalidate = func() { invalidated <- struct{}{} } })
	d.add("own")
	other := openDB(t, d.path, func(o *Options) { o.Beside = true })
	other.add("foreign")
	select {
	case <-invalidated:
	case <-time.After(10 * time.Second):
		t.Fatal("it notices nothing")
	}
	d.add("own again")
	select {
	case <-invalidated:
		t.Error("its own write counts as another's")
	default:
	}
	if pollPeriod > time.Second/2 {
		t.Errorf("an idle writer polls only every %s", pollPeriod)
	}
}

// TestTransaction_StopsAtTheFirstFailedStatement: SQLite may have rolled the transaction back, and
// what followed would be stored by itself.
func TestTransaction_StopsAtTheFirstFailedStatement(t *testing.T) {
	d := newDB(t)
	d.add("first")
	_, err := d.connection(readWrite).Exec(`CREATE TRIGGER full_disk BEFORE DELETE ON words BEGIN SELECT RAISE(ROLLBACK, 'full'); END`)
	d.ok(err)
	if err := d.Write(context.Background(), func(tx *Tx) error {
		return errors.Join(addWord("second")(tx), tx.Exec(`DELETE FROM words`), addWord("third")(tx))
	}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v", err)
	}
	if got := d.words(); got != "first" {
		t.Errorf("stored: %s", got)
	}
}

// TestTransaction_SelectsAndFails: a list ends with a row that cannot be read, and the
// absence of a row is no failure.
func TestTransaction_SelectsAndFails(t *testing.T) {
	d := newDB(t)
	err := d.Write(context.Background(), func(tx *Tx) error {
		var text string
		if found, err := tx.Find(&text, `SELECT word FROM words`); found || err != nil {
			t.Errorf("an absent row: %v, %v", found, err)
		}
		if n, err := tx.Change(`UPDATE words SET word = ''`); n != 0 || err != nil {
			t.Errorf("%d rows changed, %v", n, err)
		}
		var numbers []int
		return tx.Select(&numbers, `SELECT 1 UNION ALL SELECT 'x'`)
	})
	if err == nil || !strings.Contains(err.Error(), "converting") {
		t.Errorf("a text in the place of a number: %v", err)
	}
}

// TestWriter_KeepsTheLogShort: checkpoints empty it as it grows; a reader that takes long
// holds them up, and once it has gone the log goes back to its limit.
func TestWriter_KeepsTheLogShort(t *testing.T) {
	proof.OneByOne(t)
	const limit = 16 << 20
	d := newDB(t)
	size := func() int64 { return d.Health().LogBytes }
	write := func(bytes int) {
		t.Helper()
		for at := 0; at < bytes; at += 1 << 20 {
			d.ok(d.Write(context.Background(), func(tx *Tx) error {
				return tx.Exec(`INSERT INTO site (name, value) VALUES ('big', zeroblob(1 << 20)) ON CONFLICT (name) DO UPDATE SET value = randomblob(1 << 20)`)
			}))
		}
	}
	write(limit / 2)
	if size := size(); size > limit/2 || size == 0 {
		t.Errorf("the log has %d bytes while nobody reads", size)
	}
	reading, err := d.connection(readOnly).Beginx()
	d.ok(err)
	var n int
	d.ok(reading.Get(&n, `SELECT COUNT(*) FROM site`))
	write(limit / 4 * 5)
	if size := size(); size < limit {
		t.Errorf("the log has %d bytes only: the reader does not hold it", size)
	}
	d.ok(reading.Rollback())
	write(limit / 4)
	if size := size(); size > limit {
		t.Errorf("the log has %d bytes after the reader has gone, more than %d", size, limit)
	}
}
