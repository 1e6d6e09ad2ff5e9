package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// Lock is held by the one process that serves a file.
type Lock struct {
	file  *flock.Flock
	path  string // of the database
	fresh bool   // there was no lock file before
}

// Path returns the path of the file itself, behind any links.
func (l *Lock) Path() string { return l.path }

// AcquireLock locks a database for the life of the process. The lock file, which has the name of
// the database and the suffix .lock, stays when the process ends: only the system's lock on it
// counts. It returns ErrLocked, with the id of the other process, if the file is already served or
// just being created, ErrLinked if the file has several names, and ErrGone if there was a database
// before.
func AcquireLock(path string) (*Lock, error) {
	l, err := AcquireRestoreLock(path)
	if err != nil {
		return nil, err
	}

	err = checkLinks(l.path)
	if !l.fresh && !Exists(l.path) {
		err = fmt.Errorf("%w, though %s shows that there was one: mount its disk, or restore a "+
			"backup; to start with a new database, delete that file", ErrGone, l.file.Path())
	}
	if err != nil {
		return nil, errors.Join(err, l.ReleaseUnused())
	}

	return l, nil
}

// AcquireRestoreLock is AcquireLock for a restore: the database may be gone.
func AcquireRestoreLock(path string) (*Lock, error) {
	path = FileOf(path) // one file has one lock, for all of its names
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file", ErrForeign, path)
	}

	folder := filepath.Dir(path)
	_, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: its folder is not there; make %s, or mount its disk",
			ErrGone, folder)
	}
	if err != nil {
		return nil, fmt.Errorf("the folder of the database: %w", err)
	}

	name := path + ".lock"
	fresh := missing(name)
	l := flock.New(name, flock.SetPermissions(0o600))
	locked, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", openError(err))
	}
	if !locked {
		return nil, fmt.Errorf("%w%s: stop it first, or give another --db", ErrLocked, holder(name))
	}

	mine, _ := l.Stat()
	now, _ := os.Stat(name)
	if !os.SameFile(mine, now) { // nor is a file the same as none
		_ = l.Close() // the process that held it has just removed the file
		return AcquireRestoreLock(path)
	}

	if fresh {
		_ = copyOwner(name, path) // the operator may be another user than the service
	}

	// The id is for the error of another process. On Windows no process can write a locked file.
	_ = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return &Lock{file: l, path: path, fresh: fresh}, nil
}

// holder returns the process id in the lock file, in parentheses; empty if it cannot be read.
func holder(name string) string {
	text, _ := os.ReadFile(name)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// Keep records that the database is open. Release then keeps the lock file, which shows that there
// was a database if it is gone one day.
func (l *Lock) Keep() { l.fresh = false }

// Release releases the lock. If it has created the lock file and there is no database, as when the
// address was in use, it also removes the file.
func (l *Lock) Release() error {
	if l.fresh && !Exists(l.path) {
		return l.ReleaseUnused()
	}
	return l.file.Close()
}

// ReleaseUnused releases the lock of a caller that only read the database, which may be another
// program's. If it has created the lock file, it removes it.
func (l *Lock) ReleaseUnused() error {
	if l.fresh {
		_ = os.Remove(l.file.Path())
	}
	return l.file.Close()
}
