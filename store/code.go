package store

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/outbox"
)

// A code proves that the caller reads the agent's mailbox, to verify it or to replace a lost key.

const (
	codeAge      = 15 * time.Minute
	codeAttempts = 5 // failed attempts that invalidate a code

	recoveryAge   = 24 * time.Hour
	recoveryMails = 3 // mails with the same recovery code
)

// StartVerify mails the caller a code that proves its mailbox. It returns already_verified, and
// rate_limited past the caps on mails.
func (s *Store) StartVerify(ctx context.Context, caller domain.Caller) (sent domain.CodeSent, err error) {
	err = s.writeOrRejectAs(ctx, caller, func(t *tx) error {
		agent, err := document.Agent(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		order := outbox.Order{AgentID: agent.ID, Kind: domain.MailVerify, To: agent.Mailbox, From: caller.Address}
		if err := t.sendCode(&agent, order); err != nil {
			return err
		}
		next, err := outbox.NextAllowed(t.Tx, t.store.mails, order)
		sent = domain.CodeSent{ExpiresAt: t.Now.Add(codeAge), ResendAfter: next}
		return err
	})
	return sent, err
}

// sendCode creates a code, which replaces the one before, and mails it. If no mail may be sent, it
// creates a code all the same, so that the response to a wrong code does not reveal that.
func (t *tx) sendCode(agent *document.AgentRow, order outbox.Order) error {
	allowed, err := outbox.Allow(t.Tx, t.store.mails, order)
	if err != nil {
		return err
	}
	if allowed { // a person who rejected the agent gets no codes from it either
		if allowed, err = t.isWantedAt(agent.Handle, agent.Mailbox); err != nil {
			return err
		}
	}
	if err := outbox.Count(t.Tx, t.store.mails, order, allowed); err != nil {
		return err
	}
	code, err := domain.NewCode(t.Random)
	if err != nil {
		return err
	}
	expires := t.Now.Add(codeAge)
	if err := t.insertCode(order, code, nil, expires); err != nil {
		return err
	}
	if !allowed {
		return outbox.Delete(t.Tx, order.AgentID, order.Kind)
	}
	return outbox.Insert(t.Tx, order.AgentID, order.Kind, order.To, code, expires)
}

// insertCode stores the hash of a code, which replaces the one before. nonce is that of a recovery code.
func (t *tx) insertCode(order outbox.Order, code string, nonce []byte, expires domain.Time) error {
	err := t.Exec(`
		INSERT INTO codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at, nonce)
		VALUES (?, ?, ?, ?, 0, ?, ?, ?)
		ON CONFLICT (agent_id, purpose) DO UPDATE SET mailbox = excluded.mailbox, code_hash = excluded.code_hash,
			wrong_tries = 0, created_at = excluded.created_at, expires_at = excluded.expires_at,
			nonce = excluded.nonce, mails = 0, mailed_at = NULL`,
		order.AgentID, order.Kind, order.To, domain.HashCode(order.AgentID, order.Kind, order.To, code), t.Now, expires, nonce)
	if err != nil {
		return fmt.Errorf("insert the code: %w", err)
	}
	return nil
}

// ConfirmVerify verifies the caller's mailbox with the code that was mailed there. It returns
// already_verified, wrong_code, code_expired if there is no valid code, and too_many_attempts until a
// new code is requested.
func (s *Store) ConfirmVerify(ctx context.Context, caller domain.Caller, code string) (doc domain.AgentDocument, err error) {
	err = s.writeOrRejectAs(ctx, caller, func(t *tx) error {
		agent, err := document.Agent(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		if err := t.tryCode(outbox.Order{AgentID: agent.ID, Kind: domain.MailVerify, To: agent.Mailbox, From: caller.Address}, code); err != nil {
			return err
		}
		if err := t.Exec(`UPDATE agents SET verified_at = ?, updated_at = ? WHERE id = ?`, t.Now, t.Now, agent.ID); err != nil {
			return err
		}
		t.TouchAgent(agent.ID)
		doc, err = document.RebuildAgent(t.Tx, agent.ID)
		return err
	})
	return doc, err
}

// tryCode uses up the code of an order, or counts a failed attempt unless it is a recovery code.
func (t *tx) tryCode(order outbox.Order, code string) error {
	agentID, purpose, mailbox := order.AgentID, order.Kind, order.To
	var row struct {
		Mailbox   string      `db:"mailbox"`
		Hash      []byte      `db:"code_hash"`
		Nonce     []byte      `db:"nonce"`
		Wrong     int         `db:"wrong_tries"`
		CreatedAt domain.Time `db:"created_at"`
		ExpiresAt domain.Time `db:"expires_at"`
	}
	found, err := t.Find(&row, `
		SELECT mailbox, code_hash, nonce, wrong_tries, created_at, expires_at
		FROM codes WHERE agent_id = ? AND purpose = ?`, agentID, purpose)
	switch {
	case err != nil:
		return err
	case !found:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: purpose}
	case row.Wrong >= codeAttempts:
		next, err := outbox.NextAllowed(t.Tx, t.store.mails, order)
		return cmp.Or[error](err, &domain.Error{Code: domain.CodeTooManyAttempts, Limit: codeAttempts, RetryAt: next.Time()})
	case row.ExpiresAt <= t.Now || row.Mailbox != mailbox:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: purpose}
	case subtle.ConstantTimeCompare(row.Hash, domain.HashCode(agentID, purpose, row.Mailbox, code)) != 1:
		if row.Nonce != nil { // nobody guesses it, and strangers must not invalidate it
			return &domain.Error{Code: domain.CodeWrongCode, Topic: purpose}
		}
		err := t.Exec(`UPDATE codes SET wrong_tries = wrong_tries + 1 WHERE agent_id = ? AND purpose = ?`, agentID, purpose)
		return cmp.Or[error](err, domain.NewError(domain.CodeWrongCode))
	}
	return errors.Join(
		t.Exec(`DELETE FROM codes WHERE agent_id = ? AND purpose = ?`, agentID, purpose),
		outbox.Delete(t.Tx, agentID, purpose))
}

