package store

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

// defaultBatch bounds how many waiting writes share one transaction, so that the
// first of them does not wait long for the last, and those who read do not wait for
// the index of very many.
const defaultBatch = 32

// mostWaiting is how many writes may wait for the writer. A further one is refused
// (unavailable) when none of their places becomes free within placeTimeout: more than
// the writer can do would else only wait longer and longer.
const (
	mostWaiting  = 256
	placeTimeout = 2 * time.Second
)

// writer is the one goroutine that owns the writing connection. Writes that wait
// while it commits share its next transaction, each within a savepoint, and are
// answered together after that commit: one fsync serves them all.
type writer struct {
	store *Store
	batch int // writes that share a transaction, at the most
	conn  *sqlx.Conn
	stmts statements
	jobs  chan *job
	next  *job  // taken from jobs, but not for the batch that took it
	seen  int64 // SQLite's number for what others have written to the file
	pages int   // written to the log since the last checkpoint
	ended chan struct{}

	end func(context.Context) error // commits; tests have it fail

	commits, writes atomic.Uint64 // stored since the start
}

// job is one write. Its act may run twice (see commit), so it must set its
// results anew each time and have no effect outside the transaction.
type job struct {
	ctx   context.Context
	act   func(*tx) error
	alone func(*writer) error // instead of act: run by itself, outside a transaction
	due   bool                // the service's own: it waits for its place however long
	err   error
	done  chan struct{}
}

var (
	errClosed  = fmt.Errorf("%w: the store is closed", refuse(CodeUnavailable))
	errStopped = fmt.Errorf("%w: the store has stopped for good", refuse(CodeUnavailable))
)

// write runs act inside a transaction and returns once it is committed, or
// refused and undone. A write that has begun is finished even if ctx ends.
func (s *Store) write(ctx context.Context, act func(*tx) error) error {
	return s.submit(&job{ctx: ctx, act: act})
}

// decide is write for an act that may refuse and still leaves something to keep,
// such as a wrong try that counts: that is committed, then the refusal returned.
func (s *Store) decide(ctx context.Context, act func(*tx) (*Error, error)) error {
	var refusal *Error
	err := s.write(ctx, func(t *tx) (err error) {
		refusal, err = act(t)
		return err
	})
	if err == nil && refusal != nil {
		return refusal
	}
	return err
}

// writeAs is write for an act of a caller that may still act when its turn comes.
func (s *Store) writeAs(ctx context.Context, caller Caller, act func(*tx) error) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.mayAct(caller); err != nil {
			return err
		}
		return act(t)
	})
}

// decideAs is decide for an act of a caller that may still act when its turn comes.
func (s *Store) decideAs(ctx context.Context, caller Caller, act func(*tx) (*Error, error)) error {
	return s.decide(ctx, func(t *tx) (*Error, error) {
		if err := t.mayAct(caller); err != nil {
			return nil, err
		}
		return act(t)
	})
}

// writeDue is write for what is due by the clock, which is not put off for all those
// who call.
func (s *Store) writeDue(ctx context.Context, act func(*tx) error) error {
	return s.submit(&job{ctx: ctx, act: act, due: true})
}

// outside runs f on the writing connection between two transactions.
func (s *Store) outside(ctx context.Context, f func(*writer) error) error {
	return s.submit(&job{ctx: ctx, alone: f, due: true})
}

func (s *Store) submit(j *job) error {
	j.done = make(chan struct{})
	s.closing.RLock()
	if s.closed {
		s.closing.RUnlock()
		return errClosed
	}
	err := s.writer.enqueue(j)
	s.closing.RUnlock()
	if err != nil {
		return err
	}
	<-j.done
	return j.err
}

// enqueue has a write wait for the writer.
func (w *writer) enqueue(j *job) error {
	select {
	case w.jobs <- j:
		return nil
	default:
	}
	var late <-chan time.Time
	if !j.due {
		late = time.After(placeTimeout)
	}
	select {
	case w.jobs <- j:
		return nil
	case <-j.ctx.Done():
		return j.ctx.Err()
	case <-late:
		return fmt.Errorf("%w: too many writes wait", refuse(CodeUnavailable))
	}
}

// writeLater hands act to the writer without waiting for it, or drops it when
// the writer is busy: for what may be lost, such as the time of the last call.
func (s *Store) writeLater(act func(*tx) error, done func(error)) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return
	}
	j := &job{ctx: context.Background(), act: act, done: make(chan struct{})}
	select {
	case s.writer.jobs <- j:
		go func() { <-j.done; done(j.err) }()
	default:
		done(nil)
	}
}

// noticePeriod is how soon an idle writer notices what another process wrote.
const noticePeriod = 500 * time.Millisecond

func (w *writer) run() {
	defer close(w.ended)
	idle := time.NewTicker(noticePeriod)
	defer idle.Stop()
	for {
		first := w.next
		w.next = nil
		if first == nil {
			select {
			case first = <-w.jobs:
				if first == nil {
					return
				}
			case <-idle.C:
				_ = w.store.judge(w.notice()) // the next write meets what else is wrong, and tells it
				continue
			}
		}
		if first.alone != nil {
			first.err = w.runAlone(first)
			close(first.done)
			continue
		}
		batch := w.gather(first)
		w.commit(batch)
		for _, j := range batch {
			close(j.done)
		}
		w.checkpoint()
	}
}

func (w *writer) runAlone(j *job) error {
	if w.store.Failure() != nil {
		return errStopped
	}
	return w.store.storageError(guarded(func() error { return j.alone(w) }))
}

