package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRestore_BringsBackExactlyTheBackup(t *testing.T) {
	d := newDB(t)
	d.add("before")
	backup := filepath.Join(t.TempDir(), "copy.db")
	_, err := Backup(context.Background(), d.path, backup, testFormat)
	d.ok(err)
	d.add("after")
	// As after a crash: the newest writes stand in the log alone.
	crashed := filepath.Join(t.TempDir(), "callbook.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(d.path + suffix)
		d.ok(err)
		d.ok(os.WriteFile(crashed+suffix, data, 0o600))
	}
	set := crashed + ".before-restore-20261120T093000Z"
	for _, want := range []string{set, set + "-2", set + "-3"} { // in one second
		n := 0
		info, kept, err := Restore(context.Background(), backup, crashed, testStart, counting(&n))
		d.ok(err)
		if n != 1 || kept != want {
			t.Errorf("%d words, %+v, kept as %s, want %s", n, info, kept, want)
		}
	}
	for path, want := range map[string]string{crashed: "before", set: "after before", set + "-2": "before", set + "-3": "before"} {
		if got := openDB(t, path).words(); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
}

func TestRestore_RejectsOtherFiles(t *testing.T) {
	d := newDB(t)
	d.add("tide-reader")
	folder := t.TempDir()
	backup := filepath.Join(folder, "copy.db")
	_, err := Backup(context.Background(), d.path, backup, testFormat)
	d.ok(err)
	good, err := os.ReadFile(backup)
	d.ok(err)
	file := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		d.ok(os.WriteFile(path, data, 0o600))
		return path
	}
	change := func(name, query string) string {
		path := file(name, good)
		db, err := sql.Open("sqlite", path)
		d.ok(err)
		_, err = db.Exec(query)
		d.ok(errors.Join(err, db.Close()))
		return path
	}
	page := file("page.db", good)
	damage(t, page, "site") // which nothing else looks at
	for name, tt := range map[string]struct {
		backup string
		want   error
	}{
		"missing":        {filepath.Join(folder, "none.db"), nil},
		"empty":          {file("empty.db", nil), ErrForeign},
		"text":           {file("text.db", []byte(strings.Repeat("no database ", 1000))), ErrDamaged},
		"cut short":      {file("short.db", good[:len(good)/2]), ErrDamaged},
		"a page damaged": {page, ErrDamaged},
		"another's":      {change("other.db", `PRAGMA application_id = 7`), ErrForeign},
		"newer":          {change("newer.db", `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`), ErrNewerSchema},
		"orphans":        {change("orphans.db", `PRAGMA foreign_keys = OFF; INSERT INTO notes VALUES ('none', '')`), ErrDamaged},
	} {
		target := filepath.Join(t.TempDir(), "callbook.db")
		d.ok(os.WriteFile(target, []byte("what was there"), 0o600))
		_, _, err := Restore(context.Background(), tt.backup, target, testStart, testFormat)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(target), "*"))
		if data, _ := os.ReadFile(target); string(data) != "what was there" || len(left) != 1 {
			t.Errorf("%s: what was there is %q now, beside %q", name, data, left)
		}
	}
}

// TestRestore_TakesAnyDatabase: also one that is served, with its log, and the file itself.
func TestRestore_TakesAnyDatabase(t *testing.T) {
	d := newDB(t)
	d.add("tide-reader")
	target := filepath.Join(t.TempDir(), "callbook.db")
	for _, from := range []string{d.path, target} {
		_, _, err := Restore(t.Context(), from, target, testStart, testFormat)
		d.ok(err)
		if words := wordsOf(t, target); words != "tide-reader" {
			t.Errorf("from %s: %q", from, words)
		}
	}
}

// TestRestore_ChangesNothingIfItFails: neither what is there, nor what tells that
// something was.
func TestRestore_ChangesNothingIfItFails(t *testing.T) {
	d := newDB(t)
	d.add("tide-reader")
	ctx, folder := context.Background(), t.TempDir()
	good := filepath.Join(folder, "copy.db")
	_, err := Backup(ctx, d.path, good, testFormat)
	d.ok(err)
	gone := filepath.Join(folder, "gone.db")
	d.ok(os.WriteFile(gone+".lock", nil, 0o600))
	lock, err := AcquireRestoreLock(gone)
	d.ok(err)
	if _, _, err := Restore(ctx, filepath.Join(folder, "none.db"), gone, testStart, testFormat); err == nil {
		t.Error("it restores from nothing")
	}
	d.ok(lock.Release())
	if _, err := AcquireLock(gone); !errors.Is(err, ErrGone) {
		t.Errorf("after a restore that failed: %v", err)
	}
	if _, err := AcquireRestoreLock(folder); err == nil || missing(folder) {
		t.Errorf("a folder is locked as if it were a database: %v", err)
	}
	if _, _, err := Restore(ctx, folder, good, testStart, testFormat); err == nil {
		t.Error("a folder is restored")
	}
	if words := wordsOf(t, good); words != "tide-reader" {
		t.Errorf("what was there: %q", words)
	}
}

// TestRestore_ReturnsOldFileIfItFailsHalfway: the database has left its name by then.
func TestRestore_ReturnsOldFileIfItFailsHalfway(t *testing.T) {
	d := newDB(t)
	d.add("tide-reader")
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err := Backup(t.Context(), d.path, copied, testFormat)
	d.ok(err)
	d.stop()
	d.ok(os.MkdirAll(filepath.Join(d.path+"-shm", "in the way"), 0o700))
	_, kept, err := Restore(t.Context(), copied, d.path, testStart, testFormat)
	if err == nil || kept == "" {
		t.Fatalf("%q, %v", kept, err)
	}
	if words := wordsOf(t, kept); words != "tide-reader" {
		t.Errorf("%s holds %q", kept, words)
	}
}
