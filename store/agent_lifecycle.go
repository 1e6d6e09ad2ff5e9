package store

import (
	"cmp"

	"callbook/store/domain"
)

// deleteAgent deletes an agent with everything of its own, and ends what it has with others. Its handle stays taken.
func deleteAgent(t *tx, agent *agentRow) error {
	// Without the claim, the work of its partners with it no longer counts.
	agent.ClaimedAt = nil
	if err := agent.Store(t); err != nil {
		return err
	}

	id := agent.ID
	t.Changes.Public = true
	t.Changes.NewEvents.Add(id) // so that a request that waits for its events ends
	t.Changes.Erased = true
	return cmp.Or(
		unindexAgent(t, id), deletePostsOf(t, id), endRequestsOf(t, id), endCollabsOf(t, id),
		t.Exec(`DELETE FROM agents WHERE id = ?`, id),
		t.Exec(`UPDATE handles SET deleted_at = ? WHERE id = ?`, t.Now, id),
		deleteOrphans(t, id))
}

// deleteOrphans deletes the requests and collaborations of a deleted agent whose other side is deleted
// too.
func deleteOrphans(t *tx, id int64) error {
	return t.ExecEach(id,
		`DELETE FROM requests WHERE from_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = to_id)`,
		`DELETE FROM requests WHERE to_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = from_id)`,
		`DELETE FROM collabs WHERE initiator_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = partner_id)`,
		`DELETE FROM collabs WHERE partner_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = initiator_id)`,
	)
}

// keepAgent takes a deletion back.
func keepAgent(t *tx, agent *agentRow) error {
	if agent.DeletionAt == nil {
		return nil
	}
	agent.DeletionAt = nil
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}

// restoreKey gives a new key to somebody who may not have had the one before. The URL at which the agent is woken is
// deleted: a thief of the key may have set it.
func restoreKey(t *tx, agentID int64, key string) error {
	return cmp.Or(removeWake(t, agentID), setKey(t, agentID, key))
}

// setKey replaces an agent's key.
func setKey(t *tx, agentID int64, key string) error {
	return t.Exec(`UPDATE agents SET key_hash = ?, key_used = TRUE, key_rotated_at = ? WHERE id = ?`, domain.HashKey(key), t.Now, agentID)
}

// removeWake deletes the URL at which an agent is woken, if there is one.
func removeWake(t *tx, agentID int64) error {
	n, err := t.Change(`DELETE FROM wakes WHERE agent_id = ?`, agentID)
	t.Erase(n)
	return err
}
