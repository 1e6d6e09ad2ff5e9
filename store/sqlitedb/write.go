package sqlitedb

import (
	"context"
	"errors"
	"fmt"
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

// writer is the one goroutine that owns the writing connection. Writes that wait while it
// commits share its next transaction.
type writer struct {
	db          *DB
	conn        *sqlx.Conn
	statements  statements
	jobs        chan *job
	dataVersion int64 // SQLite's counter of writes by other processes
	logPages    int   // written to the log since the last checkpoint
	done        chan struct{}

	commits, writes atomic.Uint64 // since Open
}

// job is one write.
type job struct {
	ctx        context.Context
	write      func(*Tx) error
	exclusive  func(*sqlx.Conn) error // instead of write: runs by itself, outside a transaction
	background bool                   // waits for its place in the queue however long
	err        error
	done       chan struct{}
}

// Write runs fn inside a transaction and returns once it is committed, or rejected and rolled
// back. A write that has started is finished even if ctx ends.
func (db *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	return db.submit(&job{ctx: ctx, write: fn})
}

// WriteBackground is Write for scheduled work, which waits for its place however many other
// writes wait.
func (db *DB) WriteBackground(ctx context.Context, fn func(*Tx) error) error {
	return db.submit(&job{ctx: ctx, write: fn, background: true})
}

// TryWrite queues fn without waiting for it, or drops it when the queue is full: for writes
// that may be lost. It calls done with the result; with nil if the write was dropped. After Close it
// does nothing.
func (db *DB) TryWrite(fn func(*Tx) error, done func(error)) {
	db.closing.RLock()
	defer db.closing.RUnlock()
	if db.closed {
		return
	}
	j := &job{ctx: context.Background(), write: fn, done: make(chan struct{})}
	select {
	case db.writer.jobs <- j:
		go func() { <-j.done; done(j.err) }()
	default:
		done(nil)
	}
}

// Exclusive runs fn on the writing connection between two transactions.
func (db *DB) Exclusive(ctx context.Context, fn func(*sqlx.Conn) error) error {
	return db.submit(&job{ctx: ctx, exclusive: fn, background: true})
}

func (db *DB) submit(j *job) error {
	j.done = make(chan struct{})
	if err := db.enqueue(j); err != nil {
		return err
	}
	<-j.done
	return j.err
}

func (db *DB) enqueue(j *job) error {
	db.closing.RLock()
	defer db.closing.RUnlock()
	if db.closed {
		return ErrClosed
	}
	var timeout <-chan time.Time
	if !j.background {
		timeout = time.After(queueTimeout)
	}
	select {
	case db.writer.jobs <- j:
		return nil
	case <-j.ctx.Done():
		return j.ctx.Err()
	case <-timeout:
		return fmt.Errorf("%w: too many writes wait", ErrBusy)
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
		case j := <-w.jobs:
			if j == nil {
				return
			}
			for ; j != nil; j = w.runFrom(j) {
			}
		case <-idle.C:
			_ = w.db.stopIfFatal(w.pollDataVersion()) // the next write meets any other error, and returns it
		}
	}
}

// runFrom runs a job, with the writes that wait behind it. It returns a job that it took from the queue
// without running it, if there is one.
func (w *writer) runFrom(first *job) (next *job) {
	batch := []*job{first}
	switch {
	case w.db.Failure() != nil:
		first.err = ErrStopped
	case first.exclusive != nil:
		first.err = w.db.writeError(recovered(func() error { return first.exclusive(w.conn) }))
	default:
		batch, next = w.collect(batch, w.db.options.Batch)
		if err := w.commit(batch); errors.Is(err, ErrBusy) && next == nil {
			ran := len(batch) // those behind would wait as long again for the other process
			batch, next = w.collect(batch, ran+queueSize)
			for _, j := range batch[ran:] {
				j.err = err
			}
		}
	}
	for _, j := range batch {
		close(j.done)
	}
	if first.exclusive == nil {
		w.checkpoint()
	}
	return next
}

