package store

import (
	"callbook/store/document"
	"fmt"
)

// unverify puts an agent back to level 0 after its mailbox changed: codes and
// the owner claim do not carry over to the new one.
func (t *tx) unverify(id int64) error {
	if err := t.unclaim(id); err != nil {
		return err
	}
	for _, query := range []string{
		`UPDATE agents SET verified_at = NULL WHERE id = ?`,
		`DELETE FROM codes WHERE agent_id = ?`,
		`DELETE FROM owner_claims WHERE agent_id = ? AND status = 'pending'`,
		// A fresh link to an owner's page still goes out: it hangs on no mailbox.
		`DELETE FROM outbox WHERE agent_id = ? AND kind <> 'owner'`,
	} {
		if err := t.Exec(query, id); err != nil {
			return fmt.Errorf("unverify: %w", err)
		}
	}
	t.Changes.Erased = true
	t.TouchAgent(id)
	return nil
}

// unclaim ends the owner claim in force. The partners of confirmed
// collaborations lose the evidence that hung on it.
func (t *tx) unclaim(id int64) error {
	n, err := t.Change(`UPDATE agents SET claimed_at = NULL WHERE id = ? AND claimed_at IS NOT NULL`, id)
	if err != nil || n == 0 {
		return err
	}
	t.TouchAgent(id)
	return document.RebuildPartners(t.Tx, id)
}
