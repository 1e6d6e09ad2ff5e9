package store

import (
	"context"
	"net/netip"

	"callbook/store/domain"
)

// tx is the transaction of a use case. Its methods run inside the transaction.
type tx struct {
	*Transaction
	store *Store
}

// run returns act as a write of package txn.
func (s *Store) run(act func(*tx) error) func(*Transaction) error {
	return func(t *Transaction) error { return act(&tx{Transaction: t, store: s}) }
}

// write is txn.DB.Write.
func (s *Store) write(ctx context.Context, act func(*tx) error) error {
	return s.db.Write(ctx, s.run(act))
}

// writeOrReject is txn.DB.WriteOrReject.
func (s *Store) writeOrReject(ctx context.Context, act func(*tx) error) error {
	return s.db.WriteOrReject(ctx, s.run(act))
}

// Authorize returns the agent of a caller, which must still be allowed to act. It returns unauthorized
// or suspended if the agent was deleted or suspended, or its key replaced, after the caller was
// authenticated, invalid_state if the agent is about to be deleted, and awaiting_approval if it waits
// for the operator's approval.
func (t *tx) Authorize(caller domain.Caller) (*agentRow, error) {
	agent, err := t.AuthorizeOwn(caller)
	if err == nil && agent.AwaitingSince != nil {
		err = domain.NewError(domain.CodeAwaitingApproval)
	}
	return agent, err
}

// AuthorizeOwn is Authorize for an act of an agent on itself, which it may do while it waits for
// approval.
func (t *tx) AuthorizeOwn(caller domain.Caller) (*agentRow, error) {
	agent, err := agentOfCaller(t.Transaction, caller)
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

// counted returns the address of a client for limits of networks, which do not count the zero Addr: that of a client in
// an exempt network.
func (t *tx) counted(client netip.Addr) netip.Addr {
	if t.store.Lists.NetworkExempt(client) {
		return netip.Addr{}
	}
	return client
}
