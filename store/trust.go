package store

import (
	"callbook/store/domain"
)

// unverify returns an agent to level 0 after its mailbox changed. The code that verifies it and the
// owner claim are not valid for the new one. Recovery codes stay, since they are for one mailbox. The
// caller stores the agent.
func unverify(t *tx, agent *agentRow) error {
	agent.VerifiedBefore = agent.VerifiedBefore || agent.VerifiedAt != nil
	agent.VerifiedAt = nil
	agent.ClaimedAt = nil

	t.Changes.Erased = true
	return t.ExecEach(agent.ID,
		`DELETE FROM codes WHERE agent_id = ? AND purpose = 'verify'`,
		`DELETE FROM owner_claims WHERE agent_id = ? AND status = 'pending'`,
		// A link to the owner's page and notices are still sent: they do not depend on the mailbox.
		`DELETE FROM outbox WHERE agent_id = ? AND kind IN ('verify', 'recover', 'claim')`,
	)
}

// forgetFormerMailbox keeps the mailbox that an agent left from recovering its key. The caller stores the
// agent.
func forgetFormerMailbox(t *tx, agent *agentRow) {
	t.Changes.Erased = t.Changes.Erased || agent.FormerMailbox != nil
	agent.FormerMailbox = nil
}

// verifyMailbox makes the mailbox of an agent a verified one. It is then no former one that could recover
// the key. The caller stores the agent.
func verifyMailbox(t *tx, agent *agentRow) {
	agent.VerifiedAt = &t.Now
	if domain.Deref(agent.FormerMailbox) == agent.Mailbox {
		agent.FormerMailbox = nil
	}
}

// withdrawClaim deletes a claim, so that another person may claim the agent. Receipts are no longer
// required, since there is no owner to give them.
func withdrawClaim(t *tx, agent *agentRow) error {
	// First the claim alone: until then the evidence of its partners is found by the owner.
	agent.ClaimedAt = nil
	if err := agent.Store(t); err != nil {
		return err
	}

	agent.ClaimedBy = nil
	agent.ContactPolicy.RequireOwnerReceipt = false
	agent.UpdatedAt = t.Now
	if err := agent.Store(t); err != nil {
		return err
	}
	if err := t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID); err != nil {
		return err
	}
	if err := deleteMail(t, agent.ID, domain.MailClaim); err != nil {
		return err
	}
	return deleteMail(t, agent.ID, domain.MailOwner)
}