func (w *writer) gather(first *job) []*job {
	batch := []*job{first}
	for len(batch) < w.batch {
		select {
		case j := <-w.jobs:
			if j == nil || j.alone != nil {
				w.next = j
				return batch
			}
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch in one transaction. If the transaction as a whole fails
// before its commit, each write gets one of its own, so that one that cannot be
// stored does not take the others with it; but where another process writes, they
// would wait for it one after the other. A failed commit is not tried again:
// its outcome may be unknown.
func (w *writer) commit(batch []*job) {
	if w.store.Failure() != nil {
		for _, j := range batch {
			j.err = errStopped
		}
		return
	}
	committing, err := w.transact(batch)
	if err != nil && !committing && len(batch) > 1 && sqliteCode(err) != sqlite3.SQLITE_BUSY {
		for _, j := range batch {
			w.commit([]*job{j})
		}
		return
	}
	if err != nil {
		err = w.store.storageError(err)
		for _, j := range batch {
			if j.err == nil {
				j.err = err
			}
		}
	}
}

// transact reports, beside the error, whether the commit itself had begun.
func (w *writer) transact(batch []*job) (committing bool, err error) {
	ctx := context.Background()
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		// An earlier commit may have failed in a way that left its transaction open.
		return false, fmt.Errorf("begin: %w", errors.Join(err, w.rollback()))
	}
	if err := w.notice(); err != nil {
		return false, errors.Join(err, w.rollback())
	}
	t := newTx(w, at(w.store.clock()))
	succeeded := 0
	for _, j := range batch {
		j.err = w.store.storageError(w.runJob(t, j, len(batch) > 1))
		if errors.Is(j.err, errUndone) || w.store.Failure() != nil {
			return false, errors.Join(j.err, w.rollback())
		}
		if j.err == nil {
			succeeded++
		}
		runtime.Gosched() // a batch takes long: those who read come between
	}
	if succeeded == 0 {
		return false, w.rollback()
	}
	if err := guarded(t.refresh); err != nil {
		return false, errors.Join(err, w.rollback())
	}
	if err := w.end(ctx); err != nil {
		err = errors.Join(fmt.Errorf("commit: %w", err), w.rollback())
		w.store.committed(everything) // it may be stored all the same
		return true, err
	}
	w.commits.Add(1)
	w.writes.Add(uint64(succeeded))
	w.store.committed(t.changes)
	return true, nil
}

// checkpointPages is how many pages the log holds before they are written to the
// file itself.
const checkpointPages = 1000

// checkpoint writes the log's pages to the file itself once they are many, after
// those who wrote them were answered. SQLite's own checkpoints keep their failures to
// themselves; a sync that fails here must stop the store like any other. On a full
// disk the log stays, and a reader in the way is not waited for.
func (w *writer) checkpoint() {
	if w.store.Failure() != nil {
		return
	}
	written := 0
	_ = w.conn.Raw(func(c any) (err error) {
		written, _, err = c.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, true)
		return err
	})
	if w.pages += written; w.pages < checkpointPages {
		return
	}
	var done checkpointed
	err := w.conn.GetContext(context.Background(), &done, "PRAGMA wal_checkpoint(PASSIVE)")
	if err == nil && done.Pages == done.Log {
		w.pages = 0
	}
	_ = w.store.judge(err)
}

// checkpointed is what a checkpoint has done.
type checkpointed struct {
	Busy  int `db:"busy"`         // 1 when a reader was in the way of a truncating one
	Log   int `db:"log"`          // pages in the log
	Pages int `db:"checkpointed"` // those that are in the file too
}

// runJob runs one write. A batch of one needs no savepoint: when it fails, the
// whole transaction is undone.
func (w *writer) runJob(t *tx, j *job, savepoint bool) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	if !savepoint {
		return t.attempt(j.act)
	}
	if err := t.Exec("SAVEPOINT act"); err != nil {
		return err
	}
	err := t.attempt(j.act)
	if err != nil {
		if lost := t.Exec("ROLLBACK TO act"); lost != nil {
			return errors.Join(err, errUndone, lost)
		}
	}
	if lost := t.Exec("RELEASE act"); lost != nil {
		return errors.Join(err, errUndone, lost)
	}
	return err
}

// errUndone: SQLite has undone the whole transaction by itself, as it does when
// the disk is full. What followed in the batch would be stored piece by piece.
var errUndone = errors.New("the transaction is undone")

// attempt runs act and keeps what it touched only if it succeeded.
func (t *tx) attempt(act func(*tx) error) (err error) {
	mine := newTx(t.writer, t.now)
	if err = guarded(func() error { return act(mine) }); err == nil {
		t.merge(mine)
	}
	return err
}

// guarded turns a panic into an error: the writer serves everybody.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in a write: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

func (w *writer) rollback() error {
	_, err := w.conn.ExecContext(context.Background(), "ROLLBACK")
	if sqliteCode(err) == sqlite3.SQLITE_ERROR {
		return nil // no transaction is open: SQLite has undone it by itself
	}
	return err
}

// notice has all copies dropped when another process has written to the file, as
// callbook admin does. The first number is news of nothing.
func (w *writer) notice() error {
	var version int64
	if err := w.conn.GetContext(context.Background(), &version, "PRAGMA data_version"); err != nil {
		return fmt.Errorf("look for what others wrote: %w", err)
	}
	if version != w.seen && w.seen != 0 {
		w.store.committed(everything)
	}
	w.seen = version
	return nil
}
