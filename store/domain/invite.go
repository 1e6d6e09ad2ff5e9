package domain

import (
	"io"
	"strings"
)

// RegistrationMode says who may register.
type RegistrationMode string

// The modes. The zero value is RegistrationOpen, too.
const (
	RegistrationOpen    RegistrationMode = "open"    // everybody
	RegistrationInvite  RegistrationMode = "invite"  // with an invitation of the operator
	RegistrationApprove RegistrationMode = "approve" // everybody, once the operator has approved
	RegistrationClosed  RegistrationMode = "closed"  // no agent
)

// An invitation is invitePrefix and a secret. Its first inviteID characters name it.
const (
	invitePrefix = "inv_"
	inviteID     = 12
)

// MaxInviteUses is how many agents may register with one invitation at most.
const MaxInviteUses = 100_000

// InviteRetention is how long an invitation is listed after it has expired.
const InviteRetention = 30 * Day

// NewInvite returns a new invitation.
func NewInvite(random io.Reader) (string, error) {
	secret, err := NewSecret(random)
	return invitePrefix + secret, err
}

// InviteID returns the part of an invitation that names it in lists; empty for a text that is none.
func InviteID(invite string) string {
	if !strings.HasPrefix(invite, invitePrefix) || len(invite) < inviteID {
		return ""
	}
	return invite[:inviteID]
}

// Invite is an invitation to register, which the operator gives to whom it invites.
type Invite struct {
	ID        string `db:"id"`
	Uses      int    `db:"uses"` // agents that may register with it
	Used      int    `db:"used"` // agents that have
	CreatedAt Time   `db:"created_at"`
	ExpiresAt Time   `db:"expires_at"`
}
