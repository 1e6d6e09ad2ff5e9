package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

// copyTo replaces the file at a path by a copy of the database.
func (d *testDB) copyTo(path string) {
	d.Helper()
	d.ok(errors.Join(copyInto(context.Background(), d.path, path+".next"), os.Rename(path+".next", path)))
}

// replicaOf opens a copy of a database, which looks for a newer one only when the test calls openNewer.
func replicaOf(t testing.TB, primary *testDB, set ...func(*Options)) *testDB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	primary.copyTo(path)
	return openDB(t, path, append([]func(*Options){func(o *Options) { o.ReadOnly, o.WatchPeriod = true, time.Hour }}, set...)...)
}

func TestReadOnly_ServesTheNewestCopy(t *testing.T) {
	now := testStart
	primary := newDB(t, func(o *Options) { o.Clock = func() time.Time { return now } })
	primary.add("one")
	d := replicaOf(t, primary)
	if words := d.words(); words != "one" {
		t.Errorf("words %q", words)
	}
	now = now.Add(time.Minute)
	primary.add("two")
	primary.full.Store(true) // then the probe writes more than the time
	primary.ok(primary.tryWrite())
	primary.copyTo(d.path)
	if words := d.words(); words != "one" {
		t.Errorf("words %q of a copy that was not opened", words)
	}
	for range 2 { // the second time there is nothing newer
		d.ok(d.openNewer(t.Context()))
		written, err := d.CopyState()
		if words := d.words(); words != "one two" || !written.Equal(now) || err != nil || d.counted(&d.invalidated) != 1 {
			t.Errorf("words %q, written at %v, %v, %d invalidations", words, written, err, d.counted(&d.invalidated))
		}
	}
	if _, err := d.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReadOnly_FollowsByItself: the background task opens the newer copy.
func TestReadOnly_FollowsByItself(t *testing.T) {
	primary := newDB(t)
	newer := make(chan struct{}, 1)
	d := replicaOf(t, primary, func(o *Options) {
		o.WatchPeriod = time.Millisecond
		o.Hooks.Invalidate = func() { newer <- struct{}{} }
	})
	primary.add("one")
	primary.copyTo(d.path)
	<-newer
	if words := d.words(); words != "one" {
		t.Errorf("words %q", words)
	}
}

func TestReadOnly_WritesNothing(t *testing.T) {
	d := replicaOf(t, newDB(t))
	before := filesOf(t, d.path)
	tried := make(chan error, 1)
	d.TryWrite(addWord("one"), func(err error) { tried <- err })
	for name, err := range map[string]error{
		"write": d.Write(t.Context(), addWord("one")), "background": d.WriteBackground(t.Context(), addWord("one")), "try": <-tried,
		"exclusive": d.Exclusive(t.Context(), func(*sqlx.Conn) error { return nil }),
	} {
		if !errors.Is(err, ErrCopy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	d.words()
	d.stop()
	if after := filesOf(t, d.path); len(before) != 1 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the folder has %d files, had %d", len(after), len(before))
	}
}

// TestReadOnly_KeepsTheCopyThatWorks replaces the copy by files that cannot be served, then by a good one.
func TestReadOnly_KeepsTheCopyThatWorks(t *testing.T) {
	write := func(content []byte) func(testing.TB, *testDB, string) {
		return func(t testing.TB, _ *testDB, path string) {
			if err := errors.Join(os.WriteFile(path+".next", content, 0o600), os.Rename(path+".next", path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	change := func(statement string) func(testing.TB, *testDB, string) {
		return func(t testing.TB, primary *testDB, path string) {
			primary.copyTo(path + ".changed")
			err := withFile(t.Context(), path+".changed", readWrite, func(file *sqlx.DB) error {
				_, err := file.Exec(statement)
				return err
			})
			if err = errors.Join(err, os.Rename(path+".changed", path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	accept := errors.New("not accepted")
	for name, tt := range map[string]struct {
		replace func(t testing.TB, primary *testDB, path string)
		want    error
		text    string
	}{
		"gone":    {func(_ testing.TB, _ *testDB, path string) { _ = os.Remove(path) }, fs.ErrNotExist, "no copy"},
		"empty":   {write(nil), ErrForeign, ""},
		"garbage": {write([]byte(strings.Repeat("garbage", 10000))), ErrDamaged, ""},
		"cut off": {func(t testing.TB, primary *testDB, path string) {
			primary.copyTo(path + ".whole")
			whole, err := os.ReadFile(path + ".whole")
			if err != nil {
				t.Fatal(err)
			}
			write(whole[:pageSize])(t, primary, path)
		}, ErrDamaged, ""},
		"of another program": {change(`PRAGMA application_id = 1`), ErrForeign, ""},
		"newer schema":       {change(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (2, 1)`), ErrNewerSchema, ""},
		"older schema":       {change(`DELETE FROM goose_db_version WHERE version_id > 0`), nil, "upgrade the primary"},
		"no time":            {change(`DELETE FROM site`), nil, "age of the copy"},
		"not accepted":       {change(`INSERT INTO words (word) VALUES ('reject')`), accept, ""},
		"served": {func(_ testing.TB, primary *testDB, path string) {
			primary.copyTo(path)
			_ = os.WriteFile(path+"-wal", make([]byte, 1000), 0o600)
		}, ErrWritten, ""},
	} {
		t.Run(name, func(t *testing.T) {
			primary := newDB(t)
			primary.add("one")
			d := replicaOf(t, primary, func(o *Options) {
				o.Accept = func(ctx context.Context, file *sqlx.DB) error {
					var n int
					err := file.GetContext(ctx, &n, `SELECT COUNT(*) FROM words WHERE word = 'reject'`)
					if n > 0 {
						err = accept
					}
					return err
				}
			})
			tt.replace(t, primary, d.path)
			for range 2 {
				err := d.openNewer(t.Context())
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
			}
			if words := d.words(); words != "one" || d.Failure() != nil || d.counted(&d.invalidated) != 0 {
				t.Errorf("words %q, failure %v", words, d.Failure())
			}
			_ = os.Remove(d.path + "-wal")
			primary.add("two")
			primary.copyTo(d.path)
			d.ok(d.openNewer(t.Context()))
			if words := d.words(); words != "one two" {
				t.Errorf("words %q of the good copy", words)
			}
			primary.copyTo(d.path)
			tt.replace(t, primary, d.path)
			if _, err := Open(t.Context(), d.options); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("at the start: %v, want %v", err, tt.want)
			}
		})
	}
}

// TestReadOnly_KeepsTheConnectionsOfAnOldCopy: slow queries cost none of them, while the newest copy cannot be served.
func TestReadOnly_KeepsTheConnectionsOfAnOldCopy(t *testing.T) {
	primary := newDB(t)
	primary.add("one")
	primary.ok(primary.tryWrite())
	d := replicaOf(t, primary, func(o *Options) { o.QueryTimeout, o.WatchPeriod = time.Millisecond, time.Hour })
	d.ok(os.Remove(d.path))
	err := d.openNewer(t.Context())
	d.copyErr.Store(&err)
	for range 2 * readConnections {
		ctx, cancel := d.WithDeadline(t.Context())
		var n int
		_ = d.Get(ctx, &n, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT COUNT(*) FROM n`)
		cancel()
	}
	if words := d.words(); words != "one" {
		t.Errorf("words %q", words)
	}
	if pool := d.ReadStats(); pool.Idle != readConnections || pool.MaxOpenConnections != readConnections {
		t.Errorf("%d connections of at most %d, want %d", pool.Idle, pool.MaxOpenConnections, readConnections)
	}
}

// TestReadOnly_StopsIfTheCopyChanges: readers may have seen half of the change.
func TestReadOnly_StopsIfTheCopyChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"in place": func(path string) error {
			return withFile(context.Background(), path, readWrite, func(file *sqlx.DB) error {
				_, err := file.Exec(`INSERT INTO words (word) VALUES ('two')`)
				return err
			})
		},
		"by a service": func(path string) error { return os.WriteFile(path+"-wal", make([]byte, 1000), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d := replicaOf(t, newDB(t))
			d.ok(os.Chtimes(d.path, testStart, testStart))
			d.serving.Load().file, _ = os.Stat(d.path)
			d.ok(change(d.path))
			_ = d.openNewer(t.Context())
			if err := d.Failure(); !errors.Is(err, ErrReplaced) || !errors.Is(err, ErrWritten) {
				t.Errorf("failure %v", err)
			}
			if err := d.Get(t.Context(), new(int), `SELECT COUNT(*) FROM words`); !errors.Is(err, ErrStopped) {
				t.Errorf("a read: %v", err)
			}
		})
	}
}

// TestReadOnly_EachReadSeesOneCopy replaces the copy under readers. Each copy has as many notes as words.
func TestReadOnly_EachReadSeesOneCopy(t *testing.T) {
	primary := newDB(t)
	d := replicaOf(t, primary)
	var readers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 2 * readConnections {
		readers.Go(func() {
			for last := 0; ctx.Err() == nil; {
				var words, notes int
				err := d.View(context.Background(), func(v *View) error {
					return errors.Join(v.Get(&words, `SELECT COUNT(*) FROM words`), v.Get(&notes, `SELECT COUNT(*) FROM notes`))
				})
				if err != nil || words != notes || words < last {
					t.Errorf("%d words after %d, %d notes, %v", words, last, notes, err)
					return
				}
				last = words
			}
		})
	}
	for i := range 30 {
		primary.ok(primary.Write(t.Context(), func(tx *Tx) error {
			word := fmt.Sprint("word", i)
			return errors.Join(addWord(word)(tx), tx.Exec(`INSERT INTO notes (word, note) VALUES (?, 'note')`, word))
		}))
		primary.copyTo(d.path)
		d.ok(d.openNewer(t.Context()))
	}
	stop()
	readers.Wait()
	if words := strings.Fields(d.words()); len(words) != 30 {
		t.Errorf("%d words", len(words))
	}
}

// TestSnapshots_OpenNoOtherCopy: a pool may open a connection at any time.
func TestSnapshots_OpenNoOtherCopy(t *testing.T) {
	primary := newDB(t)
	d := replicaOf(t, primary)
	primary.copyTo(d.path)
	d.reading.SetMaxIdleConns(0)
	if err := d.Get(t.Context(), new(int), `SELECT COUNT(*) FROM words`); err == nil {
		t.Error("a read of the copy that was replaced opened the newer one")
	}
	d.reading.SetMaxIdleConns(readConnections)
}
