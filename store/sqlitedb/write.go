package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// defaultBatch limits how many waiting writes share one transaction, so that the first of them
// does not wait long for the last, and readers do not wait for the index of very many.
const defaultBatch = 32

// queueSize is how many writes may wait for the writer. A further one fails with ErrBusy when
// none of their places becomes free within queueTimeout: more than the writer can do would
// otherwise only wait longer and longer.
const (
	queueSize    = 256
	queueTimeout = 2 * time.Second
)

// outcome says what has become of a write.
type outcome int

const (
	unknown  outcome = iota // its commit failed, and may have reached the disk all the same
	stored                  // its commit succeeded
	rejected                // it is rolled back
	stopped                 // the database stopped for good before its commit
)

// result is what has become of a write. The zero result is unknown.
type result struct {
	outcome outcome
	err     error // why it is not stored
}

// Err returns nil only for a write that is stored.
func (r result) Err() error {
	switch r.outcome {
	case stored:
		return nil

	case stopped:
		return ErrStopped
	}

	if r.err == nil {
		return errors.New("the outcome of the write is unknown")
	}

	return r.err
}

// writer is the one goroutine that owns the writing connection. Writes that wait while it
// commits share its next transaction.
type writer struct {
	db          *DB
	conn        *sqlx.Conn
	statements  statements
	queue       chan *queuedWrite
	exclusive   chan func()            // run outside a transaction
	files       map[string]os.FileInfo // of the database, by name; none beside a server
	dataVersion int64                  // SQLite's counter of writes by other processes
	logPages    int                    // written to the log since the last checkpoint
	done        chan struct{}

	commits, writes atomic.Uint64 // since Open
}

// queuedWrite is a write that waits for the writer.
type queuedWrite struct {
	ctx   context.Context
	write func(*Tx) error
	done  chan result // has room for it
}

func newQueuedWrite(ctx context.Context, fn func(*Tx) error) *queuedWrite {
	return &queuedWrite{ctx: ctx, write: fn, done: make(chan result, 1)}
}

// Write runs fn inside a transaction and returns once it is committed, or rejected and rolled
// back. A write that has started is finished even if ctx ends.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	return db.write(newQueuedWrite(ctx, fn), time.After(queueTimeout))
}

// WriteBackground is Write for scheduled work, which waits for its place however many other
// writes wait.
func (db *DB) WriteBackground(ctx context.Context, fn func(*Tx) error) error {
	return db.write(newQueuedWrite(ctx, fn), nil)
}

func (db *DB) write(q *queuedWrite, timeout <-chan time.Time) error {
	if err := db.enqueue(q, timeout); err != nil {
		return err
	}
	return (<-q.done).Err()
}

// TryWrite queues fn without waiting for it, for writes that may be lost. It calls done with the
// result, which is ErrBusy if the queue is full.
func (db *DB) TryWrite(fn func(*Tx) error, done func(error)) {
	q := newQueuedWrite(context.Background(), fn)
	if err := db.enqueue(q, time.After(0)); err != nil {
		done(err)
		return
	}
	go func() { done((<-q.done).Err()) }() // the caller goes on at once
}

// enqueue gives a write to the writer. It waits for a place in the queue until timeout, or for as
// long as it takes if that is nil.
func (db *DB) enqueue(q *queuedWrite, timeout <-chan time.Time) error {
	db.closing.RLock()
	defer db.closing.RUnlock()
	if db.closed {
		return ErrClosed
	}

	// A free place is taken even if the timeout has ended, as that of TryWrite has: select would
	// choose at random among the cases that are ready.
	select {
	case db.writer.queue <- q:
		return nil
	default:
	}

	select {
	case db.writer.queue <- q:
		return nil
	case <-q.ctx.Done():
		return q.ctx.Err()
	case <-timeout:
		return fmt.Errorf("%w: too many writes wait", ErrBusy)
	}
}

// Exclusive runs fn on the writing connection between two transactions.
func (db *DB) Exclusive(ctx context.Context, fn func(*sqlx.Conn) error) error {
	done := make(chan error, 1)
	run := func() {
		if db.Failure() != nil { // while fn waited for its turn
			done <- ErrStopped
			return
		}
		done <- db.writeError(recovered(func() error { return fn(db.writer.conn) }))
	}

	select {
	case db.writer.exclusive <- run:
		return <-done
	case <-ctx.Done():
		return ctx.Err()
	case <-db.writer.done:
		return ErrClosed
	}
}

