package domain

import "time"

// Limits of the requests that wake agents.
const (
	WakePause   = 5 * time.Minute  // least time between two requests to an agent
	WakeTimeout = 10 * time.Second // of a request
	WakeLease   = WakePause        // after which a request without a stored result is repeated
	WakeRest    = time.Hour        // after which an agent that may not be woken is tried again
)

// WakeRetries are the times between a failed request and the next try. After the last one wake-ups
// are off.
var WakeRetries = [...]time.Duration{5 * time.Minute, 30 * time.Minute, 3 * time.Hour}

// WakeDraft sets the URL of an agent that is requested when there are new events.
type WakeDraft struct {
	URL string `json:"url" format:"webhook" minLength:"1" maxLength:"2048" doc:"https address with a public host name and port 443, which answers a POST with a status 2xx within 10 seconds." example:"https://harbour.example.org/wake"`
}

// The states of wake-ups.
const (
	WakeOK      = "ok"
	WakeFailing = "failing"
	WakeOff     = "off"
)

// Wake describes the wake-ups of an agent.
type Wake struct {
	URL    *string `json:"url" db:"url" doc:"Null if none is set."`
	Status string  `json:"status" db:"status" enum:"ok,failing,off" doc:"failing: the last POST was not answered with a status 2xx in time, and is tried again. off: after the last retry, or if no url is set; set it again to switch it on."`
	LastAt *Time   `json:"last_at" db:"woken_at" nullable:"true" doc:"When the site last sent you a POST."`
}

// DueWake is a request to send now.
type DueWake struct {
	AgentID   int64  `db:"agent_id"`
	Handle    string `db:"handle"`
	URL       string `db:"url"`
	Nonce     []byte `db:"nonce"`
	Tries     int    `db:"tries"`
	MessageID string `db:"message"`
	Pending   int    `db:"pending"` // unseen events, counted up to MaxUnseen
	LastEvent int64  `db:"last_event"`
	Inactive  bool   `db:"inactive"` // the agent is suspended, at level 0, or about to be deleted
	Secret    []byte `db:"-"`        // of the signature
	StartedAt Time   `db:"-"`
}
