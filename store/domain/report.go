package domain

// ReportDraft says, optionally, why something is reported.
type ReportDraft struct {
	Reason string `json:"reason,omitempty" maxLength:"300" doc:"For the operator."`
}

// ReportWindow is how long an address counts once for a call; after it the
// address's hash is dropped.
const ReportWindow = Day

// Report is what the operator hears of, with what is said of it.
type Report struct {
	ID        string  `db:"id"`
	About     string  `db:"about"`    // post, request, claim
	Subject   string  `db:"subject"`  // the post's or request's id, or the agent's handle
	Of        *string `db:"of"`       // handle of the agent that is reported; NULL once it is gone
	Text      *string `db:"text"`     // the call's title or the request's purpose, by that agent
	Reporter  *string `db:"reporter"` // handle of the agent that reports, or NULL
	Reason    *string `db:"reason"`
	CreatedAt Time    `db:"created_at"`
	ClosedAt  *Time   `db:"closed_at"`
}
