// Package store is the directory itself: its records, its rules, its search and
// the documents it serves, in one SQLite file. It knows nothing of HTTP and no
// human language; package server gives it both.
//
// # Words
//
// The specification's words are the words of this code.
//
//   - agent: who registers; known by its handle (its callsign).
//   - owner: the person accountable for an agent.
//   - mailbox: the agent's e-mail address, private unless contact_public is set.
//   - card: what the public sees of an agent.
//   - offering: an entry of an agent's service menu.
//   - contact policy: which contact requests an agent takes.
//   - call: a post of an agent (seeking, offering or announce); the API and the
//     code say post. Others answer it with replies.
//   - contact request: how one agent asks another for its mailbox.
//   - collaboration: finished work that one side records and the other confirms;
//     evidence once it counts.
//   - level: 0 nothing verified, 1 mailbox verified, 2 owner claimed.
//
// # How a write goes
//
// Every exported method that changes something is one transaction with the rules
// inside it. A single goroutine owns the writing connection; writes that wait
// share its next commit (commit.go). A write says which agents and calls it
// touched, and before the commit document.go makes their derived data anew: the
// stored documents that reads serve, and the search rows. Nothing else writes
// derived data.
//
// Lists of short texts are JSON columns rather than child tables: they are read
// and written whole, and what is searched or filtered in them stands in the
// search rows, where any combination of filters is one index look-up.
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"callbook/schema"
)

// readTimeout bounds every read of the service, so that none holds back the
// checkpoints for long; a backup is a longer one.
const readTimeout = 2 * time.Second

// readers is how many connections read at once. More do not help: SQLite in one
// process is bound by the processor.
const readers = 4

// ErrNewerSchema tells that the file was written by a newer program.
var ErrNewerSchema = errors.New("the database was made by a newer version of callbook; start that version, or restore a backup from before the upgrade")

// Options says where the directory is kept and what it takes from outside. The
// zero value of every field but Path is what a server wants.
type Options struct {
	Path        string           // the SQLite file; created when missing
	Clock       func() time.Time // the only source of time; time.Now when nil
	Random      io.Reader        // the source of ids and keys; crypto/rand when nil
	Quotas      *Quotas          // limits by the day; DefaultQuotas when nil
	Mails       *MailCaps        // caps on mails; DefaultMailCaps when nil
	OwnerAgents *int             // agents that one owner may claim, 0 for any number; DefaultOwnerAgents when nil
	Normal      bool             // synchronous=NORMAL: a power cut may lose the last writes
	Batch       int              // writes that share one commit at the most; 256 when 0

	// Beside opens a directory that another process may be serving, for what the
	// operator does to it: it makes no file and changes no schema.
	Beside bool

	// LoopbackLinks lets profile links lead to this machine, by any port: for callbook dev.
	LoopbackLinks bool
}

// Store is an open directory. Its methods may be called from any goroutine.
type Store struct {
	path   string
	beside bool // another process may serve the file
	clock  func() time.Time
	random io.Reader
	quotas Quotas
	mails  MailCaps
	// ownerAgents is how many agents one owner may claim; 0 for any number.
	ownerAgents   int
	loopbackLinks bool
	writing       *sqlx.DB
	reading       *sqlx.DB
	writer        *writer
	queries       sync.Map                     // SQL text → *sqlx.Stmt of the readers
	words         *lru.Cache[string, struct{}] // known to stand in search_words; the writer's
	active        activity
	counts        statsCache
	probe         struct {
		sync.Mutex
		passed time.Time
	}

	closing sync.RWMutex
	closed  bool

	watchers []func(Changes)
	erased   bool // personal data was erased since the last truncating checkpoint; the writer's
}

