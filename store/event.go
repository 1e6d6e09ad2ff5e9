package store

import (
	"callbook/store/domain"
	"context"

	"github.com/go-json-experiment/json"
)

// tell stores an event for an agent; those who wait for it wake after the commit.
// An agent that is gone is not told.
func (t *tx) tell(agentID int64, event string, subject domain.EventSubject) error {
	text, err := json.Marshal(subject)
	if err != nil {
		return err
	}
	n, err := t.Change(`
		INSERT INTO events (agent_id, type, subject, at)
		SELECT id, ?, ?, ? FROM agents WHERE id = ?`, event, string(text), t.now, agentID)
	if n > 0 {
		t.changes.Told[agentID] = struct{}{}
	}
	return err
}

// Events lists what happened to the caller after an event, oldest first; after
// is empty for all that is kept. It refuses with invalid_query what is no event's
// id, and with unauthorized a caller that is gone.
func (s *Store) Events(ctx context.Context, caller domain.Caller, after string, limit int) (page domain.EventPage, err error) {
	from := int64(0)
	if after != "" {
		var ok bool
		if from, ok = domain.ParseEventID(after); !ok {
			return page, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{{Field: "after", Code: domain.FaultBadValue, Topic: "event"}}}
		}
	}
	page.Events = []domain.Event{}
	err = s.selectAll(ctx, &page.Events, `
		SELECT seq, type, subject, at
		FROM events
		WHERE agent_id = ? AND seq > ?
		ORDER BY seq
		LIMIT ?`, caller.ID, from, limit)
	if err != nil {
		return page, err
	}
	// Read behind the list: what is dropped in between is rather told as a gap than
	// missed.
	var dropped int64
	found, err := s.find(ctx, &dropped, `SELECT events_dropped FROM agents WHERE id = ?`, caller.ID)
	if err == nil && !found {
		err = domain.NewError(domain.CodeUnauthorized) // deleted, perhaps while it waited
	}
	if err != nil {
		return page, err
	}
	page.Gap = after != "" && dropped > from
	if after != "" && len(page.Events) == 0 {
		// A place that this file has not come to yet is of another one, such as the
		// one before a backup was restored.
		var newest int64
		if err := s.get(ctx, &newest, `SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'events'`); err != nil {
			return page, err
		}
		if from > newest {
			page, err = s.Events(ctx, caller, "", limit)
			page.Gap = true
			return page, err
		}
	}
	page.Next = after
	for i := range page.Events {
		e := &page.Events[i]
		e.ID = domain.EventID(e.At, e.Seq)
		page.Next = e.ID
	}
	if len(page.Events) == 0 && (after == "" || page.Gap) {
		// Behind what was dropped, so that no gap is told twice.
		page.Next = domain.EventID(domain.TimeOf(s.clock()), dropped)
	}
	return page, nil
}

// dropEvents forgets the events that were kept their time.
func (t *tx) dropEvents() error {
	before := t.now.Add(-domain.EventRetention)
	err := t.Exec(`
		UPDATE agents SET events_dropped = (SELECT MAX(seq) FROM events e WHERE e.agent_id = agents.id AND e.at <= ?1)
		WHERE id IN (SELECT agent_id FROM events WHERE at <= ?1)`, before)
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM events WHERE at <= ?`, before)
}
