package store

import (
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/outbox"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Codes prove that who asks reads the agent's mailbox: to verify it, or to get a
// new key for a lost one.

const (
	codeAge      = 15 * time.Minute
	codeTries    = 5 // wrong ones that burn a code
	codeLength   = 8 // characters: 40 bits
	codeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

var codeEncoding = base32.NewEncoding(codeAlphabet).WithPadding(base32.NoPadding)

// newCode is a code as it is shown: XXXX-XXXX.
func newCode(random io.Reader) (string, error) {
	var raw [codeLength * 5 / 8]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("make a code: %w", err)
	}
	text := codeEncoding.EncodeToString(raw[:])
	return text[:codeLength/2] + "-" + text[codeLength/2:], nil
}

var codeReader = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1")

// hashCode reads a code without regard to case and hyphen, and takes the letters
// that the alphabet leaves out for the digits that they look like.
func hashCode(agentID int64, purpose, mailbox, code string) []byte {
	sum := domain.HashParts(strconv.FormatInt(agentID, 10), purpose, mailbox, codeReader.Replace(strings.ToUpper(code)))
	return sum[:]
}

// StartVerify mails the caller a code that proves its mailbox. It refuses with
// already_verified, and with rate_limited past the caps on mails.
func (s *Store) StartVerify(ctx context.Context, caller domain.Caller) (sent domain.CodeSent, err error) {
	err = s.writeOrRejectAs(ctx, caller, func(t *tx) error {
		agent, err := document.Agent(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		if err := t.sendCode(&agent, domain.MailVerify); err != nil {
			return err
		}
		next, err := outbox.NextAllowed(t.Tx, t.store.mails, agent.ID, agent.Mailbox)
		sent = domain.CodeSent{ExpiresAt: t.Now.Add(codeAge), ResendAfter: next}
		return err
	})
	return sent, err
}

// sendCode makes a code, which voids the one before, and mails it. Where no mail
// may go out it makes one all the same: what a wrong answer says would tell.
func (t *tx) sendCode(agent *document.AgentRow, purpose string) error {
	allowed, err := outbox.Spend(t.Tx, t.store.mails, agent.ID, agent.Mailbox)
	if err != nil {
		return err
	}
	if allowed { // a person who said "not mine" gets no codes of the agent either
		if allowed, err = t.wantedAt(agent.Handle, agent.Mailbox); err != nil {
			return err
		}
	}
	code, err := newCode(t.Random)
	if err != nil {
		return err
	}
	expires := t.Now.Add(codeAge)
	err = t.Exec(`
		INSERT INTO codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at)
		VALUES (?, ?, ?, ?, 0, ?, ?)
		ON CONFLICT (agent_id, purpose) DO UPDATE SET mailbox = excluded.mailbox, code_hash = excluded.code_hash,
			wrong_tries = 0, created_at = excluded.created_at, expires_at = excluded.expires_at`,
		agent.ID, purpose, agent.Mailbox, hashCode(agent.ID, purpose, agent.Mailbox, code), t.Now, expires)
	if err != nil {
		return fmt.Errorf("keep the code: %w", err)
	}
	if !allowed {
		return outbox.Delete(t.Tx, agent.ID, purpose)
	}
	return outbox.Insert(t.Tx, agent.ID, purpose, agent.Mailbox, code, expires)
}

// ConfirmVerify verifies the caller's mailbox with the code that was sent there.
// It refuses with already_verified, wrong_code, code_expired (there is no code
// that could be right), and too_many_attempts until a new code is asked for.
func (s *Store) ConfirmVerify(ctx context.Context, caller domain.Caller, code string) (doc domain.AgentDocument, err error) {
	err = s.writeOrRejectAs(ctx, caller, func(t *tx) error {
		agent, err := document.Agent(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		if agent.VerifiedAt != nil {
			return domain.NewError(domain.CodeAlreadyVerified)
		}
		if err := t.tryCode(&agent, domain.MailVerify, code); err != nil {
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

// tryCode uses a code up, or counts a wrong try.
func (t *tx) tryCode(agent *document.AgentRow, purpose, code string) error {
	var row struct {
		Mailbox   string      `db:"mailbox"`
		Hash      []byte      `db:"code_hash"`
		Wrong     int         `db:"wrong_tries"`
		CreatedAt domain.Time `db:"created_at"`
		ExpiresAt domain.Time `db:"expires_at"`
	}
	found, err := t.Find(&row, `
		SELECT mailbox, code_hash, wrong_tries, created_at, expires_at
		FROM codes WHERE agent_id = ? AND purpose = ?`, agent.ID, purpose)
	switch {
	case err != nil:
		return err
	case !found:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: purpose}
	case row.Wrong >= codeTries: // until a new code can be asked for
		next, err := outbox.NextAllowed(t.Tx, t.store.mails, agent.ID, agent.Mailbox)
		return cmp.Or[error](err, &domain.Error{Code: domain.CodeTooManyAttempts, Limit: codeTries, RetryAt: next.Time()})
	case row.ExpiresAt <= t.Now || row.Mailbox != agent.Mailbox:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: purpose}
	case subtle.ConstantTimeCompare(row.Hash, hashCode(agent.ID, purpose, row.Mailbox, code)) != 1:
		err := t.Exec(`UPDATE codes SET wrong_tries = wrong_tries + 1 WHERE agent_id = ? AND purpose = ?`, agent.ID, purpose)
		return cmp.Or[error](err, domain.NewError(domain.CodeWrongCode))
	}
	return errors.Join(
		t.Exec(`DELETE FROM codes WHERE agent_id = ? AND purpose = ?`, agent.ID, purpose),
		outbox.Delete(t.Tx, agent.ID, purpose))
}

// StartRecovery mails a code for a lost key to an agent's verified mailbox. For
// every other handle, and past the caps on mails, it does nothing, and does not
// tell.
func (s *Store) StartRecovery(ctx context.Context, handle string) error {
	return s.write(ctx, func(t *tx) error {
		agent, found, err := document.FindAgent(t.Tx, handle)
		if err != nil || !found || agent.VerifiedAt == nil || agent.Suspended(t.Now) {
			return err
		}
		err = t.sendCode(&agent, domain.MailRecover)
		if errors.Is(err, domain.NewError(domain.CodeRateLimited)) {
			return nil
		}
		return err
	})
}

// ConfirmRecovery replaces an agent's key, for one who has the code that was
// mailed. It refuses with wrong_code, code_expired (also for a handle that no
// code was sent to) and too_many_attempts.
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
		if err := t.tryCode(&agent, domain.MailRecover, code); err != nil {
			return err
		}
		rotatedAt = t.Now
		return t.setKey(agent.ID, key)
	})
	return key, rotatedAt, err
}