// collect appends writes that wait to a batch until it has the size most, and returns it with the exclusive job
// that ends it, if one does.
func (w *writer) collect(batch []*job, most int) (_ []*job, next *job) {
	for len(batch) < most {
		select {
		case j := <-w.jobs:
			if j == nil || j.exclusive != nil {
				return batch, j
			}
			batch = append(batch, j)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// commit runs a batch in one transaction. If the transaction as a whole fails before its
// commit, each write gets one of its own, so that one that cannot be stored does not take the
// others with it; but where another process writes, they would wait for it one after the
// other. A failed commit is not retried: its outcome may be unknown. commit returns the error
// of the transaction, which each write has that has none of its own.
func (w *writer) commit(batch []*job) error {
	if w.db.Failure() != nil {
		for _, j := range batch {
			j.err = ErrStopped
		}
		return ErrStopped
	}
	committing, err := w.transact(batch)
	if err != nil && !committing && len(batch) > 1 && sqliteCode(err) != sqlite3.SQLITE_BUSY {
		for i, j := range batch {
			if err := w.commit([]*job{j}); errors.Is(err, ErrBusy) {
				for _, behind := range batch[i:] {
					behind.err = err
				}
				return err
			}
		}
		return nil
	}
	if err != nil {
		err = w.db.writeError(err)
		for _, j := range batch {
			if j.err == nil {
				j.err = err
			}
		}
	}
	return err
}

// transact runs a batch in one transaction and reports, beside the error, whether the commit
// itself had started.
func (w *writer) transact(batch []*job) (committing bool, err error) {
	if _, err = w.conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		err = fmt.Errorf("begin: %w", err)
	} else {
		committing, err = w.runBatch(batch)
	}
	if err != nil { // also where BEGIN fails: an earlier commit may have left its transaction open
		err = errors.Join(err, w.rollback())
	}
	if err != nil && committing {
		w.db.options.Hooks.Invalidate() // it may be stored all the same
	}
	return committing, err
}

// runBatch runs the writes of a batch in the open transaction, and commits it.
func (w *writer) runBatch(batch []*job) (committing bool, err error) {
	hooks := &w.db.options.Hooks
	if err := w.pollDataVersion(); err != nil {
		return false, err
	}
	tx := &Tx{writer: w}
	hooks.Begin(tx)
	succeeded := 0
	for _, j := range batch {
		j.err = w.db.writeError(w.runJob(tx, j, len(batch) > 1))
		if w.db.Failure() != nil { // this write has met the reason, or meanwhile a read or a check has
			return false, ErrStopped
		}
		if errors.Is(j.err, errRolledBack) {
			return false, j.err
		}
		if j.err == nil {
			succeeded++
		}
		runtime.Gosched() // a batch takes long: readers come between
	}
	if succeeded == 0 {
		return false, w.rollback()
	}
	if err := recovered(hooks.BeforeCommit); err != nil {
		return false, err
	}
	if err := w.db.options.Commit(context.Background(), w.conn); err != nil {
		return true, fmt.Errorf("commit: %w", err)
	}
	w.commits.Add(1)
	w.writes.Add(uint64(succeeded))
	hooks.Committed()
	return true, nil
}

// commit is the default of Options.Commit.
func commit(ctx context.Context, conn *sqlx.Conn) error {
	_, err := conn.ExecContext(ctx, "COMMIT")
	return err
}

// runJob runs one write. A batch of one needs no savepoint: when it fails, the whole
// transaction is rolled back.
func (w *writer) runJob(shared *Tx, j *job, savepoint bool) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	run := func() error { return recovered(func() error { return j.write(&Tx{writer: w}) }) }
	if !savepoint {
		return run()
	}
	if err := shared.Exec("SAVEPOINT act"); err != nil {
		return err
	}
	err := run()
	if err != nil {
		if failed := shared.Exec("ROLLBACK TO act"); failed != nil {
			return errors.Join(err, errRolledBack, failed)
		}
	}
	if failed := shared.Exec("RELEASE act"); failed != nil {
		return errors.Join(err, errRolledBack, failed)
	}
	return err
}

// errRolledBack means that SQLite has rolled back the whole transaction by itself, as it does
// when the disk is full. The rest of the batch would be stored piece by piece.
var errRolledBack = errors.New("the transaction is rolled back")

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
	if version != w.dataVersion && w.dataVersion != 0 {
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
	if w.logPages += written; w.logPages < checkpointPages {
		return
	}
	var done checkpointed
	err := w.conn.GetContext(context.Background(), &done, "PRAGMA wal_checkpoint(PASSIVE)")
	if err == nil && done.Pages == done.Log {
		w.logPages = 0
	}
	_ = w.db.stopIfFatal(err)
}

// checkpointed is the result of a checkpoint.
type checkpointed struct {
	Busy  int `db:"busy"`         // 1 when a reader was in the way of a truncating one
	Log   int `db:"log"`          // pages in the log
	Pages int `db:"checkpointed"` // those that are in the file too
}

// TruncateLog copies the write-ahead log into the file and empties it: until then it contains old
// versions of overwritten pages. It reports whether it could. It waits for the short reads that run, but not for a long one,
// such as a backup, because all writes would wait with it.
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
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, wait.Milliseconds())); err != nil {
		return false, err
	}
	var result checkpointed
	err = conn.GetContext(ctx, &result, `PRAGMA wal_checkpoint(TRUNCATE)`)
	_, timeoutErr := conn.ExecContext(context.Background(), `PRAGMA busy_timeout = 5000`)
	if err := errors.Join(err, timeoutErr); err != nil {
		return false, fmt.Errorf("checkpoint: %w", err)
	}
	return result.Busy == 0, nil
}
