// Package sqlitedb is a database in one SQLite file, with the guarantees that a server needs. It
// knows no table: migrations, statements and hooks come from the caller.
//
// # Writes
//
// One goroutine owns the only writing connection. [DB.Write] queues a function and waits. The
// goroutine runs the waiting functions, up to [Options.Batch], in one transaction, each within a
// savepoint, so that one that fails does not affect the others. Then it calls
// [Hooks].BeforeCommit, commits, calls [Hooks].Committed, and only then lets the callers
// continue: one sync of the disk serves them all. A function that has started is finished even
// if its context ends. It may run twice, so it must set its results each time and have no effect
// outside the transaction.
//
// What has become of a write is one of four: stored, rejected, stopped, or unknown if the commit
// itself failed. Only a stored one returns nil.
//
// If 256 writes wait, another one waits two seconds for its place and then fails with [ErrBusy].
// [DB.WriteBackground] waits without limit, and [DB.TryWrite] not at all. If another process holds
// SQLite's lock for five seconds, the writes of the transaction fail with ErrBusy. [DB.Exclusive]
// runs a function between two transactions, for statements such as VACUUM.
//
// # Reads
//
// Four connections read, each statement prepared once, and see the commits from before their
// statement started. A read waits for a connection for [Options.ReadTimeout]. A query under a
// context with a deadline, as [DB.WithDeadline] returns one, is interrupted at the deadline, and
// after [Options.QueryTimeout]. Any other runs to its end, because the driver and database/sql
// start a goroutine each for a context that can be cancelled, which takes as long as a query by
// key.
//
// # In the background
//
// After a commit the writer copies the pages of a large log to the file. An idle writer asks
// SQLite twice a second whether another process has written, and calls [Hooks].Invalidate if so.
// Then, and before each transaction, it checks that the files are the ones that were opened. The
// caller decides when to call [DB.Check], [DB.Compact] and [DB.TruncateLog].
//
// # Guarantees
//
//   - Durability: a write that returned nil survives a kill of the process and, unless
//     [Options.Normal] is set, a power cut.
//   - Isolation: transactions are serializable; the statements of a write see its own changes.
//   - A write that returned an error is not stored. The exception: if the commit itself fails,
//     the write may or may not be stored, and Hooks.Invalidate is called.
//   - [ErrBusy] and [ErrNoSpace] are temporary, and reads work meanwhile.
//   - When the file or its disk cannot be trusted ([ErrDamaged], [ErrDisk], [ErrReplaced]), the
//     DB stops for good: [DB.Broken] is closed, every read and write fails with [ErrStopped], and
//     Close leaves a damaged file as it is. The process should end.
//   - A new file, an upgrade, a backup and a restore are complete or absent.
//   - Only SQLite opens and closes the file, its log and its shared memory: other code that
//     closed one of them would drop SQLite's locks.
package sqlitedb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Options configures a DB. The zero value of every field but Path, Format and Hooks suits a server.
type Options struct {
	Path   string // of the file; created if it is missing
	Format Format
	Hooks  Hooks

	Clock  func() time.Time // time.Now when nil
	Normal bool             // synchronous=NORMAL: a power cut may lose the last writes
	Batch  int              // most writes that share a commit; 32 when 0
	// MaxBytes is the size of the records from which on Tx.CheckRoom fails; 0 for no limit but that
	// of the disk.
	MaxBytes int64

	NetworkDisk bool // accepts a file on a network file system, which Open otherwise rejects
	// Beside is for a file that another process may serve: Open creates no file and changes no
	// schema.
	Beside bool

	// ReadTimeout is how long a read waits for a connection, and how long all reads under
	// WithDeadline take; 2 seconds when 0.
	ReadTimeout time.Duration
	// QueryTimeout limits a query under a context with a deadline; 250 milliseconds when 0.
	QueryTimeout time.Duration

	// Commit commits a transaction in the place of SQLite's COMMIT, for tests of failures.
	Commit func(ctx context.Context, conn *sqlx.Conn) error
}

// Format describes the files of one application.
type Format struct {
	ApplicationID int32 // marks the files, as file(1) and SQLite show it
	Migrations    fs.FS // goose's *.sql, in its top folder

	// Inspect reads more from a file that [Verify], [Backup] or [Restore] has checked. It may be
	// nil.
	Inspect func(ctx context.Context, file *sqlx.DB) error
}

// Hooks are called by the writer, and must be fast. None may be nil.
type Hooks struct {
	// Begin is called when a transaction starts, also at a retry. State of earlier transactions is
	// no longer valid.
	Begin func(tx *Tx)

	// BeforeCommit is called once for all writes that share a transaction. Its error rolls the
	// transaction back.
	BeforeCommit func() error

	// Committed is called after a commit, before the writes return.
	Committed func()

	// Invalidate is called when anything in the file may have changed: another process wrote to
	// it, or a commit failed with an unknown outcome.
	Invalidate func()
}

// DB is an open database. Its methods may be called from any goroutine.
type DB struct {
	options Options
	name    string // as it was given
	path    string // of the file itself, behind any links
	unclean bool   // there was the log of a process that did not close the file
	upgrade upgrade

	writer     *writer
	writing    *sqlx.DB    // the pool of the writer's connection
	compacting atomic.Bool // writes wait for VACUUM

	reading        *sqlx.DB
	readStatements statements
	readers        *semaphore.Weighted // of the connections of the reading pool

	probe  singleflight.Group
	probed atomic.Int64 // when a probe last succeeded, in milliseconds since 1970

	stopped context.Context // done when the DB has stopped for good; its cause says why
	stop    context.CancelCauseFunc

	closing sync.RWMutex // held for reading by those who use the queue and the reading pool
	closed  bool
}

