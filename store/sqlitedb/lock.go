package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// Lock is held by the one process that serves a file.
type Lock struct {
	file  *flock.Flock
	path  string // of the database
	fresh bool   // there was no lock file before
	boot  string // id of the boot of the system in which the database was last opened; empty if unknown
}

// Path returns the path of the file itself, behind any links.
func (l *Lock) Path() string { return l.path }

// AcquireLock locks a database for the life of the process. The lock file, which has the name of the
// database and the suffix .lock, stays when the process ends: only the system's lock on it counts. It
// returns ErrLocked, with the id of the other process, if the file is already served or just being created,
// ErrLinked if the file has several names, and ErrGone if there was a database before.
func AcquireLock(path string) (*Lock, error) {
	l, err := AcquireRestoreLock(path)
	if err != nil {
		return nil, err
	}
	err = checkLinks(l.path)
	if trace := l.trace(); trace != "" && !Exists(l.path) {
		err = fmt.Errorf("%w, though %s shows that there was one: mount its disk, or restore a backup; to start with a new database, delete that file", ErrGone, trace)
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
	if errors.Is(err, syscall.EROFS) {
		err = ErrReadOnly
	}
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !locked {
		return nil, fmt.Errorf("%w%s: stop it first, or give another --db", ErrLocked, holder(name))
	}
	mine, _ := l.Stat()
	if now, _ := os.Stat(name); !os.SameFile(mine, now) { // nor is a file the same as none
		_ = l.Close() // the process that held it has just removed the file
		return AcquireRestoreLock(path)
	}
	if fresh {
		_ = copyOwner(name, path) // the operator may be another user than the service
	}
	_, boot := readLock(name)
	lock := &Lock{l, path, fresh, boot}
	lock.write()
	return lock, nil
}

// write writes the lock file: this process, for the error of another one, and the boot. On Windows no process can
// write a locked file, and so neither is known.
func (l *Lock) write() {
	_ = os.WriteFile(l.file.Path(), []byte(strconv.Itoa(os.Getpid())+"\n"+l.boot), 0o600)
}

// readLock returns the lines of a lock file.
func readLock(name string) (process, boot string) {
	text, _ := os.ReadFile(name)
	process, boot, _ = strings.Cut(string(text), "\n")
	return process, boot
}

// bootID returns the id of this boot of the system; empty where it has none.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id)
}

// SameBoot reports whether the system has run on since the database was last opened, so that what a killed
// process wrote is whole: only a crash of the system or a power cut can tear a write.
func (l *Lock) SameBoot() bool { return l.boot != "" && l.boot == bootID() }

// Distrust makes the next SameBoot false, because the disk or the file has failed.
func (l *Lock) Distrust() {
	l.boot = ""
	l.write()
}

// trace returns the name of a file that shows that there was a database; empty if there is none.
// SQLite would delete a log without its database.
func (l *Lock) trace() string {
	switch {
	case !l.fresh:
		return l.file.Path()
	case fileSize(l.path+"-wal") > 0:
		return l.path + "-wal"
	}
	return ""
}

// holder returns the process id in the lock file, in parentheses; empty if it cannot be read.
func holder(name string) string {
	process, _ := readLock(name)
	pid, err := strconv.Atoi(process)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// Keep records that the database is open. Release then keeps the lock file, which shows that there was a database if
// it is gone one day.
func (l *Lock) Keep() {
	l.fresh, l.boot = false, bootID()
	l.write()
}

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
