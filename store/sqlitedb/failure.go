package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	sqlite3 "modernc.org/sqlite/lib"
)

// A DB that cannot trust its file any longer stops for good: it accepts no write, and the
// process that serves it ends. Later reads and writes may be wrong, and a sync that
// failed once is not retried: the system has dropped the pages that it could not write.

// Broken returns a channel that is closed when the DB has stopped for good.
func (db *DB) Broken() <-chan struct{} { return db.stopped.Done() }

// Failure returns why the DB has stopped for good: ErrDamaged, ErrDisk or ErrReplaced. It returns
// nil if the DB has not stopped.
func (db *DB) Failure() error { return context.Cause(db.stopped) }

// untrusted reports whether the open files must stay as they are: SQLite writes when it closes
// them.
func (db *DB) untrusted() bool {
	err := db.Failure()
	return errors.Is(err, ErrDisk) || errors.Is(err, ErrDamaged)
}

// stopIfFatal stops the DB for good after a fatal error of SQLite, and returns err as it is.
func (db *DB) stopIfFatal(err error) error {
	if cause := fatal(err); cause != nil {
		db.stop(fmt.Errorf("%w: %w", cause, err))
	}
	return err
}

// statFiles returns the files of the open database, by name.
func (db *DB) statFiles() map[string]os.FileInfo {
	opened := map[string]os.FileInfo{}
	names := []string{db.name, db.path, db.path + "-wal", db.path + "-shm", db.path + ".lock"}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			opened[name] = info
		}
	}
	return opened
}

// checkFiles stops the DB if one of its files is no longer the one that was opened: what is written
// would be lost with it. It asks the system only: opening the files would drop SQLite's locks.
func (w *writer) checkFiles() {
	for name, opened := range w.files {
		info, err := os.Stat(name)
		isGone := errors.Is(err, fs.ErrNotExist)
		if isGone || err == nil && !os.SameFile(opened, info) {
			w.db.stop(fmt.Errorf("%w: %s", ErrReplaced, name))
			return
		}
	}
}

// Check reads the whole file beside other work, and stops the DB if it finds damage. It takes
// about a second for each 60 MB. If the full-text tables alone are damaged, it calls rebuild, which
// rebuilds them, and reads the file again.
func (db *DB) Check(ctx context.Context, rebuild func(context.Context) error) error {
	// A connection of its own has no pages in its cache: it reads what is on the disk.
	check := func(file *sqlx.DB) error { return quickCheck(ctx, file) }
	err := withFile(ctx, db.path, readOnly, check)
	if errors.Is(err, errSearchDamaged) {
		if err = rebuild(ctx); err == nil {
			err = withFile(ctx, db.path, readOnly, check)
		}
	}

	if errors.Is(err, ErrDamaged) {
		db.stop(err)
		return err
	}

	return db.stopIfFatal(err)
}

// quickCheck reads a whole database. It returns ErrDamaged with the first problems of a damaged
// one.
func quickCheck(ctx context.Context, file *sqlx.DB) error {
	var problems []string
	err := file.SelectContext(ctx, &problems, `PRAGMA quick_check(3)`)
	if sqliteCode(err) == sqlite3.SQLITE_ERROR { // a search table that SQLite cannot even open
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return damageError(err)
	}
	if len(problems) != 1 || problems[0] != "ok" {
		damage := ErrDamaged
		if !slices.ContainsFunc(problems, isOutsideSearch) {
			damage = errSearchDamaged
		}
		return fmt.Errorf("%w: %s", damage, inOneLine.Replace(strings.Join(problems, "; ")))
	}

	return nil
}

// isOutsideSearch reports whether a problem is not one that FTS5 has found in its own tables.
func isOutsideSearch(problem string) bool {
	return !strings.Contains(strings.ToLower(problem), "fts5")
}

// inOneLine joins the lines of a report of SQLite.
var inOneLine = strings.NewReplacer("*** in database main ***\n", "", "\n", "; ")
