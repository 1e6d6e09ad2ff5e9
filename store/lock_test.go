package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOneProcessServesAFile(t *testing.T) {
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
		if _, err := AcquireLock(name); !errors.Is(err, ErrServed) {
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

func TestADatabaseThatIsGoneIsNotBegunAnew(t *testing.T) {
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
			s, err := Open(context.Background(), Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Close(), lock.Release(), leave(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := AcquireLock(path); !errors.Is(err, ErrGone) {
				t.Errorf("begun anew: %v", err)
			}
		})
	}
}

// TestALinkToNothing: where the disk that it leads to is not there, nothing is begun in
// its place; else the database is begun where it leads.
func TestALinkToNothing(t *testing.T) {
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
	s, err := Open(t.Context(), Options{Path: link})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || !Exists(filepath.Join(disk, "callbook.db")) {
		t.Errorf("no database where the link leads: %v", err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Error(err)
	}
}

func TestAStartThatFailsLeavesNoLockFile(t *testing.T) {
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

func TestOtherFilesAreRefused(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"another program's database": func(path string) error {
			db, err := connect(context.Background(), path, "", 1)
			if err != nil {
				return err
			}
			_, err = db.Exec(`CREATE TABLE customers (name TEXT)`)
			return errors.Join(err, db.Close())
		},
		"text": func(path string) error {
			return os.WriteFile(path, []byte("Dear diary, this is no database at all."), 0o600)
		},
		"read-only": readOnlyDirectory,
		"a folder":  func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "read-only" && os.Geteuid() == 0 {
				t.Skip("runs as root, to whom nothing is read-only")
			}
			path := filepath.Join(t.TempDir(), "callbook.db")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			s, err := Open(context.Background(), Options{Path: path})
			if err == nil {
				t.Error("opened", s.Close())
			}
		})
	}
}

// readOnlyDirectory makes a directory that only its reading is allowed of.
func readOnlyDirectory(path string) error {
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		return err
	}
	return errors.Join(s.Close(), os.Chmod(path, 0o400))
}

func TestDevEmptiesOnlyItsOwn(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	if err := s.MarkDev(ctx, false); !errors.Is(err, ErrNotDev) {
		t.Errorf("a served directory is taken for a test: %v", err)
	}
	s.ok(s.MarkDev(ctx, true))
	s.ok(s.Clear(ctx))
	s.ok(s.MarkDev(ctx, false))
}
