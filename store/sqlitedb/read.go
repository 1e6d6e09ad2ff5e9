package sqlitedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// The defaults of Options.ReadTimeout, which keeps reads from waiting for ever, and of
// Options.QueryTimeout, which keeps any search text from being dangerous. They are variables
// because the race detector slows queries down.
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
	on interface {
		PreparexContext(ctx context.Context, query string) (*sqlx.Stmt, error)
	}

	mu       sync.Mutex
	prepared map[string]*sqlx.Stmt
	used     int // how often get was called
}

// get returns the statement of a text, and prepares it at its first use.
func (s *statements) get(ctx context.Context, query string) (*sqlx.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++

	if stmt := s.prepared[query]; stmt != nil {
		return stmt, nil
	}

	stmt, err := s.on.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	if s.prepared == nil {
		s.prepared = map[string]*sqlx.Stmt{}
	}
	s.prepared[query] = stmt
	return stmt, nil
}

// texts returns the texts of the statements.
func (s *statements) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.prepared))
}

// uses returns how many statements have run.
func (s *statements) uses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// close closes the statements of a connection before that: database/sql leaves them, and
// SQLite keeps the file open for a statement that is left.
func (s *statements) close() error {
	var errs []error
	for stmt := range maps.Values(s.prepared) {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// WithDeadline returns a context whose reads end after Options.ReadTimeout in all, and each of its
// queries after Options.QueryTimeout. It is for searches and other lists whose cost depends on the
// request.
func (db *DB) WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, db.options.ReadTimeout)
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
func (db *DB) SelectMaps(
	ctx context.Context,
	query string,
	args ...any,
) (all []map[string]any, err error) {
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

// read runs f with a prepared statement of the reading pool, while it may use one of its
// connections.
func (db *DB) read(
	ctx context.Context,
	query string,
	f func(context.Context, *sqlx.Stmt) error,
) error {
	db.closing.RLock() // Close waits for the reads that run
	defer db.closing.RUnlock()
	if db.closed {
		return ErrClosed
	}
	if db.Failure() != nil {
		return ErrStopped
	}

	// The pool of database/sql would wait for ever under a context without a deadline.
	if err := db.acquireReader(ctx); err != nil {
		return err
	}
	defer db.readers.Release(1)

	// Only a deadline ends a query; see the package comment. The time for a query begins when it
	// has its connection: under load many wait for longer than they run.
	if _, ends := ctx.Deadline(); ends {
		limited, cancel := context.WithTimeout(ctx, db.options.QueryTimeout)
		defer cancel()
		ctx = limited
	} else {
		ctx = context.WithoutCancel(ctx)
	}

	stmt, err := db.readStatements.get(ctx, query)
	if err == nil {
		err = f(ctx, stmt)
	}
	if err != nil && ctx.Err() != nil { // interrupted: SQLite's error does not say why
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return db.stopIfFatal(err)
}

// acquireReader waits until a connection of the reading pool is free.
func (db *DB) acquireReader(ctx context.Context) error {
	// Nearly always one is free, and no timer is needed.
	if ctx.Err() == nil && db.readers.TryAcquire(1) {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, db.options.ReadTimeout)
	defer cancel()
	if err := db.readers.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return nil
}
