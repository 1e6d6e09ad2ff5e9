package store

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"callbook/store/domain"
)

// mailOrder is a mail that is requested for an agent.
type mailOrder struct {
	AgentID int64
	Kind    string
	To      string
	From    netip.Addr // client that requests it; its networks are not limited if it is invalid
}

// allowMail returns rate_limited if a cap of the agent, of the client's networks or of the pool is
// reached. If others have used up the mailbox's mails, or its holder wants none, it reports false
// without an error.
func (t *tx) allowMail(o mailOrder) (allowed bool, err error) {
	rejection, err := t.checkLimits(t.limitsOf(o))
	if err != nil {
		return false, err
	}
	if rejection != nil {
		return false, rejection
	}

	// No error of this: the response must not tell whether others use the mailbox.
	return t.mailboxAllowed(o)
}

// countMail counts a mail that was requested, whether or not it is sent.
func (t *tx) countMail(o mailOrder, sent bool) error {
	return errors.Join(t.logMail(o, sent), t.countNetwork(o.From))
}

// logMail records a mail for the caps.
func (t *tx) logMail(o mailOrder, sent bool) error {
	return t.Exec(
		`INSERT INTO mail_log (agent_id, mailbox_hash, pool, sent, at) VALUES (?, ?, ?, ?, ?)`,
		o.AgentID,
		t.MailboxHash(o.To),
		domain.PoolOf(o.Kind),
		sent,
		t.Now,
	)
}

// countNetwork counts a mail that a client requests in each of its networks.
func (t *tx) countNetwork(client netip.Addr) error {
	if t.store.mails.Network == (domain.Share{}) {
		return nil
	}

	for _, network := range domain.Networks(client) {
		err := t.Exec(`INSERT INTO mail_networks (network, at) VALUES (?, ?)`,
			t.NetworkHash(network), t.Now)
		if err != nil {
			return err
		}
	}

	return nil
}

// nextMailAllowed returns the earliest time at which an agent may request another mail.
func (t *tx) nextMailAllowed(o mailOrder) (domain.Time, error) {
	rejection, err := t.checkLimits(t.limitsOf(o))
	if rejection == nil {
		return t.Now, err
	}
	return domain.TimeOf(rejection.RetryAt), err
}

// spendRecovery counts a request for recovery mails against the networks of the client. It
// reports false if their cap is reached, and then counts nothing. next is the time from which
// the client may request another mail. Neither depends on the agent that the request is for.
func (t *tx) spendRecovery(client netip.Addr) (next domain.Time, allowed bool, err error) {
	networks := t.networkLimits(client)
	reached, err := t.checkLimits(networks)
	if err != nil {
		return 0, false, err
	}

	// A rejected request does not count, or a client that goes on would never get its turn.
	if reached == nil {
		if err := t.countNetwork(client); err != nil {
			return 0, false, err
		}
	}

	// The caps of agent and mailbox are left out: next must not tell whether the agent exists.
	rejection, err := t.checkLimits(append(networks, t.poolLimit(domain.PoolProven)))
	next = t.Now.Add(t.store.mails.Repeat)
	if rejection != nil {
		next = max(next, domain.TimeOf(rejection.RetryAt))
	}

	return next, reached == nil, err
}

// MailPools returns how much is left of each pool of the site's mails.
func (s *Store) MailPools(ctx context.Context) ([]domain.PoolState, error) {
	limit := s.mails.Pool()
	pools := make([]domain.PoolState, len(domain.MailPools))
	for i, pool := range domain.MailPools {
		var times []domain.Time
		err := s.db.Select(ctx, &times, `
			SELECT at
			FROM mail_log
			WHERE sent AND pool = ? AND at > ?
			ORDER BY at DESC
			LIMIT ?`, pool, s.now().Add(-domain.Day), limit)
		if err != nil {
			return nil, err
		}

		pools[i] = domain.PoolState{Pool: pool, Limit: limit, Left: limit - len(times)}
		if limit > 0 && len(times) == limit {
			pools[i].Until = times[limit-1].Add(domain.Day)
		}
	}
	return pools, nil
}

// mailLimit is a number of mails within a time.
type mailLimit struct {
	topic  string // of the rejection
	mails  int    // 0: no limit
	window time.Duration
	rows   string // the table and the rows that count
	args   []any
}

