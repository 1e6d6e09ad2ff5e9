package domain

import "time"

// MailCaps bound the mails that agents may cause; they hold across restarts. 0
// switches one off. A day is a rolling 24 hours.
type MailCaps struct {
	Pause   time.Duration // between two mails that one agent asks for
	Agent   int           // mails a day that one agent asks for
	Mailbox int           // mails a day to one mailbox, over all agents
	Site    int           // mails a day in all
}

// DefaultMailCaps are the contract's.
var DefaultMailCaps = MailCaps{Pause: time.Minute, Agent: 5, Mailbox: 3, Site: 200}

// The kinds of mails.
const (
	MailVerify  = "verify"
	MailRecover = "recover"
	MailClaim   = "claim" // asks the owner to confirm
	MailOwner   = "owner" // a fresh link to one who has
)

// Mail is a mail that is due.
type Mail struct {
	Seq       int64  `db:"seq"`
	ID        string `db:"id"` // the same for every try
	Kind      string `db:"kind"`
	To        string `db:"recipient"`
	Handle    string `db:"handle"`
	Name      string `db:"name"`
	Secret    string `db:"secret"` // the code, or the token of the owner's page
	Tries     int    `db:"tries"`  // deliveries begun before
	CreatedAt Time   `db:"created_at"`
	ExpiresAt Time   `db:"expires_at"`
}

// MailOutcome is how the delivery of a mail ended.
type MailOutcome int

// The outcomes.
const (
	MailDelivered MailOutcome = iota
	MailRefused               // for good: trying again is of no use
	MailDelayed               // not delivered; tried again later
	MailUncertain             // may have been delivered; tried again once
)

// MailBackoff is how long a mail waits after a try. It is longer than a delivery
// may take, so that a mail is never on two ways at once.
func MailBackoff(tries int) time.Duration {
	return min(time.Minute<<min(tries, 6), time.Hour)
}
