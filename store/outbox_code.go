package store

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"callbook/store/domain"
)

// The codes in mails, of which only the hashes are stored.

const (
	codeAttempts = 5 // failed attempts that invalidate a code that verifies a mailbox

	recoveryAge   = 24 * time.Hour
	recoveryMails = 3 // recovery codes of an agent to one mailbox in recoveryAge
)

// Purposes of codes.
const (
	verifyCode   = "verify"
	recoveryCode = "recover" // also to the mailbox that the agent left
)

// insertVerification stores the hash of a code that verifies a mailbox, in the place of the code
// before.
func (t *tx) insertVerification(o mailOrder, code string, expires domain.Time) error {
	err := t.Exec(`DELETE FROM codes WHERE agent_id = ? AND purpose = ?`, o.AgentID, verifyCode)
	if err != nil {
		return err
	}
	return t.insertCode(o, verifyCode, code, expires)
}

func (t *tx) insertCode(o mailOrder, purpose, code string, expires domain.Time) error {
	err := t.Exec(`
		INSERT INTO codes
			(agent_id, purpose, mailbox, code_hash, wrong_tries, created_at, expires_at)
		VALUES (?, ?, ?, ?, 0, ?, ?)`,
		o.AgentID, purpose, o.To, t.codeHash(o, purpose, code), t.Now, expires)
	if err != nil {
		return fmt.Errorf("insert the code: %w", err)
	}

	return nil
}

func (t *tx) codeHash(o mailOrder, purpose, code string) []byte {
	return t.CodeHash(domain.HashCode(o.AgentID, purpose, o.To, code))
}

// tryVerification uses up the code that verifies a mailbox, or counts a failed attempt. It returns
// wrong_code, code_expired if there is no valid code, and too_many_attempts.
func (t *tx) tryVerification(o mailOrder, code string) error {
	var row struct {
		Hash      []byte      `db:"code_hash"`
		Wrong     int         `db:"wrong_tries"`
		ExpiresAt domain.Time `db:"expires_at"`
	}
	found, err := t.Find(&row, `
		SELECT code_hash, wrong_tries, expires_at
		FROM codes
		WHERE agent_id = ? AND purpose = ? AND mailbox = ?`, o.AgentID, verifyCode, o.To)
	if err != nil {
		return err
	}

	// After too many attempts the right code is rejected as well: it may have been guessed.
	switch {
	case found && row.Wrong >= codeAttempts:
		next, err := t.nextMailAllowed(o)
		if err != nil {
			return err
		}
		return &domain.Error{
			Code:    domain.CodeTooManyAttempts,
			Limit:   codeAttempts,
			RetryAt: next.Time(),
		}
	case !found || row.ExpiresAt <= t.Now:
		return &domain.Error{Code: domain.CodeCodeExpired, Topic: verifyCode}
	case subtle.ConstantTimeCompare(row.Hash, t.codeHash(o, verifyCode, code)) != 1:
		// The caller commits although the request is rejected, so that the attempt counts.
		err := t.Exec(`
			UPDATE codes SET wrong_tries = wrong_tries + 1
			WHERE agent_id = ? AND purpose = ?`, o.AgentID, verifyCode)
		return errors.Join(err, domain.NewError(domain.CodeWrongCode))
	}
	return t.deleteCodes(o, verifyCode)
}

// deleteCodes deletes the codes of an agent for a purpose to a mailbox, and the mails with them.
func (t *tx) deleteCodes(o mailOrder, purpose string) error {
	err := t.Exec(`
		DELETE FROM codes
		WHERE agent_id = ? AND purpose = ? AND mailbox = ?`, o.AgentID, purpose, o.To)
	if err != nil {
		return err
	}
	return t.deleteMails(`agent_id = ? AND kind = ? AND recipient = ?`, o.AgentID, o.Kind, o.To)
}

// insertRecovery puts a mail with a recovery code of its own into the outbox. It does nothing past
// the caps, within MailCaps.Repeat of the code before, and after recoveryMails codes in
// recoveryAge.
func (t *tx) insertRecovery(o mailOrder) error {
	var recent []domain.Time
	err := t.Select(&recent, `
		SELECT created_at
		FROM codes
		WHERE agent_id = ? AND purpose = ? AND mailbox = ? AND created_at > ?
		ORDER BY created_at DESC`, o.AgentID, recoveryCode, o.To, t.Now.Add(-recoveryAge))
	if err != nil {
		return err
	}

	// No error: the response is the same for every agent and mailbox.
	n := len(recent)
	pause := t.store.mails.Repeat
	if pause > 0 && (n >= recoveryMails || n > 0 && t.Now < recent[0].Add(pause)) {
		return nil
	}
	if allowed, err := t.spendRecoveryMail(o); err != nil || !allowed {
		return err
	}

	code, err := domain.NewRecoveryCode(t.Random)
	if err != nil {
		return err
	}
	expires := t.Now.Add(recoveryAge)
	if err := t.insertCode(o, recoveryCode, code, expires); err != nil {
		return err
	}
	return t.insertMail(o.AgentID, o.Kind, o.To, code, expires)
}

// spendRecoveryMail counts a recovery mail to an agent's mailbox, and reports false if the
// mailbox's mails or those of the pool are used up, or its holder wants none.
func (t *tx) spendRecoveryMail(o mailOrder) (allowed bool, err error) {
	// A mail to the mailbox that the agent left counts nowhere, so that neither a thief of the key
	// nor strangers can prevent it.
	if o.Kind == domain.MailFormer {
		stopped, err := t.mailsStopped(t.MailboxHash(o.To))
		return !stopped, err
	}

	// Anyone may have it sent, so the limits of the agent do not apply.
	if allowed, err = t.mailboxAllowed(o); err != nil || !allowed {
		return false, err
	}
	_, spent, err := t.poolLimit(domain.PoolProven).reached(t)
	if err != nil || spent {
		return false, err
	}
	return true, t.logMail(o, true)
}

// tryRecovery uses up the recovery codes of one of the orders, to whose mailbox the code was
// mailed, and returns that order. It returns wrong_code if there are valid codes, and code_expired
// if there are none.
func (t *tx) tryRecovery(orders []mailOrder, code string) (mailOrder, error) {
	failure := &domain.Error{Code: domain.CodeCodeExpired, Topic: recoveryCode}
	for _, o := range orders {
		var hashes [][]byte
		err := t.Select(&hashes, `
			SELECT code_hash
			FROM codes
			WHERE agent_id = ? AND purpose = ? AND mailbox = ? AND expires_at > ?`,
			o.AgentID, recoveryCode, o.To, t.Now)
		if err != nil {
			return o, err
		}

		want := t.codeHash(o, recoveryCode, code)
		for _, hash := range hashes {
			if subtle.ConstantTimeCompare(hash, want) == 1 {
				return o, t.deleteCodes(o, recoveryCode)
			}
			failure.Code = domain.CodeWrongCode // not counted: a recovery code cannot be guessed
		}
	}
	return mailOrder{}, failure
}
