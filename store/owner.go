package store

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"time"

	"callbook/store/domain"
	"callbook/store/text"
)

// On the owner's page a person claims an agent by a mailed link, and from then on manages it by
// the same link. Only a keyed hash of the person's address is stored: the same hash is the same
// owner.

const (
	claimAge       = 72 * time.Hour
	claimRetention = 30 * domain.Day // how long an expired claim is shown
	unwantedAge    = 30 * domain.Day // how long a rejection stops further mails of the agent
	// How long the link to an owner's page works without being used.
	linkAge       = 365 * domain.Day
	linkUseStep   = domain.Day // precision of the time of its last use
	formHalf      = 16         // bytes of each half of a form's token
	statusPending = "pending"
	statusClaimed = "claimed"
	statusExpired = "expired"
	statusNone    = "none"
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
		if err := t.claimOwner(agent, order, t.ownerHash(address), token); err != nil {
			return err
		}
		next, err := t.nextMailAllowed(order)
		sent = domain.CodeSent{ExpiresAt: t.Now.Add(claimAge), ResendAfter: next}
		return err
	})
	return sent, err
}

func (t *tx) claimOwner(agent *agentRow, order mailOrder, owner []byte, token string) error {
	var claim claimRow
	found, err := t.Find(&claim, selectClaim+` WHERE agent_id = ?`, agent.ID)
	if err != nil {
		return err
	}

	// A wrong guess of the owner's address counts as a mail.
	same := found && subtle.ConstantTimeCompare(claim.Owner, owner) == 1
	wrong := claim.Status == statusClaimed && !same
	allowed, err := t.spendMail(agent, order, !wrong)
	if err != nil {
		return err
	}
	if wrong {
		return domain.NewError(domain.CodeAlreadyClaimed)
	}

	if same && !claim.expired(t.Now) {
		// The link before stays valid until the new one is delivered: a request for one to a
		// spelling of the address where no mail arrives could otherwise lock the owner out.
		err := t.Exec(`
			UPDATE owner_claims SET requested_at = ?, expires_at = ?
			WHERE agent_id = ?`, t.Now, t.Now.Add(claimAge), agent.ID)
		if err != nil || !allowed {
			return err
		}
	} else if err := t.insertClaim(agent, owner, token); err != nil {
		return err
	}

	if !allowed {
		return t.deleteMail(agent.ID, order.Kind)
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
// the agent. See outbox.Allow for its errors.
func (t *tx) spendMail(agent *agentRow, order mailOrder, wanted bool) (sent bool, err error) {
	sent, err = t.allowMail(order)
	if err != nil {
		return false, err
	}

	if sent = sent && wanted; sent {
		err := t.Get(&sent, `
			SELECT NOT EXISTS (
				SELECT 1 FROM reports
				WHERE about = 'claim' AND subject = ? AND reporter = ? AND created_at > ?)`,
			agent.Handle, t.ownerHash(order.To), t.Now.Add(-unwantedAge))
		if err != nil {
			return false, err
		}
	}
	return sent, t.countMail(order, sent)
}

func (t *tx) insertClaim(agent *agentRow, owner []byte, token string) error {
	return t.Exec(`
		INSERT INTO owner_claims (agent_id, token_hash, acts, owner, mailbox, status, requested_at, expires_at, used_at)
		VALUES (?, ?, 0, ?, ?, 'pending', ?, ?, ?)
		ON CONFLICT (agent_id) DO UPDATE SET token_hash = excluded.token_hash, owner = excluded.owner,
			mailbox = excluded.mailbox, requested_at = excluded.requested_at, expires_at = excluded.expires_at`,
		agent.ID, domain.HashKey(token), owner, agent.Mailbox, t.Now, t.Now.Add(claimAge), t.Now)
}

// form returns the one-time token of the page. Its first half changes with each act, its second
// half with what the page shows of the agent, so that nobody confirms what was not shown.
func (c *claimRow) form(token, name, owner, mailbox string, verified bool) string {
	act := domain.HashParts("form", token, fmt.Sprint(c.Acts))
	shown := domain.HashParts("shown", token, name, owner, mailbox, fmt.Sprint(verified))
	return hex.EncodeToString(append(act[:formHalf:formHalf], shown[:formHalf]...))
}

// validForm reports whether a form of the page may perform an act. Those that take the agent back
// do not depend on what was shown, or a thief who keeps changing it could prevent them.
func validForm(form, want string, act domain.OwnerAction) bool {
	if (act == domain.OwnerRotateKey || act == domain.OwnerKeep) && len(form) == len(want) {
		form, want = form[:2*formHalf], want[:2*formHalf]
	}
	return subtle.ConstantTimeCompare([]byte(form), []byte(want)) == 1
}

// OwnerPage returns the page of a link, which is a use of it. It returns not_found for a link that
// is unknown, expired or replaced.
func (s *Store) OwnerPage(ctx context.Context, token string) (page domain.OwnerPage, err error) {
	if err := s.useMailedLink(ctx, token); err != nil {
		return page, err
	}

	var row struct {
		claimRow
		domain.OwnerPage
		AgentMailbox string `db:"agent_mailbox"`
	}
	err = orNotFound(s.db.Get(ctx, &row, `
		SELECT `+claimColumns+`,
			h.handle, a.name, a.owner AS owner_name, a.mailbox AS agent_mailbox, a.mailbox <> c.mailbox AS mailbox_changed,
			a.verified_at IS NOT NULL AS mailbox_verified, a.claimed_at IS NOT NULL AS claimed,
			a.require_owner_receipt AS receipt_required, a.deletion_at
		FROM owner_claims c
		JOIN agents a ON a.id = c.agent_id
		JOIN handles h ON h.id = c.agent_id
		WHERE c.token_hash = ?`, domain.HashKey(token)))
	now := s.now()
	if err == nil && row.linkEnded(now) {
		err = domain.NewError(domain.CodeNotFound)
	}
	if err == nil && row.UsedAt.Add(linkUseStep) <= now {
		err = s.recordLinkUse(ctx, token)
	}
	if err != nil {
		return domain.OwnerPage{}, err
	}
	page = row.OwnerPage
	page.Claim, page.ExpiresAt = row.Status, row.claimRow.ExpiresAt
	page.Form = row.form(token, page.Name, page.Owner, row.AgentMailbox, page.MailboxVerified)
	page.Receipts, err = s.receipts(ctx, row.AgentID, now)
	return page, err
}

// useMailedLink makes a link that is used the one to its owner's page, although the delivery of
// its mail is not recorded yet: the owner may be faster, and after a kill the mail is sent again
// first.
func (s *Store) useMailedLink(ctx context.Context, token string) error {
	var mail domain.Mail
	found, err := s.db.Find(ctx, &mail, `
		SELECT seq, secret
		FROM outbox
		WHERE secret = ? AND kind IN ('claim', 'owner')`, token)
	if err != nil || !found {
		return err
	}

	return s.write(ctx, func(t *tx) error { return t.replaceOwnerLink(&mail) })
}

// recordLinkUse records that the link to an owner's page was used now. Without disk space the use
// does not count.
func (s *Store) recordLinkUse(ctx context.Context, token string) error {
	err := s.write(ctx, func(t *tx) error {
		return t.Exec(
			`UPDATE owner_claims SET used_at = ? WHERE token_hash = ?`,
			t.Now,
			domain.HashKey(token),
		)
	})
	return unlessFull(err)
}

// receipts returns the newest 100 requests that wait for the owner of an agent.
func (s *Store) receipts(
	ctx context.Context,
	agentID int64,
	now domain.Time,
) ([]domain.ContactRequest, error) {
	var rows []requestRow
	err := s.db.Select(ctx, &rows, selectRequest+`
		WHERE r.to_id = ?2 AND r.status = 'awaiting_owner' AND r.expires_at > ?1
		ORDER BY r.seq DESC
		LIMIT 100`, now, agentID)
	if err != nil {
		return nil, err
	}

	waiting := make([]domain.ContactRequest, len(rows))
	for i := range rows {
		waiting[i] = rows[i].Record()
	}

	return waiting, nil
}

// ActAsOwner performs the act of a button on the owner's page. It returns not_found for an invalid
// link, invalid_state if the page is out of date or the act does not fit the claim, trust_too_low
// if the agent's mailbox is not verified, sender_limit_reached if the owner has claimed too many
// agents, and validation_failed for a retirement without the handle.
func (s *Store) ActAsOwner(
	ctx context.Context,
	form domain.OwnerSubmission,
) (done domain.OwnerResult, err error) {
	if err := s.useMailedLink(ctx, form.Token); err != nil {
		return done, err
	}

	key, err := domain.NewKey(s.random)
	if err != nil {
		return done, err
	}

	err = s.writeOrReject(ctx, func(t *tx) error {
		var claim claimRow
		err := orNotFound(
			t.Get(&claim, selectClaim+` WHERE c.token_hash = ?`, domain.HashKey(form.Token)),
		)
		if err != nil {
			return err
		}
		if claim.linkEnded(t.Now) {
			return domain.NewError(domain.CodeNotFound)
		}

		agent, err := t.agentByID(claim.AgentID)
		if err != nil {
			return err
		}
		if !validForm(
			form.Form,
			claim.form(form.Token, agent.Name, agent.Owner, agent.Mailbox, agent.VerifiedAt != nil),
			form.Act,
		) {
			return domain.NewError(domain.CodeInvalidState)
		}

		done = domain.OwnerResult{Handle: agent.Handle}
		if err := t.actAsOwner(&claim, agent, form, key); err != nil {
			return err
		}

		if form.Act == domain.OwnerRotateKey {
			done.Key = key
		}

		return t.Exec(
			`UPDATE owner_claims SET acts = acts + 1, used_at = ? WHERE agent_id = ?`,
			t.Now,
			agent.ID,
		)
	})

	return done, err
}

func (t *tx) actAsOwner(
	claim *claimRow,
	agent *agentRow,
	form domain.OwnerSubmission,
	key string,
) error {
	if (claim.Status == statusPending) != (form.Act == domain.OwnerConfirm || form.Act == domain.OwnerReject) &&
		!(form.Act == domain.OwnerConfirm && agent.ClaimedAt == nil) {
		return domain.NewError(domain.CodeInvalidState)
	}
	if agent.DeletionAt != nil && form.Act != domain.OwnerKeep &&
		form.Act != domain.OwnerRotateKey &&
		form.Act != domain.OwnerRetire {
		return errDeletionPending
	}

	switch form.Act {
	case domain.OwnerKeep:
		if agent.DeletionAt == nil {
			return domain.NewError(domain.CodeInvalidState)
		}

		return t.keepAgent(agent)

	case domain.OwnerConfirm:
		return t.confirmClaim(claim, agent)

	case domain.OwnerReject:
		return t.rejectClaim(claim, agent)

	case domain.OwnerWithdraw:
		return t.withdrawClaim(agent)

	case domain.OwnerRotateKey:
		return t.rotateKey(claim, agent, key)

	case domain.OwnerRetire:
		if form.Confirm != agent.Handle {
			return domain.Invalid(
				domain.FieldError{Field: "confirm", Code: domain.FaultBadValue, Topic: "confirm"},
			)
		}

		return t.deleteAgent(agent)

	case domain.OwnerWaive:
		return t.waiveReceipts(agent)

	case domain.OwnerAgree:
		if agent.Suspended(t.Now) {
			return domain.NewError(domain.CodeInvalidState)
		}

		_, err := t.actOnRequest(agent, form.Request, domain.ActAgree, "")
		return err

	case domain.OwnerRefuse:
		_, err := t.actOnRequest(agent, form.Request, domain.ActRefuse, "")
		return err
	}

	return domain.NewError(domain.CodeInvalidState)
}

func (t *tx) confirmClaim(claim *claimRow, agent *agentRow) error {
	if agent.VerifiedAt == nil {
		return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "claim"}
	}

	var others int
	limit := t.store.quotas[domain.LimitOwnerAgents]
	err := t.Get(
		&others,
		`SELECT COUNT(*) FROM agents WHERE claimed_by = ? AND id <> ?`,
		claim.Owner,
		agent.ID,
	)
	if err != nil {
		return err
	}
	if limit > 0 && others >= limit {
		return &domain.Error{
			Code:    domain.CodeSenderLimitReached,
			Topic:   "owner_agents",
			Limit:   limit,
			RetryAt: t.Now.Add(domain.Day).Time(),
		}
	}

	err = t.Exec(`
		UPDATE owner_claims SET status = 'claimed', mailbox = ?1, mailbox_at = ?2, confirmed_at = COALESCE(confirmed_at, ?2)
		WHERE agent_id = ?3`, agent.Mailbox, t.Now, agent.ID)
	if err != nil {
		return err
	}

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
	return cmp.Or(
		t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID),
		t.deleteMail(agent.ID, domain.MailClaim),
		t.insertReport(report{
			About:    domain.AboutClaim,
			Subject:  agent.Handle,
			AuthorID: agent.ID,
			Reporter: claim.Owner,
		}))
}

