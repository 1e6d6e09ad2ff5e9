package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A store that cannot trust its file any longer stops for good: it takes no write,
// and whoever serves it ends the process. What SQLite read or wrote since may be
// wrong, and a sync that failed once is not tried again: the system has dropped
// the pages that it could not write.

// ErrDamaged tells that a file does not hold what SQLite wrote.
var ErrDamaged = errors.New("the file is damaged")

// ErrDisk tells that the disk did not keep or give back what the database asked
// of it.
var ErrDisk = errors.New("the disk fails")

// ErrReplaced tells that the database was moved, deleted or replaced while it was
// served: what is written now would be in no file that anyone finds.
var ErrReplaced = errors.New("the database was moved, deleted or replaced while it was served")

// ErrFull tells that the disk takes no writes, not even for opening the database.
// SQLite does not tell a quota and a broken disk apart.
var ErrFull = errors.New("the disk takes no writes: it is full, over a quota, or fails (dmesg tells)")

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

// untrusted tells whether the open files must not be touched again: SQLite writes
// when it closes them.
func (s *Store) untrusted() bool {
	err := s.Failure()
	return errors.Is(err, ErrDisk) || errors.Is(err, ErrDamaged)
}

// judge stops the store when what SQLite says leaves no other way, and returns
// what it was given.
func (s *Store) judge(err error) error {
	if cause := fatal(err); cause != nil {
		s.failure.set(fmt.Errorf("%w: %w", cause, err))
	}
	return err
}

// fatal names what SQLite's error says of the file or its disk; nil when both can
// still be trusted.
func fatal(err error) error {
	code := sqliteCode(err)
	if isDamage(code) {
		return ErrDamaged
	}
	switch code {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_READ,
		sqlite3.SQLITE_IOERR_DATA, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_IN_PAGE:
		return ErrDisk
	}
	return nil
}

func isDamage(code int) bool {
	return code&0xff == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

func isFull(code int) bool {
	switch code {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE:
		return true
	}
	return false
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
const watchPeriod = time.Second

// files are those that the open database consists of, by name.
func (s *Store) files() map[string]os.FileInfo {
	opened := map[string]os.FileInfo{}
	for _, name := range []string{s.name, s.path, s.path + "-wal", s.path + "-shm", s.path + ".lock"} {
		if info, err := os.Stat(name); err == nil {
			opened[name] = info
		}
	}
	return opened
}

// watch stops the store when one of its files is no longer the one that was opened,
// until ctx ends. It asks the system only: opening the files would drop SQLite's
// locks.
func (s *Store) watch(ctx context.Context, opened map[string]os.FileInfo, period time.Duration) {
	due := time.NewTicker(period)
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

// openError says what SQLite and the system only mean when a file cannot be opened.
func openError(err error) error {
	code := sqliteCode(err)
	switch cause := fatal(err); {
	case code == sqlite3.SQLITE_NOTADB && !errors.Is(err, ErrDamaged):
		return fmt.Errorf("%w, or was never a database: %w", ErrDamaged, err)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w: %w", ErrDisk, err)
	case cause != nil && !errors.Is(err, cause):
		return fmt.Errorf("%w: %w", cause, err)
	case isFull(code), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room, and start again (%w)", ErrFull, err)
	case code&0xff == sqlite3.SQLITE_READONLY, code&0xff == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_PERM:
		return denied(err)
	}
	return err
}

func denied(err error) error {
	return fmt.Errorf("%w: the file, its folder and the files beside it must be writable for the user that runs callbook (%w)", fs.ErrPermission, err)
}

// damage names what SQLite says of a file that is not as it wrote it.
func damage(err error) error {
	if isDamage(sqliteCode(err)) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// quickCheck reads a whole database; ErrDamaged tells the first things that are
// wrong with it.
func quickCheck(ctx context.Context, db *sqlx.DB) error {
	var faults []string
	err := db.SelectContext(ctx, &faults, `PRAGMA quick_check(3)`)
	if sqliteCode(err) == sqlite3.SQLITE_ERROR { // a search table that SQLite cannot even look into
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return damage(err)
	}
	if len(faults) != 1 || faults[0] != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, inOneLine.Replace(strings.Join(faults, "; ")))
	}
	return nil
}

// inOneLine makes a line of what SQLite tells in several.
var inOneLine = strings.NewReplacer("*** in database main ***\n", "", "\n", "; ")

// checkEvery is how long a file that was found whole is trusted.
const checkEvery = Day

// fileChecked is when it was found whole last.
const fileChecked = "checked_at"

// CheckWhole reads the whole file beside what else is done with it, unless it was
// found whole within the last day, and stops the store when it finds damage. It takes
// about a second for each 60 MB.
func (s *Store) CheckWhole(ctx context.Context) error {
	now := at(s.clock())
	checked := Time(s.checked.Load())
	if checked == 0 {
		checked, _ = s.notedTime(ctx, fileChecked) // what cannot be read is looked at
	}
	if s.within(checkEvery, checked) {
		return nil
	}
	err := visit(ctx, s.path, readOnly, func(db *sqlx.DB) error { return s.readWhole(ctx, db) })
	if errors.Is(err, ErrDamaged) {
		s.failure.set(err)
		return err
	}
	if err != nil {
		return s.judge(err)
	}
	return s.write(ctx, func(t *tx) error {
		return t.noteTime(fileChecked, now)
	})
}

// readWhole is quickCheck of the store's own file, and notes for CheckWhole when it was
// found whole.
func (s *Store) readWhole(ctx context.Context, db *sqlx.DB) error {
	now := at(s.clock())
	err := quickCheck(ctx, db)
	if err == nil {
		s.checked.Store(int64(now))
	}
	return err
}
