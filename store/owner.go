package store

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"

	"callbook/store/domain"
)

// On the owner's page a person claims an agent by a mailed link, and from then on manages it by
// the same link.

const (
	linkAge     = 365 * domain.Day // how long the link to an owner's page works without being used
	linkUseStep = domain.Day       // precision of the time of its last use
	formHalf    = 16               // bytes of each half of a form's token
)

// form returns the one-time token of the page. Its first half changes with each act, its second
// half with what the page shows of the agent, so that no one confirms what was not shown.
func (c *claimRow) form(token, name, owner, mailbox string, verified bool) string {
	act := domain.HashParts("form", token, fmt.Sprint(c.Acts))
	shown := domain.HashParts("shown", token, name, owner, mailbox, fmt.Sprint(verified))
	return hex.EncodeToString(append(act[:formHalf:formHalf], shown[:formHalf]...))
}

// validForm reports whether a form of the page may perform an act. Those that take the agent back
// do not depend on what was shown, or a thief who keeps changing it could prevent them.
func validForm(form, want string, act domain.OwnerAction) bool {
	takesBack := act == domain.OwnerRotateKey || act == domain.OwnerKeep
	if takesBack && len(form) == len(want) {
		form = form[:2*formHalf] // in hexadecimal
		want = want[:2*formHalf]
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
			h.handle, a.name, a.owner AS owner_name,
			a.mailbox AS agent_mailbox, a.mailbox <> c.mailbox AS mailbox_changed,
			a.verified_at IS NOT NULL AS mailbox_verified, a.claimed_at IS NOT NULL AS claimed,
			a.require_owner_receipt AS receipt_required, a.deletion_at
		FROM owner_claims c
		JOIN agents a ON a.id = c.agent_id
		JOIN handles h ON h.id = c.agent_id
		WHERE c.token_hash = ?`, domain.HashKey(token)))
	if err != nil {
		return page, err
	}

	now := s.now()
	if row.linkEnded(now) {
		return page, domain.NewError(domain.CodeNotFound)
	}
	// Rarely, since each visit would otherwise be a write.
	if row.UsedAt.Add(linkUseStep) <= now {
		if err := s.recordLinkUse(ctx, token); err != nil {
			return page, err
		}
	}

	page = row.OwnerPage
	page.Claim = row.Status
	page.ExpiresAt = row.claimRow.ExpiresAt
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

	// Repeated by the delivery, it changes nothing.
	return s.write(ctx, func(t *tx) error { return t.replaceOwnerLink(&mail) })
}

// recordLinkUse records that the link to an owner's page was used now. Without disk space the use
// does not count.
func (s *Store) recordLinkUse(ctx context.Context, token string) error {
	err := s.write(ctx, func(t *tx) error {
		return t.Exec(`
			UPDATE owner_claims SET used_at = ?
			WHERE token_hash = ?`, t.Now, domain.HashKey(token))
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
		err := t.Get(&claim, selectClaim+` WHERE c.token_hash = ?`, domain.HashKey(form.Token))
		if err != nil {
			return orNotFound(err)
		}
		if claim.linkEnded(t.Now) {
			return domain.NewError(domain.CodeNotFound)
		}

		agent, err := t.agentByID(claim.AgentID)
		if err != nil {
			return err
		}
		verified := agent.VerifiedAt != nil
		want := claim.form(form.Token, agent.Name, agent.Owner, agent.Mailbox, verified)
		if !validForm(form.Form, want, form.Act) {
			return domain.NewError(domain.CodeInvalidState)
		}

		if err := t.actAsOwner(&claim, agent, form, key); err != nil {
			return err
		}
		done = domain.OwnerResult{Handle: agent.Handle}
		if form.Act == domain.OwnerRotateKey {
			done.Key = key
		}

		// A form is valid once: the number of acts is in its first half.
		return t.Exec(`
			UPDATE owner_claims SET acts = acts + 1, used_at = ?
			WHERE agent_id = ?`, t.Now, agent.ID)
	})
	return done, err
}

// actAsOwner performs an act whose form is valid. key is that of domain.OwnerRotateKey.
func (t *tx) actAsOwner(
	claim *claimRow,
	agent *agentRow,
	form domain.OwnerSubmission,
	key string,
) error {
	if !fitsClaim(form.Act, claim, agent) {
		return domain.NewError(domain.CodeInvalidState)
	}
	if agent.DeletionAt != nil && !fitsDeletion(form.Act) {
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
			fault := domain.FieldError{
				Field: "confirm",
				Code:  domain.FaultBadValue,
				Topic: "confirm",
			}
			return domain.Invalid(fault)
		}
		return t.deleteAgent(agent)

	case domain.OwnerWaive:
		return t.waiveReceipts(agent)

	case domain.OwnerAgree:
		// An acceptance reveals mailboxes, which a suspended agent may not bring about.
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

// fitsClaim reports whether an act fits the state of the claim: confirm and reject a pending one,
// the others a confirmed one, and confirm also one that has lapsed.
func fitsClaim(act domain.OwnerAction, claim *claimRow, agent *agentRow) bool {
	if claim.Status == statusPending {
		return act == domain.OwnerConfirm || act == domain.OwnerReject
	}
	if act == domain.OwnerConfirm {
		return agent.ClaimedAt == nil
	}
	return act != domain.OwnerReject
}

// fitsDeletion reports whether an act is possible while the agent is about to be deleted.
func fitsDeletion(act domain.OwnerAction) bool {
	switch act {
	case domain.OwnerKeep, domain.OwnerRotateKey, domain.OwnerRetire:
		return true
	}
	return false
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
