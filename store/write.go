package store

import (
	"context"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/txn"
)

// tx is the transaction of a use case. Its methods run inside the transaction.
type tx struct {
	*txn.Tx
	store *Store
}

// run returns act as a write of package txn.
func (s *Store) run(act func(*tx) error) func(*txn.Tx) error {
	return func(t *txn.Tx) error { return act(&tx{Tx: t, store: s}) }
}

// runAs is run for an act of a caller, which must still be allowed to act. An agent that waits for approval
// may act on itself only.
func (s *Store) runAs(caller domain.Caller, onItself bool, act func(*tx) error) func(*txn.Tx) error {
	return s.run(func(t *tx) error {
		if err := t.checkActive(caller, onItself); err != nil {
			return err
		}
		return act(t)
	})
}

// write is txn.DB.Write.
func (s *Store) write(ctx context.Context, act func(*tx) error) error {
	return s.db.Write(ctx, s.run(act))
}

// writeAs is write for an act of a caller.
func (s *Store) writeAs(ctx context.Context, caller domain.Caller, act func(*tx) error) error {
	return s.db.Write(ctx, s.runAs(caller, false, act))
}

// writeOwn is writeAs for an act of a caller on itself.
func (s *Store) writeOwn(ctx context.Context, caller domain.Caller, act func(*tx) error) error {
	return s.db.Write(ctx, s.runAs(caller, true, act))
}

// writeOrReject is txn.DB.WriteOrReject.
func (s *Store) writeOrReject(ctx context.Context, act func(*tx) error) error {
	return s.db.WriteOrReject(ctx, s.run(act))
}

// writeOrRejectAs is writeOrReject for an act of a caller.
func (s *Store) writeOrRejectAs(ctx context.Context, caller domain.Caller, act func(*tx) error) error {
	return s.db.WriteOrReject(ctx, s.runAs(caller, false, act))
}

// writeOrRejectOwn is writeOrReject for an act of a caller on itself.
func (s *Store) writeOrRejectOwn(ctx context.Context, caller domain.Caller, act func(*tx) error) error {
	return s.db.WriteOrReject(ctx, s.runAs(caller, true, act))
}

// checkActive returns unauthorized or suspended if a caller was deleted or suspended, or its key
// replaced, after it was authenticated, invalid_state if it is about to be deleted, and awaiting_approval if
// it waits for approval and does not act on itself.
func (t *tx) checkActive(caller domain.Caller, onItself bool) error {
	state, err := t.checkKey(caller)
	switch {
	case err != nil:
		return err
	case state.Suspended(t.Now):
		return state.Rejection()
	case state.DeletionAt != nil:
		return errDeletionPending
	case state.AwaitingSince != nil && !onItself:
		return domain.NewError(domain.CodeAwaitingApproval)
	}
	return nil
}

// callerState decides whether an agent may act.
type callerState struct {
	domain.Suspension
	KeyHash       []byte       `db:"key_hash"`
	DeletionAt    *domain.Time `db:"deletion_at"`
	AwaitingSince *domain.Time `db:"awaiting_since"`
}

// checkKey returns unauthorized if a caller was deleted or its key replaced after it was
// authenticated. Without a key hash it does not compare the key.
func (t *tx) checkKey(caller domain.Caller) (state callerState, err error) {
	found, err := t.Find(&state, `
		SELECT key_hash, suspended_at, suspended_until, suspension_reason, deletion_at, awaiting_since
		FROM agents
		WHERE id = ?`, caller.ID)
	if err == nil && (!found || caller.KeyHash != "" && caller.KeyHash != string(state.KeyHash)) {
		err = domain.NewError(domain.CodeUnauthorized)
	}
	return state, err
}

// counted returns the address of a client for limits of networks, which do not count the zero Addr: that of a client in
// an exempt network.
func (t *tx) counted(client netip.Addr) netip.Addr {
	if t.store.Lists.NetworkExempt(client) {
		return netip.Addr{}
	}
	return client
}

// identified is a record with a public id.
type identified interface{ RecordID() string }

// createOnce runs create with write, which is writeAs or writeOrRejectAs. If the request repeats
// an earlier one, it returns the response of that one instead.
func createOnce[T identified](
	ctx context.Context, write func(context.Context, domain.Caller, func(*tx) error) error, caller domain.Caller,
	key domain.IdempotencyKey, create func(*tx) (T, error),
) (created T, replayed bool, err error) {
	err = write(ctx, caller, func(t *tx) (err error) {
		created = *new(T)
		if replayed, err = t.Replay(caller.ID, key, &created); err != nil || replayed {
			return err
		}
		if err = t.CheckRoom(); err != nil {
			return err
		}
		if created, err = create(t); err != nil {
			return err
		}
		return t.StoreResponse(caller.ID, key, caller.ID, created.RecordID(), created)
	})
	return created, replayed, err
}
