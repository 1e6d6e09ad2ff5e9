package query

import (
	"context"

	"callbook/store/domain"
)

// Events lists the caller's events after the one with the id after, oldest first; with an empty after,
// all that are stored. It returns invalid_query if after is not the id of an event, and unauthorized
// if the caller is deleted.
func (r *Reader) Events(ctx context.Context, caller domain.Caller, after string, limit int) (page domain.EventPage, err error) {
	from := int64(0)
	if after != "" {
		var ok bool
		if from, ok = domain.ParseEventID(after); !ok {
			return page, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{{Field: "after", Code: domain.FaultBadValue, Topic: "event"}}}
		}
	}
	page.Events = []domain.Event{}
	err = r.db.Select(ctx, &page.Events, `
		SELECT seq, type, subject, at
		FROM events
		WHERE agent_id = ? AND seq > ?
		ORDER BY seq
		LIMIT ?`, caller.ID, from, limit)
	if err != nil {
		return page, err
	}
	// Read after the list, so that events that are deleted in between are reported as a gap.
	var dropped int64
	found, err := r.db.Find(ctx, &dropped, `SELECT events_dropped FROM agents WHERE id = ?`, caller.ID)
	if err == nil && !found {
		err = domain.NewError(domain.CodeUnauthorized) // perhaps deleted while the request waited
	}
	if err != nil {
		return page, err
	}
	page.Gap = after != "" && dropped > from
	if after != "" && len(page.Events) == 0 {
		// An id that this file has not reached is from another one, such as the file before a
		// backup was restored.
		var newest int64
		if err := r.db.Get(ctx, &newest, `SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'events'`); err != nil {
			return page, err
		}
		if from > newest {
			page, err = r.Events(ctx, caller, "", limit)
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
		// After the deleted events, so that no gap is reported twice.
		page.Next = domain.EventID(r.db.Now(), dropped)
	}
	return page, nil
}
