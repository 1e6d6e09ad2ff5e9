package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// eventsKept is how long an agent can still hear of what happened.
const eventsKept = 30 * Day

// Event tells an agent that something happened (contract: Events).
type Event struct {
	Seq     int64        `json:"-" db:"seq"`
	ID      string       `json:"id" db:"-"`
	Type    string       `json:"type" db:"type" enum:"request.received,request.accepted,request.declined,request.withdrawn,request.expired,reply.received,collab.received,collab.confirmed,collab.declined,trust.changed"`
	At      Time         `json:"at" db:"at"`
	Subject EventSubject `json:"subject" db:"subject"`
}

// EventSubject names what an event is about, never in free text.
type EventSubject struct {
	ID     *string `json:"id" doc:"Id of the request, reply or collaboration; null with trust.changed."`
	Handle string  `json:"handle" doc:"The other side; your own with trust.changed."`
	PostID *string `json:"post_id" doc:"With reply.received: the call that was answered."`
}

// Scan reads the subject of a stored event.
func (s *EventSubject) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("read an event's subject: it is a %T", v)
	}
	return json.Unmarshal([]byte(text), s)
}

// tell stores an event for an agent; those who wait for it wake after the commit.
// An agent that is gone is not told.
func (t *tx) tell(agentID int64, event string, subject EventSubject) error {
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

// An event's id is made of its time and its seq, so that the id of one that is
// no longer kept still says where its reader was.
const idEvent = "evt_"

func eventID(at Time, seq int64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(at)<<16)
	binary.BigEndian.PutUint64(raw[8:], uint64(seq))
	return idEvent + idEncoding.EncodeToString(raw[:])
}

func parseEventID(id string) (seq int64, ok bool) {
	body, ok := strings.CutPrefix(id, idEvent)
	raw, err := idEncoding.DecodeString(body)
	if !ok || err != nil || len(raw) != 16 {
		return 0, false
	}
	seq = int64(binary.BigEndian.Uint64(raw[8:]))
	return seq, seq >= 0
}

// EventPage is what happened after a place.
type EventPage struct {
	Events []Event
	Next   string // the after of the next call
	Gap    bool   // events after the place were kept their time and are gone
}

// Events lists what happened to the caller after an event, oldest first; after
// is empty for all that is kept. It refuses with invalid_query what is no event's
// id, and with unauthorized a caller that is gone.
func (s *Store) Events(ctx context.Context, caller Caller, after string, limit int) (page EventPage, err error) {
	from := int64(0)
	if after != "" {
		var ok bool
		if from, ok = parseEventID(after); !ok {
			return page, &Error{Code: CodeInvalidQuery, Faults: []Fault{{Field: "after", Code: FaultBadValue, Topic: "event"}}}
		}
	}
	page.Events = []Event{}
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
		err = refuse(CodeUnauthorized) // deleted, perhaps while it waited
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
		e.ID = eventID(e.At, e.Seq)
		page.Next = e.ID
	}
	if len(page.Events) == 0 && (after == "" || page.Gap) {
		// Behind what was dropped, so that no gap is told twice.
		page.Next = eventID(at(s.clock()), dropped)
	}
	return page, nil
}

// dropEvents forgets the events that were kept their time.
func (t *tx) dropEvents() error {
	before := t.now.add(-eventsKept)
	err := t.Exec(`
		UPDATE agents SET events_dropped = (SELECT MAX(seq) FROM events e WHERE e.agent_id = agents.id AND e.at <= ?1)
		WHERE id IN (SELECT agent_id FROM events WHERE at <= ?1)`, before)
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM events WHERE at <= ?`, before)
}
