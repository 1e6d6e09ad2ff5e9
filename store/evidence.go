package store

import (
	"callbook/store/domain"
)

// A confirmed collaboration counts as evidence if the owners of both sides are different people
// and have each claimed them, and if it is the first of this pair of owners in 90 days since the
// last one that counted. Which ones count is stored with them, in collabs.counts.

// rebuildEvidence decides again which collaborations of an agent's owner count with the owners
// that the agent has worked with. It must run after the owner claim of the agent changed, before
// the agent loses its owner.
func (t *tx) rebuildEvidence(agentID int64) error {
	return t.rebuildPairs(`
		SELECT DISTINCT a.claimed_by AS one, o.claimed_by AS other
		FROM agents a, agents o
		WHERE a.id = ?1 AND a.claimed_by IS NOT NULL AND o.claimed_by IS NOT NULL AND o.id IN (
			SELECT partner_id FROM collabs WHERE initiator_id = ?1 AND status = 'confirmed'
			UNION
			SELECT initiator_id FROM collabs WHERE partner_id = ?1 AND status = 'confirmed')`, agentID)
}

// countCollab decides whether a collaboration of two agents that was confirmed right now counts.
func (t *tx) countCollab(initiatorID, partnerID int64) error {
	return t.rebuildPairs(`
		SELECT i.claimed_by AS one, p.claimed_by AS other
		FROM agents i, agents p
		WHERE i.id = ? AND p.id = ? AND i.claimed_at IS NOT NULL AND p.claimed_at IS NOT NULL`,
		initiatorID, partnerID)
}

// rebuildPairs decides again for the pairs of owners that a query selects.
func (t *tx) rebuildPairs(query string, args ...any) error {
	var pairs []ownerPair
	if err := t.Select(&pairs, query, args...); err != nil {
		return err
	}

	for _, pair := range pairs {
		if err := pair.rebuild(t); err != nil {
			return err
		}
	}
	return nil
}

// ownerPair are two owners, perhaps the same, of agents that have worked together.
type ownerPair struct {
	One   []byte `db:"one"`
	Other []byte `db:"other"`
}

// pairCollab is a confirmed collaboration of two owners.
type pairCollab struct {
	Seq       int64       `db:"seq"`
	DecidedAt domain.Time `db:"decided_at"`
}

// rebuild decides again which collaborations of two owners count.
func (p ownerPair) rebuild(t *tx) error {
	// Two owners may have very many: it reads those that counted, and finds each of those that do
	// by an index.
	var former []pairCollab
	err := t.Select(&former, `
		SELECT c.seq, c.decided_at
		FROM agents a
		JOIN collabs c ON c.initiator_id = a.id AND c.counts
		JOIN agents o ON o.id = c.partner_id
		WHERE a.claimed_by = ?1 AND o.claimed_by = ?2
		UNION
		SELECT c.seq, c.decided_at
		FROM agents a
		JOIN collabs c ON c.partner_id = a.id AND c.counts
		JOIN agents o ON o.id = c.initiator_id
		WHERE a.claimed_by = ?1 AND o.claimed_by = ?2`, p.One, p.Other)

	if err != nil {
		return err
	}

	// Those that begin to count, or cease to: most rebuilds change nothing, and write nothing.
	changes := map[pairCollab]bool{}
	for _, c := range former {
		changes[c] = false
	}
	var since domain.Time
	for {
		next, found, err := p.first(t, since)
		if err != nil {
			return err
		}
		if !found {
			break
		}

		if _, counted := changes[next]; counted {
			delete(changes, next)
		} else {
			changes[next] = true
		}
		since = next.DecidedAt.Add(domain.EvidenceWindow)
	}

	for c, counts := range changes {
		if err := t.Exec(`UPDATE collabs SET counts = ? WHERE seq = ?`, counts, c.Seq); err != nil {
			return err
		}
	}
	return nil
}

// first returns the first collaboration of two different owners since a time, of agents that both
// have claimed.
func (p ownerPair) first(t *tx, since domain.Time) (c pairCollab, found bool, err error) {
	found, err = t.Find(&c, `
		WITH pairs AS (
			SELECT a.id AS a, o.id AS o
			FROM agents a, agents o
			WHERE ?1 <> ?2
				AND a.claimed_by = ?1 AND a.claimed_at IS NOT NULL
				AND o.claimed_by = ?2 AND o.claimed_at IS NOT NULL)
		SELECT seq, decided_at
		FROM collabs
		WHERE seq IN (
			SELECT (`+firstBetween("a", "o")+`) FROM pairs
			UNION ALL
			SELECT (`+firstBetween("o", "a")+`) FROM pairs)
		ORDER BY decided_at, seq
		LIMIT 1`, p.One, p.Other, since)

	return c, found, err
}

// firstBetween selects the first collaboration that one agent of pairs recorded with the other
// since ?3.
func firstBetween(initiator, partner string) string {
	return `SELECT seq FROM collabs
		WHERE initiator_id = pairs.` + initiator + ` AND partner_id = pairs.` + partner + `
			AND status = 'confirmed' AND decided_at >= ?3
		ORDER BY decided_at, seq
		LIMIT 1`
}
