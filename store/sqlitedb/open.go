package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"

	"callbook/store/durable"
)

// open prepares the file, and connects the writer and the readers to it. If it fails, the caller
// closes what is open.
func (db *DB) open(ctx context.Context) (err error) {
	o := &db.options
	if o.Beside && !Exists(o.Path) {
		return errors.New("there is no database")
	}
	db.writer = &writer{
		db:        db,
		queue:     make(chan *queuedWrite, queueSize),
		exclusive: make(chan func()),
		done:      make(chan struct{}),
	}
	db.unclean = !missing(o.Path + "-wal") // SQLite deletes the log when it closes the file

	if err := db.checkPlace(ctx); err != nil {
		return err
	}
	if !o.Beside {
		if db.upgrade, err = prepareFile(ctx, o); err != nil {
			return err
		}
	}

	if err := db.connectWriter(ctx); err != nil {
		return err
	}
	version, newest, err := o.Format.versions(ctx, db.writing)
	if err != nil {
		return err
	}
	if version < newest { // beside a server, an upgrade is that server's
		return fmt.Errorf("the database was made by an older version of callbook "+
			"(schema %d, this program knows %d): start callbook serve, which brings it up to date",
			version, newest)
	}
	db.upgrade.to = version

	db.reading, err = connect(ctx, o.Path, readOnly, readConnections, readPragmas...)
	if err != nil {
		return err
	}
	db.readStatements.on = db.reading

	// The writer keeps one connection, with its statements, for as long as the DB is open.
	if db.writer.conn, err = db.writing.Connx(ctx); err != nil {
		return fmt.Errorf("open the writing connection: %w", err)
	}
	db.writer.statements.on = db.writer.conn
	if !o.Beside {
		db.writer.files = db.statFiles()
	}
	return nil
}

// prepareFile makes a missing file, and brings that of an older version up to date.
func prepareFile(ctx context.Context, o *Options) (u upgrade, err error) {
	if err := removeDrafts(o.Path); err != nil {
		return u, err
	}
	if Exists(o.Path) {
		return upgradeFile(ctx, o)
	}

	if err := create(ctx, o); err != nil {
		return u, fmt.Errorf("make the file: %w", err)
	}
	return u, nil
}

// readPragmas are the settings of the reading connections.
var readPragmas = []string{
	"busy_timeout(5000)", "query_only(ON)", "trusted_schema(OFF)",
	"cache_size(-2000)", "mmap_size(0)", "temp_store(MEMORY)",
}

// connectWriter opens the writing pool of one connection, and reads back its pragmas.
func (db *DB) connectWriter(ctx context.Context) (err error) {
	o := &db.options
	durability, synchronous := "FULL", "2"
	if o.Normal {
		durability, synchronous = "NORMAL", "1"
	}

	db.writing, err = connect(ctx, o.Path, readWrite, 1,
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous("+durability+")",
		"foreign_keys(ON)", "secure_delete(ON)", "trusted_schema(OFF)",
		"journal_size_limit(16777216)", "wal_autocheckpoint(0)",
		"cache_size(-4000)", "temp_store(MEMORY)")
	if err != nil {
		return err
	}

	return checkPragmas(ctx, db.writing, map[string]string{
		"journal_mode":       "wal",
		"synchronous":        synchronous,
		"foreign_keys":       "1",
		"secure_delete":      "1",
		"trusted_schema":     "0",
		"wal_autocheckpoint": "0",
	})
}

// create makes a database with its tables, which gets its name once it is on the disk: if a
// power cut had torn its first page, nothing would show that nothing else was lost. SQLite gives
// the files beside it the same mode.
func create(ctx context.Context, o *Options) error {
	draft := draftOf(o.Path, newDraft)
	if err := createPrivate(draft); err != nil {
		return err
	}
	defer os.Remove(draft)       // gone by then unless something failed
	_ = copyOwner(draft, o.Path) // an empty file may lie there for another user

	err := withFile(ctx, draft, migrating, func(file *sqlx.DB) error {
		return o.Format.makeTables(ctx, file)
	})
	if err != nil {
		return err
	}

	// SQLite would apply the log of a database that is gone to the new one.
	if err := removeAll(o.Path+"-wal", o.Path+"-shm"); err != nil {
		return err
	}
	return durable.Replace(draft, o.Path)
}

