package store

import (
	"context"
	"fmt"
	"time"

	"callbook/store/domain"
)

// CreateInvite makes an invitation, with which as many agents may register until a time. The secret is shown
// this once; the id names it in lists. It returns validation_failed for uses below 1 or above MaxInviteUses
// and an end in the past.
func (s *Store) CreateInvite(ctx context.Context, uses int, until time.Time) (secret string, invite domain.Invite, err error) {
	if secret, err = domain.NewInvite(s.random); err != nil {
		return "", invite, err
	}
	err = s.write(ctx, func(t *tx) error {
		invite = domain.Invite{ID: domain.InviteID(secret), Uses: uses, CreatedAt: t.Now, ExpiresAt: domain.TimeOf(until)}
		switch {
		case uses < 1 || uses > domain.MaxInviteUses:
			return domain.Invalid(domain.FieldError{Field: "uses", Code: domain.FaultOutOfRange})
		case invite.ExpiresAt <= t.Now:
			return domain.Invalid(domain.FieldError{Field: "until", Code: domain.FaultBadValue})
		}
		err := t.Exec(`INSERT INTO invites (id, secret_hash, uses, used, created_at, expires_at) VALUES (?, ?, ?, 0, ?, ?)`,
			invite.ID, domain.HashKey(secret), uses, t.Now, invite.ExpiresAt)
		if err != nil {
			return err
		}
		return audit(t, "invite", invite.ID, fmt.Sprintf("for %d until %s", uses, until.UTC().Format(time.DateOnly)))
	})
	return secret, invite, err
}

// RevokeInvite ends an invitation. Agents that registered with it stay. It returns not_found for an unknown id.
func (s *Store) RevokeInvite(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.ExecOr(domain.NewError(domain.CodeNotFound), `DELETE FROM invites WHERE id = ?`, id); err != nil {
			return err
		}
		return audit(t, "revoke-invite", id, "")
	})
}
