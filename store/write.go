package store

import (
	"cmp"
	"context"
	"errors"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// write runs act inside a transaction and returns once it is committed, or rejected and rolled
// back. A write that has started is finished even if ctx ends. Act may run twice (see package
// sqlitedb), so it must set its results each time and have no effect outside the
// transaction.
func (s *Store) write(ctx context.Context, act func(*tx) error) error {
	return publicError(s.db.Write(ctx, s.gathering(act)))
}

// writeOrReject is write that commits even if act returns an Error, so that side effects such as a
// counter of wrong attempts persist. It returns the Error after the commit.
func (s *Store) writeOrReject(ctx context.Context, act func(*tx) error) error {
	var rejection error
	err := s.write(ctx, func(t *tx) error {
		rejection = act(t)
		if _, rejected := errors.AsType[*domain.Error](rejection); rejected {
			return nil
		}
		return rejection
	})
	return cmp.Or(err, rejection)
}

// writeAs is write for an act of a caller that may still act when its turn comes.
func (s *Store) writeAs(ctx context.Context, caller domain.Caller, act func(*tx) error) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.mayAct(caller); err != nil {
			return err
		}
		return act(t)
	})
}

// writeOrRejectAs is writeOrReject for an act of a caller that may still act when its turn comes.
func (s *Store) writeOrRejectAs(ctx context.Context, caller domain.Caller, act func(*tx) error) error {
	return s.writeOrReject(ctx, func(t *tx) error {
		if err := t.mayAct(caller); err != nil {
			return err
		}
		return act(t)
	})
}

// writeScheduled is write for scheduled jobs, which are not put off by many requests.
func (s *Store) writeScheduled(ctx context.Context, act func(*tx) error) error {
	return publicError(s.db.WriteBackground(ctx, s.gathering(act)))
}

// tryWrite queues act without waiting for it, or drops it when the writer is busy: for a write
// that may be lost, such as the time of the last request.
func (s *Store) tryWrite(act func(*tx) error, done func(error)) {
	s.db.TryWrite(s.gathering(act), done)
}

// gathering returns act as a write of the database. The changes that act noted are merged into the batch
// only if it succeeded.
func (s *Store) gathering(act func(*tx) error) func(*sqlitedb.Tx) error {
	return func(db *sqlitedb.Tx) error {
		mine := newTx(s, db, s.batch.now)
		if err := act(mine); err != nil {
			return err
		}
		s.batch.merge(mine)
		return nil
	}
}

// hooks returns the functions that the writer calls around each transaction.
func (s *Store) hooks() sqlitedb.Hooks {
	return sqlitedb.Hooks{
		Begin:        func(db *sqlitedb.Tx) { s.batch = newTx(s, db, domain.TimeOf(s.clock())) },
		BeforeCommit: func() error { return s.batch.refresh() },
		Committed:    func() { s.committed(s.batch.changes) },
		Invalidate:   func() { s.committed(everything) },
	}
}

// get reads one row. It returns sql.ErrNoRows if there is none.
func (s *Store) get(ctx context.Context, dest any, query string, args ...any) error {
	return publicError(s.db.Get(ctx, dest, query, args...))
}

// find reads one row, and reports whether there is one.
func (s *Store) find(ctx context.Context, dest any, query string, args ...any) (bool, error) {
	found, err := s.db.Find(ctx, dest, query, args...)
	return found, publicError(err)
}

// selectAll reads every row of a query, which limits them itself, into the slice dest.
func (s *Store) selectAll(ctx context.Context, dest any, query string, args ...any) error {
	return publicError(s.db.Select(ctx, dest, query, args...))
}
