package store

import (
	"context"
	"crypto/subtle"
	"time"

	"callbook/store/domain"
	"callbook/store/text"
)

// An agent requests a claim by its owner, whom a mailed link leads to the owner's page. Only a
// keyed hash of the person's address is stored: the same hash is the same owner.

const (
	claimAge       = 72 * time.Hour
	claimRetention = 30 * domain.Day // how long an expired claim is shown
	unwantedAge    = 30 * domain.Day // how long a rejection stops further mails of the agent
)

// The states of a claim. An expired one is stored as pending, and one that has lapsed, because the
// mailbox changed, as claimed.
const (
	statusNone    = "none"
	statusPending = "pending"
	statusClaimed = "claimed"
	statusExpired = "expired"
)

// claimRow is a row of the table owner_claims.
type claimRow struct {
	AgentID     int64        `db:"agent_id"`
	Acts        int          `db:"acts"`
	Owner       []byte       `db:"owner"`
	Mailbox     string       `db:"mailbox"`
	Status      string       `db:"status"`
	MailboxAt   domain.Time  `db:"mailbox_at"`   // last confirmation, with Mailbox; 0 before
	ConfirmedAt *domain.Time `db:"confirmed_at"` // first confirmation
	RequestedAt domain.Time  `db:"requested_at"`
	ExpiresAt   domain.Time  `db:"expires_at"`
	UsedAt      domain.Time  `db:"used_at"` // of the link, to a day
}

const (
	claimColumns = `c.agent_id, c.acts, c.owner, c.mailbox, c.mailbox_at, c.confirmed_at, c.status,
		c.requested_at, c.expires_at, c.used_at`
	selectClaim = `SELECT ` + claimColumns + ` FROM owner_claims c`
)

func (c *claimRow) expired(now domain.Time) bool {
	return c.Status == statusPending && c.ExpiresAt <= now
}

// linkEnded reports whether the link that the claim was read by no longer works.
func (c *claimRow) linkEnded(now domain.Time) bool {
	return c.expired(now) || c.Status == statusClaimed && c.UsedAt.Add(linkAge) <= now
}

// ClaimOwner mails the owner a link that claims the caller. A repeated claim by the same address
// gets a new link, which replaces the one before when it is delivered. ClaimOwner returns
// validation_failed for an address at a blocked domain, trust_too_low if the mailbox is not
// verified, already_claimed for another address than that of the owner who has confirmed, which
// counts as a mail, and rate_limited past the caps on mails.
func (s *Store) ClaimOwner(
	ctx context.Context,
	caller domain.Caller,
	address string,
) (sent domain.CodeSent, err error) {
	token, err := domain.NewSecret(s.random)
	if err != nil {
		return sent, err
	}

	address = text.CanonicalMailbox(address)
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		draft := struct {
			Address string `json:"owner_email" format:"email"`
		}{address}
		if err := t.checkBlocks(draft); err != nil {
			return err
		}
		if agent.VerifiedAt == nil {
			return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "claim"}
		}

		order := mailOrder{
			AgentID: agent.ID,
			Kind:    domain.MailClaim,
			To:      address,
			From:    t.counted(caller.Address),
		}
		if err := t.claimOwner(agent, order, token); err != nil {
			return err
		}

		next, err := t.nextMailAllowed(order)
		sent = domain.CodeSent{ExpiresAt: t.Now.Add(claimAge), ResendAfter: next}
		return err
	})
	return sent, err
}

// claimOwner stores a claim by the person whom an order is to, and mails a link with token. If no
// mail may be sent, it does the rest all the same: the response must not reveal that.
func (t *tx) claimOwner(agent *agentRow, order mailOrder, token string) error {
	var claim claimRow
	found, err := t.Find(&claim, selectClaim+` WHERE agent_id = ?`, agent.ID)
	if err != nil {
		return err
	}

	// A wrong guess of the owner's address counts as a mail.
	owner := t.ownerHash(order.To)
	same := found && subtle.ConstantTimeCompare(claim.Owner, owner) == 1
	wrong := claim.Status == statusClaimed && !same
	allowed, err := t.spendMail(agent, order, !wrong)
	if err != nil {
		return err
	}
	if wrong {
		return domain.NewError(domain.CodeAlreadyClaimed)
	}

	if !same || claim.expired(t.Now) {
		if err := t.insertClaim(agent, owner, token); err != nil {
			return err
		}
		if !allowed {
			return t.deleteMail(agent.ID, order.Kind) // its link is replaced
		}
	} else {
		// The link before stays valid until the new one is delivered: a request for one to a
		// spelling of the address where no mail arrives could otherwise lock the owner out.
		err := t.Exec(`
			UPDATE owner_claims SET requested_at = ?, expires_at = ?
			WHERE agent_id = ?`, t.Now, t.Now.Add(claimAge), agent.ID)
		if err != nil || !allowed {
			return err
		}
	}

	if claim.Status == statusClaimed {
		order.Kind = domain.MailOwner
	}
	return t.insertMail(agent.ID, order.Kind, order.To, token, t.Now.Add(claimAge))
}

// ownerHash returns the pseudonym by which an owner is known.
func (t *tx) ownerHash(address string) []byte {
	return t.Pseudonym("owner\x00" + text.NormalMailbox(address))
}

