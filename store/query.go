package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// queryTimeout bounds each query of a search once it has a connection, so that no text is
// dangerous. A variable, since the race detector slows queries down.
var queryTimeout = 250 * time.Millisecond

// readTimeout bounds searches, and how long a read waits for a connection, so that none
// holds back the checkpoints for long.
var readTimeout = 2 * time.Second

// readConnections is how many connections read at once. More do not help: SQLite in one
// process is bound by the processor.
const readConnections = 4

// statements are the prepared statements of a pool or of a connection, by their texts,
// which are constants of the program.
type statements struct {
	mu       sync.Mutex
	prepared map[string]*sqlx.Stmt
}

type preparer interface {
	PreparexContext(ctx context.Context, query string) (*sqlx.Stmt, error)
}

// get returns the statement of a text, and prepares it at its first use.
func (c *statements) get(ctx context.Context, on preparer, query string) (*sqlx.Stmt, error) {
	c.mu.Lock()
	stmt, ok := c.prepared[query]
	c.mu.Unlock()
	if ok {
		return stmt, nil
	}
	stmt, err := on.PreparexContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if earlier, ok := c.prepared[query]; ok { // of another reader at the same moment
		return earlier, stmt.Close()
	}
	if c.prepared == nil {
		c.prepared = map[string]*sqlx.Stmt{}
	}
	c.prepared[query] = stmt
	return stmt, nil
}

// close closes the statements of a connection before that: database/sql leaves them, and
// SQLite keeps the file open for a statement that is left.
func (c *statements) close() error {
	var errs []error
	for _, stmt := range c.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// read runs f with a prepared statement of the reading pool. It returns unavailable if no
// connection becomes free in time. Only a context with a deadline, as searches have, can
// end a query: the driver and database/sql start a goroutine each for one that can be
// cancelled, which takes as long as a query by a key.
func (s *Store) read(ctx context.Context, query string, f func(context.Context, *sqlx.Stmt) error) error {
	s.closing.RLock() // Close waits for the reads that run
	defer s.closing.RUnlock()
	if s.closed {
		return errClosed
	}
	if s.Failure() != nil {
		return errStopped
	}
	if err := s.awaitReader(ctx); err != nil {
		return err
	}
	defer s.readers.Release(1)
	if _, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, queryTimeout)
		defer cancel()
	} else {
		ctx = context.WithoutCancel(ctx)
	}
	stmt, err := s.readStatements.get(ctx, s.reading, query)
	if err == nil {
		err = f(ctx, stmt)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", refuse(CodeUnavailable), err)
	}
	return s.judge(err)
}

// awaitReader waits until a connection of the reading pool is free.
func (s *Store) awaitReader(ctx context.Context) error {
	if ctx.Err() == nil && s.readers.TryAcquire(1) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	if err := s.readers.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w (%w)", refuse(CodeUnavailable), err)
	}
	return nil
}

// get reads one row; sql.ErrNoRows when there is none.
func (s *Store) get(ctx context.Context, dest any, query string, args ...any) error {
	return s.read(ctx, query, func(ctx context.Context, stmt *sqlx.Stmt) error {
		return stmt.GetContext(ctx, dest, args...)
	})
}

// find is get that reports the absence of the row by its first result.
func (s *Store) find(ctx context.Context, dest any, query string, args ...any) (bool, error) {
	return found(s.get(ctx, dest, query, args...))
}

// selectAll reads every row of a query, which bounds them itself, into the slice dest.
func (s *Store) selectAll(ctx context.Context, dest any, query string, args ...any) error {
	return s.read(ctx, query, func(ctx context.Context, stmt *sqlx.Stmt) error {
		return stmt.SelectContext(ctx, dest, args...)
	})
}

func found(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// orNotFound turns the absence of a row into the error not_found.
func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return refuse(CodeNotFound)
	}
	return err
}