// hasOwner reports whether a person has claimed an agent and still has the owner's page. The claim
// may have lapsed: that is for the owner to settle, and not for the key.
func (t *tx) hasOwner(agentID int64) (owned bool, err error) {
	err = t.Get(
		&owned,
		`SELECT EXISTS (SELECT 1 FROM owner_claims WHERE agent_id = ? AND status = 'claimed')`,
		agentID,
	)
	return owned, err
}

// waiveReceipts lets the agent accept requests without its owner. Those that wait for the owner
// stay.
func (t *tx) waiveReceipts(agent *agentRow) error {
	if !agent.ContactPolicy.RequireOwnerReceipt {
		return domain.NewError(domain.CodeInvalidState)
	}
	agent.ContactPolicy.RequireOwnerReceipt = false
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}

// rotateKey gives the owner a new key. If the mailbox has changed since the claim, a thief may have
// changed it, so it is no longer verified and cannot recover a key.
func (t *tx) rotateKey(claim *claimRow, agent *agentRow, key string) error {
	if err := t.restoreKey(agent.ID, key); err != nil {
		return err
	}

	// A mailbox left after the one that the owner confirmed may be a thief's. One from before may
	// be the rightful holder's, if the owner is the thief.
	former := agent.FormerMailbox
	if former != nil && *former != claim.Mailbox && *agent.MailboxLeftAt > claim.MailboxAt {
		t.forgetFormerMailbox(agent)
	}
	if agent.Mailbox != claim.Mailbox {
		if err := t.unverify(agent); err != nil {
			return err
		}
		agent.UpdatedAt = t.Now
	}
	return agent.Store(t)
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
		claim.Status, claim.ExpiresAt = statusExpired, &row.ExpiresAt

	case row.Status == statusPending:
		claim.ExpiresAt = &row.ExpiresAt

	case row.ClaimedAt == nil: // it lapsed, and the owner can confirm it again
		claim.Status = statusPending
	}

	return claim, nil
}
