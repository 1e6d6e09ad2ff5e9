package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"callbook/store/durable"
	"callbook/store/progress"
)

// upgrade is the change that Open made to the schema.
type upgrade struct {
	from, to int64  // versions, equal if there was nothing to do; from is 0 for a new file
	kept     string // name of the copy from before; empty when none was made
}

// versions returns the schema version of a database, 0 if it has no tables, and the one that the
// migrations bring it to. It returns ErrNewerSchema if the database is ahead. A goose Provider
// would make its table at once, also in a file that another process serves.
func (f Format) versions(ctx context.Context, db *sqlx.DB) (version, newest int64, err error) {
	names, err := fs.Glob(f.Migrations, "*.sql")
	if err == nil && len(names) == 0 {
		err = fs.ErrNotExist
	}
	if err == nil {
		newest, err = goose.NumericComponent(names[len(names)-1])
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the migrations: %w", err)
	}
	var tables int
	err = db.GetContext(ctx, &tables, `SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`, goose.DefaultTablename)
	if err == nil && tables > 0 {
		err = db.GetContext(ctx, &version, `SELECT COALESCE(MAX(version_id), 0) FROM `+goose.DefaultTablename+` WHERE is_applied`)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema version: %w", err)
	}
	if version > newest { // goose itself lets an old program run on a newer schema
		return 0, 0, fmt.Errorf("%w (schema %d, this program knows %d)", ErrNewerSchema, version, newest)
	}
	return version, newest, nil
}

// migrate brings the schema up to date; beside another process it only checks that it is. The
// migrations run on a copy, which then replaces the contents of the database
// in one transaction: after a kill or a power cut the file has the old schema or the new one, and so does
// another process that has it open.
func migrate(ctx context.Context, db *sqlx.DB, o *Options) (u upgrade, err error) {
	u.from, u.to, err = o.Format.versions(ctx, db)
	if err != nil || u.from == u.to {
		return u, err
	}
	if o.Beside {
		return u, fmt.Errorf("the database was made by an older version of callbook (schema %d, this program knows %d): start callbook serve, which brings it up to date", u.from, u.to)
	}
	if u.from > 0 && !o.NoBackup {
		if u.kept, err = keepCopy(ctx, o, u); err != nil {
			return u, err
		}
	}
	if err := migrateCopy(ctx, db, o); err != nil {
		return u, u.failed(err)
	}
	return u, nil
}

// migrateCopy brings a copy of a database up to date, and replaces the contents of the database with it.
func migrateCopy(ctx context.Context, db *sqlx.DB, o *Options) error {
	draft := draftOf(o.Path, migratedDraft)
	defer os.Remove(draft)
	var before, after int64 // SQLite's counter of writes by other connections
	err := db.GetContext(ctx, &before, `PRAGMA data_version`)
	if err == nil {
		err = copyDraft(ctx, o.Path, draft)
	}
	if err == nil {
		stop := progress.Estimate(ctx, "upgrading the copy", fileSize(draft))
		err = withFile(ctx, draft, migrating, func(db *sqlx.DB) error { return applyMigrations(ctx, db, o.Format.Migrations) })
		stop()
	}
	if err == nil {
		err = db.GetContext(ctx, &after, `PRAGMA data_version`)
	}
	switch {
	case err != nil:
		return err
	case after != before:
		return errors.New("another process wrote to the database meanwhile; start again")
	}
	return replaceContents(ctx, o.Path, draft)
}

// failed adds to err the state after the failure.
func (u upgrade) failed(err error) error {
	switch {
	case u.from == 0:
		return fmt.Errorf("make the tables: %w", err)
	case sqliteCode(err) == sqlite3.SQLITE_IOERR_FSYNC: // the next start may find the commit in the log all the same
		return fmt.Errorf("upgrade the database from schema %d to %d: %w: %w", u.from, u.to, ErrDisk, err)
	}
	return fmt.Errorf("upgrade the database from schema %d to %d: %w; nothing was changed, and the earlier version of callbook still starts", u.from, u.to, err)
}

