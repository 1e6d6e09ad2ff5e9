package lifecycle

import (
	"cmp"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/txn"
)

// DeleteAgent deletes an agent with everything of its own, and ends what it has with others. Its handle stays taken.
func DeleteAgent(t *txn.Tx, id int64) error {
	err := cmp.Or(
		document.UnindexAgent(t, id), Unclaim(t, id), deletePostsOf(t, id), endRequestsOf(t, id), endCollabsOf(t, id),
		t.Exec(`DELETE FROM agents WHERE id = ?`, id),
		t.Exec(`UPDATE handles SET deleted_at = ? WHERE id = ?`, t.Now, id),
		deleteOrphans(t, id))
	t.TouchDeleted(id)
	return err
}

// deleteOrphans deletes the requests and collaborations of a deleted agent whose other side is deleted
// too.
func deleteOrphans(t *txn.Tx, id int64) error {
	return t.ExecEach(id,
		`DELETE FROM requests WHERE from_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = to_id)`,
		`DELETE FROM requests WHERE to_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = from_id)`,
		`DELETE FROM collabs WHERE initiator_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = partner_id)`,
		`DELETE FROM collabs WHERE partner_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = initiator_id)`,
	)
}

// KeepAgent takes a deletion back.
func KeepAgent(t *txn.Tx, id int64) error {
	t.TouchAgent(id)
	return t.Exec(`UPDATE agents SET deletion_at = NULL, updated_at = ? WHERE id = ? AND deletion_at IS NOT NULL`, t.Now, id)
}

// RestoreKey gives a new key to somebody who may not have had the one before. The URL at which the agent is woken is
// deleted: a thief of the key may have set it.
func RestoreKey(t *txn.Tx, agentID int64, key string) error {
	return cmp.Or(RemoveWake(t, agentID), SetKey(t, agentID, key))
}

// SetKey replaces an agent's key.
func SetKey(t *txn.Tx, agentID int64, key string) error {
	return t.Exec(`UPDATE agents SET key_hash = ?, key_used = TRUE, key_rotated_at = ? WHERE id = ?`, domain.HashKey(key), t.Now, agentID)
}

// RemoveWake deletes the URL at which an agent is woken, if there is one.
func RemoveWake(t *txn.Tx, agentID int64) error {
	n, err := t.Change(`DELETE FROM wakes WHERE agent_id = ?`, agentID)
	t.TouchErased(n)
	return err
}
