package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"
)

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if o.Beside && !Exists(o.Path) {
		return errors.New("there is no database")
	}
	s.killed = fileSize(o.Path+"-wal") > 0 // else whoever wrote it closed it
	if err := s.checkPlace(ctx, o); err != nil {
		return err
	}
	isNew := !Exists(o.Path)
	if isNew {
		if s.upgraded, err = begin(ctx, o); err != nil {
			return fmt.Errorf("make the file: %w", err)
		}
	}
	durability := "FULL"
	if o.Normal {
		durability = "NORMAL"
	}
	pragmas := []string{
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(" + durability + ")", "foreign_keys(ON)",
		"secure_delete(ON)", "journal_size_limit(16777216)", "wal_autocheckpoint(0)", "trusted_schema(OFF)",
		"cache_size(-4000)", "temp_store(MEMORY)",
	}
	if o.MaxBytes > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count(%d)", mostPages(o)))
	}
	if s.writing, err = connect(ctx, o.Path, making, 1, pragmas...); err != nil {
		return err
	}
	if err := checkPragmas(ctx, s.writing, map[string]string{
		"journal_mode": "wal", "synchronous": map[bool]string{false: "2", true: "1"}[o.Normal],
		"foreign_keys": "1", "secure_delete": "1", "trusted_schema": "0", "wal_autocheckpoint": "0",
	}); err != nil {
		return err
	}
	if err := checkSize(ctx, s.writing, o); err != nil {
		return err
	}
	if !isNew {
		if err := claim(ctx, s.writing); err != nil {
			return err
		}
		if s.upgraded, err = migrate(ctx, s.writing, o); err != nil {
			return err
		}
	}
	if s.reading, err = connect(ctx, o.Path, readOnly, readConnections,
		"busy_timeout(5000)", "query_only(ON)", "trusted_schema(OFF)",
		"cache_size(-2000)", "mmap_size(0)", "temp_store(MEMORY)"); err != nil {
		return err
	}
	if s.agentTotals, err = newTotals(); err != nil {
		return err
	}
	if s.postTotals, err = newTotals(); err != nil {
		return err
	}
	w := &writer{store: s, batch: cmp.Or(o.Batch, defaultBatch), jobs: make(chan *job, mostWaiting), ended: make(chan struct{})}
	w.end = func(ctx context.Context) error {
		_, err := w.conn.ExecContext(ctx, "COMMIT")
		return err
	}
	s.writer = w
	if w.conn, err = s.writing.Connx(ctx); err != nil {
		return fmt.Errorf("open the writing connection: %w", err)
	}
	return nil
}

// begin makes a database with its tables, which gets its name once it is on the disk: of
// a first page that a power cut has torn, nobody could tell that nothing was lost with
// it. Its mode is the one that SQLite gives the files beside it, too.
func begin(ctx context.Context, o Options) (made upgrade, err error) {
	draft := filepath.Join(filepath.Dir(o.Path), "."+filepath.Base(o.Path)+".new")
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(draft + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return made, err
		}
	}
	if err := dropDrafts(o.Path); err != nil {
		return made, err
	}
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return made, err
	}
	defer os.Remove(draft)             // gone by then unless something failed
	_ = ownAs(draft, existing(o.Path)) // an empty file may lie there for another user
	err = errors.Join(f.Close(), visit(ctx, draft, readWrite, func(db *sqlx.DB) error {
		if err := claim(ctx, db); err != nil {
			return err
		}
		files, err := migrationFiles(o)
		if err == nil {
			err = applyMigrations(ctx, db, files)
		}
		if err != nil {
			return made.failed(err)
		}
		if made.to, err = newestVersion(files); err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
		return err
	}))
	if err != nil {
		return made, err
	}
	return made, settle(draft, o.Path, os.Rename)
}

// pageSize is that of every database: SQLite's own default.
const pageSize = 4096

// mostPages is how many pages the database may have.
func mostPages(o Options) int64 { return max(o.MaxBytes/pageSize, 1) }

// checkSize reads back how large the database may become. One that is larger
// already stays as large as it is.
func checkSize(ctx context.Context, db *sqlx.DB, o Options) error {
	if o.MaxBytes == 0 {
		return nil
	}
	var pages int64
	if err := db.GetContext(ctx, &pages, `PRAGMA page_count`); err != nil {
		return err
	}
	return checkPragmas(ctx, db, map[string]string{
		"page_size": strconv.Itoa(pageSize), "max_page_count": strconv.FormatInt(max(mostPages(o), pages), 10),
	})
}

