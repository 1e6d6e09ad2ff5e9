package sqlitedb

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOpen_SetsPragmas: durability hangs on them.
func TestOpen_SetsPragmas(t *testing.T) {
	for normal, want := range map[bool]int{false: 2, true: 1} {
		d := newDB(t, func(o *Options) { o.Normal = normal })
		for name, value := range map[string]int{
			"synchronous": want, "foreign_keys": 1, "secure_delete": 1, "trusted_schema": 0, "wal_autocheckpoint": 0,
			"journal_size_limit": 16 << 20, "cache_size": -4000, "busy_timeout": 5000,
		} {
			if got := d.pragma(name); got != value {
				t.Errorf("normal %v: %s is %d, want %d", normal, name, got, value)
			}
		}
		if d.Normal() != normal {
			t.Errorf("normal is %v, want %v", d.Normal(), normal)
		}
	}
}

// TestOpen_ProtectsTheFormat: not even a statement that SQLite would allow elsewhere damages the file.
func TestOpen_ProtectsTheFormat(t *testing.T) {
	d := newDB(t)
	err := d.Write(t.Context(), func(t *Tx) error {
		return errors.Join(t.Exec(`PRAGMA writable_schema = ON`), t.Exec(`UPDATE sqlite_schema SET sql = '' WHERE type = 'table'`))
	})
	if err == nil || !strings.Contains(err.Error(), "may not be modified") {
		t.Errorf("the schema is changed: %v", err)
	}
}

