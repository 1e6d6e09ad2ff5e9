package store

import (
	"context"

	"callbook/store/domain"
	"callbook/store/inbox"
)

// Inbox returns what waits for the caller.
func (s *Store) Inbox(ctx context.Context, caller domain.Caller) (domain.Inbox, error) {
	return inbox.Read(ctx, s.db, caller)
}

// MarkSeen records that the caller has seen its inbox up to an event: Inbox.Next. It returns validation_failed for
// anything else.
func (s *Store) MarkSeen(ctx context.Context, caller domain.Caller, event string) error {
	return s.writeOwn(ctx, caller, func(t *tx) error { return inbox.MarkSeen(t.Tx, caller.ID, event) })
}

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
