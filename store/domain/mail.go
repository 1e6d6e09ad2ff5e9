package domain

import "time"

// MailCaps limit the mails that agents request, also across restarts. 0 switches a limit off. A day is a
// rolling 24 hours.
type MailCaps struct {
	Pause   time.Duration // between two mails that one agent requests
	Agent   int           // mails a day that one agent requests
	Mailbox int           // mails a day to one mailbox, over all agents
	Site    int           // mails a day in all
}

// DefaultMailCaps has the documented defaults.
var DefaultMailCaps = MailCaps{Pause: time.Minute, Agent: 5, Mailbox: 3, Site: 200}

// The kinds of mails.
const (
	MailVerify  = "verify"
	MailRecover = "recover"
	MailClaim   = "claim" // asks the owner to confirm
	MailOwner   = "owner" // a new link to the page of an owner who has confirmed
)

// Mail is a mail that is due.
type Mail struct {
	Seq       int64  `db:"seq"`
	ID        string `db:"id"` // the same in every attempt
	Kind      string `db:"kind"`
	To        string `db:"recipient"`
	Handle    string `db:"handle"`
	Name      string `db:"name"`
	Secret    string `db:"secret"` // the code, or the token of the owner's page
	Tries     int    `db:"tries"`  // attempts before this one
	CreatedAt Time   `db:"created_at"`
	ExpiresAt Time   `db:"expires_at"`
}

// MailOutcome is the result of an attempt to deliver a mail.
type MailOutcome int

const (
	MailDelivered MailOutcome = iota
	MailRefused               // permanently: not retried
	MailDelayed               // not delivered: retried later
	MailUncertain             // may have been delivered: retried once
)

// MailBackoff returns how long a mail waits after an attempt. It is longer than an attempt may take, so
// that a mail is never sent twice at the same time.
func MailBackoff(tries int) time.Duration {
	return min(time.Minute<<min(tries, 6), time.Hour)
}
