package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"

	"callbook/store/durable"
)

// upgrade is the change that Open made to the schema.
type upgrade struct {
	from, to int64  // versions, equal if there was nothing to do; from is 0 for a new file
	kept     string // name of the copy from before; empty if there was nothing to do
}

// versions returns the schema version of a database, 0 if it has no tables, and the one that the
// migrations bring it to. It returns ErrNewerSchema if the database is ahead. A goose Provider
// would make its table at once, also in a file that another process serves.
func (f Format) versions(ctx context.Context, db *sqlx.DB) (version, newest int64, err error) {
	newest, err = newestMigration(f.Migrations)
	if err != nil {
		return 0, 0, fmt.Errorf("read the migrations: %w", err)
	}
	version, err = schemaVersion(ctx, db)
	if err != nil {
		return 0, 0, fmt.Errorf("read the schema version: %w", err)
	}

	if version > newest { // goose itself lets an old program run on a newer schema
		return 0, 0, fmt.Errorf("%w (schema %d, this program knows %d)",
			ErrNewerSchema, version, newest)
	}
	return version, newest, nil
}

// newestMigration returns the version that the last of the migrations makes.
func newestMigration(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, fs.ErrNotExist
	}
	return goose.NumericComponent(names[len(names)-1])
}

// schemaVersion returns the version in goose's table, 0 without that table.
func schemaVersion(ctx context.Context, db *sqlx.DB) (version int64, err error) {
	var tables int
	err = db.GetContext(ctx, &tables, `
		SELECT COUNT(*)
		FROM sqlite_schema
		WHERE type = 'table' AND name = ?`, goose.DefaultTablename)
	if err != nil || tables == 0 {
		return 0, err
	}

	err = db.GetContext(ctx, &version, `
		SELECT COALESCE(MAX(version_id), 0)
		FROM `+goose.DefaultTablename+`
		WHERE is_applied`)
	return version, err
}

// upgradeFile brings a file up to date that no process has open. The migrations run on a checked
// copy, which is then renamed over the file: after a kill or a power cut the old one is there or
// the new one, whole.
func upgradeFile(ctx context.Context, o *Options) (u upgrade, err error) {
	err = withFile(ctx, o.Path, unchangingMode(o.Path), func(file *sqlx.DB) error {
		u.from, u.to, err = o.Format.versions(ctx, file)
		return err
	})
	if err != nil || u.from == u.to {
		return u, err
	}

	migrated := draftOf(o.Path, migratedDraft)
	defer os.Remove(migrated) // gone by then unless something failed

	err = withFile(ctx, o.Path, readWrite, func(file *sqlx.DB) error {
		u.kept, err = migrateCopy(ctx, file, o, u, migrated)
		return err
	})
	if err != nil {
		return u, fmt.Errorf("upgrade the database from schema %d to %d: %w; nothing was changed, "+
			"and the earlier version of callbook still starts", u.from, u.to, err)
	}

	// If a power cut brought the old log back, SQLite would apply it to the new file.
	if err := durable.SyncFolder(filepath.Dir(o.Path)); err != nil {
		return u, fmt.Errorf("sync the folder of the database: %w", err)
	}
	if err := durable.Replace(migrated, o.Path); err != nil {
		return u, fmt.Errorf("put the upgraded database in place of the old one: %w", err)
	}
	return u, nil
}

// migrateCopy makes a copy of file beside it that is kept, and another of the name migrated that it
// brings up to date. Until file is closed, it locks out other processes, and file has no log.
func migrateCopy(
	ctx context.Context,
	file *sqlx.DB,
	o *Options,
	u upgrade,
	migrated string,
) (kept string, err error) {
	size := fileSize(o.Path) + fileSize(o.Path+"-wal")
	// Two copies, and some room for what the migrations add.
	err = requireRoom(o.Path, size/10*22, "upgrade the database beside a copy of it")
	if err != nil {
		return "", err
	}
	// From here on no process can write what the copies would lack.
	if err := closeLog(ctx, file); err != nil {
		return "", err
	}

	kept = fmt.Sprintf("%s.pre-migrate-%d-%d.db", o.Path, u.from, u.to)
	if err := keepCopy(ctx, file, o, kept); err != nil {
		return "", fmt.Errorf("keep a copy from before: %w", err)
	}

	if err := createLike(migrated, o.Path); err != nil {
		return "", err
	}
	if err := copyInto(ctx, kept, migrated, immutable); err != nil {
		return "", err
	}

	defer EstimateProgress(ctx, "upgrading the copy", fileSize(migrated))()
	return kept, withFile(ctx, migrated, migrating, func(file *sqlx.DB) error {
		if err := applyMigrations(ctx, file, o.Format.Migrations); err != nil {
			return err
		}
		return compareSchema(ctx, file, o.Format.Migrations)
	})
}

