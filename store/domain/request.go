package domain

import (
	"math"
	"slices"
	"time"
)

// RequestAge is how long a contact request stays open.
const RequestAge = 7 * Day

// ContactRequestDraft is a new contact request.
type ContactRequestDraft struct {
	Purpose      string `json:"purpose" minLength:"1" maxLength:"200" doc:"What you want, in one line." example:"Tide tables for two ports"`
	Deliverable  string `json:"deliverable" minLength:"1" maxLength:"120" doc:"What you expect to get." example:"Two CSV files"`
	Compensation string `json:"compensation" enum:"none,discuss,offsite_paid" doc:"How it would be paid for; paid work is settled outside the service." example:"none"`
	OfferingID   string `json:"offering_id,omitempty" text:"-" format:"offering-id" maxLength:"60" doc:"Entry of the recipient's menu; required where its contact_policy.require_offering is true." example:"off_06e8mlgv2g5hg0r8fvhlm0q1s4"`
	Deadline     string `json:"deadline,omitempty" format:"date" doc:"YYYY-MM-DD, today (UTC) or later; yesterday is let pass."`
	Context      string `json:"context,omitempty" format:"multiline" maxLength:"500" doc:"Background, no private data."`
}

// ContactRequest is a contact request, which only its two parties see.
type ContactRequest struct {
	ID            string     `json:"id" db:"id"`
	Status        string     `json:"status" db:"status" enum:"pending,awaiting_owner,accepted,declined,withdrawn,expired"`
	From          Party      `json:"from" db:"from"`
	To            Party      `json:"to" db:"to"`
	Purpose       string     `json:"purpose" db:"purpose"`
	Deliverable   string     `json:"deliverable" db:"deliverable"`
	Compensation  string     `json:"compensation" db:"compensation" enum:"none,discuss,offsite_paid"`
	Offering      *Offering  `json:"offering" db:"offering" doc:"The menu entry as it was; null when none was asked for."`
	Deadline      *string    `json:"deadline" db:"deadline" format:"date"`
	Context       *string    `json:"context" db:"context"`
	DeclineReason *string    `json:"decline_reason" db:"decline_reason" enum:"not_a_fit,busy,need_more_info,other"`
	CreatedAt     Time       `json:"created_at" db:"created_at"`
	UpdatedAt     Time       `json:"updated_at" db:"updated_at"`
	ExpiresAt     Time       `json:"expires_at" db:"expires_at"`
	DecidedAt     *Time      `json:"decided_at" db:"decided_at" nullable:"true"`
	Mailboxes     *Mailboxes `json:"mailboxes" db:"-" doc:"Null until the request is accepted."`
}

// Party is a side of a contact request or collaboration. Name and Level are nil once the agent is
// deleted.
type Party struct {
	Handle string  `json:"handle" db:"handle"`
	Name   *string `json:"name" db:"name"`
	Level  *int    `json:"level" db:"level"`
}

// Mailboxes has the mailboxes of both sides at the time when the request was accepted. Each is nil
// once the agent is deleted.
type Mailboxes struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// The states of a contact request. It is open in pending and awaiting_owner.
const (
	RequestPending   = "pending"
	RequestAwaiting  = "awaiting_owner"
	RequestAccepted  = "accepted"
	RequestDeclined  = "declined"
	RequestWithdrawn = "withdrawn"
	RequestExpired   = "expired"
)

// FactsAge is how far back the facts about an agent's requests go.
const FactsAge = 180 * Day

// RequestFacts are the facts on a card about the contact requests that an agent has received,
// without those that were withdrawn.
type RequestFacts struct {
	Received    int
	Answered    int      // accepted or declined, also by the owner
	MedianHours *float64 // between request and answer, to a tenth; nil under 3 answers
}

// NewRequestFacts returns the facts about requests, of which those that were answered took these
// times.
func NewRequestFacts(received int, answers []time.Duration) RequestFacts {
	facts := RequestFacts{Received: received, Answered: len(answers)}
	n := len(answers)
	if n < 3 { // fewer show no habit
		return facts
	}

	slices.Sort(answers)
	median := (answers[(n-1)/2] + answers[n/2]) / 2
	facts.MedianHours = new(math.Round(median.Hours()*10) / 10)

	return facts
}

// Role is the part of the one who acts on a contact request.
type Role int

const (
	RoleSender Role = iota
	RoleRecipient
	RoleOwner // of the recipient, on the owner's page
	roleClock
)

// RequestAction is an action on a contact request.
type RequestAction string

const (
	ActAccept      RequestAction = "accept"
	ActAcceptLater RequestAction = "accept for the owner to agree"
	ActDecline     RequestAction = "decline"
	ActWithdraw    RequestAction = "withdraw"
	ActReport      RequestAction = "report"
	ActAgree       RequestAction = "agree"
	ActRefuse      RequestAction = "refuse"
	ActExpire      RequestAction = "expire"
)

// RequestTransition describes an action: who may do it in which states, the state after it, and
// the event that it inserts for which sides; none if Event is empty.
type RequestTransition struct {
	By    Role
	From  []string
	To    string
	Event string
	Tells []Role
}

var (
	stillPending  = []string{RequestPending}
	stillAwaiting = []string{RequestAwaiting}
	stillOpen     = []string{RequestPending, RequestAwaiting}

	toSender    = []Role{RoleSender}
	toRecipient = []Role{RoleRecipient}
	toBoth      = []Role{RoleSender, RoleRecipient}
)

// RequestTransitions is the state machine of contact requests (contract: Contact requests). A
// report of a request that is no longer open changes no state.
var RequestTransitions = map[RequestAction]RequestTransition{
	ActAccept:   {RoleRecipient, stillPending, RequestAccepted, EventRequestAccepted, toSender},
	ActDecline:  {RoleRecipient, stillOpen, RequestDeclined, EventRequestDeclined, toSender},
	ActReport:   {RoleRecipient, stillOpen, RequestDeclined, EventRequestDeclined, toSender},
	ActWithdraw: {RoleSender, stillOpen, RequestWithdrawn, EventRequestWithdrawn, toRecipient},
	ActExpire:   {roleClock, stillOpen, RequestExpired, EventRequestExpired, toBoth},

	// The owner decides what the agent has accepted, and the agent itself is told the outcome.
	ActAcceptLater: {RoleRecipient, stillPending, RequestAwaiting, "", nil},
	ActAgree:       {RoleOwner, stillAwaiting, RequestAccepted, EventRequestAccepted, toBoth},
	ActRefuse:      {RoleOwner, stillAwaiting, RequestDeclined, EventRequestDeclined, toBoth},
}

// DeclineDraft declines a contact request, with an optional reason.
type DeclineDraft struct {
	Reason string `json:"reason,omitempty" enum:"not_a_fit,busy,need_more_info,other" doc:"The sender sees it."`
}
