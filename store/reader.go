package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
)

// Reads use SQLite's connections without database/sql: a look-up by key takes SQLite
// as long as the locks, goroutines and copies of columns' names in between. As many
// read at once as there are places; who comes first gets the connection that was used
// last, whose cache is the warmest, and a connection is opened when none is free.
type readers struct {
	places chan struct{}
	closed chan struct{}
	mu     sync.Mutex
	free   []*reader
}

// reader is a connection that reads, with its prepared statements.
type reader struct {
	conn  *sqlx.Conn
	stmts statements
}

func newReaders(n int) *readers {
	return &readers{places: make(chan struct{}, n), closed: make(chan struct{})}
}

// take returns a connection for one query, to be given back. It waits for one as long
// as a read may take.
func (p *readers) take(ctx context.Context, db *sqlx.DB) (*reader, error) {
	select {
	case p.places <- struct{}{}:
	default:
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
	if r := p.last(); r != nil {
		return r, nil
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		<-p.places
		return nil, fmt.Errorf("open a reading connection: %w", err)
	}
	return &reader{conn: conn, stmts: statements{}}, nil
}

func (p *readers) wait(ctx context.Context) error {
	late := time.NewTimer(readTimeout)
	defer late.Stop()
	select {
	case p.places <- struct{}{}:
		return nil
	case <-late.C:
		return refuse(CodeUnavailable)
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return errClosed
	}
}

func (p *readers) last() *reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return nil
	}
	r := p.free[n-1]
	p.free = p.free[:n-1]
	return r
}

func (p *readers) giveBack(r *reader) {
	p.mu.Lock()
	p.free = append(p.free, r)
	p.mu.Unlock()
	<-p.places
}

// close waits for the reads that run, none of which takes long, and closes the
// connections.
func (p *readers) close() error {
	close(p.closed)
	for range cap(p.places) {
		p.places <- struct{}{}
	}
	var errs []error
	for _, r := range p.free {
		errs = append(errs, r.stmts.close(), r.conn.Close())
	}
	return errors.Join(errs...)
}
