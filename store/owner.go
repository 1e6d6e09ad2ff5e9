package store

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/outbox"
	"callbook/store/text"
	"callbook/store/txn"
)

// The owner's page: where a person claims an agent by a link that was mailed, and
// from then on looks after it by the same link. Of the person only a keyed hash of
// the mail address is kept: the same hash is the same owner.

const (
	claimAge      = 72 * time.Hour
	claimKept     = 30 * domain.Day // how long an expired claim is still shown as one
	unwantedAge   = 30 * domain.Day // how long "not mine" keeps further mails of the agent away
	statusPending = "pending"
	statusClaimed = "claimed"
	statusExpired = "expired"
	statusNone    = "none"
)

// claimRow is a row of the table owner_claims.
type claimRow struct {
	AgentID     int64       `db:"agent_id"`
	Acts        int         `db:"acts"`
	Owner       []byte      `db:"owner"`
	Mailbox     string      `db:"mailbox"`
	Status      string      `db:"status"`
	RequestedAt domain.Time `db:"requested_at"`
	ExpiresAt   domain.Time `db:"expires_at"`
}

const (
	claimColumns = `c.agent_id, c.acts, c.owner, c.mailbox, c.status, c.requested_at, c.expires_at`
	selectClaim  = `SELECT ` + claimColumns + ` FROM owner_claims c`
)

func (c *claimRow) expired(now domain.Time) bool {
	return c.Status == statusPending && c.ExpiresAt <= now
}

// ClaimOwner mails the owner a link that claims the caller, and returns when it
// expires. The same address gets a fresh link, which voids the one before: at
// once, or for an agent that is claimed already, once it is delivered. It
// refuses with trust_too_low an agent whose mailbox is not verified, with
// already_claimed another address than that of the owner who has confirmed, and
// with rate_limited past the caps on mails.
func (s *Store) ClaimOwner(ctx context.Context, caller domain.Caller, address string) (expires domain.Time, err error) {
	token, err := domain.NewSecret(s.random)
	if err != nil {
		return 0, err
	}
	address = canonicalMailbox(address)
	err = s.writeAs(ctx, caller, func(t *tx) error {
		expires = t.Now.Add(claimAge)
		agent, err := document.Agent(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		if agent.VerifiedAt == nil {
			return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "claim"}
		}
		owner, err := t.ownerHash(address)
		if err != nil {
			return err
		}
		return t.claimOwner(&agent, address, owner, token)
	})
	return expires, err
}

func (t *tx) claimOwner(agent *document.AgentRow, address string, owner []byte, token string) error {
	var claim claimRow
	found, err := t.Find(&claim, selectClaim+` WHERE agent_id = ?`, agent.ID)
	if err != nil {
		return err
	}
	same := found && subtle.ConstantTimeCompare(claim.Owner, owner) == 1
	if found && claim.Status == statusClaimed && !same {
		return domain.NewError(domain.CodeAlreadyClaimed)
	}
	allowed, err := outbox.Spend(t.Tx, t.store.mails, agent.ID, address)
	if err == nil && allowed {
		allowed, err = t.wantedAt(agent.Handle, address)
	}
	if err != nil {
		return err
	}
	if !allowed && same && !claim.expired(t.Now) {
		return t.prolongClaim(agent.ID)
	}
	if err := t.insertClaim(agent, owner, token); err != nil {
		return err
	}
	if !allowed {
		return outbox.Delete(t.Tx, agent.ID, domain.MailClaim)
	}
	kind := domain.MailClaim
	if claim.Status == statusClaimed {
		kind = domain.MailOwner
	}
	return outbox.Insert(t.Tx, agent.ID, kind, address, token, t.Now.Add(claimAge))
}

// ownerHash is all that is kept of an owner: a keyed hash of the address.
func (t *tx) ownerHash(address string) ([]byte, error) {
	return t.Pseudonym("owner\x00" + text.NormalMailbox(address))
}

