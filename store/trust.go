package store

import (
	"fmt"

	"callbook/store/document"
)

// unverify returns an agent to level 0 after its mailbox changed. Codes and the owner claim are not
// valid for the new one.
func (t *tx) unverify(id int64) error {
	if err := t.unclaim(id); err != nil {
		return err
	}
	for _, query := range []string{
		`UPDATE agents SET verified_at = NULL, verified_before = verified_before OR verified_at IS NOT NULL WHERE id = ?`,
		`DELETE FROM codes WHERE agent_id = ? AND purpose <> 'former'`,
		`DELETE FROM owner_claims WHERE agent_id = ? AND status = 'pending'`,
		// A link to the owner's page and notices are still sent: they do not depend on the mailbox.
		`DELETE FROM outbox WHERE agent_id = ? AND kind IN ('verify', 'recover', 'claim')`,
	} {
		if err := t.Exec(query, id); err != nil {
			return fmt.Errorf("unverify: %w", err)
		}
	}
	t.Changes.Erased = true
	t.TouchAgent(id)
	return nil
}

// unclaim ends the owner claim of an agent, and with it the evidence of its partners' collaborations.
func (t *tx) unclaim(id int64) error {
	n, err := t.Change(`UPDATE agents SET claimed_at = NULL WHERE id = ? AND claimed_at IS NOT NULL`, id)
	if err != nil || n == 0 {
		return err
	}
	t.TouchAgent(id)
	return document.RebuildEvidence(t.Tx, id)
}
