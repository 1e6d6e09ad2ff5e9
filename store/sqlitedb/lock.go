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

// Path returns the database's own path, whatever link led to it.
func (l *Lock) Path() string { return l.path }

// AcquireLock locks a database for the life of the process. The lock file, the database's name
// with .lock behind it, stays when the process ends: only the lock that the system holds on it counts.
// It returns ErrLocked, with the id of the other process, for a file that is served already,
// and ErrGone where something shows that there was a database.
func AcquireLock(path string) (*Lock, error) {
	path = FileOf(path)
	if trace := traceOf(path); trace != "" && !Exists(path) {
		return nil, fmt.Errorf("%w, though %s shows that there was one: mount its disk, or restore a backup; to begin anew, delete that file", ErrGone, trace)
	}
	return AcquireRestoreLock(path)
}

// AcquireRestoreLock is AcquireLock for a restore: the database may be gone.
func AcquireRestoreLock(path string) (*Lock, error) {
	path = FileOf(path) // one file has one lock, by whatever name
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file", ErrForeign, path)
	}
	name := path + ".lock"
	switch _, err := os.Stat(filepath.Dir(path)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: its folder is not there; make %s, or mount its disk", ErrGone, filepath.Dir(path))
	case err != nil:
		return nil, fmt.Errorf("the folder of the database: %w", err)
	}
	fresh := missing(name)
	l := flock.New(name, flock.SetPermissions(0o600))
	locked, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !locked {
		return nil, fmt.Errorf("%w%s: stop it first, or give another --db", ErrLocked, holder(name))
	}
	mine, err := l.Stat()
	if now, nowErr := os.Stat(name); errors.Join(err, nowErr) != nil || !os.SameFile(mine, now) {
		_ = l.Close() // the process that held it has just removed the file
		return AcquireRestoreLock(path)
	}
	if fresh {
		_ = copyOwner(name, path) // the operator may be another user than the service
	}
	// For the message of another process. On Windows no process may write a locked
	// file; the message then names no process.
	_ = os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	return &Lock{l, path, fresh}, nil
}

// traceOf returns the name of a file that a database leaves beside itself, if there is one.
// SQLite would delete a log without its database.
func traceOf(path string) string {
	switch {
	case !missing(path + ".lock"):
		return path + ".lock"
	case fileSize(path+"-wal") > 0:
		return path + "-wal"
	}
	return ""
}

// holder returns the process that wrote the lock file, if it can be read.
func holder(name string) string {
	text, err := os.ReadFile(name)
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || convErr != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// Keep makes the lock file stay for good: there is a database now, and should it be gone one
// day, the lock file shows that.
func (l *Lock) Keep() { l.fresh = false }

// Release releases the lock. Where no database came to be, as when the address
// was in use, a lock file of its own is removed too; one that was there before shows
// that there was a database once, and stays.
func (l *Lock) Release() error {
	if l.fresh && !Exists(l.path) {
		return l.ReleaseUnused()
	}
	return l.file.Close()
}

// ReleaseUnused is Release for a caller that only read the database, which may be another
// program's: a lock file of its own is removed.
func (l *Lock) ReleaseUnused() error {
	if l.fresh {
		_ = os.Remove(l.file.Path())
	}
	return l.file.Close()
}