// replaceOwnerLink puts a fresh link to the page of a claimed agent in the place of the
// one before. That is done once it is delivered, or used: asking for one must not
// be a way to shut the owner out.
func (t *tx) replaceOwnerLink(token string) error {
	return t.Exec(`UPDATE owner_claims SET token_hash = next_hash, next_hash = NULL WHERE next_hash = ?`, domain.HashKey(token))
}

// wantedAt tells whether the person at an address has not said lately that the
// agent is not theirs.
func (t *tx) wantedAt(handle, address string) (bool, error) {
	owner, err := t.ownerHash(address)
	if err != nil {
		return false, err
	}
	var n int
	err = t.Get(&n, `
		SELECT COUNT(*) FROM reports
		WHERE about = 'claim' AND subject = ? AND reporter = ? AND created_at > ?`, handle, owner, t.Now.Add(-unwantedAge))
	return n == 0, err
}

func (t *tx) insertClaim(agent *document.AgentRow, owner []byte, token string) error {
	err := t.Exec(`
		INSERT INTO owner_claims (agent_id, token_hash, acts, owner, mailbox, status, requested_at, expires_at)
		VALUES (?, ?, 0, ?, ?, 'pending', ?, ?)
		ON CONFLICT (agent_id) DO UPDATE SET owner = excluded.owner,
			token_hash = CASE WHEN status = 'claimed' THEN token_hash ELSE excluded.token_hash END,
			next_hash = CASE WHEN status = 'claimed' THEN excluded.token_hash END,
			mailbox = CASE WHEN status = 'claimed' THEN mailbox ELSE excluded.mailbox END,
			requested_at = excluded.requested_at, expires_at = excluded.expires_at`,
		agent.ID, domain.HashKey(token), owner, agent.Mailbox, t.Now, t.Now.Add(claimAge))
	if err != nil {
		return fmt.Errorf("insert the owner claim: %w", err)
	}
	return nil
}

// prolongClaim makes a claim look as if a fresh link were on its way. No mail goes
// out, so the link that is good stays so.
func (t *tx) prolongClaim(agentID int64) error {
	return t.Exec(`UPDATE owner_claims SET requested_at = ?, expires_at = ? WHERE agent_id = ?`, t.Now, t.Now.Add(claimAge), agentID)
}

// form is the page's one-time token: another one after each act.
func (c *claimRow) form(token string) string {
	sum := domain.HashParts("form", token, fmt.Sprint(c.Acts))
	return hex.EncodeToString(sum[:16])
}

// OwnerPage returns the page of a link. It refuses with not_found a link that is
// unknown, expired, or replaced by another.
func (s *Store) OwnerPage(ctx context.Context, token string) (page domain.OwnerPage, err error) {
	var row struct {
		claimRow
		Handle       string       `db:"handle"`
		Name         string       `db:"name"`
		OwnerName    string       `db:"owner_name"`
		AgentMailbox string       `db:"agent_mailbox"`
		VerifiedAt   *domain.Time `db:"verified_at"`
		ClaimedAt    *domain.Time `db:"claimed_at"`
	}
	err = txn.OrNotFound(s.db.Get(ctx, &row, `
		SELECT `+claimColumns+`,
			h.handle, a.name, a.owner AS owner_name, a.mailbox AS agent_mailbox, a.verified_at, a.claimed_at
		FROM owner_claims c
		JOIN agents a ON a.id = c.agent_id
		JOIN handles h ON h.id = c.agent_id
		WHERE c.token_hash = ?1 OR c.next_hash = ?1`, domain.HashKey(token)))
	now := s.db.Now()
	if err == nil && row.expired(now) {
		err = domain.NewError(domain.CodeNotFound)
	}
	if err != nil {
		return domain.OwnerPage{}, err
	}
	page = domain.OwnerPage{
		Handle: row.Handle, Name: row.Name, Owner: row.OwnerName, Claim: row.Status, Claimed: row.ClaimedAt != nil,
		MailboxVerified: row.VerifiedAt != nil, MailboxChanged: row.AgentMailbox != row.Mailbox,
		ExpiresAt: row.ExpiresAt, Form: row.form(token),
	}
	page.Receipts, err = s.receipts(ctx, row.AgentID, now)
	return page, err
}

