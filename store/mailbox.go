package store

import (
	"context"
	"net/netip"
	"time"

	"callbook/store/domain"
)

// A code proves that the caller reads the agent's mailbox, to verify it or to replace a lost key.

const codeAge = 15 * time.Minute // of a code that verifies a mailbox

// StartVerify mails the caller a code that proves its mailbox. It returns already_verified, and
// rate_limited past the caps on mails.
func (s *Store) StartVerify(
	ctx context.Context,
	caller domain.Caller,
) (sent domain.CodeSent, err error) {
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, err := t.AuthorizeOwn(caller)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}

		order := t.verificationOrder(agent, caller)
		if err := t.sendCode(agent, order); err != nil {
			return err
		}

		next, err := t.nextMailAllowed(order)
		sent = domain.CodeSent{ExpiresAt: t.Now.Add(codeAge), ResendAfter: next}
		return err
	})
	return sent, err
}

// verificationOrder returns the mail that verifies the mailbox of an agent, for its caller.
func (t *tx) verificationOrder(agent *agentRow, caller domain.Caller) mailOrder {
	return mailOrder{
		AgentID: agent.ID,
		Kind:    domain.MailVerify,
		To:      agent.Mailbox,
		From:    t.counted(caller.Address),
	}
}

// sendCode creates a code, which replaces the one before, and mails it. If no mail may be sent, it
// creates a code all the same, so that the response to a wrong code does not reveal that.
func (t *tx) sendCode(agent *agentRow, order mailOrder) error {
	allowed, err := t.spendMail(agent, order, true)
	if err != nil {
		return err
	}
	code, err := domain.NewCode(t.Random)
	if err != nil {
		return err
	}

	// The mail first: what was guessed at the code before decides whether the mail before still
	// counts.
	expires := t.Now.Add(codeAge)
	if allowed {
		err = t.insertMail(order.AgentID, order.Kind, order.To, code, expires)
	} else {
		err = t.deleteMail(order.AgentID, order.Kind)
	}
	if err != nil {
		return err
	}
	return t.insertVerification(order, code, expires)
}

// ConfirmVerify verifies the caller's mailbox with the code that was mailed there. It returns
// already_verified, wrong_code, code_expired if there is no valid code, and too_many_attempts
// until a new code is requested.
func (s *Store) ConfirmVerify(
	ctx context.Context,
	caller domain.Caller,
	code string,
) (verified domain.PublicAgent, err error) {
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, err := t.AuthorizeOwn(caller)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		if err := t.tryVerification(t.verificationOrder(agent, caller), code); err != nil {
			return err
		}

		t.verifyMailbox(agent)
		agent.UpdatedAt = t.Now
		verified = agent.Public()
		return agent.Store(t)
	})
	return verified, err
}

// StartRecovery mails a code for a lost key to an agent's verified mailbox, and another code to
// the mailbox that it left in the last seven days. Anyone may call it, so a code voids none that
// was mailed before; a mailbox gets at most three a day, an hour apart. For any other handle, and
// past the caps on mails, StartRecovery does nothing and returns no error. next is the time from
// which the client may request another mail; it does not depend on the agent.
func (s *Store) StartRecovery(
	ctx context.Context,
	handle string,
	from netip.Addr,
) (next domain.Time, err error) {
	err = s.write(ctx, func(t *tx) error {
		var allowed bool
		next, allowed, err = t.spendRecovery(t.counted(from))
		if err != nil || !allowed {
			return err
		}

		// Without an agent, or a mailbox to mail to, the response is the same.
		agent, found, err := t.agentByHandle(handle)
		if err != nil || !found {
			return err
		}

		for _, order := range t.recoveryOrders(agent) {
			if err := t.insertRecovery(order); err != nil {
				return err
			}
		}
		return nil
	})
	return next, err
}

