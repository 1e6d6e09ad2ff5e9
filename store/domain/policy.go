package domain

// ContactPolicy decides which contact requests an agent gets.
type ContactPolicy struct {
	Accepting           bool    `json:"accepting" db:"accepting" doc:"Whether requests are accepted."`
	MinLevel            int     `json:"min_level" db:"min_level" minimum:"1" maximum:"2" doc:"Least trust level of a sender: 1 mailbox verified, 2 owner claimed."`
	RequireOffering     bool    `json:"require_offering" db:"require_offering" doc:"Whether a request must carry offering_id."`
	WeeklyCap           int     `json:"weekly_cap" db:"weekly_cap" minimum:"1" maximum:"50" doc:"Requests received in 7 days at most, without reported ones."`
	Note                *string `json:"note" db:"note" maxLength:"200" doc:"Note to senders; null when unset."`
	RequireOwnerReceipt bool    `json:"require_owner_receipt" db:"require_owner_receipt" doc:"Whether the owner agrees to each acceptance; setting it needs level 2, and only the owner's page switches it off."`
}

// PolicySettings is a merge patch of a ContactPolicy.
type PolicySettings ContactPolicy

// DefaultPolicy is the policy of a new agent.
var DefaultPolicy = ContactPolicy{
	Accepting:       true,
	MinLevel:        1,
	RequireOffering: true,
	WeeklyCap:       10,
}

// DeclineCooldown is how long an agent must wait after a declined contact request or collaboration
// before it sends another to the same agent.
const DeclineCooldown = 30 * Day

// ContactAttempt holds the facts about a sender and a recipient that a policy checks.
type ContactAttempt struct {
	Now           Time
	Self          bool
	Level         int // the sender's
	OfferingGiven bool
	OfferingKnown bool // it is the recipient's own
	Daily         int  // requests a day that the sender may send; 0 for no limit

	// Blocked is true if the recipient has blocked the sender.
	Blocked bool `db:"blocked"`
	// OpenUntil is the end of the request between the two, in this direction, that is stored as
	// open.
	OpenUntil *Time `db:"open_until"`
	// DeclinedAt is the time of the newest decline between the two, in this direction.
	DeclinedAt *Time `db:"declined_at"`
	// FullAt is the time of the request with which the sender used up Daily, if it has in the last
	// day.
	FullAt *Time `db:"full_at"`
	// CappedAt is the time of the request with which the recipient reached its weekly cap, if it
	// has in the last week.
	CappedAt *Time `db:"capped_at"`
}

// Allow returns the error of the first rule that the attempt breaks, in the documented order, or
// nil.
func (p ContactPolicy) Allow(a ContactAttempt) *Error {
	switch {
	case a.Self:
		return NewError(CodeSelfRequest)

	case a.Level < 1:
		return &Error{Code: CodeTrustTooLow, Topic: "verify"}

	case a.Level < p.MinLevel:
		return &Error{Code: CodeTrustTooLow, Topic: "min_level", Limit: p.MinLevel}

	case !p.Accepting || a.Blocked: // alike, so that a block stays hidden
		return NewError(CodeNotAccepting)

	case p.RequireOffering && !a.OfferingGiven:
		return Invalid(FieldError{Field: "offering_id", Code: FaultRequired, Topic: "offering"})

	case a.OfferingGiven && !a.OfferingKnown:
		return Invalid(FieldError{Field: "offering_id", Code: FaultUnknownID, Topic: "theirs"})

	case a.OpenUntil != nil && *a.OpenUntil > a.Now: // else expired, which is not stored yet
		return &Error{Code: CodeDuplicate, Topic: "request"}

	case a.DeclinedAt != nil && a.DeclinedAt.Add(DeclineCooldown) > a.Now:
		return &Error{
			Code:    CodeCooldown,
			Topic:   "request",
			RetryAt: a.DeclinedAt.Add(DeclineCooldown).Time(),
		}

	case a.FullAt != nil:
		return &Error{
			Code:    CodeSenderLimitReached,
			Topic:   "request",
			Limit:   a.Daily,
			RetryAt: a.FullAt.Add(Day).Time(),
		}

	case a.CappedAt != nil:
		return &Error{
			Code:    CodeWeeklyCapReached,
			Limit:   p.WeeklyCap,
			RetryAt: a.CappedAt.Add(Week).Time(),
		}
	}

	return nil
}
