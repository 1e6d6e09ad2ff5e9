// Package outbox stores the site's own mails until they are delivered, so that a slow mail
// server delays no request and a restart loses no code. It also counts mails against the caps.
//
// A mail is sent at least once and at most twice: before each try its row records that a
// delivery has started. A mail whose delivery may or may not have succeeded is tried once more
// and then given up.
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"callbook/store/domain"
	"callbook/store/text"
	"callbook/store/txn"
)

// Spend counts a mail that an agent requests. It returns rate_limited if the agent's or the
// site's cap is reached. If others have used up the mailbox's mails it reports false without an
// error, since the response must not tell whether a mailbox is in use here.
func Spend(t *txn.Tx, caps domain.MailCaps, agentID int64, address string) (allowed bool, err error) {
	hash, err := mailboxHash(t, address)
	if err != nil {
		return false, err
	}
	rejection, err := checkCaps(t, caps, agentID, hash)
	if err != nil {
		return false, err
	}
	if rejection != nil {
		return false, rejection
	}
	_, reached, err := capReached(t, caps.Mailbox, t.Now.Add(-domain.Day), `mailbox_hash = ? AND sent`, hash)
	if err != nil {
		return false, err
	}
	allowed = !reached
	return allowed, t.Exec(`INSERT INTO mail_log (agent_id, mailbox_hash, sent, at) VALUES (?, ?, ?, ?)`, agentID, hash, allowed, t.Now)
}

// NextAllowed returns the earliest time at which an agent may request another mail.
func NextAllowed(t *txn.Tx, caps domain.MailCaps, agentID int64, address string) (domain.Time, error) {
	hash, err := mailboxHash(t, address)
	if err != nil {
		return 0, err
	}
	rejection, err := checkCaps(t, caps, agentID, hash)
	if rejection == nil {
		return t.Now, err
	}
	return domain.TimeOf(rejection.RetryAt), err
}

// mailboxHash returns the pseudonym by which the caps know a mailbox.
func mailboxHash(t *txn.Tx, address string) ([]byte, error) {
	return t.Pseudonym("mailbox\x00" + text.NormalMailbox(address))
}

// checkCaps returns the rejection by the cap that ends last of those that are reached; nil if
// none is.
func checkCaps(t *txn.Tx, caps domain.MailCaps, agentID int64, mailbox []byte) (rejection *domain.Error, err error) {
	oneAtATime := 0
	if caps.Pause > 0 {
		oneAtATime = 1
	}
	for _, limit := range []struct {
		topic  string
		mails  int
		window time.Duration
		where  string
		args   []any
	}{
		{"mails", caps.Agent, domain.Day, `agent_id = ?`, []any{agentID}},
		{"mail_pause", oneAtATime, caps.Pause, `agent_id = ?`, []any{agentID}},
		// An agent's mails to a mailbox count even if they were not sent, so that the response
		// tells nothing of other agents.
		{"mails_mailbox", caps.Mailbox, domain.Day, `agent_id = ? AND mailbox_hash = ?`, []any{agentID, mailbox}},
		{"mails_site", caps.Site, domain.Day, `sent`, nil},
	} {
		oldest, reached, err := capReached(t, limit.mails, t.Now.Add(-limit.window), limit.where, limit.args...)
		if err != nil {
			return nil, err
		}
		if !reached {
			continue
		}
		if end := oldest.Add(limit.window).Time(); rejection == nil || end.After(rejection.RetryAt) {
			rejection = &domain.Error{Code: domain.CodeRateLimited, Topic: limit.topic, Limit: limit.mails, RetryAt: end}
		}
	}
	return rejection, nil
}

// capReached reports whether limit mails were requested since a time, and returns the time of
// the oldest of them.
func capReached(t *txn.Tx, limit int, since domain.Time, where string, args ...any) (oldest domain.Time, reached bool, err error) {
	if limit == 0 {
		return 0, false, nil
	}
	reached, err = t.Find(&oldest, `SELECT at FROM mail_log WHERE `+where+` AND at > ? ORDER BY at DESC LIMIT 1 OFFSET ?`,
		append(args, since, limit-1)...)
	return oldest, reached, err
}

