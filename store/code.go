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
func (s *Store) StartVerify(ctx context.Context, caller domain.Caller) (sent domain.CodeSent, err error) {
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, err := t.AuthorizeOwn(caller)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		order := mailOrder{AgentID: agent.ID, Kind: domain.MailVerify, To: agent.Mailbox, From: t.counted(caller.Address)}
		if err := t.sendCode(agent, order); err != nil {
			return err
		}
		next, err := nextMailAllowed(t, t.store.mails, order)
		sent = domain.CodeSent{ExpiresAt: t.Now.Add(codeAge), ResendAfter: next}
		return err
	})
	return sent, err
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

	// The mail first: what was guessed at the code before decides whether the mail before still counts.
	expires := t.Now.Add(codeAge)
	if allowed {
		err = insertMail(t, order.AgentID, order.Kind, order.To, code, expires)
	} else {
		err = deleteMail(t, order.AgentID, order.Kind)
	}
	if err != nil {
		return err
	}
	return insertVerification(t, order, code, expires)
}

// ConfirmVerify verifies the caller's mailbox with the code that was mailed there. It returns
// already_verified, wrong_code, code_expired if there is no valid code, and too_many_attempts until a
// new code is requested.
func (s *Store) ConfirmVerify(ctx context.Context, caller domain.Caller, code string) (verified domain.PublicAgent, err error) {
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, err := t.AuthorizeOwn(caller)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		order := mailOrder{
			AgentID: agent.ID,
			Kind:    domain.MailVerify,
			To:      agent.Mailbox,
			From:    t.counted(caller.Address),
		}
		if err := tryVerification(t, t.store.mails, order, code); err != nil {
			return err
		}

		verifyMailbox(t, agent)
		agent.UpdatedAt = t.Now
		verified = agent.Public()
		return agent.Store(t)
	})
	return verified, err
}

// StartRecovery mails a code for a lost key to an agent's verified mailbox, and another code to the
// mailbox that it left in the last seven days. Anyone may call it, so a code voids none that was
// mailed before; a mailbox gets at most three a day, an hour apart. For any other handle, and past the caps on mails, StartRecovery does nothing
// and returns no error. next is the time from which the client may request another mail; it does not
// depend on the agent.
func (s *Store) StartRecovery(ctx context.Context, handle string, from netip.Addr) (next domain.Time, err error) {
	err = s.write(ctx, func(t *tx) error {
		var allowed bool
		if next, allowed, err = spendRecovery(t, t.store.mails, t.counted(from)); err != nil || !allowed {
			return err
		}
		agent, found, err := agentByHandle(t, handle)
		if err != nil || !found {
			return err
		}
		for _, o := range t.recoveryOrders(agent) {
			if err := insertRecovery(t, t.store.mails, o); err != nil {
				return err
			}
		}
		return nil
	})
	return next, err
}

// ConfirmRecovery replaces an agent's key with the code that was mailed, and takes back its deletion. A
// former mailbox becomes the agent's mailbox again. A claim that nobody has confirmed ends, and so does one that the
// owner first confirmed less than 30 days ago if the mailbox was left before it was last confirmed. endClaim ends one
// that was confirmed with that mailbox. A suspended agent stays so. ConfirmRecovery returns wrong_code, and
// code_expired, also for a handle that got no code.
func (s *Store) ConfirmRecovery(ctx context.Context, handle, code string, endClaim bool) (done domain.Recovery, err error) {
	if done.Key, err = domain.NewKey(s.random); err != nil {
		return done, err
	}
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, found, err := agentByHandle(t, handle)
		if err != nil {
			return err
		}
		if !found {
			return &domain.Error{Code: domain.CodeCodeExpired, Topic: domain.MailRecover}
		}
		by, err := tryRecovery(t, t.recoveryOrders(agent), code)
		if err != nil {
			return err
		}
		done.RotatedAt = t.Now
		done.ClaimEnded, err = t.recoverKey(agent, by, done.Key, endClaim)
		return err
	})
	if err != nil {
		return domain.Recovery{}, err
	}
	return done, nil
}
