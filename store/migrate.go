package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	sqlite3 "modernc.org/sqlite/lib"

	"callbook/schema"
)

// ErrNewerSchema tells that the file was written by a newer program.
var ErrNewerSchema = errors.New("the database was made by a newer version of callbook; start that version, or restore a backup from before the upgrade")

// ErrNoRoom tells that the disk has no room for an upgrade with a copy.
var ErrNoRoom = errors.New("too little room on the disk to upgrade the database")

// upgrade is what opening a directory did to its schema.
type upgrade struct {
	from, to int64  // versions, equal when nothing was to be done; a new file comes from 0
	kept     string // name of the copy from before; empty when none was made
}

// Upgraded tells which version the schema had when the directory was opened, 0 for a
// new file, which one it has now, and the name of the copy that was made before;
// empty when none was.
func (s *Store) Upgraded() (from, to int64, kept string) {
	return s.upgraded.from, s.upgraded.to, s.upgraded.kept
}

// newestSchema is the version that this program brings a database to.
func newestSchema() (int64, error) {
	names, err := fs.Glob(schema.Migrations, schema.Folder+"/*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("read the migrations: %w", cmp.Or(err, fs.ErrNotExist))
	}
	return goose.NumericComponent(names[len(names)-1])
}

// migrate brings the schema up to date; beside another process it only checks that
// it is. Whatever fails, the file is left as it was.
func migrate(ctx context.Context, db *sqlx.DB, o Options) (upgrade, error) {
	m, err := newMigrator(ctx, db, o)
	switch {
	case err != nil:
		return m.upgrade, err
	case m.from > m.to: // goose itself lets an old program run on a newer schema
		return m.upgrade, fmt.Errorf("%w (schema %d, this program knows %d)", ErrNewerSchema, m.from, m.to)
	case m.from == m.to:
		return m.upgrade, nil
	case o.Beside:
		return m.upgrade, fmt.Errorf("the database was made by an older version of callbook (schema %d, this program knows %d): start callbook serve, which brings it up to date", m.from, m.to)
	}
	if err := dropDrafts(o.Path); err != nil {
		return m.upgrade, err
	}
	if m.from > 0 && !o.NoBackup {
		if m.kept, err = copyBefore(ctx, o.Path, m.upgrade); err != nil {
			return m.upgrade, err
		}
	}
	if err := m.run(ctx, o.Path); err != nil {
		return m.upgrade, m.failed(err)
	}
	return m.upgrade, nil
}

// failed says what a failure has left.
func (u upgrade) failed(err error) error {
	switch {
	case u.from == 0:
		return fmt.Errorf("make the tables: %w", err)
	case sqliteCode(err) == sqlite3.SQLITE_IOERR_FSYNC: // the next start may find the commit in the log all the same
		return fmt.Errorf("upgrade the database from schema %d to %d: %w: %w", u.from, u.to, ErrDisk, err)
	}
	return fmt.Errorf("upgrade the database from schema %d to %d: %w; nothing was changed, and the earlier version of callbook still starts", u.from, u.to, err)
}

// migrator applies what a database lacks.
type migrator struct {
	files    fs.FS
	sources  []*goose.Source // all, in their order
	versions database.Store
	upgrade
}

func newMigrator(ctx context.Context, db *sqlx.DB, o Options) (m migrator, err error) {
	if m.files = o.migrations; m.files == nil {
		if m.files, err = fs.Sub(schema.Migrations, schema.Folder); err != nil {
			return m, err
		}
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, m.files, goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return m, fmt.Errorf("read the migrations: %w", err)
	}
	m.sources = provider.ListSources()
	m.to = m.sources[len(m.sources)-1].Version
	if m.versions, err = database.NewStore(goose.DialectSQLite3, goose.DefaultTablename); err != nil {
		return m, err
	}
	if m.from, err = schemaVersion(ctx, db, m.versions); err != nil {
		return m, fmt.Errorf("read the schema version: %w", err)
	}
	return m, nil
}

