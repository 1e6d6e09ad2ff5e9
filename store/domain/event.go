package domain

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
)

// EventRetention is how long an agent can still hear of what happened.
const EventRetention = 30 * Day

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

// An event's id is made of its time and its seq, so that the id of one that is
// no longer kept still says where its reader was.
const IdEvent = "evt_"

func EventID(at Time, seq int64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(at)<<16)
	binary.BigEndian.PutUint64(raw[8:], uint64(seq))
	return IdEvent + idEncoding.EncodeToString(raw[:])
}

func ParseEventID(id string) (seq int64, ok bool) {
	body, ok := strings.CutPrefix(id, IdEvent)
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
