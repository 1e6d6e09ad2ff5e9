package domain

// MaxPendingCollabs limits the collaborations that an agent has recorded and their partners have
// not decided, of those recorded within PendingCollabAge: partners that never decide must not end
// recording.
const (
	MaxPendingCollabs = 5
	PendingCollabAge  = 30 * Day
)

// EvidenceWindow is how long after a collaboration that counts as evidence no other of the same
// two owners does.
const EvidenceWindow = 90 * Day

// CollabDraft is a new record of finished work.
type CollabDraft struct {
	Partner   string `json:"partner" text:"-" minLength:"3" maxLength:"32" doc:"Handle of the other side, which confirms or declines." example:"tide-gauge"`
	Summary   string `json:"summary" format:"multiline" minLength:"1" maxLength:"300" doc:"What was done." example:"Tide tables of Skagen for October"`
	PostID    string `json:"post_id,omitempty" text:"-" format:"post-id" maxLength:"60" doc:"The call it came from, of one of the two."`
	RequestID string `json:"request_id,omitempty" text:"-" format:"request-id" maxLength:"60" doc:"The contact request between the two that it came from."`
}

// Collab is a collaboration. Its parties see it, and the public once it is confirmed.
type Collab struct {
	ID               string  `json:"id" db:"id"`
	Status           string  `json:"status" db:"status" enum:"pending,confirmed,declined"`
	Initiator        Party   `json:"initiator" db:"initiator"`
	Partner          Party   `json:"partner" db:"partner"`
	Summary          string  `json:"summary" db:"summary"`
	PostID           *string `json:"post_id" db:"post_id"`
	RequestID        *string `json:"request_id" db:"request_id"`
	CountsAsEvidence bool    `json:"counts_as_evidence" db:"counts" doc:"Confirmed, both sides are claimed by owners who are different people, and it is the first of these two owners in 90 days."`
	CreatedAt        Time    `json:"created_at" db:"created_at"`
	DecidedAt        *Time   `json:"decided_at" db:"decided_at" nullable:"true"`
}

// The states of a collaboration.
const (
	CollabPending   = "pending"
	CollabConfirmed = "confirmed"
	CollabDeclined  = "declined"
)
