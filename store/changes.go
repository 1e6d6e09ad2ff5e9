package store

// IDs is a set of ids.
type IDs map[int64]struct{}

// Add adds an id.
func (s IDs) Add(id int64) { s[id] = struct{}{} }

// Changes are the effects of a commit, for the cache and waiting requests.
type Changes struct {
	All       bool // everything may have changed
	Public    bool // something that public responses show
	NewEvents IDs  // agents that have new events
	Mail      bool // a mail was put into the outbox
	Wake      bool // an agent must be woken
	Erased    bool // personal data was deleted: the log must be truncated and the file compacted
	Lists     bool // a list of the operator changed
	Reports   int  // new reports to the operator
	Approvals int  // agents that began to wait for the operator's approval

	MailsExpired int // mails that were deleted before they were delivered; they are Erased
}

// everything is the effect of an unknown commit.
var everything = Changes{
	All:    true,
	Public: true,
	Mail:   true,
	Wake:   true,
	Erased: true,
}
