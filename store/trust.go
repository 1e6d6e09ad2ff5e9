package store

import (
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
	t.changes.Removed = true
	t.touch(id)
	return nil
}

// unclaim ends the owner claim in force. The partners of confirmed
// collaborations lose the evidence that hung on it.
func (t *tx) unclaim(id int64) error {
	n, err := t.Change(`UPDATE agents SET claimed_at = NULL WHERE id = ? AND claimed_at IS NOT NULL`, id)
	if err != nil || n == 0 {
		return err
	}
	t.touch(id)
	return t.touchPartners(id)
}

// touchPartners counts anew the evidence of those with whom the agent has
// confirmed collaborations: it hangs on the agent's claim too. Nothing else of
// their documents does.
func (t *tx) touchPartners(id int64) error {
	var partners []int64
	err := t.Select(&partners, `
		SELECT a.id
		FROM agents a
		WHERE a.claimed_at IS NOT NULL AND a.id IN (
			SELECT partner_id FROM collabs WHERE initiator_id = ?1 AND status = 'confirmed'
			UNION
			SELECT initiator_id FROM collabs WHERE partner_id = ?1 AND status = 'confirmed')`, id)
	if err != nil {
		return err
	}
	for _, partner := range partners {
		n, err := t.evidence(partner)
		if err != nil {
			return err
		}
		if err := t.Exec(`UPDATE agent_documents SET confirmed = ? WHERE agent_id = ?`, n, partner); err != nil {
			return err
		}
		t.touchActive(partner)
	}
	return nil
}

// evidence counts the confirmed collaborations that count: between agents whose
// owners are different people and have each claimed them (specification: Agent
// card).
func (t *tx) evidence(id int64) (n int, err error) {
	err = t.Get(&n, `
		SELECT COUNT(*)
		FROM collabs c
		JOIN agents i ON i.id = c.initiator_id
		JOIN agents p ON p.id = c.partner_id
		WHERE (c.initiator_id = ? OR c.partner_id = ?) AND `+countsAsEvidence, id, id)
	return n, err
}
