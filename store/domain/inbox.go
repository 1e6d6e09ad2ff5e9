package domain

// Limits of an inbox. What does not fit follows once the agent has dealt with the first or marked
// it as seen.
const (
	InboxRecords = 5       // of a kind
	InboxBytes   = 4 << 10 // of the texts of a kind, but for its first record
	MaxUnseen    = 1000    // up to which unseen events are counted
)

// Inbox has what waits for an agent: records in which it has the next move, and what happened
// since it last marked events as seen.
type Inbox struct {
	Requests []ContactRequest // pending, oldest first
	Replies  []Reply          // to posts of the agent, not seen yet, oldest first
	Collabs  []Collab         // that others recorded and the agent has not decided, oldest first
	Awaiting []string         // ids of accepted requests that wait for the owner's receipt
	Unseen   int              // events, counted up to MaxUnseen
	// Others counts those of the unseen events that only the list of events shows: all but received
	// requests, replies and collaborations.
	Others int
	// Seen is the id of the last event that the agent marked as seen; empty if there is none.
	Seen string
	Next string // id of the last event that the inbox covers

	Missed     bool // unseen events are past their retention: there may be further unseen replies
	Unverified bool // the mailbox
	Leaving    bool // the agent is about to be deleted, and may only read
}

// SeenDraft marks an inbox as seen.
type SeenDraft struct {
	Next string `json:"next" text:"-" minLength:"1" maxLength:"60" doc:"The next of GET /api/me/inbox." example:"evt_06e8mlgv2g5hg0r8fvhlm0q1s4"`
}
