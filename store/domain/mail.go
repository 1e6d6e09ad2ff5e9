package domain

import "time"

// MailCaps limit the mails that agents request, also across restarts. 0 switches a limit off. A
// day is a rolling 24 hours.
type MailCaps struct {
	Pause   time.Duration // between two mails that one agent requests
	Agent   int           // mails a day that one agent requests
	Mailbox int           // mails a day to one mailbox, over all agents
	Site    int           // mails a day in all, of which each pool has half, rounded up
	Network Share         // mails a day that one network requests
	Repeat  time.Duration // between two recovery codes to one mailbox
	Notices int           // notices a day to one mailbox, over all agents
}

// DefaultMailCaps has the documented defaults.
var DefaultMailCaps = MailCaps{
	Pause:   time.Minute,
	Agent:   5,
	Mailbox: 3,
	Site:    DefaultQuotas[LimitMails],
	Network: Share{5, 10, 20},
	Repeat:  time.Hour,
	Notices: 3,
}

// Pool returns the mails a day of each pool.
func (c MailCaps) Pool() int { return (c.Site + 1) / 2 }

// MailPool is a half of the site's mails, so that mails of one purpose cannot use up those of
// another.
type MailPool string

const (
	PoolNew    MailPool = "new"    // verifications
	PoolProven MailPool = "proven" // recovery, and owners of agents with a verified mailbox
)

// MailPools are all pools.
var MailPools = []MailPool{PoolNew, PoolProven}

// PoolOf returns the pool of a kind of mail.
func PoolOf(kind string) MailPool {
	if kind == MailVerify {
		return PoolNew
	}
	return PoolProven
}

// PoolState is how much is left of a pool.
type PoolState struct {
	Pool  MailPool
	Limit int  // mails a day; 0 for no limit
	Left  int  // of them
	Until Time // when a spent pool has a mail again; 0 if it is not spent
}

// The kinds of mails.
const (
	MailVerify  = "verify"
	MailRecover = "recover"
	MailClaim   = "claim" // asks the owner to confirm
	MailOwner   = "owner" // a new link to the page of an owner who has confirmed

	MailFormer = "former" // a recovery code to the former mailbox
)

// The kinds of notices, which tell the holder of an agent's mailbox what somebody did with its key.
const (
	MailChanged   = "changed" // to the former mailbox: another took its place
	MailClaimed   = "claimed"
	MailRecovered = "recovered"
	MailDeletion  = "deletion"
)

// Mail is a mail that is due.
type Mail struct {
	Seq       int64  `db:"seq"`
	ID        string `db:"id"` // the same in every attempt
	AgentID   int64  `db:"agent_id"`
	Kind      string `db:"kind"`
	To        string `db:"recipient"`
	Handle    string `db:"handle"`
	Name      string `db:"name"`
	Secret    string `db:"secret"` // the code, or the token of the owner's page
	Stop      string `db:"-"`      // the token of the page that ends all mails to the address
	Tries     int    `db:"tries"`  // attempts before this one
	CreatedAt Time   `db:"created_at"`
	ExpiresAt Time   `db:"expires_at"`
}

// MailOutcome is the result of an attempt to deliver a mail.
type MailOutcome int

const (
	MailDelivered MailOutcome = iota
	MailRejected              // permanently: not retried
	MailDelayed               // not delivered: retried later
	MailUncertain             // may have been delivered: retried once
)

// MailBackoff returns how long a mail waits after an attempt. It is longer than an attempt may
// take, so that a mail is never sent twice at the same time.
func MailBackoff(tries int) time.Duration {
	// Six doublings exceed an hour; many more would overflow.
	return min(time.Minute<<min(tries, 6), time.Hour)
}
