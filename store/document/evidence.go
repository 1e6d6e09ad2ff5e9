package document

import (
	"fmt"

	"callbook/store/domain"
	"callbook/store/txn"
)

// A confirmed collaboration counts as evidence if the owners of both sides are different people and
// have each claimed them, and if it is the first of this pair of owners
// in 90 days since the last one that counted. Which ones count is stored with them, in collabs.counts.

// collabOfOwner is a confirmed collaboration of an agent of one owner.
type collabOfOwner struct {
	Seq       int64       `db:"seq"`
	Counts    bool        `db:"counts"`
	DecidedAt domain.Time `db:"decided_at"`
	AgentID   int64       `db:"agent_id"`
	OtherID   int64       `db:"other_id"`
	Other     []byte      `db:"other"` // who has claimed the other side; nil unless both sides are claimed by different people
}

// RebuildEvidence decides again which collaborations of an owner count, and updates the documents of
// all agents on both sides. It must run after the owner claim of the agent changed, before the agent
// loses its owner.
func RebuildEvidence(t *txn.Tx, agentID int64) error {
	var all []collabOfOwner
	err := t.Select(&all, `
		SELECT c.seq, c.counts, c.decided_at, a.id AS agent_id, c.partner_id AS other_id,
			CASE WHEN a.claimed_at IS NOT NULL AND o.claimed_at IS NOT NULL AND a.claimed_by <> o.claimed_by THEN o.claimed_by END AS other
		FROM agents a
		JOIN collabs c ON c.initiator_id = a.id AND c.status = 'confirmed'
		LEFT JOIN agents o ON o.id = c.partner_id
		WHERE a.claimed_by = (SELECT claimed_by FROM agents WHERE id = ?1)
		UNION
		SELECT c.seq, c.counts, c.decided_at, a.id, c.initiator_id,
			CASE WHEN a.claimed_at IS NOT NULL AND o.claimed_at IS NOT NULL AND a.claimed_by <> o.claimed_by THEN o.claimed_by END
		FROM agents a
		JOIN collabs c ON c.partner_id = a.id AND c.status = 'confirmed'
		LEFT JOIN agents o ON o.id = c.initiator_id
		WHERE a.claimed_by = (SELECT claimed_by FROM agents WHERE id = ?1)
		ORDER BY decided_at, seq`, agentID)
	if err != nil {
		return fmt.Errorf("read the collaborations of an owner: %w", err)
	}
	last, changed := map[string]domain.Time{}, txn.IDs{}
	for _, c := range all {
		before, found := last[string(c.Other)]
		counts := c.Other != nil && (!found || c.DecidedAt >= before.Add(domain.EvidenceWindow))
		if counts {
			last[string(c.Other)] = c.DecidedAt
		}
		if counts || c.Counts {
			changed.Add(c.AgentID)
			changed.Add(c.OtherID)
		}
		if counts != c.Counts {
			if err := t.Exec(`UPDATE collabs SET counts = ? WHERE seq = ?`, counts, c.Seq); err != nil {
				return err
			}
			t.Changes.Collabs = true
		}
	}
	for id := range changed {
		if err := refreshEvidence(t, id); err != nil {
			return err
		}
	}
	return nil
}

// CountCollab decides whether a collaboration that was confirmed right now counts. The agents must
// be rebuilt afterwards. It reads only those that count already: an owner may have very many.
func CountCollab(t *txn.Tx, seq, initiatorID, partnerID int64) error {
	var pair struct {
		One   []byte `db:"one"`
		Other []byte `db:"other"`
	}
	found, err := t.Find(&pair, `
		SELECT i.claimed_by AS one, p.claimed_by AS other
		FROM agents i, agents p
		WHERE i.id = ? AND p.id = ? AND i.claimed_at IS NOT NULL AND p.claimed_at IS NOT NULL AND i.claimed_by <> p.claimed_by`,
		initiatorID, partnerID)
	if err != nil || !found {
		return err
	}
	var last *domain.Time
	err = t.Get(&last, `
		SELECT MAX(at) FROM (
			SELECT c.decided_at AS at
			FROM agents a
			JOIN collabs c ON c.initiator_id = a.id AND c.counts
			JOIN agents o ON o.id = c.partner_id
			WHERE a.claimed_by = ?1 AND o.claimed_by = ?2
			UNION ALL
			SELECT c.decided_at
			FROM agents a
			JOIN collabs c ON c.partner_id = a.id AND c.counts
			JOIN agents o ON o.id = c.initiator_id
			WHERE a.claimed_by = ?1 AND o.claimed_by = ?2)`, pair.One, pair.Other)
	switch {
	case err != nil:
		return err
	case last == nil || t.Now >= last.Add(domain.EvidenceWindow):
		return t.Exec(`UPDATE collabs SET counts = TRUE WHERE seq = ?`, seq)
	case *last >= t.Now: // of the same millisecond, or the clock was set back
		return RebuildEvidence(t, initiatorID)
	}
	return nil
}

// evidence is how much of an agent's work counts.
type evidence struct {
	Confirmed int `db:"confirmed"` // collaborations
	Partners  int `db:"partners"`  // owners on the other side
}

func countEvidence(t *txn.Tx, id int64) (e evidence, err error) {
	err = t.Get(&e, `
		SELECT COUNT(*) AS confirmed, COUNT(DISTINCT o.claimed_by) AS partners
		FROM (
			SELECT partner_id AS other_id FROM collabs WHERE initiator_id = ?1 AND counts
			UNION ALL
			SELECT initiator_id FROM collabs WHERE partner_id = ?1 AND counts)
		JOIN agents o ON o.id = other_id`, id)
	return e, err
}

// refreshEvidence updates the evidence in an agent's document.
func refreshEvidence(t *txn.Tx, id int64) error {
	e, err := countEvidence(t, id)
	if err != nil {
		return err
	}
	t.TouchCard(id)
	return t.Exec(`UPDATE agent_documents SET confirmed = ?, confirmed_partners = ? WHERE agent_id = ?`, e.Confirmed, e.Partners, id)
}

// rebuildAllEvidence runs RebuildEvidence for every owner.
func rebuildAllEvidence(t *txn.Tx) error {
	var agents []int64
	if err := t.Select(&agents, `SELECT MIN(id) FROM agents WHERE claimed_by IS NOT NULL GROUP BY claimed_by`); err != nil {
		return err
	}
	for _, id := range agents {
		if err := RebuildEvidence(t, id); err != nil {
			return err
		}
	}
	return nil
}