// StartRecovery mails a code for a lost key to an agent's verified mailbox. Anyone may call it, so the
// code does not replace one that was mailed within the last day, but that one is mailed again, at most
// twice and an hour apart. For any other handle, and past the caps on mails, StartRecovery does nothing
// and returns no error. next is the time from which the client may request another mail; it does not
// depend on the agent.
func (s *Store) StartRecovery(ctx context.Context, handle string, from netip.Addr) (next domain.Time, err error) {
	err = s.write(ctx, func(t *tx) error {
		var allowed bool
		if next, allowed, err = outbox.SpendRecovery(t.Tx, t.store.mails, from); err != nil || !allowed {
			return err
		}
		agent, found, err := document.FindAgent(t.Tx, handle)
		if err != nil || !found || agent.VerifiedAt == nil || agent.Suspended(t.Now) {
			return err
		}
		return t.mailRecovery(&agent, outbox.Order{AgentID: agent.ID, Kind: domain.MailRecover, To: agent.Mailbox})
	})
	return next, err
}

// mailRecovery mails the recovery code of an agent, or a new one if none has been mailed.
func (t *tx) mailRecovery(agent *document.AgentRow, order outbox.Order) error {
	code, err := t.recoveryCode(order)
	if err != nil {
		return err
	}
	caps := t.store.mails
	if caps.Repeat > 0 && (code.Mails == recoveryMails || code.MailedAt != nil && t.Now < code.MailedAt.Add(caps.Repeat)) {
		return nil
	}
	if wanted, err := t.isWantedAt(agent.Handle, order.To); err != nil || !wanted {
		return err
	}
	order.Kept = code.Mails == 0 // or repeated mails would use up that of the next code
	if allowed, err := outbox.SpendUnasked(t.Tx, caps, order); err != nil || !allowed {
		return err
	}
	err = t.Exec(`UPDATE codes SET mails = ?, mailed_at = ? WHERE agent_id = ? AND purpose = ?`,
		min(code.Mails+1, recoveryMails), t.Now, order.AgentID, order.Kind)
	if err != nil {
		return err
	}
	secret, err := t.recoverySecret(order, code.Nonce)
	if err != nil {
		return err
	}
	return outbox.Insert(t.Tx, order.AgentID, order.Kind, order.To, secret, code.ExpiresAt)
}

// recoveryRow is a row of the table codes of a recovery code.
type recoveryRow struct {
	Mailbox   string       `db:"mailbox"`
	Nonce     []byte       `db:"nonce"`
	Mails     int          `db:"mails"`
	MailedAt  *domain.Time `db:"mailed_at"`
	ExpiresAt domain.Time  `db:"expires_at"`
}

// recoveryCode returns the valid code that was mailed, or else creates one.
func (t *tx) recoveryCode(order outbox.Order) (code recoveryRow, err error) {
	found, err := t.Find(&code, `
		SELECT mailbox, nonce, mails, mailed_at, expires_at
		FROM codes WHERE agent_id = ? AND purpose = ?`, order.AgentID, order.Kind)
	if err != nil || found && code.Mails > 0 && code.ExpiresAt > t.Now && code.Mailbox == order.To {
		return code, err
	}
	code = recoveryRow{Mailbox: order.To, Nonce: make([]byte, domain.RecoveryBytes), ExpiresAt: t.Now.Add(recoveryAge)}
	if _, err := io.ReadFull(t.Random, code.Nonce); err != nil {
		return code, fmt.Errorf("create a recovery code: %w", err)
	}
	secret, err := t.recoverySecret(order, code.Nonce)
	if err != nil {
		return code, err
	}
	return code, t.insertCode(order, secret, code.Nonce, code.ExpiresAt)
}

// recoverySecret computes a recovery code, so that it can be mailed again without being stored.
func (t *tx) recoverySecret(order outbox.Order, nonce []byte) (string, error) {
	raw, err := t.Pseudonym(fmt.Sprintf("%s\x00%d\x00%s\x00%s", order.Kind, order.AgentID, order.To, nonce))
	if err != nil {
		return "", err
	}
	return domain.RecoveryCode(raw[:domain.RecoveryBytes]), nil
}

// ConfirmRecovery replaces an agent's key with the code that was mailed. It returns wrong_code, and
// code_expired, also for a handle that got no code.
func (s *Store) ConfirmRecovery(ctx context.Context, handle, code string) (key string, rotatedAt domain.Time, err error) {
	if key, err = domain.NewKey(s.random); err != nil {
		return "", 0, err
	}
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, found, err := document.FindAgent(t.Tx, handle)
		if err != nil {
			return err
		}
		if !found || agent.VerifiedAt == nil || agent.Suspended(t.Now) {
			return &domain.Error{Code: domain.CodeCodeExpired, Topic: domain.MailRecover}
		}
		if err := t.tryCode(outbox.Order{AgentID: agent.ID, Kind: domain.MailRecover, To: agent.Mailbox}, code); err != nil {
			return err
		}
		rotatedAt = t.Now
		return t.setKey(agent.ID, key)
	})
	return key, rotatedAt, err
}