// pollPeriod is how soon an idle writer notices the write of another process.
const pollPeriod = 500 * time.Millisecond

func (w *writer) run() {
	defer close(w.done)
	idle := time.NewTicker(pollPeriod)
	defer idle.Stop()

	for {
		select {
		case first, open := <-w.queue:
			if !open {
				return
			}
			w.runBatch(w.collect(first))
			w.checkpoint()
		case run := <-w.exclusive:
			run()
		case <-idle.C:
			w.checkFiles()
			// The next write meets any other error, and returns it.
			_ = w.db.stopIfFatal(w.pollDataVersion())
		}
	}
}

// collect returns a write with those that wait behind it.
func (w *writer) collect(first *queuedWrite) []*queuedWrite {
	batch := []*queuedWrite{first}
	for len(batch) < w.db.options.Batch {
		select {
		case q, open := <-w.queue:
			if !open {
				return batch
			}

			batch = append(batch, q)

		default:
			return batch
		}
	}

	return batch
}

// runBatch runs writes in one transaction, and tells each its result. If the transaction as a
// whole fails before its commit, each write gets one of its own, so that one that cannot be stored
// does not take the others with it. A failed commit is not repeated: it may have stored them.
func (w *writer) runBatch(batch []*queuedWrite) {
	if err := w.begin(); err != nil {
		w.finish(batch, nil, w.rejection(err))
		return
	}

	errs, err := w.runWrites(batch)
	if err == nil {
		w.finish(batch, errs, w.commit(errs))
		return
	}

	err = errors.Join(err, w.rollback())
	if len(batch) == 1 || w.db.Failure() != nil {
		w.finish(batch, errs, w.rejection(err))
		return
	}
	for _, q := range batch {
		w.runBatch([]*queuedWrite{q})
	}
}

// finish tells each write of a batch its result: its own error, or that of the transaction.
func (w *writer) finish(batch []*queuedWrite, errs []error, transaction result) {
	for i, q := range batch {
		if errs != nil && errs[i] != nil {
			q.done <- result{outcome: rejected, err: errs[i]}
		} else {
			q.done <- transaction
		}
	}
}

// rejection returns the result of a transaction that is rolled back because of err.
func (w *writer) rejection(err error) result {
	if w.db.Failure() != nil {
		return result{outcome: stopped}
	}
	return result{outcome: rejected, err: w.db.writeError(err)}
}

func (w *writer) begin() error {
	if w.checkFiles(); w.db.Failure() != nil {
		return ErrStopped
	}
	if _, err := w.conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		// An earlier commit may have left its transaction open.
		return errors.Join(fmt.Errorf("begin: %w", err), w.rollback())
	}

	return nil
}

// runWrites runs the writes of a batch in the open transaction. It returns the error of each, and
// one that fails the whole transaction.
func (w *writer) runWrites(batch []*queuedWrite) (errs []error, err error) {
	errs = make([]error, len(batch))
	if err := w.pollDataVersion(); err != nil {
		return errs, err
	}

	shared := &Tx{writer: w}
	w.db.options.Hooks.Begin(shared)
	for i, q := range batch {
		if errs[i], err = w.runWrite(shared, q); err != nil {
			return errs, err
		}
		runtime.Gosched() // a batch takes long: readers come between
	}
	return errs, recovered(w.db.options.Hooks.BeforeCommit)
}

// runWrite runs one write within a savepoint. It returns the error of the write, and one that
// fails the whole transaction.
func (w *writer) runWrite(shared *Tx, q *queuedWrite) (own, whole error) {
	if err := q.ctx.Err(); err != nil {
		return err, nil
	}
	if err := shared.Exec("SAVEPOINT act"); err != nil {
		return nil, err
	}

	tx := &Tx{writer: w}
	own = recovered(func() error { return q.write(tx) })
	if own == nil {
		own = tx.failed
	}
	own = w.db.writeError(own)
	if w.db.Failure() != nil { // this write has met the reason, or meanwhile a read or a check has
		return own, ErrStopped
	}

	// These fail if SQLite has rolled back the whole transaction by itself, as it does when the
	// disk is full: the rest of the batch would be stored piece by piece.
	if own != nil {
		if err := shared.Exec("ROLLBACK TO act"); err != nil {
			return own, err
		}
	}
	return own, shared.Exec("RELEASE act")
}

