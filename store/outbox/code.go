package outbox

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"time"

	"callbook/store/domain"
	"callbook/store/txn"
)

// The codes in mails. Only their hashes are stored, one code for each agent, kind of mail and mailbox.

const (
	codeAttempts = 5 // failed attempts that invalidate a code that verifies a mailbox

	recoveryAge   = 24 * time.Hour
	recoveryWait  = 2 * recoveryAge // how long an agent waits for a mail without asking again
	recoveryMails = 3               // mails with the same recovery code
)

// InsertCode stores the hash of a code, which replaces the code before. nonce is nil, or that of a recovery code, which keeps
// the time since which the agent waits for one.
func InsertCode(t *txn.Tx, o Order, code string, nonce []byte, expires domain.Time) error {
	err := t.Exec(`
		INSERT INTO codes (agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at, nonce)
		VALUES (?, ?, ?, ?, 0, ?, ?, ?)
		ON CONFLICT (agent_id, purpose, mailbox) DO UPDATE SET code_hash = excluded.code_hash,
			created_at = CASE WHEN nonce IS NOT NULL AND mails = 0 AND expires_at > excluded.created_at THEN created_at ELSE excluded.created_at END,
			wrong_tries = 0, expires_at = excluded.expires_at, nonce = excluded.nonce, mails = 0, mailed_at = NULL`,
		o.AgentID, o.Kind, o.To, codeHash(t, o, code), t.Now, expires, nonce)
	if err != nil {
		return fmt.Errorf("insert the code: %w", err)
	}
	return nil
}

func codeHash(t *txn.Tx, o Order, code string) []byte {
	return t.CodeHash(domain.HashCode(o.AgentID, o.Kind, o.To, code))
}

// TryCode uses up the code of an order, or counts a failed attempt unless it is a recovery code.
func TryCode(t *txn.Tx, caps domain.MailCaps, o Order, code string) error {
	agentID, purpose, mailbox := o.AgentID, o.Kind, o.To
	var row struct {
		Hash      []byte      `db:"code_hash"`
		Nonce     []byte      `db:"nonce"`
		Wrong     int         `db:"wrong_tries"`
		ExpiresAt domain.Time `db:"expires_at"`
	}
	found, err := t.Find(&row, `
		SELECT code_hash, nonce, wrong_tries, expires_at
		FROM codes WHERE agent_id = ? AND purpose = ? AND mailbox = ?`, agentID, purpose, mailbox)
	if err != nil {
		return err
	}
	switch {
	case !found:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: purpose}
	case row.Wrong >= codeAttempts:
		next, err := NextAllowed(t, caps, o)
		return cmp.Or[error](err, &domain.Error{Code: domain.CodeTooManyAttempts, Limit: codeAttempts, RetryAt: next.Time()})
	case row.ExpiresAt <= t.Now:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: purpose}
	case subtle.ConstantTimeCompare(row.Hash, codeHash(t, o, code)) != 1:
		if row.Nonce != nil { // nobody guesses it, and strangers must not invalidate it
			return &domain.Error{Code: domain.CodeWrongCode, Topic: purpose}
		}
		err := t.Exec(`UPDATE codes SET wrong_tries = wrong_tries + 1 WHERE agent_id = ? AND purpose = ? AND mailbox = ?`, agentID, purpose, mailbox)
		return cmp.Or[error](err, domain.NewError(domain.CodeWrongCode))
	}
	return errors.Join(
		t.Exec(`DELETE FROM codes WHERE agent_id = ? AND purpose = ? AND mailbox = ?`, agentID, purpose, mailbox),
		deleteMails(t, `agent_id = ? AND kind = ? AND recipient = ?`, agentID, purpose, mailbox))
}

// InsertRecovery puts a mail with the recovery code of an agent into the outbox, or with a new one if
// none has been mailed. It does nothing past the caps, within an hour of the mail before, and after
// recoveryMails mails.
func InsertRecovery(t *txn.Tx, caps domain.MailCaps, o Order) error {
	code, secret, err := recoveryCode(t, o)
	if err != nil {
		return err
	}
	if caps.Repeat > 0 && (code.Mails == recoveryMails || code.MailedAt != nil && t.Now < code.MailedAt.Add(caps.Repeat)) {
		return nil
	}
	o.Kept = code.Mails == 0 // or repeated mails would use up that of the next code
	spend := spendUnasked
	if o.Kind == domain.MailFormer {
		spend = spendNotice
	}
	if allowed, err := spend(t, caps, o); err != nil || !allowed {
		return err
	}
	err = t.Exec(`UPDATE codes SET mails = ?, mailed_at = ?, expires_at = ? WHERE agent_id = ? AND purpose = ? AND mailbox = ?`,
		min(code.Mails+1, recoveryMails), t.Now, code.ExpiresAt, o.AgentID, o.Kind, o.To)
	if err != nil {
		return err
	}
	return Insert(t, o.AgentID, o.Kind, o.To, secret, code.ExpiresAt)
}

// recoveryRow is a row of the table codes of a recovery code.
type recoveryRow struct {
	Hash      []byte       `db:"code_hash"`
	Nonce     []byte       `db:"nonce"`
	Mails     int          `db:"mails"`
	MailedAt  *domain.Time `db:"mailed_at"`
	ExpiresAt domain.Time  `db:"expires_at"`
}

// recoveryCode returns the valid code that was mailed, or else creates one: also if the key that the
// code was computed with has been replaced.
func recoveryCode(t *txn.Tx, o Order) (code recoveryRow, secret string, err error) {
	found, err := t.Find(&code, `
		SELECT code_hash, nonce, mails, mailed_at, expires_at
		FROM codes WHERE agent_id = ? AND purpose = ? AND mailbox = ?`, o.AgentID, o.Kind, o.To)
	if err != nil {
		return code, "", err
	}
	if found && code.Mails > 0 && code.ExpiresAt > t.Now {
		if secret = recoverySecret(t, o, code.Nonce); bytes.Equal(codeHash(t, o, secret), code.Hash) {
			return code, secret, nil
		}
	}
	code = recoveryRow{Nonce: make([]byte, domain.RecoveryBytes), ExpiresAt: t.Now.Add(recoveryAge)}
	if _, err := io.ReadFull(t.Random, code.Nonce); err != nil {
		return code, "", fmt.Errorf("create a recovery code: %w", err)
	}
	secret = recoverySecret(t, o, code.Nonce)
	return code, secret, InsertCode(t, o, secret, code.Nonce, t.Now.Add(recoveryWait))
}

// recoverySecret computes a recovery code, so that it can be mailed again without being stored.
func recoverySecret(t *txn.Tx, o Order, nonce []byte) string {
	raw := t.CodeHash(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", o.Kind, o.AgentID, o.To, nonce))
	return domain.RecoveryCode(raw[:domain.RecoveryBytes])
}
