package lifecycle

import (
	"cmp"
	"errors"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/outbox"
	"callbook/store/txn"
)

// Unverify returns an agent to level 0 after its mailbox changed. The code that verifies it and the
// owner claim are not valid for the new one. Recovery codes stay, since they are for one mailbox.
func Unverify(t *txn.Tx, id int64) error {
	if err := Unclaim(t, id); err != nil {
		return err
	}
	err := t.ExecEach(id,
		`UPDATE agents SET verified_at = NULL, verified_before = verified_before OR verified_at IS NOT NULL WHERE id = ?`,
		`DELETE FROM codes WHERE agent_id = ? AND purpose = 'verify'`,
		`DELETE FROM owner_claims WHERE agent_id = ? AND status = 'pending'`,
		// A link to the owner's page and notices are still sent: they do not depend on the mailbox.
		`DELETE FROM outbox WHERE agent_id = ? AND kind IN ('verify', 'recover', 'claim')`,
	)
	t.Changes.Erased = true
	t.TouchAgent(id)
	return err
}

// ForgetFormerMailbox keeps the mailbox that an agent left from recovering its key.
func ForgetFormerMailbox(t *txn.Tx, id int64) error {
	n, err := t.Change(`
		UPDATE agents SET former_mailbox = NULL
		WHERE id = ? AND former_mailbox IS NOT NULL`, id)
	t.TouchErased(n)
	return err
}

// Unclaim ends the owner claim of an agent, and with it the evidence of its partners' collaborations.
func Unclaim(t *txn.Tx, id int64) error {
	n, err := t.Change(`UPDATE agents SET claimed_at = NULL WHERE id = ? AND claimed_at IS NOT NULL`, id)
	if err != nil || n == 0 {
		return err
	}
	t.TouchAgent(id)
	return document.RebuildEvidence(t, id)
}

// WithdrawClaim deletes a claim, so that another person may claim the agent. Receipts are no longer
// required, since there is no owner to give them.
func WithdrawClaim(t *txn.Tx, agent *document.AgentRow) error {
	if err := Unclaim(t, agent.ID); err != nil {
		return err
	}
	err := cmp.Or(
		t.Exec(`UPDATE agents SET claimed_by = NULL, require_owner_receipt = FALSE, updated_at = ? WHERE id = ?`, t.Now, agent.ID),
		t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID))
	if err != nil {
		return err
	}
	t.TouchAgent(agent.ID)
	return errors.Join(outbox.Delete(t, agent.ID, domain.MailClaim), outbox.Delete(t, agent.ID, domain.MailOwner))
}