// commit commits the open transaction, unless no write has succeeded.
func (w *writer) commit(errs []error) result {
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
		}
	}
	if succeeded == 0 || w.db.Failure() != nil {
		return w.rejection(w.rollback())
	}

	if err := w.db.options.Commit(context.Background(), w.conn); err != nil {
		err = w.db.writeError(errors.Join(fmt.Errorf("commit: %w", err), w.rollback()))
		// The writes may be in the file all the same: what was read before is no longer valid.
		w.db.options.Hooks.Invalidate()
		return result{outcome: unknown, err: err}
	}
	w.commits.Add(1)
	w.writes.Add(uint64(succeeded))
	w.db.options.Hooks.Committed()
	return result{outcome: stored}
}

// commit is the default of Options.Commit.
func commit(ctx context.Context, conn *sqlx.Conn) error {
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

// recovered returns a panic of fn as an error, so that it does not end the writer.
func recovered(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in a write: %v\n%s", v, debug.Stack())
		}
	}()
	return fn()
}

func (w *writer) rollback() error {
	_, err := w.conn.ExecContext(context.Background(), "ROLLBACK")
	if sqliteCode(err) == sqlite3.SQLITE_ERROR {
		return nil // no transaction is open: SQLite has rolled it back by itself
	}
	return err
}

// pollDataVersion calls Hooks.Invalidate if another process has written to the file since the
// last call.
func (w *writer) pollDataVersion() error {
	var version int64
	if err := w.conn.GetContext(context.Background(), &version, "PRAGMA data_version"); err != nil {
		return fmt.Errorf("look for what others wrote: %w", err)
	}

	if version != w.dataVersion && w.dataVersion != 0 { // 0: there was no call before
		w.db.options.Hooks.Invalidate()
	}

	w.dataVersion = version
	return nil
}

// checkpointPages is how many pages the log holds before they are copied to the file itself.
const checkpointPages = 1000

// checkpoint copies the log's pages to the file itself once they are many, after the writes
// have returned. SQLite's own checkpoints hide their errors; a sync that fails here must stop
// the database like any other. On a full disk the log stays, and a reader in the way is not
// waited for.
func (w *writer) checkpoint() {
	if w.db.Failure() != nil {
		return
	}

	written := 0
	_ = w.conn.Raw(func(c any) (err error) {
		written, _, err = c.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, true)
		return err
	})

	w.logPages += written
	if w.logPages < checkpointPages {
		return
	}

	var done checkpointed
	err := w.conn.GetContext(context.Background(), &done, "PRAGMA wal_checkpoint(PASSIVE)")
	_ = w.db.stopIfFatal(err)
	if err == nil && done.Pages == done.Log {
		w.logPages = 0
	}
}

// checkpointed is the result of a checkpoint.
type checkpointed struct {
	Busy  int `db:"busy"`         // 1 when a reader was in the way of a truncating one
	Log   int `db:"log"`          // pages in the log
	Pages int `db:"checkpointed"` // those that are in the file too
}

// TruncateLog copies the write-ahead log into the file and empties it: until then it contains old
// versions of overwritten pages. It reports whether it could. It waits for the short reads that
// run, but not for a long one, such as a backup, because all writes would wait with it.
func (db *DB) TruncateLog(ctx context.Context) (done bool, err error) {
	err = db.Exclusive(ctx, func(conn *sqlx.Conn) error {
		done, err = truncateLog(ctx, conn, shortRead)
		return err
	})
	return done, err
}

// shortRead is how long TruncateLog waits for reads.
const shortRead = 100 * time.Millisecond

func truncateLog(ctx context.Context, conn *sqlx.Conn, wait time.Duration) (done bool, err error) {
	timeout := fmt.Sprintf(`PRAGMA busy_timeout = %d`, wait.Milliseconds())
	if _, err := conn.ExecContext(ctx, timeout); err != nil {
		return false, err
	}

	var result checkpointed
	err = conn.GetContext(ctx, &result, `PRAGMA wal_checkpoint(TRUNCATE)`)
	// Back to the timeout of the other writes, also if ctx has ended.
	_, timeoutErr := conn.ExecContext(context.Background(), `PRAGMA busy_timeout = 5000`)
	if err := errors.Join(err, timeoutErr); err != nil {
		return false, fmt.Errorf("checkpoint: %w", err)
	}

	return result.Busy == 0, nil
}