// ConfirmRecovery replaces an agent's key with the code that was mailed, and takes back its
// deletion. A former mailbox becomes the agent's mailbox again. A claim that is not confirmed
// ends, and so does one that the owner first confirmed less than 30 days ago if the mailbox was
// left before it was last confirmed. endClaim ends one that was confirmed with that mailbox. A
// suspended agent stays so. ConfirmRecovery returns wrong_code, and code_expired, also for a
// handle that got no code.
func (s *Store) ConfirmRecovery(
	ctx context.Context,
	handle, code string,
	endClaim bool,
) (done domain.Recovery, err error) {
	key, err := domain.NewKey(s.random)
	if err != nil {
		return domain.Recovery{}, err
	}

	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, found, err := t.agentByHandle(handle)
		if err != nil {
			return err
		}
		if !found {
			// As for an agent without a code: the response must not say which handles exist.
			return &domain.Error{Code: domain.CodeCodeExpired, Topic: domain.MailRecover}
		}

		by, err := t.tryRecovery(t.recoveryOrders(agent), code)
		if err != nil {
			return err
		}

		ended, err := t.recoverKey(agent, by, key, endClaim)
		if err != nil {
			return err
		}

		done = domain.Recovery{Key: key, RotatedAt: t.Now, ClaimEnded: ended}
		return nil
	})
	return done, err
}

// A recovery gives an agent back to the holder of its mailbox.

// youngClaim is the age up to which a recovery may end an owner claim.
const youngClaim = 30 * domain.Day

// formerMailboxAge is how long the verified mailbox that an agent left may recover its key.
const formerMailboxAge = 7 * domain.Day

// leaveMailbox tells the verified mailbox of an agent that another replaces it now, and remembers
// it for seven days. The caller stores the agent.
func (t *tx) leaveMailbox(agent *agentRow) error {
	// One that was left before stays the one that is remembered: a thief of the key could otherwise
	// change the mailbox twice, and the rightful one would be forgotten.
	if agent.FormerMailbox == nil || agent.MailboxLeftAt.Add(formerMailboxAge) <= t.Now {
		agent.FormerMailbox = new(agent.Mailbox)
		agent.MailboxLeftAt = &t.Now
	}

	left := mailOrder{AgentID: agent.ID, To: agent.Mailbox}
	return t.notifyMailbox(domain.MailChanged, left)
}

// forgetFormerMailboxes forgets the mailboxes that can no longer recover a key.
func (t *tx) forgetFormerMailboxes() error {
	n, err := t.Change(`
		UPDATE agents SET former_mailbox = NULL
		WHERE former_mailbox IS NOT NULL AND mailbox_left_at <= ?`, t.Now.Add(-formerMailboxAge))
	t.Erase(n)
	return err
}

// recoveryOrders returns the mails that an agent's recovery is about: to its mailbox, if that is
// verified, and to the one that it left in the last seven days.
func (t *tx) recoveryOrders(agent *agentRow) (orders []mailOrder) {
	if agent.VerifiedAt != nil {
		orders = append(orders, mailOrder{
			AgentID: agent.ID,
			Kind:    domain.MailRecover,
			To:      agent.Mailbox,
		})
	}

	if agent.FormerMailbox != nil && agent.MailboxLeftAt.Add(formerMailboxAge) > t.Now {
		orders = append(orders, mailOrder{
			AgentID: agent.ID,
			Kind:    domain.MailFormer,
			To:      *agent.FormerMailbox,
		})
	}

	return orders
}

// notify tells every mailbox that may recover the key of an agent.
func (t *tx) notify(agent *agentRow, kind string) error {
	return t.notifyMailbox(kind, t.recoveryOrders(agent)...)
}

// recoverKey gives an agent the key that the holder of a mailbox asked for, and takes back what a
// thief of the key before may have done: a deletion, and a young claim. A former mailbox becomes
// the agent's again.
func (t *tx) recoverKey(
	agent *agentRow,
	by mailOrder,
	key string,
	endClaim bool,
) (ended bool, err error) {
	// Before the mailboxes change, so that whoever may be robbed by this recovery gets the notice.
	if err := t.notify(agent, domain.MailRecovered); err != nil {
		return false, err
	}
	ended, err = t.endYoungClaim(agent, by, endClaim)
	if err != nil {
		return false, err
	}

	if by.Kind == domain.MailFormer {
		if err := t.restoreMailbox(agent, by.To); err != nil {
			return false, err
		}
	}
	if err := t.keepAgent(agent); err != nil {
		return false, err
	}
	return ended, t.restoreKey(agent.ID, key)
}