// receipts are the newest 100 requests that wait for the owner of an agent.
func (s *Store) receipts(ctx context.Context, agentID int64, now domain.Time) ([]domain.ContactRequest, error) {
	var rows []requestRow
	err := s.db.Select(ctx, &rows, selectRequest+`
		WHERE r.to_id = ?2 AND r.status = 'awaiting_owner' AND r.expires_at > ?1
		ORDER BY r.seq DESC
		LIMIT 100`, now, agentID)
	if err != nil {
		return nil, fmt.Errorf("read the requests that wait for the owner: %w", err)
	}
	waiting := make([]domain.ContactRequest, len(rows))
	for i := range rows {
		if waiting[i], err = rows[i].record(); err != nil {
			return nil, err
		}
	}
	return waiting, nil
}

// ActAsOwner does what a button of the owner's page says. It refuses with
// not_found a link that is no longer good, with invalid_state a page that is out
// of date or an act that does not fit the claim, with trust_too_low a claim of an
// agent whose mailbox is not verified, with sender_limit_reached one agent too
// many of an owner, and with validation_failed a retirement without the handle.
func (s *Store) ActAsOwner(ctx context.Context, call domain.OwnerSubmission) (done domain.OwnerResult, err error) {
	key, err := domain.NewKey(s.random)
	if err != nil {
		return done, err
	}
	err = s.writeOrReject(ctx, func(t *tx) error {
		var claim claimRow
		err := txn.OrNotFound(t.Get(&claim, selectClaim+` WHERE token_hash = ?1 OR next_hash = ?1`, domain.HashKey(call.Token)))
		if err != nil {
			return err
		}
		if claim.expired(t.Now) {
			return domain.NewError(domain.CodeNotFound)
		}
		if subtle.ConstantTimeCompare([]byte(call.Form), []byte(claim.form(call.Token))) != 1 {
			return domain.NewError(domain.CodeInvalidState)
		}
		agent, err := document.Agent(t.Tx, claim.AgentID)
		if err != nil {
			return err
		}
		done = domain.OwnerResult{Handle: agent.Handle}
		if err := t.actAsOwner(&claim, &agent, call, key); err != nil {
			return err
		}
		if call.Act == domain.OwnerRotateKey {
			done.Key = key
		}
		if err := t.replaceOwnerLink(call.Token); err != nil {
			return err
		}
		return t.Exec(`UPDATE owner_claims SET acts = acts + 1 WHERE agent_id = ?`, agent.ID)
	})
	return done, err
}

func (t *tx) actAsOwner(claim *claimRow, agent *document.AgentRow, call domain.OwnerSubmission, key string) error {
	if (claim.Status == statusPending) != (call.Act == domain.OwnerConfirm || call.Act == domain.OwnerReject) &&
		!(call.Act == domain.OwnerConfirm && agent.ClaimedAt == nil) {
		return domain.NewError(domain.CodeInvalidState)
	}
	switch call.Act {
	case domain.OwnerConfirm:
		return t.confirmClaim(claim, agent)
	case domain.OwnerReject:
		return t.rejectClaim(claim, agent)
	case domain.OwnerWithdraw:
		return t.withdrawClaim(agent)
	case domain.OwnerRotateKey:
		return t.takeBack(claim, agent, key)
	case domain.OwnerRetire:
		if call.Confirm != agent.Handle {
			return domain.Invalid(domain.FieldError{Field: "confirm", Code: domain.FaultBadValue, Topic: "confirm"})
		}
		return t.deleteAgent(agent.ID)
	case domain.OwnerAgree:
		if agent.Suspended(t.Now) {
			return domain.NewError(domain.CodeInvalidState)
		}
		return t.actOnRequest(agent.ID, call.Request, domain.ActAgree, "")
	case domain.OwnerRefuse:
		return t.actOnRequest(agent.ID, call.Request, domain.ActRefuse, "")
	}
	return domain.NewError(domain.CodeInvalidState)
}