// Open opens the file, brings its schema up to date and starts its writer. It returns
// [ErrForeign], [ErrNetworkDisk], [ErrNewerSchema], [ErrNoRoom], [ErrFull], [ErrDamaged],
// [ErrDisk] or [fs.ErrPermission] for conditions that the operator can act on. It does not read
// the whole file: see Check.
func Open(ctx context.Context, o Options) (*DB, error) {
	name := o.Path
	o.Path = FileOf(name)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Commit == nil {
		o.Commit = commit
	}

	o.Batch = cmp.Or(o.Batch, defaultBatch)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, readTimeout)
	o.QueryTimeout = cmp.Or(o.QueryTimeout, queryTimeout)
	db := &DB{
		options: o,
		name:    name,
		path:    o.Path,
		readers: semaphore.NewWeighted(readConnections),
	}

	db.stopped, db.stop = context.WithCancelCause(context.Background())
	if err := db.open(ctx); err != nil {
		err = db.OpenError(err)
		if fatal(err) != nil {
			return nil, err // the files stay open, as in Close
		}

		return nil, errors.Join(err, db.closeFiles())
	}

	go db.writer.run()

	// The process that serves the file looks after it.
	if o.Beside {
		return db, nil
	}

	// The pages of the log may be in the system's memory alone, where a sync has failed before:
	// they are written to the file itself, which is synced, before more follow.
	if db.unclean {
		_, _ = db.TruncateLog(ctx) // on a full disk it stays
	}

	// The probe finds a file that cannot be written now rather than at the first request. On a
	// full disk, and while another process writes, it is served all the same, for those who read.
	err := db.tryRead(ctx)
	if err == nil {
		err = db.tryWrite()
	}
	servable := errors.Is(err, ErrNoSpace) || errors.Is(err, ErrBusy)
	if err != nil && !servable {
		return nil, errors.Join(db.OpenError(err), db.Close())
	}

	return db, nil
}

// OpenError returns the error of Open for an err that the caller met while it prepared the
// database that it had just opened.
func (db *DB) OpenError(err error) error {
	err = cmp.Or(db.Failure(), err)
	return fmt.Errorf("open %s: %w", db.name, openError(err))
}

// Size returns the size of the file in bytes, without its log.
func (db *DB) Size() int64 { return fileSize(db.path) }

// Normal reports whether a power cut may lose the last writes.
func (db *DB) Normal() bool { return db.options.Normal }

// Unclean reports whether Open found the log of a process that did not close the file.
func (db *DB) Unclean() bool { return db.unclean }

// Upgraded returns the version that the schema had before Open, 0 for a new file, the version
// that it has now, and the name of the copy that was made before; empty when none was.
func (db *DB) Upgraded() (from, to int64, kept string) {
	return db.upgrade.from, db.upgrade.to, db.upgrade.kept
}

// Disk returns the disk that the file lies on.
func (db *DB) Disk() (Disk, error) { return DiskOf(filepath.Dir(db.path)) }

// Counts returns how many transactions were committed since Open, and how many writes were in
// them.
func (db *DB) Counts() (commits, writes uint64) {
	return db.writer.commits.Load(), db.writer.writes.Load()
}

// Statements returns the texts of all statements that were prepared since Open, sorted, for
// tests that check their query plans.
func (db *DB) Statements() []string {
	texts := slices.Concat(db.readStatements.texts(), db.writer.statements.texts())
	slices.Sort(texts)
	return slices.Compact(texts)
}

// ReadStatements returns how many statements reads have run since Open, for tests that bound them.
func (db *DB) ReadStatements() int { return db.readStatements.uses() }

// WriteStatements returns how many statements writes have run since Open, each with its savepoint
// but without BEGIN and COMMIT, for tests that bound them.
func (db *DB) WriteStatements() int { return db.writer.statements.uses() }

// ReadStats returns the state of the reading connections, for tests that check for leaks.
func (db *DB) ReadStats() sql.DBStats { return db.reading.Stats() }

// Close finishes the waiting writes, folds the write-ahead log into the file and closes it. It
// may be called once. A database that has stopped because it cannot trust its file leaves that
// as it is, for the end of the process to close.
func (db *DB) Close() error {
	// With the lock, no write is queued in a closed channel, and the reads that run have ended.
	db.closing.Lock()
	db.closed = true
	close(db.writer.queue)
	db.closing.Unlock()
	<-db.writer.done

	if db.untrusted() {
		return nil // the caller knows from Broken
	}

	if !db.options.Beside {
		// Where it fails, as on a full disk, the log stays and the next start reads it.
		const query = "PRAGMA wal_checkpoint(TRUNCATE)"
		_, err := db.writer.conn.ExecContext(context.Background(), query)
		_ = db.stopIfFatal(err)
		if db.untrusted() {
			return db.Failure()
		}
	}

	return db.closeFiles()
}

func (db *DB) closeFiles() error {
	var errs []error
	if db.reading != nil {
		errs = append(errs, db.reading.Close())
	}
	if db.writer != nil && db.writer.conn != nil {
		errs = append(errs, db.writer.statements.close(), db.writer.conn.Close())
	}
	if db.writing != nil {
		errs = append(errs, db.writing.Close())
	}

	return errors.Join(errs...)
}
