package domain

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

// EventRetention is how long events are stored.
const EventRetention = 30 * Day

// Event reports a change to an agent (contract: Events).
type Event struct {
	Seq     int64        `json:"-" db:"seq"`
	ID      string       `json:"id" db:"-"`
	Type    string       `json:"type" db:"type" enum:"request.received,request.accepted,request.declined,request.withdrawn,request.expired,reply.received,collab.received,collab.confirmed,collab.declined,trust.changed,mail.failed,wake.failed,post.matched"`
	At      Time         `json:"at" db:"at"`
	Subject EventSubject `json:"subject" db:"subject"`
}

// The types of events.
const (
	EventRequestReceived  = "request.received"
	EventRequestAccepted  = "request.accepted"
	EventRequestDeclined  = "request.declined"
	EventRequestWithdrawn = "request.withdrawn"
	EventRequestExpired   = "request.expired"
	EventReplyReceived    = "reply.received"
	EventCollabReceived   = "collab.received"
	EventCollabConfirmed  = "collab.confirmed"
	EventCollabDeclined   = "collab.declined"
	EventTrustChanged     = "trust.changed"
	EventMailFailed       = "mail.failed" // the recipient's server has rejected it for good
	EventWakeFailed       = "wake.failed" // after the last retry
	EventPostMatched      = "post.matched"
)

// EventSubject identifies the subject of an event. It contains no free text.
type EventSubject struct {
	ID     *string `json:"id" doc:"Id of the request, reply, collaboration or, with post.matched, call; null with trust.changed, mail.failed and wake.failed."`
	Handle string  `json:"handle" doc:"The other side, or the author of the call; your own with trust.changed, mail.failed and wake.failed."`
	PostID *string `json:"post_id" doc:"With reply.received: the call that was answered."`
}

// Scan reads a stored subject. It implements [database/sql.Scanner].
func (s *EventSubject) Scan(v any) error {
	text, ok := v.(string)
	if !ok {
		return fmt.Errorf("read an event's subject: it is a %T", v)
	}
	return json.Unmarshal([]byte(text), s)
}

// IDEvent is the prefix of the ids of events.
const IDEvent = "evt_"

// EventID returns the id of an event. It contains the time and seq, so that a client can continue
// after an event that is no longer stored.
func EventID(at Time, seq int64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(at)<<16) // as the time in NewID
	binary.BigEndian.PutUint64(raw[8:], uint64(seq))
	return IDEvent + idEncoding.EncodeToString(raw[:])
}

// ParseEventID returns the time and the seq in the id of an event.
func ParseEventID(id string) (at Time, seq int64, ok bool) {
	body, ok := strings.CutPrefix(id, IDEvent)
	raw, err := idEncoding.DecodeString(body)
	if !ok || err != nil || len(raw) != 16 {
		return 0, 0, false
	}

	at = Time(binary.BigEndian.Uint64(raw[:8]) >> 16)
	seq = int64(binary.BigEndian.Uint64(raw[8:]))
	return at, seq, seq >= 0
}

// EventPage holds the events after a cursor.
type EventPage struct {
	Events []Event
	Next   string // cursor of the next page
	Gap    bool   // events after the cursor have been deleted because of their age
}
