package store

import (
	"cmp"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/outbox"
)

// A recovery gives an agent back to the holder of its mailbox.

// youngClaim is the age up to which a recovery may end an owner claim.
const youngClaim = 30 * domain.Day

// recoveryOrders is outbox.RecoveryOrders for an agent.
func (t *tx) recoveryOrders(agent *document.AgentRow) ([]outbox.Order, error) {
	return outbox.RecoveryOrders(t.Tx, agent.ID, agent.Mailbox, agent.VerifiedAt != nil)
}

// notify tells every mailbox that may recover the key of an agent.
func (t *tx) notify(agent *document.AgentRow, kind string) error {
	orders, err := t.recoveryOrders(agent)
	if err != nil {
		return err
	}
	return outbox.Notify(t.Tx, t.store.mails, kind, orders...)
}

// recoverKey gives an agent the key that the holder of a mailbox asked for, and takes back what a
// thief of the key before may have done: a deletion, and a young claim. A former mailbox becomes the
// agent's again.
func (t *tx) recoverKey(agent *document.AgentRow, by outbox.Order, key string, endClaim bool) (ended bool, err error) {
	if err := t.notify(agent, domain.MailRecovered); err != nil {
		return false, err
	}
	if ended, err = t.endYoungClaim(agent, by, endClaim); err != nil {
		return false, err
	}
	if by.Kind == domain.MailFormer {
		if err := t.restoreMailbox(agent.ID, by.To); err != nil {
			return false, err
		}
	}
	if agent.DeletionAt != nil {
		if err := lifecycle.KeepAgent(t.Tx, agent.ID); err != nil {
			return false, err
		}
	}
	return ended, lifecycle.RestoreKey(t.Tx, agent.ID, key)
}

// endYoungClaim ends the claim of an agent, unless the owner confirmed it 30 days ago or earlier, for the
// holder of a mailbox that the agent left before the claim was last confirmed: that may be a thief's. It
// does so for the claim's own mailbox if that is asked for. Later mailboxes may be a thief's themselves. A claim that
// nobody has confirmed always ends: it was requested with the old key.
func (t *tx) endYoungClaim(agent *document.AgentRow, by outbox.Order, asked bool) (ended bool, err error) {
	var claim claimRow
	found, err := t.Find(&claim, selectClaim+` WHERE agent_id = ?`, agent.ID)
	if err != nil || !found || claim.ConfirmedAt != nil && claim.ConfirmedAt.Add(youngClaim) <= t.Now {
		return false, err
	}
	earlier := by.Kind == domain.MailFormer && by.Left <= claim.MailboxAt
	if claim.Status != statusPending && !earlier && !(asked && by.To == claim.Mailbox) {
		return false, nil
	}
	return true, lifecycle.WithdrawClaim(t.Tx, agent)
}

// restoreMailbox makes a former mailbox the verified one again.
func (t *tx) restoreMailbox(agentID int64, mailbox string) error {
	return cmp.Or(
		outbox.ReturnToMailbox(t.Tx, agentID, mailbox),
		lifecycle.Unverify(t.Tx, agentID),
		t.Exec(`UPDATE agents SET mailbox = ?, verified_at = ?, updated_at = ? WHERE id = ?`, mailbox, t.Now, t.Now, agentID))
}
