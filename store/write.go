package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// tx is what one write sees of its transaction: a fixed time, and what must happen because of the
// write. Before the commit, the rows of the full-text tables are replaced, once for all writes that
// share the transaction. After the commit, the listeners of OnCommit get the Changes.
type tx struct {
	*sqlitedb.Tx
	Now     domain.Time
	Random  io.Reader
	Changes Changes

	store  *Store
	search map[searchKey]string // tokens of rows of full-text tables to replace; empty to delete
}

func (s *Store) newTx(t *sqlitedb.Tx, now domain.Time) *tx {
	return &tx{
		Tx:      t,
		Now:     now,
		Random:  s.random,
		Changes: Changes{NewEvents: IDs{}},
		store:   s,
		search:  map[searchKey]string{},
	}
}

// write runs act in a transaction, and returns once it is committed, or rejected and rolled back.
// A write that has started is finished even if ctx ends. act may run twice (see package sqlitedb),
// so it must set its results each time and have no effect outside the transaction.
func (s *Store) write(ctx context.Context, act func(*tx) error) error {
	return s.db.Write(ctx, s.collect(act))
}

// writeOrReject is write that commits even if act returns a domain.Error, so that side effects
// such as a counter of failed attempts persist. It returns the Error after the commit.
func (s *Store) writeOrReject(ctx context.Context, act func(*tx) error) error {
	// The database rolls back whatever returns an error, so the rejection does not reach it.
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

// writeBackground is write for background jobs, which requests do not delay.
func (s *Store) writeBackground(ctx context.Context, act func(*tx) error) error {
	return s.db.WriteBackground(ctx, s.collect(act))
}

// tryWrite queues act without waiting for it, or drops it if the writer is busy, for a write that
// may be lost. It calls done with the result.
func (s *Store) tryWrite(act func(*tx) error, done func(error)) {
	s.db.TryWrite(s.collect(act), done)
}

// collect returns act as a write of the database whose effects are added to the batch if it
// succeeds.
func (s *Store) collect(act func(*tx) error) func(*sqlitedb.Tx) error {
	return func(file *sqlitedb.Tx) error {
		// The writer runs this function: no other goroutine uses the batch meanwhile.
		t := s.newTx(file, s.batch.Now)
		if err := act(t); err != nil {
			return err
		}

		s.batch.merge(t)
		return nil
	}
}

// merge adds the effects of a write to those of the others in the same transaction.
func (t *tx) merge(other *tx) {
	if other.Changes.All { // everything was deleted
		clear(t.search)
	}

	maps.Copy(t.search, other.search)
	c, o := &t.Changes, &other.Changes
	maps.Copy(c.NewEvents, o.NewEvents)
	c.All = c.All || o.All
	c.Public = c.Public || o.Public
	c.Mail = c.Mail || o.Mail
	c.Wake = c.Wake || o.Wake
	c.Erased = c.Erased || o.Erased
	c.Lists = c.Lists || o.Lists
	c.Reports += o.Reports
	c.Approvals += o.Approvals
	c.MailsExpired += o.MailsExpired
}

// finish stores before the commit what the writes have gathered.
func (t *tx) finish() error {
	if t.Changes.Erased {
		if err := t.setFirst(erasedAt, formatNumber(int64(t.Now))); err != nil {
			return fmt.Errorf("record the erasure: %w", err)
		}
	}
	return t.StoreSearchRows()
}

// Erase records that rows with personal data were deleted, which promises to overwrite them soon:
// mailboxes, keys and texts. Events, quotas and hashes need no such promise.
func (t *tx) Erase(rows int64) { t.Changes.Erased = t.Changes.Erased || rows > 0 }

// NewID returns a new id that begins with prefix.
func (t *tx) NewID(prefix string) (string, error) {
	return domain.NewID(prefix, t.Now, t.Random)
}

// Authorize returns the agent of a caller, which must still be allowed to act. It returns
// unauthorized or suspended if the agent was deleted or suspended, or its key replaced, after the
// caller was authenticated, invalid_state if the agent is about to be deleted, and
// awaiting_approval if it waits for the operator's approval.
func (t *tx) Authorize(caller domain.Caller) (*agentRow, error) {
	agent, err := t.AuthorizeOwn(caller)
	if err != nil {
		return nil, err
	}
	if agent.AwaitingSince != nil {
		return nil, domain.NewError(domain.CodeAwaitingApproval)
	}
	return agent, nil
}

// AuthorizeOwn is Authorize for an act of an agent on itself, which it may do while it waits for
// approval.
func (t *tx) AuthorizeOwn(caller domain.Caller) (*agentRow, error) {
	agent, err := t.agentOfCaller(caller)
	switch {
	case err != nil:
		return nil, err

	case agent.Suspended(t.Now):
		return nil, agent.Rejection()

	case agent.DeletionAt != nil:
		return nil, errDeletionPending
	}

	return agent, nil
}

// counted returns the address of a client for limits of networks, which do not count the zero
// Addr: that of a client in an exempt network.
func (t *tx) counted(client netip.Addr) netip.Addr {
	if t.store.Lists.NetworkExempt(client) {
		return netip.Addr{}
	}
	return client
}

// orNotFound returns not_found for sql.ErrNoRows, and any other error unchanged.
func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NewError(domain.CodeNotFound)
	}
	return err
}
