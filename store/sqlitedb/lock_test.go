package sqlitedb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"callbook/testdata/testkit"
)

func TestLock_IsHeldByOneProcess(t *testing.T) {
	folder := t.TempDir()
	path, link := filepath.Join(folder, "callbook.db"), filepath.Join(folder, "link.db")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Skip("symbolic links cannot be made here:", err)
	}
	first, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		if _, err := AcquireLock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("%s is locked twice: %v", filepath.Base(name), err)
		}
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := AcquireLock(link)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestLock_IsHeldByOneOfMany: each holder removes the lock file while others try to lock it.
func TestLock_IsHeldByOneOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callbook.db")
	var held atomic.Int32
	for _, err := range testkit.Together(4, func(int) error {
		for range 500 {
			lock, err := AcquireRestoreLock(path)
			if errors.Is(err, ErrLocked) {
				continue
			}
			if err != nil {
				return err
			}
			n := held.Add(1)
			if _, again := AcquireRestoreLock(path); n > 1 || !errors.Is(again, ErrLocked) {
				return fmt.Errorf("%d hold the lock, and another one could: %v", n, again)
			}
			held.Add(-1)
			_ = os.Remove(path + ".lock")
			if err := lock.file.Close(); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestLock_NamesTheProcessThatCreatesTheFile: a second start beside the first one on a new file.
func TestLock_NamesTheProcessThatCreatesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callbook.db")
	first, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireLock(path); !errors.Is(err, ErrLocked) || errors.Is(err, ErrGone) {
		t.Errorf("while the first creates the file: %v", err)
	}
	if err := first.Release(); err != nil || !missing(path+".lock") {
		t.Errorf("the first, which created nothing, leaves its lock: %v", err)
	}
}

func TestLock_RejectsMissingDatabase(t *testing.T) {
	for name, leave := range map[string]func(path string) error{
		"gone":  os.Remove,
		"empty": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "callbook.db")
			lock, err := AcquireLock(path)
			if err != nil {
				t.Fatal(err)
			}
			d := openDB(t, path)
			if err := errors.Join(d.Close(), lock.Release(), leave(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := AcquireLock(path); !errors.Is(err, ErrGone) {
				t.Errorf("begun anew: %v", err)
			}
		})
	}
}

// TestLock_FollowsLinkToMissingFile: where the disk that it leads to is not there, nothing is begun in
// its place; else the database is begun where it leads.
func TestLock_FollowsLinkToMissingFile(t *testing.T) {
	folder := t.TempDir()
	disk, between, link := filepath.Join(folder, "disk"), filepath.Join(folder, "between.db"), filepath.Join(folder, "link.db")
	if err := errors.Join(os.Symlink(filepath.Join("disk", "callbook.db"), between), os.Symlink("between.db", link)); err != nil {
		t.Skip("symbolic links cannot be made here:", err)
	}
	if lock, err := AcquireLock(link); !errors.Is(err, ErrGone) {
		t.Errorf("without the disk: %v, %v", lock, err)
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := AcquireLock(link)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	d := openDB(t, link)
	if err := d.Close(); err != nil || !Exists(filepath.Join(disk, "callbook.db")) {
		t.Errorf("no database where the link leads: %v", err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
}

func TestLock_RemovesItsFileWithoutDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callbook.db")
	lock, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if !missing(path + ".lock") {
		t.Error("the lock file stays where no database came to be")
	}
}

// TestLock_StaysOnceKept: a database that is moved away meanwhile must not be begun
// anew by the next start.
func TestLock_StaysOnceKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callbook.db")
	lock, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	lock.Keep()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireLock(path); !errors.Is(err, ErrGone) {
		t.Errorf("begun anew: %v", err)
	}
}

// TestOpen_RejectsAFileWithSeveralNames holds promise 20 of SECURITY.md.
func TestOpen_RejectsAFileWithSeveralNames(t *testing.T) {
	d := newDB(t)
	path, other := d.path, filepath.Join(t.TempDir(), "other.db")
	if err := os.Link(path, other); err != nil {
		t.Skip("hard links cannot be made here:", err)
	}
	info, err := os.Stat(path)
	if err != nil || linkCount(info) < 2 {
		t.Skip("the names of a file are not counted here")
	}
	for _, name := range []string{path, other} {
		_, lockErr := AcquireLock(name)
		_, openErr := Open(t.Context(), testOptions(name))
		o := testOptions(name)
		o.Beside = true
		_, besideErr := Open(t.Context(), o)
		_, backupErr := Backup(t.Context(), name, filepath.Join(t.TempDir(), "copy.db"), testFormat)
		for what, err := range map[string]error{"lock": lockErr, "open": openErr, "open beside a server": besideErr, "backup": backupErr} {
			if !errors.Is(err, ErrLinked) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %s: %v", what, filepath.Base(name), err)
			}
		}
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	lock, err := AcquireLock(path)
	if err != nil {
		t.Fatalf("once the other name is gone: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}