// schemaVersion is 0 for a new file. Asking goose's Provider would make its table at
// once, also in a file that another process serves.
func schemaVersion(ctx context.Context, db *sqlx.DB, versions database.Store) (int64, error) {
	var tables int
	err := db.GetContext(ctx, &tables, `SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`, versions.Tablename())
	if err != nil || tables == 0 {
		return 0, err
	}
	return versions.GetLatestVersion(ctx, db)
}

// run does it on a connection of its own: without foreign keys, or rebuilding a table
// would delete all that refers to it, and the pragma does nothing inside a transaction.
func (m migrator) run(ctx context.Context, path string) (err error) {
	db, err := connect(ctx, path, readWrite, 1, "busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(OFF)",
		"secure_delete(ON)", "trusted_schema(OFF)", "temp_store(MEMORY)")
	if db != nil {
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	if err != nil {
		return err
	}
	if err := checkPragmas(ctx, db, map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "0", "secure_delete": "1", "temp_store": "2",
	}); err != nil {
		return err
	}
	return m.apply(ctx, db)
}

// apply runs all that is pending in one transaction. goose's Provider commits each
// migration by itself: where the second of two fails, the file would be one that
// neither the old program takes nor the new one.
func (m migrator) apply(ctx context.Context, db *sqlx.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after the commit
	if m.from == 0 {
		err := errors.Join(m.versions.CreateVersionTable(ctx, tx), m.versions.Insert(ctx, tx, database.InsertRequest{Version: 0}))
		if err != nil {
			return err
		}
	}
	for _, source := range m.sources {
		if source.Version <= m.from {
			continue
		}
		text, err := fs.ReadFile(m.files, source.Path)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", source.Path, err)
		}
		if err := m.versions.Insert(ctx, tx, database.InsertRequest{Version: source.Version}); err != nil {
			return err
		}
	}
	if err := checkReferences(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// checkReferences finds what a migration tore apart while nothing watched over it.
func checkReferences(ctx context.Context, tx *sql.Tx) error {
	var table, parent string
	err := tx.QueryRowContext(ctx, `SELECT "table", parent FROM pragma_foreign_key_check LIMIT 1`).Scan(&table, &parent)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return cmp.Or(err, fmt.Errorf("rows of %s refer to rows of %s that are not there", table, parent))
}

// copyBefore keeps the database as it is before an upgrade, in a copy beside it that
// was checked as a whole. A copy of the same upgrade that was tried before stays until
// the new one is whole.
func copyBefore(ctx context.Context, path string, u upgrade) (name string, err error) {
	if err := roomFor(path, u); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.pre-migrate-%d-%d.db", path, u.from, u.to)
	draft := draftsOf(path)[0]
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer os.Remove(draft) // gone by then unless something failed
	if err := f.Close(); err != nil {
		return "", err
	}
	if err := copyInto(ctx, path, draft); err != nil {
		return "", fmt.Errorf("copy the database before its upgrade: %w", err)
	}
	if _, err := Inspect(ctx, draft); err != nil {
		return "", fmt.Errorf("check the copy from before the upgrade: %w", err)
	}
	return name, settle(draft, name, os.Rename)
}

// draftsOf are the unfinished copy, always by the same name, and the file that SQLite
// keeps beside it meanwhile.
func draftsOf(path string) []string {
	draft := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".pre-migrate")
	return []string{draft, draft + "-journal"}
}

// dropDrafts removes what a program left that was killed while it made the copy.
func dropDrafts(path string) error {
	for _, draft := range draftsOf(path) {
		if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// roomFor refuses an upgrade that may fill the disk: the copy takes the room of the
// database once, and the log of a migration that rewrites everything once more; a log
// that makes the search tables anew takes the room of what they were, too.
func roomFor(path string, u upgrade) error {
	size := fileSize(path) + fileSize(path+"-wal")
	disk, err := DiskOf(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("look for the room that an upgrade needs: %w", err)
	}
	if needed := size / 10 * 32; disk.Free < needed {
		return fmt.Errorf("%w from schema %d to %d: %d MiB are needed and %d MiB are free; make room, or start once with --no-backup, which upgrades without a copy",
			ErrNoRoom, u.from, u.to, needed>>20+1, disk.Free>>20)
	}
	return nil
}
