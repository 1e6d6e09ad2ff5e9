package store

// ContactPolicy says which contact requests an agent takes (specification:
// ContactPolicy).
type ContactPolicy struct {
	Accepting           bool    `json:"accepting" db:"accepting" doc:"Whether requests are accepted."`
	MinLevel            int     `json:"min_level" db:"min_level" minimum:"1" maximum:"2" doc:"Least trust level of a sender: 1 mailbox verified, 2 owner claimed."`
	RequireOffering     bool    `json:"require_offering" db:"require_offering" doc:"Whether a request must carry offering_id."`
	WeeklyCap           int     `json:"weekly_cap" db:"weekly_cap" minimum:"1" maximum:"50" doc:"Requests received in 7 days at most."`
	Note                *string `json:"note" db:"note" maxLength:"200" doc:"Note to senders; null when unset."`
	RequireOwnerReceipt bool    `json:"require_owner_receipt" db:"require_owner_receipt" doc:"Whether the owner agrees to each acceptance; setting it needs level 2."`
}

// PolicySettings is a ContactPolicy in a merge patch.
type PolicySettings ContactPolicy

// defaultPolicy is a new agent's.
var defaultPolicy = ContactPolicy{Accepting: true, MinLevel: 1, RequireOffering: true, WeeklyCap: 10}

// declineCooldown is how long an agent waits before it asks again one that said
// no: for contact, or to confirm a collaboration.
const declineCooldown = 30 * Day

// approach is what a policy looks at: one sender before one recipient.
type approach struct {
	now           Time
	self          bool
	level         int // the sender's
	blocked       bool
	offeringGiven bool
	offeringKnown bool   // it is the recipient's own
	open          bool   // a request between the two, in this direction, is open
	declinedAt    *Time  // the newest decline between the two, in this direction
	daily         int    // requests a day that the sender may send; 0 for no limit
	sent          []Time // by the sender today, newest first, at most daily
	received      []Time // by the recipient this week, newest first, at most the weekly cap
}

// admits applies the rules in the contract's order; nil admits.
func (p ContactPolicy) admits(a approach) *Error {
	switch {
	case a.self:
		return refuse(CodeSelfRequest)
	case a.level < 1:
		return &Error{Code: CodeTrustTooLow, Topic: "verify"}
	case a.level < p.MinLevel:
		return &Error{Code: CodeTrustTooLow, Topic: "min_level", Limit: p.MinLevel}
	case !p.Accepting || a.blocked:
		return refuse(CodeNotAccepting)
	case p.RequireOffering && !a.offeringGiven:
		return invalid(Fault{Field: "offering_id", Code: FaultRequired, Topic: "offering"})
	case a.offeringGiven && !a.offeringKnown:
		return invalid(Fault{Field: "offering_id", Code: FaultUnknownID, Topic: "theirs"})
	case a.open:
		return &Error{Code: CodeDuplicate, Topic: "request"}
	case a.declinedAt != nil && a.declinedAt.add(declineCooldown) > a.now:
		return &Error{Code: CodeCooldown, Topic: "request", RetryAt: a.declinedAt.add(declineCooldown).Time()}
	case a.daily > 0 && len(a.sent) >= a.daily:
		return &Error{Code: CodeSenderLimitReached, Topic: "request", Limit: a.daily, RetryAt: a.sent[a.daily-1].add(Day).Time()}
	case len(a.received) >= p.WeeklyCap:
		return &Error{Code: CodeWeeklyCapReached, Limit: p.WeeklyCap, RetryAt: a.received[p.WeeklyCap-1].add(week).Time()}
	}
	return nil
}