// closeLog copies the log to the file and removes it, and locks the file until the connection is
// closed.
func closeLog(ctx context.Context, file *sqlx.DB) error {
	for _, query := range []string{
		"PRAGMA journal_mode = DELETE", // which SQLite does for the only connection
		"PRAGMA locking_mode = EXCLUSIVE",
		"BEGIN EXCLUSIVE",
		"COMMIT", // the lock stays
	} {
		_, err := file.ExecContext(ctx, query)
		if sqliteCode(err)&0xff == sqlite3.SQLITE_BUSY {
			return fmt.Errorf("another process has the database open, such as Litestream: "+
				"stop it first (%w)", err)
		}
		if err != nil {
			return err
		}
	}

	want := map[string]string{"journal_mode": "delete", "locking_mode": "exclusive"}
	return checkPragmas(ctx, file, want)
}

// keepCopy makes a copy of a database, and checks it before it gets its name. A copy of an earlier
// attempt stays until then.
func keepCopy(ctx context.Context, file *sqlx.DB, o *Options, name string) error {
	draft := draftOf(o.Path, keptDraft)
	if err := createPrivate(draft); err != nil {
		return err
	}
	defer os.Remove(draft) // gone by then unless something failed

	if err := vacuumInto(ctx, file, o.Path, draft); err != nil {
		return err
	}
	if _, err := o.Format.verify(ctx, draft, immutable); err != nil {
		return fmt.Errorf("check it: %w", err)
	}
	return durable.Replace(draft, name)
}

// createLike creates an empty file with the owner and the mode of another.
func createLike(name, other string) error {
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	if err := createPrivate(name); err != nil {
		return err
	}
	if err := copyOwner(name, other); err != nil {
		return err
	}

	return os.Chmod(name, info.Mode().Perm())
}

// applyMigrations brings an unfinished file up to date, which is thrown away if anything
// fails: so it needs neither a journal nor syncs. Foreign keys are off, or rebuilding a
// table would delete all that refers to it; the pragma does nothing inside a migration.
func applyMigrations(ctx context.Context, db *sqlx.DB, files fs.FS) error {
	for _, pragma := range []string{
		"foreign_keys = OFF",
		"secure_delete = ON",
		"synchronous = OFF",
		"journal_mode = OFF",
	} {
		if _, err := db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return err
		}
	}

	provider, err := goose.NewProvider(
		goose.DialectSQLite3,
		db.DB,
		files,
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	_, err = provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		return fmt.Errorf("%s: %w", partial.Failed.Source.Path, partial.Err)
	}
	if err != nil {
		return err
	}

	orphans, err := orphansIn(ctx, db) // nothing watched over them
	if err != nil {
		return err
	}
	if orphans != "" {
		return errors.New(orphans)
	}
	return nil
}

// compareSchema returns an error that names the tables and indexes of a migrated file that are not
// those of a new one.
func compareSchema(ctx context.Context, file *sqlx.DB, files fs.FS) error {
	fresh, err := sqlx.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer fresh.Close()
	fresh.SetMaxOpenConns(1) // each has a database of its own

	if err := applyMigrations(ctx, fresh, files); err != nil {
		return err
	}
	want, err := schemaOf(ctx, fresh)
	if err != nil {
		return err
	}
	got, err := schemaOf(ctx, file)
	if err != nil {
		return err
	}

	// What either of the two lacks differs as well.
	differing := maps.Clone(want)
	maps.Copy(differing, got)
	maps.DeleteFunc(differing, func(name, _ string) bool { return want[name] == got[name] })
	if len(differing) > 0 {
		names := slices.Sorted(maps.Keys(differing))
		return fmt.Errorf("these are not as callbook makes them: %s; undo what was changed in the "+
			"database by hand, or restore a backup from before", strings.Join(names, ", "))
	}
	return nil
}

// schemaOf returns the statements that made the tables and indexes of a database. It leaves out
// those of SQLite and goose, which change with their versions.
func schemaOf(ctx context.Context, db *sqlx.DB) (map[string]string, error) {
	var parts []struct{ Name, SQL string }
	err := db.SelectContext(ctx, &parts, `
		SELECT type || ' ' || name AS name, sql
		FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND name <> ?
			AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')`,
		goose.DefaultTablename)

	schema := map[string]string{}
	for _, part := range parts {
		schema[part.Name] = part.SQL
	}
	return schema, err
}

// orphansIn describes the first row without the row that it refers to; empty when there is none.
func orphansIn(ctx context.Context, db *sqlx.DB) (string, error) {
	var broken []struct{ Table, Parent string }
	err := db.SelectContext(ctx, &broken, `
		SELECT "table", parent
		FROM pragma_foreign_key_check
		LIMIT 1`)
	if err != nil || len(broken) == 0 {
		return "", err
	}

	first := broken[0]
	return fmt.Sprintf("rows of %s refer to rows of %s that are not there",
		first.Table, first.Parent), nil
}