// Open opens the directory, brings its schema up to date and starts its writer.
func Open(ctx context.Context, o Options) (*Store, error) {
	// A program that was killed may have left erased data in the log.
	s := &Store{
		path: o.Path, beside: o.Beside, clock: o.Clock, random: o.Random, quotas: DefaultQuotas, mails: DefaultMailCaps,
		ownerAgents: DefaultOwnerAgents, loopbackLinks: o.LoopbackLinks, erased: true,
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.random == nil {
		s.random = rand.Reader
	}
	if o.Quotas != nil {
		s.quotas = *o.Quotas
	}
	if o.Mails != nil {
		s.mails = *o.Mails
	}
	if o.OwnerAgents != nil {
		s.ownerAgents = *o.OwnerAgents
	}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Path, err), s.closeFiles())
	}
	go s.writer.run()
	if o.Beside {
		return s, nil
	}
	// A file that cannot be written is found now rather than at the first call.
	if err := errors.Join(s.probeOnce(ctx), s.rebuildIfOld(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if o.Beside && !Exists(o.Path) {
		return errors.New("there is no database")
	}
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
	if err := migrate(ctx, s.writing.DB, o.Beside); err != nil {
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

// newestSchema is the version that this program brings a database to.
func newestSchema() (int64, error) {
	names, err := fs.Glob(schema.Migrations, schema.Folder+"/*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("read the migrations: %w", cmp.Or(err, fs.ErrNotExist))
	}
	return goose.NumericComponent(names[len(names)-1])
}

// migrate brings the schema up to date; beside another process it only checks that
// it is.
func migrate(ctx context.Context, db *sql.DB, beside bool) error {
	files, err := fs.Sub(schema.Migrations, schema.Folder)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	version, err := provider.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	newest, err := newestSchema()
	if err != nil {
		return err
	}
	// goose itself lets an old program run on a newer schema.
	if version > newest {
		return fmt.Errorf("%w (schema %d, this program knows %d)", ErrNewerSchema, version, newest)
	}
	if beside {
		if version < newest {
			return fmt.Errorf("the database was made by an older version of callbook (schema %d, this program knows %d): start callbook serve, which brings it up to date", version, newest)
		}
		return nil
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Watch calls f after each commit and before its writers are answered. It must
// be called before the store is used, and f must be quick.
func (s *Store) Watch(f func(Changes)) { s.watchers = append(s.watchers, f) }

func (s *Store) committed(c Changes) {
	if c.empty() {
		return
	}
	if c.Removed {
		s.erased = true
	}
	if c.All {
		s.words.Purge()
		s.counts.reset()
	}
	for _, f := range s.watchers {
		f(c)
	}
}

// Now is the directory's time.
func (s *Store) Now() time.Time { return at(s.clock()).Time() }

// Close finishes the waiting writes, folds the write-ahead log into the file and
// closes it. It may be called once.
func (s *Store) Close() error {
	s.closing.Lock()
	s.closed = true
	close(s.writer.jobs)
	s.closing.Unlock()
	<-s.writer.ended
	if !s.beside {
		// Where it fails, as on a full disk, the log stays and the next start reads it.
		_, _ = s.writer.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return s.closeFiles()
}

func (s *Store) closeFiles() error {
	var errs []error
	if s.reading != nil {
		errs = append(errs, s.reading.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.disconnect())
	}
	if s.writing != nil {
		errs = append(errs, s.writing.Close())
	}
	return errors.Join(errs...)
}

// readyAge is how long a good probe counts: each one costs a write.
const readyAge = time.Second

// Ready reports whether the directory can be read and written, now or within the
// last second.
func (s *Store) Ready(ctx context.Context) error {
	s.probe.Lock()
	defer s.probe.Unlock()
	now := s.Now()
	if age := now.Sub(s.probe.passed); age >= 0 && age < readyAge {
		return nil
	}
	if err := s.probeOnce(ctx); err != nil {
		return err
	}
	s.probe.passed = now
	return nil
}

func (s *Store) probeOnce(ctx context.Context) error {
	var settings int
	if err := s.get(ctx, &settings, `SELECT COUNT(*) FROM site`); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	err := s.write(ctx, func(t *tx) error {
		return t.exec(`
			INSERT INTO site (name, value) VALUES ('probe', ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, []byte(t.now.String()))
	})
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// query returns the readers' prepared statement for a constant SQL text.
func (s *Store) query(ctx context.Context, text string) (*sqlx.Stmt, error) {
	if stmt, ok := s.queries.Load(text); ok {
		return stmt.(*sqlx.Stmt), nil
	}
	stmt, err := s.reading.PreparexContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}
	if earlier, loaded := s.queries.LoadOrStore(text, stmt); loaded {
		return earlier.(*sqlx.Stmt), stmt.Close()
	}
	return stmt, nil
}

// get reads one row; sql.ErrNoRows when there is none.
func (s *Store) get(ctx context.Context, dest any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stmt, err := s.query(ctx, query)
	if err != nil {
		return err
	}
	return timedOut(ctx, stmt.GetContext(ctx, dest, args...))
}

// timedOut turns the failure of a read that took too long into a refusal.
func timedOut(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", refuse(CodeUnavailable), err)
	}
	return err
}

// find is get that refuses an absent row with not_found.
func (s *Store) find(ctx context.Context, dest any, query string, args ...any) error {
	err := s.get(ctx, dest, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return refuse(CodeNotFound)
	}
	return err
}

// all reads every row of a query that bounds them itself.
func (s *Store) all(ctx context.Context, dest any, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stmt, err := s.query(ctx, query)
	if err != nil {
		return err
	}
	return timedOut(ctx, stmt.SelectContext(ctx, dest, args...))
}
