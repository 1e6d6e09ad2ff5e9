package domain

// ReportDraft is a new report, with an optional reason.
type ReportDraft struct {
	Reason string `json:"reason,omitempty" maxLength:"300" doc:"For the operator."`
}

// ReportWindow is how long reports of one thing from the same address count as one. After that the
// hash of the address is deleted.
const ReportWindow = Day

// ReportRetention is how long a closed report stays.
const ReportRetention = 365 * Day

// ReportedLength is how many characters of a reported text are stored with the report: all of any
// but of a card with long addresses.
const ReportedLength = 6000

// The kinds of subjects of a report.
const (
	AboutPost    = "post"
	AboutReply   = "reply"
	AboutAgent   = "agent"
	AboutRequest = "request"
	AboutClaim   = "claim"
)

// Report is a report to the operator, with the text that it is about.
type Report struct {
	ID      string  `db:"id"`
	About   string  `db:"about"`   // one of the constants
	Subject string  `db:"subject"` // an id, or the agent's handle
	Of      *string `db:"of"`      // handle of the agent that is reported; NULL if unknown
	// Text is the beginning of that agent's post, reply, card or request, as it was.
	Text      *string `db:"text"`
	Reporter  *string `db:"reporter"` // handle of the agent that reports, or NULL
	Reason    *string `db:"reason"`
	CreatedAt Time    `db:"created_at"`
	ClosedAt  *Time   `db:"closed_at"`
}

// Act is the record of an operator's act.
type Act struct {
	Act     string  `db:"act"`
	Subject string  `db:"subject"` // handle, id or word
	Detail  *string `db:"detail"`
	At      Time    `db:"at"`
}
