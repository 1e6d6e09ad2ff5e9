package store

import (
	"context"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
)

// Events lists the caller's events after the one with the id after, oldest first; with an empty
// after, all that are stored. It returns invalid_query if after is not the id of an event, and
// unauthorized if the caller is deleted.
func (s *Store) Events(
	ctx context.Context,
	caller domain.Caller,
	after string,
	limit int,
) (page domain.EventPage, err error) {
	at, from, err := parseAfter(after)
	if err != nil {
		return page, err
	}

	page.Events = []domain.Event{}
	err = s.db.Select(ctx, &page.Events, `
		SELECT seq, type, subject, at
		FROM events
		WHERE agent_id = ? AND seq > ?
		ORDER BY seq
		LIMIT ?`, caller.ID, from, limit)
	if err != nil {
		return page, err
	}

	// Read after the list, so that events that are deleted in between are reported as a gap. An id
	// that this file has not reached is from another one, such as the file before a backup was
	// restored; and so is one whose seq a later event has.
	var state struct {
		Dropped int64 `db:"dropped"`
		Foreign bool  `db:"foreign_id"`
	}
	found, err := s.db.Find(ctx, &state, `
		SELECT events_dropped AS dropped,
			?2 > (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'events')
				OR EXISTS (SELECT 1 FROM events WHERE seq = ?2 AND at > ?3) AS foreign_id
		FROM agents
		WHERE id = ?1`, caller.ID, from, at)
	if err != nil {
		return page, err
	}
	if !found { // perhaps deleted while the request waited
		return page, domain.NewError(domain.CodeUnauthorized)
	}

	if after != "" && state.Foreign {
		page, err = s.Events(ctx, caller, "", limit)
		page.Gap = true
		return page, err
	}

	page.Gap = after != "" && state.Dropped > from
	page.Next = after
	for i := range page.Events {
		e := &page.Events[i]
		e.ID = domain.EventID(e.At, e.Seq)
		page.Next = e.ID
	}
	if len(page.Events) == 0 && (after == "" || page.Gap) {
		// After the deleted events, so that no gap is reported twice.
		page.Next = domain.EventID(s.now(), state.Dropped)
	}

	return page, nil
}

// parseAfter returns the time and the number of the event after which a list begins; 0 for an empty
// after.
func parseAfter(after string) (at domain.Time, seq int64, err error) {
	if after == "" {
		return 0, 0, nil
	}

	at, seq, ok := domain.ParseEventID(after)
	if !ok {
		fault := domain.FieldError{Field: "after", Code: domain.FaultBadValue, Topic: "event"}
		return 0, 0, &domain.Error{
			Code:   domain.CodeInvalidQuery,
			Fields: []domain.FieldError{fault},
		}
	}
	return at, seq, nil
}

// InsertEvent stores an event for an agent. Requests that wait for it return after the commit.
// If the agent is deleted, nothing is stored.
func (t *tx) InsertEvent(agentID int64, event string, subject domain.EventSubject) error {
	text, err := json.Marshal(subject)
	if err != nil {
		return err
	}

	// Nothing for an agent that was deleted in the same transaction.
	var waits bool // a URL at which the agent is woken, for an event
	found, err := t.Find(&waits, `
		INSERT INTO events (agent_id, type, subject, at)
		SELECT id, ?, ?, ? FROM agents WHERE id = ?
		RETURNING EXISTS (
			SELECT 1 FROM wakes WHERE agent_id = events.agent_id AND due_at IS NULL AND status <> 'off')`,
		event, string(text), t.Now, agentID)
	if err != nil || !found {
		return err
	}

	t.Changes.NewEvents.Add(agentID)
	if !waits {
		return nil
	}

	// At once, or WakePause after the last request. One in the future is from before the clock was
	// set back, and delays nothing.
	t.Changes.Wake = true
	return t.Exec(`
		UPDATE wakes SET due_at = (
			SELECT CASE WHEN woken_at > ?2 AND woken_at <= ?3 THEN woken_at + ?4 ELSE ?3 END
			FROM agents
			WHERE id = wakes.agent_id)
		WHERE agent_id = ?1`,
		agentID, t.Now.Add(-domain.WakePause), t.Now, domain.WakePause.Milliseconds())
}
