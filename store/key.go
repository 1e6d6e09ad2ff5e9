package store

import (
	"callbook/store/domain"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
)

// Authenticate returns the agent of a key. It refuses with unauthorized a key
// that is malformed, unknown or rotated away, all alike, and with suspended the
// key of a suspended agent, which it returns all the same.
func (s *Store) Authenticate(ctx context.Context, key string) (domain.Caller, error) {
	if !domain.WellFormedKey(key) {
		return domain.Caller{}, domain.NewError(domain.CodeUnauthorized)
	}
	var row struct {
		suspension
		ID           int64       `db:"id"`
		Handle       string      `db:"handle"`
		KeyHash      []byte      `db:"key_hash"`
		KeyUsed      bool        `db:"key_used"`
		LastActiveAt domain.Time `db:"last_active_at"`
	}
	hash := domain.HashKey(key)
	found, err := s.find(ctx, &row, `
		SELECT a.id, h.handle, a.key_hash, a.key_used, a.last_active_at,
			a.suspended_at, a.suspended_until, a.suspension_reason
		FROM agents a
		JOIN handles h ON h.id = a.id
		WHERE a.key_hash = ?`, hash)
	if err == nil && (!found || subtle.ConstantTimeCompare(hash, row.KeyHash) != 1) {
		return domain.Caller{}, domain.NewError(domain.CodeUnauthorized)
	}
	if err != nil {
		return domain.Caller{}, fmt.Errorf("look up a key: %w", err)
	}
	now := domain.TimeOf(s.clock())
	caller := domain.Caller{ID: row.ID, Handle: row.Handle, KeyHash: string(hash)}
	if row.suspended(now) {
		return caller, row.rejection()
	}
	if row.SuspendedAt != nil {
		// Without room to write it stays stored, and is over.
		if err := s.endSuspension(ctx, row.ID); err != nil && !errors.Is(err, domain.NewError(domain.CodeStorageFull)) {
			return domain.Caller{}, err
		}
	}
	if !row.KeyUsed {
		// Without room to write the key counts as unused, but it is right.
		if err := s.markKeyUsed(ctx, row.ID, hash); err != nil && !errors.Is(err, domain.NewError(domain.CodeStorageFull)) {
			return domain.Caller{}, err
		}
	}
	s.noteActivity(row.ID, row.LastActiveAt, now)
	return caller, nil
}

// suspension holds the columns of an agent's suspension, which are NULL without one.
type suspension struct {
	SuspendedAt    *domain.Time `db:"suspended_at"`
	SuspendedUntil *domain.Time `db:"suspended_until"`
	Reason         *string      `db:"suspension_reason"`
}

func (s suspension) suspended(now domain.Time) bool {
	return s.SuspendedAt != nil && (s.SuspendedUntil == nil || *s.SuspendedUntil > now)
}

// rejection returns the error of a request by the suspended agent.
func (s suspension) rejection() error {
	rejection := &domain.Error{Code: domain.CodeSuspended, Reason: domain.Deref(s.Reason)}
	if s.SuspendedUntil != nil {
		rejection.Until = s.SuspendedUntil.Time()
	}
	return rejection
}

// endSuspension shows an agent again whose suspension has ended by itself: it
// acts now, and may not wait until the service comes round to it.
func (s *Store) endSuspension(ctx context.Context, id int64) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.Change(`
			UPDATE agents SET suspended_at = NULL, suspended_until = NULL, suspension_reason = NULL
			WHERE id = ? AND suspended_until <= ?`, id, t.now)
		if n > 0 {
			t.touch(id)
		}
		return err
	})
}

// markKeyUsed makes a registration's key final: from now on a repeated
// registration does not replace it. The key may have been replaced since it was
// looked up; then it is no longer one.
func (s *Store) markKeyUsed(ctx context.Context, id int64, hash []byte) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.Change(`UPDATE agents SET key_used = TRUE WHERE id = ? AND key_hash = ?`, id, hash)
		if err == nil && n == 0 {
			err = domain.NewError(domain.CodeUnauthorized)
		}
		return err
	})
}

// RotateKey replaces the caller's key. The old one is dead when it returns. Of
// several at once with the same key, one wins; it refuses the others with
// unauthorized.
func (s *Store) RotateKey(ctx context.Context, caller domain.Caller) (key string, rotatedAt domain.Time, err error) {
	if key, err = domain.NewKey(s.random); err != nil {
		return "", 0, err
	}
	err = s.writeAs(ctx, caller, func(t *tx) error {
		rotatedAt = t.now
		return t.setKey(caller.ID, key)
	})
	return key, rotatedAt, err
}

// setKey gives an agent another key in the place of the one it has.
func (t *tx) setKey(agentID int64, key string) error {
	return t.Exec(`UPDATE agents SET key_hash = ?, key_used = TRUE, key_rotated_at = ? WHERE id = ?`, domain.HashKey(key), t.now, agentID)
}