// Insert puts a mail into the outbox. It replaces one of the same kind to the same agent.
func Insert(t *txn.Tx, agentID int64, kind, recipient, secret string, expires domain.Time) error {
	if err := Delete(t, agentID, kind); err != nil {
		return err
	}
	id, err := t.NewID(domain.IdMail)
	if err != nil {
		return err
	}
	t.Changes.Mail = true
	err = t.Exec(`
		INSERT INTO outbox (id, agent_id, kind, recipient, secret, tries, uncertain, next_try_at, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`, id, agentID, kind, recipient, secret, t.Now, t.Now, expires)
	if err != nil {
		return fmt.Errorf("insert a mail into the outbox: %w", err)
	}
	return nil
}

// Delete deletes the mail of a kind to an agent from the outbox.
func Delete(t *txn.Tx, agentID int64, kind string) error {
	return deleteMails(t, `agent_id = ? AND kind = ?`, agentID, kind)
}

// DeleteExpired deletes the mails that have expired, and those that may have been delivered
// twice.
func DeleteExpired(t *txn.Tx) error {
	return deleteMails(t, `expires_at <= ? OR uncertain = 2 AND next_try_at <= ?`, t.Now, t.Now)
}

func deleteMails(t *txn.Tx, where string, args ...any) error {
	n, err := t.Change(`DELETE FROM outbox WHERE `+where, args...)
	t.TouchErased(n)
	return err
}

// NextAt returns when the next mail must be sent; 0 if the outbox is empty.
func NextAt(ctx context.Context, db *txn.DB) (domain.Time, error) {
	var next *domain.Time
	err := db.Get(ctx, &next, `SELECT MIN(next_try_at) FROM outbox`)
	if err != nil || next == nil {
		return 0, err
	}
	return *next, nil
}

// Start returns a mail to send now, if there is one, and records that its delivery has started.
// It must be followed by Finish. If it is not, as when the program is killed, the mail is tried
// once more.
func Start(ctx context.Context, db *txn.DB) (mail domain.Mail, found bool, err error) {
	if next, err := NextAt(ctx, db); err != nil || next == 0 || next > db.Now() {
		return domain.Mail{}, false, err
	}
	err = db.Write(ctx, func(t *txn.Tx) error {
		mail, found = domain.Mail{}, false
		if err := DeleteExpired(t); err != nil {
			return err
		}
		err := t.Get(&mail, `
			SELECT o.seq, o.id, o.kind, o.recipient, h.handle, a.name, o.secret, o.tries, o.created_at, o.expires_at
			FROM outbox o
			JOIN agents a ON a.id = o.agent_id
			JOIN handles h ON h.id = o.agent_id
			WHERE o.next_try_at <= ?
			ORDER BY o.next_try_at, o.seq
			LIMIT 1`, t.Now)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return t.Exec(`
			UPDATE outbox SET tries = tries + 1, uncertain = uncertain + 1, next_try_at = ?
			WHERE seq = ?`, t.Now.Add(domain.MailBackoff(mail.Tries)), mail.Seq)
	})
	return mail, found, err
}

// Finish records the outcome of a delivery. It deletes a mail that was delivered or rejected.
func Finish(t *txn.Tx, mail domain.Mail, outcome domain.MailOutcome) error {
	switch outcome {
	case domain.MailDelivered, domain.MailRefused:
		return deleteMails(t, `seq = ?`, mail.Seq)
	case domain.MailDelayed:
		return t.Exec(`UPDATE outbox SET uncertain = uncertain - 1 WHERE seq = ? AND uncertain > 0`, mail.Seq)
	}
	return deleteMails(t, `seq = ? AND uncertain = 2`, mail.Seq)
}
