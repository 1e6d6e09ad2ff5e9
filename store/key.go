package store

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"callbook/store/domain"
)

// Authenticate returns the agent of a key. It returns unauthorized for a malformed, unknown or
// replaced key, and suspended, together with the agent, for the key of a suspended agent.
func (s *Store) Authenticate(ctx context.Context, key string) (caller domain.Caller, err error) {
	if !domain.WellFormedKey(key) {
		return caller, domain.NewError(domain.CodeUnauthorized)
	}

	var row struct {
		domain.Suspension
		ID           int64       `db:"id"`
		Handle       string      `db:"handle"`
		KeyHash      []byte      `db:"key_hash"`
		KeyUsed      bool        `db:"key_used"`
		LastActiveAt domain.Time `db:"last_active_at"`
	}

	hash := domain.HashKey(key)
	found, err := s.db.Find(ctx, &row, `
		SELECT a.id, h.handle, a.key_hash, a.key_used, a.last_active_at,
			a.suspended_at, a.suspended_until, a.suspension_reason
		FROM agents a
		JOIN handles h ON h.id = a.id
		WHERE a.key_hash = ?`, hash)
	if err != nil {
		return caller, err
	}
	if !found || subtle.ConstantTimeCompare(hash, row.KeyHash) != 1 {
		return caller, domain.NewError(domain.CodeUnauthorized)
	}

	now := s.now()
	caller = domain.Caller{ID: row.ID, Handle: row.Handle, KeyHash: string(hash)}
	if row.Suspended(now) {
		return caller, row.Rejection()
	}

	// Without disk space an ended suspension stays stored, without effect, and the key counts as
	// unused, but is valid: an agent can still read and delete.
	if row.SuspendedAt != nil {
		if err := unlessFull(s.endSuspension(ctx, row.ID)); err != nil {
			return caller, err
		}
	}
	if !row.KeyUsed {
		if err := unlessFull(s.markKeyUsed(ctx, row.ID, hash)); err != nil {
			return caller, err
		}
	}

	s.recordActivity(row.ID, row.LastActiveAt, now)
	return caller, nil
}

// unlessFull returns the error of a write that may be lost while the disk is full: nil for
// storage_full.
func unlessFull(err error) error {
	if errors.Is(err, domain.NewError(domain.CodeStorageFull)) {
		return nil
	}
	return err
}

// endSuspension shows an agent again whose suspension has just ended: it acts now, before the job
// runs.
func (s *Store) endSuspension(ctx context.Context, id int64) error {
	return s.write(ctx, func(t *tx) error {
		agent, err := t.agentByID(id)
		if err != nil || agent.Suspended(t.Now) {
			return err
		}
		return t.endSuspension(agent)
	})
}

// markKeyUsed makes the key of a registration final, so that a repeated registration no longer
// replaces it. It returns unauthorized if the key was replaced after it was read.
func (s *Store) markKeyUsed(ctx context.Context, id int64, hash []byte) error {
	return s.write(ctx, func(t *tx) error {
		return t.ExecOr(domain.NewError(domain.CodeUnauthorized), `
			UPDATE agents SET key_used = TRUE
			WHERE id = ? AND key_hash = ?`, id, hash)
	})
}

// RotateKey replaces the caller's key. The old one is invalid when it returns. Of several
// concurrent calls with the same key one succeeds; the others return unauthorized.
func (s *Store) RotateKey(
	ctx context.Context,
	caller domain.Caller,
) (key string, rotatedAt domain.Time, err error) {
	if key, err = domain.NewKey(s.random); err != nil {
		return "", 0, err
	}
	err = s.write(ctx, func(t *tx) error {
		if _, err := t.AuthorizeOwn(caller); err != nil {
			return err
		}

		rotatedAt = t.Now
		return t.setKey(caller.ID, key)
	})
	return key, rotatedAt, err
}

// activityStep is the precision of the time of an agent's last request.
const activityStep = 5 * time.Minute

// recordActivity updates the time of an agent's last request, in the background and at most every
// activityStep. Cached responses show it late.
func (s *Store) recordActivity(id int64, last, now domain.Time) {
	if now < last.Add(activityStep) {
		return
	}

	// A time that cannot be stored is stored with the next request.
	ignored := func(error) {}
	s.tryWrite(func(t *tx) error {
		return t.Exec(`UPDATE agents SET last_active_at = ? WHERE id = ?`, now, id)
	}, ignored)
}