// applyMigrations brings an unfinished file up to date, which is thrown away if anything
// fails: so it needs neither a journal nor syncs. Foreign keys are off, or rebuilding a
// table would delete all that refers to it; the pragma does nothing inside a migration.
func applyMigrations(ctx context.Context, db *sqlx.DB, files fs.FS) error {
	for _, pragma := range []string{"foreign_keys = OFF", "secure_delete = ON", "synchronous = OFF", "journal_mode = OFF"} {
		if _, err := db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return err
		}
	}
	if err := checkPragmas(ctx, db, map[string]string{"foreign_keys": "0", "secure_delete": "1"}); err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if _, err = provider.Up(ctx); err != nil {
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			return fmt.Errorf("%s: %w", partial.Failed.Source.Path, partial.Err)
		}
		return err
	}
	orphans, err := orphansIn(ctx, db) // nothing watched over them
	if err == nil && orphans != "" {
		err = errors.New(orphans)
	}
	return err
}

// replaceContents replaces the contents of the database at path with another, in one transaction.
func replaceContents(ctx context.Context, path, from string) (err error) {
	defer progress.Watch(ctx, "writing the upgraded database", func() (done, total int64) { return fileSize(path + "-wal"), fileSize(from) })()
	db, err := connect(ctx, path, readWrite, 1, "busy_timeout(5000)", "synchronous(FULL)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkPragmas(ctx, db, map[string]string{"journal_mode": "wal", "synchronous": "2"}); err != nil {
		return err
	}
	source, err := dataSource(from, readOnly)
	if err != nil {
		return err
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		return err
	}
	return errors.Join(conn.Raw(func(c any) error {
		copying, err := c.(interface {
			NewRestore(source string) (*sqlite.Backup, error)
		}).NewRestore(source)
		if err != nil {
			return err
		}
		_, err = copying.Step(-1) // all pages
		return errors.Join(err, copying.Finish())
	}), conn.Close())
}

// orphansIn describes the first row without the row that it refers to; empty when there is none.
func orphansIn(ctx context.Context, db *sqlx.DB) (string, error) {
	var broken []struct{ Table, Parent string }
	err := db.SelectContext(ctx, &broken, `SELECT "table", parent FROM pragma_foreign_key_check LIMIT 1`)
	if err != nil || len(broken) == 0 {
		return "", err
	}
	return fmt.Sprintf("rows of %s refer to rows of %s that are not there", broken[0].Table, broken[0].Parent), nil
}

// keepCopy makes a copy of the database beside it before an upgrade, and checks it. A copy of an earlier
// attempt stays until the new one is complete.
func keepCopy(ctx context.Context, o *Options, u upgrade) (name string, err error) {
	path := o.Path
	if err := checkRoom(path, u); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.pre-migrate-%d-%d.db", path, u.from, u.to)
	draft := draftOf(path, keptDraft)
	defer os.Remove(draft) // gone by then unless something failed
	if err := copyDraft(ctx, path, draft); err != nil {
		return "", fmt.Errorf("copy the database before its upgrade: %w", err)
	}
	if _, err := o.Format.verify(ctx, draft, immutable); err != nil {
		return "", fmt.Errorf("check the copy from before the upgrade: %w", err)
	}
	return name, durable.Replace(draft, name)
}

// copyDraft makes a copy of a database that only its owner may read.
func copyDraft(ctx context.Context, path, draft string) error {
	if err := createPrivate(draft); err != nil {
		return err
	}
	return copyInto(ctx, path, draft)
}

// checkRoom rejects an upgrade that may fill the disk: the two copies take the room of the
// database once each, and so does the log with the migrated one; the data that the program
// rebuilds at its first start comes on top.
func checkRoom(path string, u upgrade) error {
	size := fileSize(path) + fileSize(path+"-wal")
	err := requireRoom(path, size/10*32, fmt.Sprintf("upgrade the database from schema %d to %d", u.from, u.to))
	if errors.Is(err, ErrNoRoom) {
		return fmt.Errorf("%w; make room, or start once with --no-backup, which upgrades without a copy", err)
	}
	return err
}