// replaceOwnerLink makes the link in a mail that was delivered the one to the owner's page, unless
// the mail was deleted meanwhile, as by the end of the claim.
func (t *tx) replaceOwnerLink(mail *domain.Mail) error {
	return t.Exec(`
		UPDATE owner_claims SET token_hash = ?, used_at = ?
		WHERE agent_id = (SELECT agent_id FROM outbox WHERE seq = ?)`,
		domain.HashKey(mail.Secret), t.Now, mail.Seq)
}

// spendMail counts a mail that an agent requests, and reports whether it is sent: within the
// limits, if the site wants it sent, and unless the person at the address has recently rejected
// the agent. See allowMail for its errors.
func (t *tx) spendMail(agent *agentRow, order mailOrder, wanted bool) (sent bool, err error) {
	sent, err = t.allowMail(order)
	if err != nil {
		return false, err
	}

	sent = sent && wanted
	if sent {
		err := t.Get(&sent, `
			SELECT NOT EXISTS (
				SELECT 1 FROM reports
				WHERE about = 'claim' AND subject = ? AND reporter = ? AND created_at > ?)`,
			agent.Handle, t.ownerHash(order.To), t.Now.Add(-unwantedAge))
		if err != nil {
			return false, err
		}
	}

	// One that is not sent counts, too: the limits must not reveal the reason.
	return sent, t.countMail(order, sent)
}

// insertClaim stores a pending claim, in place of one that is not confirmed.
func (t *tx) insertClaim(agent *agentRow, owner []byte, token string) error {
	return t.Exec(`
		INSERT INTO owner_claims
			(agent_id, token_hash, acts, owner, mailbox, status, requested_at, expires_at, used_at)
		VALUES (?, ?, 0, ?, ?, 'pending', ?, ?, ?)
		ON CONFLICT (agent_id) DO UPDATE SET
			token_hash = excluded.token_hash,
			owner = excluded.owner,
			mailbox = excluded.mailbox,
			requested_at = excluded.requested_at,
			expires_at = excluded.expires_at`,
		agent.ID, domain.HashKey(token), owner, agent.Mailbox, t.Now, t.Now.Add(claimAge), t.Now)
}

// ownerClaim returns the state of an agent's claim as the agent sees it.
func (s *Store) ownerClaim(ctx context.Context, agentID int64) (domain.OwnerClaim, error) {
	var row struct {
		claimRow
		ClaimedAt *domain.Time `db:"claimed_at"`
	}

	found, err := s.db.Find(ctx, &row, `
		SELECT `+claimColumns+`, a.claimed_at
		FROM owner_claims c
		JOIN agents a ON a.id = c.agent_id
		WHERE c.agent_id = ?`, agentID)
	if err != nil || !found {
		return domain.OwnerClaim{Status: statusNone}, err
	}

	claim := domain.OwnerClaim{Status: row.Status, RequestedAt: &row.RequestedAt}
	switch {
	case row.expired(s.now()):
		claim.Status = statusExpired
		claim.ExpiresAt = &row.ExpiresAt

	case row.Status == statusPending:
		claim.ExpiresAt = &row.ExpiresAt

	case row.ClaimedAt == nil: // it lapsed, and the owner can confirm it again
		claim.Status = statusPending
	}

	return claim, nil
}

// hasOwner reports whether a person has claimed an agent and still has the owner's page. The claim
// may have lapsed: that is for the owner to settle, and not for the key.
func (t *tx) hasOwner(agentID int64) (owned bool, err error) {
	err = t.Get(&owned, `
		SELECT EXISTS (
			SELECT 1 FROM owner_claims
			WHERE agent_id = ? AND status = 'claimed')`, agentID)
	return owned, err
}

// confirmClaim makes the person who got the link the owner, for the mailbox that the agent has now.
func (t *tx) confirmClaim(claim *claimRow, agent *agentRow) error {
	if agent.VerifiedAt == nil {
		return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "claim"}
	}

	var others int
	err := t.Get(&others, `
		SELECT COUNT(*) FROM agents
		WHERE claimed_by = ? AND id <> ?`, claim.Owner, agent.ID)
	if err != nil {
		return err
	}
	limit := t.store.quotas[domain.LimitOwnerAgents]
	if limit > 0 && others >= limit {
		return &domain.Error{
			Code:    domain.CodeSenderLimitReached,
			Topic:   "owner_agents",
			Limit:   limit,
			RetryAt: t.Now.Add(domain.Day).Time(),
		}
	}

	err = t.Exec(`
		UPDATE owner_claims SET
			status = 'claimed',
			mailbox = ?1,
			mailbox_at = ?2,
			confirmed_at = COALESCE(confirmed_at, ?2)
		WHERE agent_id = ?3`, agent.Mailbox, t.Now, agent.ID)
	if err != nil {
		return err
	}

	// The holder of the mailbox hears of a new owner, not of one who confirms again.
	if claim.Status == statusPending {
		if err := t.notify(agent, domain.MailClaimed); err != nil {
			return err
		}
	}

	agent.ClaimedAt = &t.Now
	agent.ClaimedBy = claim.Owner
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}

// rejectClaim deletes a claim that the person does not know of, and reports it to the operator.
func (t *tx) rejectClaim(claim *claimRow, agent *agentRow) error {
	if err := t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID); err != nil {
		return err
	}
	if err := t.deleteMail(agent.ID, domain.MailClaim); err != nil {
		return err
	}

	// With the person's pseudonym, by which spendMail finds that further mails are unwanted.
	return t.insertReport(report{
		About:    domain.AboutClaim,
		Subject:  agent.Handle,
		AuthorID: agent.ID,
		Reporter: claim.Owner,
	})
}
