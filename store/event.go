package store

import (
	"callbook/store/domain"
)

// deleteOldEvents deletes events past their retention.
func (t *tx) deleteOldEvents() error {
	before := t.Now.Add(-domain.EventRetention)
	err := t.Exec(`
		UPDATE agents SET events_dropped = (SELECT MAX(seq) FROM events e WHERE e.agent_id = agents.id AND e.at <= ?1)
		WHERE id IN (SELECT agent_id FROM events WHERE at <= ?1)`, before)
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM events WHERE at <= ?`, before)
}