// TestCheckPragmas_RejectsIgnoredPragmas: SQLite ignores what it does not know.
func TestCheckPragmas_RejectsIgnoredPragmas(t *testing.T) {
	d := newDB(t)
	for _, name := range []string{"synchronous", "no_such_pragma"} {
		err := checkPragmas(context.Background(), d.connection(readWrite, "synchronous(OFF)"), map[string]string{name: "2"})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpen_LimitsTheCaches: SQLite's memory is not Go's, and GOMEMLIMIT does
// not see it; a cache takes about twice what it is told.
func TestOpen_LimitsTheCaches(t *testing.T) {
	const budget = 40 << 20 // of all connections
	d := newDB(t)
	caches := d.pragma("cache_size")
	for range readConnections {
		conn, err := d.reading.Connx(context.Background()) // at once, so each is another
		d.ok(err)
		defer conn.Close()
		var size int
		d.ok(conn.GetContext(context.Background(), &size, `PRAGMA cache_size`))
		caches += size
	}
	if n := d.reading.Stats().MaxOpenConnections; n != readConnections {
		t.Errorf("%d connections may read, not %d", n, readConnections)
	}
	if takes := 2 * -caches << 10; takes <= 0 || takes > budget {
		t.Errorf("the caches may take %d bytes, more than %d; a size in pages is not looked for", takes, budget)
	}
}

// TestOpen_FollowsLink: its log is beside the file itself, and so is what a kill
// leaves.
func TestOpen_FollowsLink(t *testing.T) {
	d := newDB(t)
	d.add("word")
	crashed := d.crash()
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(crashed, link); err != nil {
		t.Skip("symbolic links cannot be made here:", err)
	}
	var n int
	if info, err := Verify(t.Context(), link, false, counting(&n)); err != nil || n != 1 {
		t.Errorf("an examination finds %d words, %+v, %v", n, info, err)
	}
	folder := t.TempDir()
	if info, err := Backup(t.Context(), link, filepath.Join(folder, "copy.db"), counting(&n)); err != nil || n != 1 {
		t.Errorf("a copy holds %d words, %+v, %v", n, info, err)
	}
	if _, _, err := Restore(t.Context(), link, filepath.Join(folder, "restored.db"), testStart, counting(&n)); err != nil || n != 1 {
		t.Errorf("a restored file holds %d words, %v", n, err)
	}
	if missing(crashed + "-wal") {
		t.Error("the log is gone")
	}
	again := openDB(t, link, func(o *Options) { o.Clock = time.Now }) // so that the probe writes something new
	if !again.Unclean() || again.DB.path != crashed || again.Health().LogBytes == 0 {
		t.Errorf("unclean: %v, path %s, %+v", again.Unclean(), again.DB.path, again.Health())
	}
}

// TestOpen_IgnoresTheLogOfADatabaseThatIsGone: the new database has none of its words.
func TestOpen_IgnoresTheLogOfADatabaseThatIsGone(t *testing.T) {
	d := newDB(t)
	d.add("word")
	path := d.crash()
	d.ok(os.Remove(path))

	again := openDB(t, path)
	if words := again.words(); words != "" {
		t.Errorf("words %q", words)
	}
	d.ok(again.Check(t.Context(), nil))
}

// TestOpen_LeavesForeignFileAsItIs: another program's, in each state that SQLite leaves
// one in. What is another's may be in use.
func TestOpen_LeavesForeignFileAsItIs(t *testing.T) {
	make := func(journal string, crash bool) func(path string) error {
		return func(path string) error {
			from := filepath.Join(t.TempDir(), "foreign.db")
			db, err := connect(context.Background(), from, "", 1, "journal_mode("+journal+")", "wal_autocheckpoint(0)")
			if err != nil {
				return err
			}
			defer db.Close()
			if _, err := db.Exec(`CREATE TABLE customers (name TEXT)`); err != nil {
				return err
			}
			if !crash {
				if err := db.Close(); err != nil {
					return err
				}
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				data, err := os.ReadFile(from + suffix)
				if err == nil {
					err = os.WriteFile(path+suffix, data, 0o600)
				}
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
			}
			return nil
		}
	}
	withoutTables := func(path string) error {
		db, err := connect(context.Background(), path, "", 1)
		if err != nil {
			return err
		}
		_, err = db.Exec(`CREATE TABLE customers (name TEXT); DROP TABLE customers`)
		return errors.Join(err, db.Close())
	}
	for name, tt := range map[string]struct {
		make func(path string) error
		want error
	}{
		"no tables":                   {withoutTables, ErrForeign},
		"a rollback journal":          {make("DELETE", false), ErrForeign},
		"a write-ahead log":           {make("WAL", false), ErrForeign},
		"a log that is not folded in": {make("WAL", true), ErrForeign},
		"text":                        {func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("Dear diary. "), 1000), 0o600) }, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "callbook.db")
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			before := filesOf(t, path)
			if _, err := Open(context.Background(), testOptions(path)); !errors.Is(err, tt.want) {
				t.Errorf("opened: %v", err)
			}
			after := filesOf(t, path)
			delete(before, "callbook.db-shm") // where readers note how far they are
			delete(after, "callbook.db-shm")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// filesOf are the files in a database's folder.
func filesOf(t testing.TB, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		data, readErr := os.ReadFile(filepath.Join(filepath.Dir(path), entry.Name()))
		err = errors.Join(err, readErr)
		files[entry.Name()] = string(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOpen_BesideCreatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	o := testOptions(path)
	o.Beside = true
	if _, err := Open(context.Background(), o); err == nil || !missing(path) {
		t.Errorf("opened, or made: %v", err)
	}
}

// TestOpen_ServesReadersWhileAnotherProgramWrites, as callbook compact does. Open waits five seconds for it.
func TestOpen_ServesReadersWhileAnotherProgramWrites(t *testing.T) {
	t.Parallel()
	d := newDB(t)
	d.add("word")
	d.stop()
	unlock := d.lockFile()
	d = openDB(t, d.path)
	d.set(`busy_timeout = 0`)
	wantError(t, "a write meanwhile", d.Write(context.Background(), addWord("more")), ErrBusy)
	if words := d.words(); words != "word" {
		t.Errorf("it reads %q", words)
	}
	unlock()
	d.add("more")
}