// endYoungClaim ends the claim of an agent that a thief of its key may have made, for the holder of
// a mailbox, and reports whether it did. asked says that the holder wants it to end.
func (t *tx) endYoungClaim(agent *agentRow, by mailOrder, asked bool) (ended bool, err error) {
	var claim claimRow
	found, err := t.Find(&claim, selectClaim+` WHERE agent_id = ?`, agent.ID)
	if err != nil || !found {
		return false, err
	}

	// An older one stays: a thief of the mailbox must not end it.
	if claim.ConfirmedAt != nil && claim.ConfirmedAt.Add(youngClaim) <= t.Now {
		return false, nil
	}

	// A pending one was requested with the old key, and no owner has it. A mailbox that the
	// agent left before the claim was last confirmed is not the claim's: that may be a thief's. The
	// claim's own mailbox ends it if its holder asks for it. Later mailboxes may be a thief's
	// themselves.
	pending := claim.Status == statusPending
	earlier := by.Kind == domain.MailFormer && *agent.MailboxLeftAt <= claim.MailboxAt
	own := asked && by.To == claim.Mailbox
	if !pending && !earlier && !own {
		return false, nil
	}

	return true, t.withdrawClaim(agent)
}

// restoreMailbox makes a former mailbox the verified one again: its holder has just proved it.
func (t *tx) restoreMailbox(agent *agentRow, mailbox string) error {
	t.forgetFormerMailbox(agent)
	if err := t.unverify(agent); err != nil {
		return err
	}

	agent.Mailbox = mailbox
	agent.VerifiedAt = &t.Now
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}

// unverify returns an agent to level 0 after its mailbox changed. The code that verifies it and
// the owner claim are not valid for the new one. The caller stores the agent.
func (t *tx) unverify(agent *agentRow) error {
	agent.VerifiedBefore = agent.VerifiedBefore || agent.VerifiedAt != nil
	agent.VerifiedAt = nil
	agent.ClaimedAt = nil

	t.Changes.Erased = true
	return t.ExecEach(agent.ID,
		// Recovery codes stay, since they are for one mailbox.
		`DELETE FROM codes WHERE agent_id = ? AND purpose = 'verify'`,
		`DELETE FROM owner_claims WHERE agent_id = ? AND status = 'pending'`,
		// A link to the owner's page and notices are still sent: they do not depend on the mailbox.
		`DELETE FROM outbox WHERE agent_id = ? AND kind IN ('verify', 'recover', 'claim')`,
	)
}

// forgetFormerMailbox keeps the mailbox that an agent left from recovering its key. The caller
// stores the agent.
func (t *tx) forgetFormerMailbox(agent *agentRow) {
	// With the mailbox in the row gone, the file still has it until it is compacted.
	t.Changes.Erased = t.Changes.Erased || agent.FormerMailbox != nil
	agent.FormerMailbox = nil
}

// verifyMailbox makes the mailbox of an agent a verified one. It is then no former one that could
// recover the key. The caller stores the agent.
func (t *tx) verifyMailbox(agent *agentRow) {
	agent.VerifiedAt = &t.Now
	if domain.Deref(agent.FormerMailbox) == agent.Mailbox {
		agent.FormerMailbox = nil
	}
}

// withdrawClaim deletes a claim, so that another person may claim the agent. Receipts are no longer
// required, since there is no owner to give them.
func (t *tx) withdrawClaim(agent *agentRow) error {
	// First the claim alone: as long as the row has the owner, the evidence of its partners is
	// found by it.
	agent.ClaimedAt = nil
	if err := agent.Store(t); err != nil {
		return err
	}

	agent.ClaimedBy = nil
	agent.ContactPolicy.RequireOwnerReceipt = false
	agent.UpdatedAt = t.Now
	if err := agent.Store(t); err != nil {
		return err
	}

	// The mails with its links are no longer sent.
	if err := t.Exec(`DELETE FROM owner_claims WHERE agent_id = ?`, agent.ID); err != nil {
		return err
	}
	if err := t.deleteMail(agent.ID, domain.MailClaim); err != nil {
		return err
	}
	return t.deleteMail(agent.ID, domain.MailOwner)
}
