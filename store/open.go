package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jmoiron/sqlx"
)

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if o.Beside && !Exists(o.Path) {
		return errors.New("there is no database")
	}
	if err := checkPlace(ctx, o); err != nil {
		return err
	}
	s.killed = fileSize(o.Path+"-wal") > 0 // else whoever wrote it closed it
	if missing(o.Path) {
		// Made here for its mode: SQLite gives its other files the same one.
		f, err := os.OpenFile(o.Path, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	durability := "FULL"
	if o.Normal {
		durability = "NORMAL"
	}
	if s.writing, err = connect(ctx, o.Path, "", 1,
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous("+durability+")", "foreign_keys(ON)",
		"secure_delete(ON)", "journal_size_limit(16777216)", "trusted_schema(OFF)",
		"cache_size(-4000)", "temp_store(MEMORY)"); err != nil {
		return err
	}
	if err := checkPragmas(ctx, s.writing, map[string]string{
		"journal_mode": "wal", "synchronous": map[bool]string{false: "2", true: "1"}[o.Normal],
		"foreign_keys": "1", "secure_delete": "1", "trusted_schema": "0",
	}); err != nil {
		return err
	}
	if err := claim(ctx, s.writing); err != nil {
		return err
	}
	if s.killed && !o.Beside {
		if err := quickCheck(ctx, s.writing); err != nil {
			return err
		}
	}
	if s.upgraded, err = migrate(ctx, s.writing, o); err != nil {
		return err
	}
	if s.reading, err = connect(ctx, o.Path, "ro", readers,
		"busy_timeout(5000)", "query_only(ON)", "trusted_schema(OFF)",
		"cache_size(-4000)", "mmap_size(268435456)", "temp_store(MEMORY)"); err != nil {
		return err
	}
	if s.words, err = lru.New[string, struct{}](knownWords); err != nil {
		return err
	}
	s.writer = &writer{store: s, batch: cmp.Or(o.Batch, defaultBatch), jobs: make(chan *job, defaultBatch), ended: make(chan struct{})}
	return s.writer.connect()
}

// ErrNetworkDisk tells that the file lies where other machines may write it.
var ErrNetworkDisk = errors.New("the database lies on a network file system, where locks and syncs cannot be trusted: move it to a local disk, or give --network-disk")

// checkPlace refuses what must not be opened for writing at all: SQLite changes
// another program's file by opening it.
func checkPlace(ctx context.Context, o Options) error {
	if d, err := DiskOf(filepath.Dir(o.Path)); err == nil && d.Network != "" && !o.NetworkDisk {
		return fmt.Errorf("%w (%s)", ErrNetworkDisk, d.Network)
	}
	if !Exists(o.Path) || fileSize(o.Path+"-wal") > 0 {
		return nil // with a log, the file alone does not tell: claim does
	}
	return visit(ctx, o.Path, frozen, func(db *sqlx.DB) error {
		var id, tables int
		err := db.GetContext(ctx, &id, `PRAGMA application_id`)
		if err != nil || id == applicationID {
			return err
		}
		if err := db.GetContext(ctx, &tables, `SELECT COUNT(*) FROM sqlite_schema`); err != nil {
			return err
		}
		if id != 0 || tables > 0 {
			return ErrForeign
		}
		return nil
	})
}

// frozen is the mode for a file that nobody changes: it needs no log and no locks.
const frozen = "frozen"

func connect(ctx context.Context, path, mode string, connections int, pragmas ...string) (*sqlx.DB, error) {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	switch mode {
	case "":
	case frozen:
		query.Set("mode", "ro")
		query.Set("immutable", "1")
	default:
		query.Set("mode", mode)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// On Windows an absolute path starts with a letter; a file URL needs a slash.
	name := url.URL{Scheme: "file", OmitHost: true, Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"), RawQuery: query.Encode()}
	db, err := sqlx.Open("sqlite", name.String())
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

// claim refuses another program's file, and marks a new one.
func claim(ctx context.Context, db *sqlx.DB) error {
	var id, tables int
	if err := db.GetContext(ctx, &id, `PRAGMA application_id`); err != nil {
		return err
	}
	if id == applicationID {
		return nil
	}
	if err := db.GetContext(ctx, &tables, `SELECT COUNT(*) FROM sqlite_schema`); err != nil {
		return err
	}
	if id != 0 || tables > 0 {
		return ErrForeign
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return err
}
