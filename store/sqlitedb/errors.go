package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"callbook/store/domain"
)

// publicError is an error that clients are told by a code.
type publicError struct {
	text      string
	rejection *domain.Error
}

func (e *publicError) Error() string { return e.text }

// Unwrap lets errors.As find the domain.Error.
func (e *publicError) Unwrap() error { return e.rejection }

var unavailable = domain.NewError(domain.CodeUnavailable)

// Errors of reads and writes. The first two are temporary. All but ErrWrites are storage_full or
// unavailable for clients.
var (
	// ErrBusy means that too many reads or writes wait, a read took too long, or another process
	// holds the lock.
	ErrBusy error = &publicError{"the database is busy", unavailable}

	// ErrNoSpace means that a write found no room on the disk or below Options.MaxBytes, or a disk
	// that takes no writes, and is not stored.
	ErrNoSpace error = &publicError{
		"there is no room for the write",
		domain.NewError(domain.CodeStorageFull),
	}

	// ErrWrites means that writes do not work while reads do. It wraps the cause.
	ErrWrites = errors.New("writes do not work")

	ErrClosed error = &publicError{"the store is closed", unavailable}

	// ErrStopped means that the DB has stopped for good. Failure returns the cause.
	ErrStopped error = &publicError{"the store has stopped for good", unavailable}
)

// Errors that stop a DB for good, or with which Open and the functions for files fail.
var (
	ErrDamaged = errors.New("the file is damaged") // it is not as SQLite wrote it
	// errSearchDamaged is ErrDamaged for the full-text tables alone.
	errSearchDamaged = fmt.Errorf("%w in its full-text tables", ErrDamaged)
	ErrDisk          = errors.New("the disk fails") // it did not store or return data
	ErrReplaced      = errors.New("the database was moved, deleted or replaced while it was served")
)

// Errors of Open and of the functions for files. SQLite does not distinguish a quota from a broken
// disk or one that is mounted read-only, so ErrFull can mean each.
var (
	ErrFull = errors.New("the disk takes no writes: it is full, over a quota, mounted read-only, " +
		"or fails (df and dmesg tell); make room or mend it, and start again")
	ErrNoRoom      = errors.New("too little room on the disk") // for an upgrade or a compaction
	ErrNewerSchema = errors.New("the database was made by a newer version of callbook; " +
		"start that version, or restore a backup from before the upgrade")
	ErrForeign     = errors.New("this is no database of callbook: name another file")
	ErrNetworkDisk = errors.New("the database is on a network file system, where locks and syncs " +
		"cannot be trusted: move it to a local disk, or give --network-disk")
	ErrLinked = errors.New("the database file has several names (hard links); " +
		"SQLite would keep a log for each and lose writes: delete the others")
	ErrLocked = errors.New("another process serves this database")
	ErrGone   = errors.New("the database is gone") // though something shows that there was one
	ErrExists = errors.New("there is such a file already: give a name that is free")
)

// writeError returns the error of a write, as one that the caller can match, and stops db if it
// is fatal.
func (db *DB) writeError(err error) error {
	code := sqliteCode(db.stopIfFatal(err))
	switch {
	case isFull(code):
		db.probed.Store(0) // an earlier probe no longer counts
		return fmt.Errorf("%w: %w", ErrNoSpace, err)

	case code == sqlite3.SQLITE_BUSY:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}

	return err
}

// openError adds to err the cause that SQLite and the system only imply when a file cannot be
// opened.
func openError(err error) error {
	code := sqliteCode(err)
	cause := fatal(err)
	switch {
	case code == sqlite3.SQLITE_NOTADB && !errors.Is(err, ErrDamaged):
		return fmt.Errorf("%w, or was never a database: %w", ErrDamaged, err)

	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w: %w", ErrDisk, err)

	case cause != nil && !errors.Is(err, cause):
		return fmt.Errorf("%w: %w", cause, err)

	case isFull(code),
		errors.Is(err, syscall.ENOSPC),
		errors.Is(err, syscall.EDQUOT),
		errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w (%w)", ErrFull, err)

	case code&0xff == sqlite3.SQLITE_READONLY,
		code&0xff == sqlite3.SQLITE_CANTOPEN,
		code == sqlite3.SQLITE_PERM:
		return permissionError(err)
	}

	return err
}

func permissionError(err error) error {
	if errors.Is(err, syscall.EROFS) { // not for this user alone
		return err
	}
	return fmt.Errorf("%w: the file, its folder and the files beside it must be writable "+
		"for the user that runs callbook (%w)", fs.ErrPermission, err)
}

// damageError adds ErrDamaged to an err that SQLite returns for a file that is not as it wrote
// it.
func damageError(err error) error {
	if isDamage(sqliteCode(err)) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// fatal returns ErrDamaged or ErrDisk for an error of SQLite after which the file or its disk
// cannot be trusted; nil for any other.
func fatal(err error) error {
	code := sqliteCode(err)
	if isDamage(code) {
		return ErrDamaged
	}

	switch code {
	case sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_IOERR_FSYNC,
		sqlite3.SQLITE_IOERR_DIR_FSYNC,
		sqlite3.SQLITE_IOERR_READ,
		sqlite3.SQLITE_IOERR_DATA,
		sqlite3.SQLITE_IOERR_CORRUPTFS,
		sqlite3.SQLITE_IOERR_IN_PAGE:
		return ErrDisk
	}

	return nil
}

func isDamage(code int) bool {
	return code&0xff == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

func isFull(code int) bool {
	switch code {
	case sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_IOERR_WRITE,
		sqlite3.SQLITE_IOERR_SHMSIZE,
		sqlite3.SQLITE_IOERR_TRUNCATE:
		return true
	}
	return false
}

// sqliteCode returns SQLite's own extended code of an error, 0 when it has none.
func sqliteCode(err error) int {
	if failure, ok := errors.AsType[*sqlite.Error](err); ok {
		return failure.Code()
	}
	return 0
}