// reached reports whether no further mail is allowed, and returns when one is.
func (l mailLimit) reached(t *tx) (end domain.Time, reached bool, err error) {
	if l.mails == 0 {
		return 0, false, nil
	}

	// If as many mails are within the window, the oldest of them has to leave it first.
	var oldest domain.Time
	reached, err = t.Find(
		&oldest,
		`SELECT at FROM `+l.rows+` AND at > ? ORDER BY at DESC LIMIT 1 OFFSET ?`,
		append(slices.Clone(l.args), t.Now.Add(-l.window), l.mails-1)...)
	return oldest.Add(l.window), reached, err
}

// mailsPerDay returns a limit of mails a day. rows is the table and the rows that count, with args.
func mailsPerDay(topic string, mails int, rows string, args ...any) mailLimit {
	return mailLimit{
		topic:  topic,
		mails:  mails,
		window: domain.Day,
		rows:   rows,
		args:   args,
	}
}

// limitsOf returns the limits of an order whose rejection the agent may learn of.
func (t *tx) limitsOf(o mailOrder) []mailLimit {
	caps := &t.store.mails
	pause := mailsPerDay("mail_pause", 1, `mail_log WHERE agent_id = ?`, o.AgentID)
	pause.window = caps.Pause

	return append([]mailLimit{
		mailsPerDay("mails", caps.Agent, `mail_log WHERE agent_id = ?`, o.AgentID),
		pause,
		// An agent's mails to a mailbox count even if they were not sent, so that the response
		// tells nothing of other agents.
		mailsPerDay("mails_mailbox", caps.Mailbox,
			`mail_log WHERE agent_id = ? AND mailbox_hash = ?`, o.AgentID, t.MailboxHash(o.To)),
		t.poolLimit(domain.PoolOf(o.Kind)),
	}, t.networkLimits(o.From)...)
}

// networkLimits returns the limits of the networks of a client.
func (t *tx) networkLimits(client netip.Addr) (limits []mailLimit) {
	for i, network := range domain.Networks(client) {
		limits = append(limits, mailsPerDay("mails_network", t.store.mails.Network[i],
			`mail_networks WHERE network = ?`, t.NetworkHash(network)))
	}
	return limits
}

// poolLimit returns the limit of the mails a day of a pool.
func (t *tx) poolLimit(pool domain.MailPool) mailLimit {
	return mailsPerDay("mails_site", t.store.mails.Pool(), `mail_log WHERE sent AND pool = ?`, pool)
}

// mailboxLimit returns the limit of the mails a day to a mailbox, by its pseudonym. No response
// shows that it is reached, so it has no topic.
func mailboxLimit(mails int, mailbox []byte) mailLimit {
	return mailsPerDay("", mails, `mail_log WHERE mailbox_hash = ? AND sent`, mailbox)
}

// mailboxAllowed reports whether a mailbox has a mail of the day left for an order, and its holder
// wants mails.
func (t *tx) mailboxAllowed(o mailOrder) (bool, error) {
	mailbox := t.MailboxHash(o.To)
	if stopped, err := t.mailsStopped(mailbox); err != nil || stopped {
		return false, err
	}

	// The last mail of the day is kept for the recovery of an agent that is verified there:
	// strangers who register with the mailbox must not use it up.
	mails := t.store.mails.Mailbox
	if o.Kind != domain.MailRecover && mails > 1 {
		var verified bool
		err := t.Get(
			&verified,
			`SELECT EXISTS (SELECT 1 FROM agents WHERE mailbox_hash = ?)`,
			mailbox,
		)
		if err != nil {
			return false, err
		}
		if verified {
			mails--
		}
	}

	_, reached, err := mailboxLimit(mails, mailbox).reached(t)
	return !reached, err
}

// checkLimits returns the rejection by the limit that ends last of those that are reached; nil
// if none is.
func (t *tx) checkLimits(limits []mailLimit) (rejection *domain.Error, err error) {
	for _, l := range limits {
		end, reached, err := l.reached(t)
		if err != nil {
			return nil, err
		}

		// Until the last of them ends, another mail would be rejected.
		if reached && (rejection == nil || end.Time().After(rejection.RetryAt)) {
			rejection = &domain.Error{
				Code:    domain.CodeRateLimited,
				Topic:   l.topic,
				Limit:   l.mails,
				RetryAt: end.Time(),
			}
		}
	}

	return rejection, nil
}