func (t *tx) confirmClaim(claim *claimRow, agent *document.AgentRow) error {
	if agent.VerifiedAt == nil {
		return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "claim"}
	}
	var others int
	limit := t.store.ownerAgents
	err := t.Get(&others, `SELECT COUNT(*) FROM agents WHERE claimed_by = ? AND id <> ?`, claim.Owner, agent.ID)
	if err != nil {
		return err
	}
	if limit > 0 && others >= limit {
		return &domain.Error{Code: domain.CodeSenderLimitReached, Topic: "owner_agents", Limit: limit, RetryAt: t.Now.Add(domain.Day).Time()}
	}
	err = t.Exec(`UPDATE agents SET claimed_at = ?, claimed_by = ?, updated_at = ? WHERE id = ?`, t.Now, claim.Owner, t.Now, agent.ID)
	if err == nil {
		err = t.Exec(`UPDATE owner_claims SET status = 'claimed', mailbox = ?, confirmed_at = COALESCE(confirmed_at, ?) WHERE agent_id = ?`,
			agent.Mailbox, t.Now, agent.ID)
	}
	if err != nil {
		return fmt.Errorf("confirm the owner claim: %w", err)
	}
	t.TouchAgent(agent.ID)
	return document.RebuildPartners(t.Tx, agent.ID)
}

// rejectClaim ends a claim that the person does not know of, and tells the
// operator.
func (t *tx) rejectClaim(claim *claimRow, agent *document.AgentRow) error {
	if err := t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID); err != nil {
		return err
	}
	if err := outbox.Delete(t.Tx, agent.ID, domain.MailClaim); err != nil {
		return err
	}
	return t.insertReport(report{about: "claim", subject: agent.Handle, reporter: claim.Owner})
}

// withdrawClaim ends a claim for good: another person may claim the agent. Nobody
// is left who could give receipts.
func (t *tx) withdrawClaim(agent *document.AgentRow) error {
	if err := t.unclaim(agent.ID); err != nil {
		return err
	}
	err := t.Exec(`UPDATE agents SET claimed_by = NULL, require_owner_receipt = FALSE, updated_at = ? WHERE id = ?`, t.Now, agent.ID)
	if err == nil {
		err = t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID)
	}
	if err != nil {
		return fmt.Errorf("withdraw the owner claim: %w", err)
	}
	t.TouchAgent(agent.ID)
	return errors.Join(outbox.Delete(t.Tx, agent.ID, domain.MailClaim), outbox.Delete(t.Tx, agent.ID, domain.MailOwner))
}

// takeBack gives the owner a fresh key. A mailbox that was changed since the claim
// may be a thief's: it loses its proof, and with it the way to recover a key.
func (t *tx) takeBack(claim *claimRow, agent *document.AgentRow, key string) error {
	if err := t.setKey(agent.ID, key); err != nil {
		return err
	}
	if agent.Mailbox != claim.Mailbox {
		if err := t.Exec(`UPDATE agents SET updated_at = ? WHERE id = ?`, t.Now, agent.ID); err != nil {
			return err
		}
		return t.unverify(agent.ID)
	}
	if err := t.Exec(`DELETE FROM codes WHERE agent_id = ?`, agent.ID); err != nil {
		return err
	}
	return outbox.Delete(t.Tx, agent.ID, domain.MailRecover)
}

// ownerClaim is the state of an agent's claim as the agent itself sees it.
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
	case row.expired(s.db.Now()):
		claim.Status, claim.ExpiresAt = statusExpired, &row.ExpiresAt
	case row.Status == statusPending:
		claim.ExpiresAt = &row.ExpiresAt
	case row.ClaimedAt == nil: // it has lapsed; the page waits for the owner
		claim.Status = statusPending
	}
	return claim, nil
}