// makeTables marks an empty file and makes the tables in it.
func (f Format) makeTables(ctx context.Context, file *sqlx.DB) error {
	mark := fmt.Sprintf("PRAGMA application_id = %d", f.ApplicationID)
	if _, err := file.ExecContext(ctx, mark); err != nil {
		return err
	}
	if err := applyMigrations(ctx, file, f.Migrations); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}

	_, err := file.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
	return err
}

// checkPlace rejects a file that must not be opened for writing at all: SQLite changes another
// program's file by opening it. Beside a server, where the file lies is that server's matter.
func (db *DB) checkPlace(ctx context.Context) error {
	o := &db.options
	folder := filepath.Dir(o.Path)
	d, err := DiskOf(folder)
	isRemote := err == nil && d.Network != ""
	if isRemote && !o.NetworkDisk && !o.Beside {
		return fmt.Errorf("%w (%s)", ErrNetworkDisk, d.Network)
	}

	if !Exists(o.Path) {
		return nil
	}
	if err := checkLinks(o.Path); err != nil {
		return err
	}
	// SQLite would open a file that it may not write for reading only.
	if err := errors.Join(MayWrite(o.Path), MayWrite(folder)); err != nil {
		return permissionError(err)
	}

	return withFile(ctx, o.Path, unchangingMode(o.Path), func(file *sqlx.DB) error {
		return o.Format.checkMark(ctx, file)
	})
}

// mode is how a database file is opened, as a part of the driver's data source name. All but
// migrating let no statement damage the file, as by a change of sqlite_schema or of a full-text
// index's own tables.
type mode string

const (
	// readWrite also copies the log to the file when the last connection is closed.
	readWrite mode = "&_defensive=1&mode=rw"
	readOnly  mode = "&_defensive=1&mode=ro" // with the log, which stays
	// immutable is for a file that no process changes: it needs neither log nor locks.
	immutable mode = "&_defensive=1&mode=ro&immutable=1"
	migrating mode = "&mode=rw" // a draft whose migrations need no journal
)

// logHeader is the size of a log that holds no page.
const logHeader = 32

// unchangingMode returns the mode that changes nothing in a file: another program's, or one that is
// damaged, has to stay as it is.
func unchangingMode(path string) mode {
	if fileSize(path+"-wal") <= logHeader {
		return immutable
	}
	return readOnly // the file alone is not the whole database
}

// dataSource returns the name of a database file for the driver.
func dataSource(path string, mode mode, pragmas ...string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}

	query := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}.Encode() + string(mode)
	// On Windows an absolute path starts with a letter; a file URL needs a slash.
	name := url.URL{
		Scheme:   "file",
		OmitHost: true,
		Path:     "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"),
		RawQuery: query,
	}

	return name.String(), nil
}

// connect opens a pool of connections to a database file.
func connect(
	ctx context.Context,
	path string,
	mode mode,
	connections int,
	pragmas ...string,
) (*sqlx.DB, error) {
	source, err := dataSource(path, mode, pragmas...)
	if err != nil {
		return nil, err
	}

	db, err := sqlx.Open("sqlite", source)
	if err != nil {
		return nil, err
	}

	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}

	return db, nil
}

// withFile opens a database file for one call of fn.
func withFile(ctx context.Context, path string, mode mode, fn func(*sqlx.DB) error) error {
	file, err := connect(ctx, path, mode, 1,
		"busy_timeout(5000)", "trusted_schema(OFF)", "temp_store(MEMORY)")
	if err != nil {
		return err
	}
	return errors.Join(fn(file), file.Close())
}

// checkPragmas reads back the settings of a connection: SQLite silently ignores a misspelt
// pragma, and durability hangs on these.
func checkPragmas(ctx context.Context, file *sqlx.DB, want map[string]string) error {
	for name, value := range want {
		var got string
		if err := file.GetContext(ctx, &got, "PRAGMA "+name); err != nil {
			return fmt.Errorf("read pragma %s: %w", name, err)
		}
		if got != value {
			return fmt.Errorf("pragma %s is %s, not %s: "+
				"this build of SQLite cannot be trusted with the directory", name, got, value)
		}
	}

	return nil
}

// checkMark returns ErrForeign for a file that does not bear the application's id.
func (f Format) checkMark(ctx context.Context, file *sqlx.DB) error {
	var id int32
	if err := file.GetContext(ctx, &id, `PRAGMA application_id`); err != nil {
		return err
	}
	if id != f.ApplicationID {
		return ErrForeign
	}
	return nil
}