// ErrNetworkDisk tells that the file lies where other machines may write it.
var ErrNetworkDisk = errors.New("the database lies on a network file system, where locks and syncs cannot be trusted: move it to a local disk, or give --network-disk")

// checkPlace refuses what must not be opened for writing at all: SQLite changes
// another program's file by opening it, and a damaged one by closing it. Whoever comes
// beside a server leaves it to that where the file lies.
func (s *Store) checkPlace(ctx context.Context, o Options) error {
	folder := filepath.Dir(o.Path)
	if d, err := DiskOf(folder); err == nil && d.Network != "" && !o.NetworkDisk && !o.Beside {
		return fmt.Errorf("%w (%s)", ErrNetworkDisk, d.Network)
	}
	if !Exists(o.Path) {
		return nil
	}
	// SQLite would open what it may not write for reading only.
	if err := MayWrite(o.Path, folder); err != nil {
		return denied(err)
	}
	return visit(ctx, o.Path, lookingMode(o.Path), func(db *sqlx.DB) error {
		if _, err := ours(ctx, db); err != nil || !s.killed || o.Beside && held(o.Path) {
			return err
		}
		return s.readWhole(ctx, db)
	})
}

// mode is how a database file is opened.
type mode string

const (
	making    mode = ""       // makes it when it is missing
	readWrite mode = "rw"     // also folds in the log, when the last one leaves
	readOnly  mode = "ro"     // with the log, which stays
	frozen    mode = "frozen" // nobody changes it: without log and locks
)

// logHeader is the size of a log that holds no page.
const logHeader = 32

// lookingMode is the mode that changes nothing in a file: another program's, or one
// that is damaged, has to stay as it is.
func lookingMode(path string) mode {
	if fileSize(path+"-wal") <= logHeader {
		return frozen
	}
	return readOnly // the file alone does not tell
}

// dataSource names a database file for the driver.
func dataSource(path string, mode mode, pragmas ...string) (string, error) {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	switch mode {
	case making:
	case frozen:
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	default:
		query.Set("mode", string(mode))
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	// On Windows an absolute path starts with a letter; a file URL needs a slash.
	name := url.URL{Scheme: "file", OmitHost: true, Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"), RawQuery: query.Encode()}
	return name.String(), nil
}

func connect(ctx context.Context, path string, mode mode, connections int, pragmas ...string) (*sqlx.DB, error) {
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
	return db, db.PingContext(ctx)
}

// checkPragmas reads back what the connection was told: a misspelt pragma is
// silently ignored by SQLite, and durability hangs on these.
func checkPragmas(ctx context.Context, db *sqlx.DB, want map[string]string) error {
	for name, value := range want {
		var got string
		if err := db.GetContext(ctx, &got, "PRAGMA "+name); err != nil {
			return fmt.Errorf("read pragma %s: %w", name, err)
		}
		if got != value {
			return fmt.Errorf("pragma %s is %s, not %s: this build of SQLite cannot be trusted with the directory", name, got, value)
		}
	}
	return nil
}

// applicationID marks a file as Callbook's, as file(1) and SQLite see it: "Call".
const applicationID = 0x43616c6c

// ErrForeign tells that the file belongs to another program.
var ErrForeign = errors.New("this is no database of callbook: name another file")

// ours tells whether the file is marked as Callbook's; it refuses another program's.
// One that is empty is neither.
func ours(ctx context.Context, db *sqlx.DB) (marked bool, err error) {
	var id, tables int
	if err := db.GetContext(ctx, &id, `PRAGMA application_id`); err != nil || id == applicationID {
		return err == nil, err
	}
	if err := db.GetContext(ctx, &tables, `SELECT COUNT(*) FROM sqlite_schema`); err != nil {
		return false, err
	}
	if id != 0 || tables > 0 {
		return false, ErrForeign
	}
	return false, nil
}

// claim marks a new file.
func claim(ctx context.Context, db *sqlx.DB) error {
	marked, err := ours(ctx, db)
	if err != nil || marked {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return err
}
