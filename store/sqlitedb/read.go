package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// The defaults of Options.ReadTimeout, which keeps reads from holding back the checkpoints for
// long, and of Options.QueryTimeout, which keeps any search text from being dangerous. They are
// variables because the race detector slows queries down.
var (
	readTimeout  = 2 * time.Second
	queryTimeout = 250 * time.Millisecond
)

// readConnections is how many connections read at once. More do not help: SQLite in one
// process is bound by the processor.
const readConnections = 4

// statements are the prepared statements of a pool or of a connection, by their texts,
// which are constants of the program.
type statements struct {
	prepared sync.Map // of *sqlx.Stmt
}

type preparer interface {
	PreparexContext(ctx context.Context, query string) (*sqlx.Stmt, error)
}

// get returns the statement of a text, and prepares it at its first use.
func (c *statements) get(ctx context.Context, on preparer, query string) (*sqlx.Stmt, error) {
	if stmt, ok := c.prepared.Load(query); ok {
		return stmt.(*sqlx.Stmt), nil
	}
	stmt, err := on.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	if earlier, ok := c.prepared.LoadOrStore(query, stmt); ok { // of another reader at the same moment
		return earlier.(*sqlx.Stmt), stmt.Close()
	}
	return stmt, nil
}

// close closes the statements of a connection before that: database/sql leaves them, and
// SQLite keeps the file open for a statement that is left.
func (c *statements) close() error {
	var errs []error
	for _, stmt := range c.prepared.Range {
		errs = append(errs, stmt.(*sqlx.Stmt).Close())
	}
	return errors.Join(errs...)
}

// timeLeft is the key of how long the queries of a context may still run.
type timeLeft struct{}

// WithDeadline returns a context whose queries are interrupted once they have run for
// Options.QueryTimeout together, waiting not included. It is for searches and other lists whose
// cost depends on the request, and for one goroutine.
func (db *DB) WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	left := db.options.QueryTimeout
	return context.WithTimeout(context.WithValue(ctx, timeLeft{}, &left), db.options.ReadTimeout)
}

// Get reads one row into dest. It returns sql.ErrNoRows if there is none, and ErrBusy if no
// connection becomes free in time or the deadline of ctx has passed.
func (db *DB) Get(ctx context.Context, dest any, query string, args ...any) error {
	return db.read(ctx, query, func(ctx context.Context, stmt *sqlx.Stmt) error {
		return stmt.GetContext(ctx, dest, args...)
	})
}

// Find reads one row into dest, and reports whether there is one.
func (db *DB) Find(ctx context.Context, dest any, query string, args ...any) (bool, error) {
	return found(db.Get(ctx, dest, query, args...))
}

// Select reads every row of a query, which limits them itself, into the slice dest.
func (db *DB) Select(ctx context.Context, dest any, query string, args ...any) error {
	return db.read(ctx, query, func(ctx context.Context, stmt *sqlx.Stmt) error {
		return stmt.SelectContext(ctx, dest, args...)
	})
}

// SelectMaps returns every row of a query as a map by column, for queries that select all columns.
func (db *DB) SelectMaps(ctx context.Context, query string, args ...any) (all []map[string]any, err error) {
	err = db.read(ctx, query, func(ctx context.Context, stmt *sqlx.Stmt) error {
		rows, err := stmt.QueryxContext(ctx, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			row := map[string]any{}
			if err := rows.MapScan(row); err != nil {
				return err
			}
			all = append(all, row)
		}
		return rows.Err()
	})
	return all, err
}

func found(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// read runs f with a prepared statement of the reading pool.
func (db *DB) read(ctx context.Context, query string, f func(context.Context, *sqlx.Stmt) error) error {
	return db.withReaders(ctx, 1, func(ctx context.Context) error {
		stmt, err := db.readStatements.get(ctx, db.reading, query)
		if err != nil {
			return err
		}
		return f(ctx, stmt)
	})
}

// View has the reads of a transaction, which all see the same commit.
type View struct {
	ctx context.Context
	tx  *sqlx.Tx
	db  *DB
}

// View runs f, whose reads must be few and short, in a read transaction.
func (db *DB) View(ctx context.Context, f func(*View) error) error {
	return db.withReaders(ctx, 2, func(ctx context.Context) error { // the second one prepares statements
		tx, err := db.reading.BeginTxx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		return f(&View{ctx: ctx, tx: tx, db: db})
	})
}

// Get is DB.Get in the transaction.
func (v *View) Get(dest any, query string, args ...any) error {
	stmt, err := v.db.readStatements.get(v.ctx, v.db.reading, query)
	if err != nil {
		return err
	}
	return v.tx.StmtxContext(v.ctx, stmt).GetContext(v.ctx, dest, args...)
}

// Select is DB.Select in the transaction.
func (v *View) Select(dest any, query string, args ...any) error {
	stmt, err := v.db.readStatements.get(v.ctx, v.db.reading, query)
	if err != nil {
		return err
	}
	return v.tx.StmtxContext(v.ctx, stmt).SelectContext(v.ctx, dest, args...)
}

// withReaders runs f while it may use n connections of the reading pool. Only a context with a
// deadline can end a query; see the package comment.
func (db *DB) withReaders(ctx context.Context, n int64, f func(context.Context) error) error {
	db.closing.RLock() // Close waits for the reads that run
	defer db.closing.RUnlock()
	if db.closed {
		return ErrClosed
	}
	if db.Failure() != nil {
		return ErrStopped
	}
	if err := db.acquireReaders(ctx, n); err != nil {
		return err
	}
	defer db.readers.Release(n)
	if _, ends := ctx.Deadline(); ends {
		timeout := db.options.QueryTimeout
		if left, ok := ctx.Value(timeLeft{}).(*time.Duration); ok {
			timeout = *left
			began := time.Now()
			defer func() { *left -= time.Since(began) }()
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	} else {
		ctx = context.WithoutCancel(ctx)
	}
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return db.stopIfFatal(err)
}

// acquireReaders waits until n connections of the reading pool are free.
func (db *DB) acquireReaders(ctx context.Context, n int64) error {
	if ctx.Err() == nil && db.readers.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.options.ReadTimeout)
	defer cancel()
	if err := db.readers.Acquire(ctx, n); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return nil
}
