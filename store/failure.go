package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A store that cannot trust its file any longer stops for good: it takes no write,
// and whoever serves it ends the process. What SQLite read or wrote since may be
// wrong, and a sync that failed once is not tried again: the system has dropped
// the pages that it could not write.

// ErrDisk tells that the disk did not keep or give back what the database asked
// of it.
var ErrDisk = errors.New("the disk fails")

// ErrReplaced tells that the database was moved, deleted or replaced while it was
// served: what is written now would be in no file that anyone finds.
var ErrReplaced = errors.New("the database was moved, deleted or replaced while it was served")

// failure is why a store has stopped; the zero value is not usable.
type failure struct {
	once sync.Once
	done chan struct{} // closed once err is set
	err  error
}

func (f *failure) set(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.done)
	})
}

// Broken is closed when the store has stopped for good.
func (s *Store) Broken() <-chan struct{} { return s.failure.done }

// Failure is why the store has stopped for good, as ErrDamaged, ErrDisk or
// ErrReplaced; nil while it has not.
func (s *Store) Failure() error {
	select {
	case <-s.failure.done:
		return s.failure.err
	default:
		return nil
	}
}

// judge stops the store when what SQLite says leaves no other way, and returns
// what it was given.
func (s *Store) judge(err error) error {
	switch code := sqliteCode(err); {
	case isDamage(code):
		s.failure.set(fmt.Errorf("%w: %w", ErrDamaged, err))
	case code == sqlite3.SQLITE_IOERR_FSYNC, code == sqlite3.SQLITE_IOERR_DIR_FSYNC,
		code == sqlite3.SQLITE_IOERR_READ, code == sqlite3.SQLITE_IOERR_DATA, code == sqlite3.SQLITE_IOERR_CORRUPTFS:
		s.failure.set(fmt.Errorf("%w: %w", ErrDisk, err))
	}
	return err
}

func isDamage(code int) bool {
	return code&0xff == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// sqliteCode is SQLite's own extended code of an error, 0 when it has none.
func sqliteCode(err error) int {
	var failure *sqlite.Error
	if errors.As(err, &failure) {
		return failure.Code()
	}
	return 0
}

// watchPeriod is how often the files are looked for under their names.
const watchPeriod = 2 * time.Second

// watchFiles stops the store when the database or its log is no longer the file
// that was opened, until ctx ends. It asks the system only: opening the files would
// drop SQLite's locks.
func (s *Store) watchFiles(ctx context.Context) {
	opened := map[string]os.FileInfo{}
	for _, name := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			opened[name] = info
		}
	}
	due := time.NewTicker(watchPeriod)
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		for name, before := range opened {
			info, err := os.Stat(name)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(before, info) {
				s.failure.set(fmt.Errorf("%w: %s", ErrReplaced, name))
				return
			}
		}
	}
}

// openError says what SQLite only means when it cannot open a file.
func openError(err error) error {
	switch code := sqliteCode(err); {
	case isDamage(code) && !errors.Is(err, ErrDamaged):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case code&0xff == sqlite3.SQLITE_READONLY, code&0xff == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w: the file, its folder and the files beside it must be writable for the user that runs callbook (%w)", fs.ErrPermission, err)
	}
	return err
}

// CheckWhole reads the whole file beside what else is done with it, and stops the
// store when it finds damage. It takes about a second for each 60 MB. After a kill,
// opening the file has done so.
func (s *Store) CheckWhole(ctx context.Context) error {
	if s.killed {
		return nil
	}
	err := visit(ctx, s.path, "ro", func(db *sqlx.DB) error { return quickCheck(ctx, db) })
	if errors.Is(err, ErrDamaged) {
		s.failure.set(err)
	}
	return err
}
