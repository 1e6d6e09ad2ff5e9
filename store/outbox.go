package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"callbook/store/domain"
)

// The outbox has the site's own mails until they are delivered, so that a slow mail server delays
// no request and a restart loses no code. The files beside this one count mails against the caps,
// store the hashes of the codes in them, and end mails to those who want none.
//
// A mail is sent at least once and at most twice: before each try its row records that a delivery
// has started. A mail whose delivery may or may not have succeeded is tried once more and then
// given up.

// FinishMail records the outcome of a delivery. A mail that was delivered or rejected is deleted;
// a delivered link to an owner's page replaces the link before.
func (s *Store) FinishMail(
	ctx context.Context,
	mail domain.Mail,
	outcome domain.MailOutcome,
) error {
	return s.write(ctx, func(t *tx) error {
		isLink := mail.Kind == domain.MailClaim || mail.Kind == domain.MailOwner
		if isLink && outcome == domain.MailDelivered {
			if err := t.replaceOwnerLink(&mail); err != nil {
				return err
			}
		}

		return t.finishMail(mail, outcome)
	})
}

// insertMail puts a mail into the outbox. It replaces one of the same kind to the same agent,
// which may have another recipient unless it is a notice.
func (t *tx) insertMail(agentID int64, kind, recipient, secret string, expires domain.Time) error {
	replaced := `agent_id = ? AND kind = ?`
	args := []any{agentID, kind}
	if isNotice(kind) { // each of several mailboxes gets its own
		replaced += ` AND recipient = ?`
		args = append(args, recipient)
	}

	if _, err := t.giveUp(replaced, args...); err != nil {
		return err
	}

	id, err := t.NewID(domain.IDMail)
	if err != nil {
		return err
	}

	t.Changes.Mail = true
	err = t.Exec(`
		INSERT INTO outbox (id, agent_id, kind, recipient, secret,
			tries, uncertain, next_try_at, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`,
		id, agentID, kind, recipient, secret, t.Now, t.Now, expires)
	if err != nil {
		return fmt.Errorf("insert a mail into the outbox: %w", err)
	}

	return nil
}

// deleteMail deletes the mail of a kind to an agent from the outbox.
func (t *tx) deleteMail(agentID int64, kind string) error {
	_, err := t.giveUp(`agent_id = ? AND kind = ?`, agentID, kind)
	return err
}

// deleteExpiredMails deletes the mails that have expired, and those that may have been delivered
// twice.
func (t *tx) deleteExpiredMails() error {
	if _, err := t.giveUp(`uncertain = 2 AND next_try_at <= ?`, t.Now); err != nil {
		return err
	}
	n, err := t.giveUp(`expires_at <= ?`, t.Now)
	t.Changes.MailsExpired += n
	return err
}

// giveUp deletes mails that are no longer to be sent, and returns how many. A verification that
// was never sent, as while the mail server is down, no longer counts against its agent, the
// mailbox and the pool.
func (t *tx) giveUp(where string, args ...any) (int, error) {
	// The mailbox got nothing. After a wrong guess at its code it counts all the same, or an agent
	// could guess at one code after the other. The networks of the client are in mail_networks and
	// count too, so that a stranger cannot make the site try mailboxes that take no mail more often
	// than others. Mails of other kinds wait for a day or longer: then they do not count anyway.
	err := t.Exec(`
		UPDATE mail_log SET agent_id = NULL, sent = 0
		WHERE (agent_id, at) IN (
			SELECT agent_id, created_at
			FROM outbox o
			WHERE kind = 'verify' AND uncertain = 0 AND (`+where+`)
				AND NOT EXISTS (
					SELECT 1
					FROM codes c
					WHERE c.agent_id = o.agent_id AND c.purpose = 'verify' AND c.wrong_tries > 0
				)
		)`, args...)
	if err != nil {
		return 0, err
	}

	n, err := t.Change(`DELETE FROM outbox WHERE `+where, args...)
	t.Erase(n)
	return int(n), err
}

func (t *tx) deleteMails(where string, args ...any) error {
	n, err := t.Change(`DELETE FROM outbox WHERE `+where, args...)
	t.Erase(n)
	return err
}

// NextMailAt returns when the next mail must be sent; 0 if the outbox is empty.
func (s *Store) NextMailAt(ctx context.Context) (next domain.Time, err error) {
	err = s.db.Get(ctx, &next, `SELECT COALESCE(MIN(next_try_at), 0) FROM outbox`)
	return next, err
}

// StartMail returns a mail to send now, if there is one, and records that its delivery has
// started. It must be followed by FinishMail. If it is not, as when the program is
// killed, the mail is tried once more.
func (s *Store) StartMail(ctx context.Context) (mail domain.Mail, found bool, err error) {
	// Nearly always nothing is due: a read shows it without a transaction.
	if next, err := s.NextMailAt(ctx); err != nil || next == 0 || next > s.now() {
		return domain.Mail{}, false, err
	}

	err = s.write(ctx, func(t *tx) error {
		mail, found = domain.Mail{}, false
		if err := t.deleteExpiredMails(); err != nil {
			return err
		}

		err := t.Get(&mail, `
			SELECT o.seq, o.id, o.agent_id, o.kind, o.recipient, h.handle, a.name, o.secret,
				o.tries, o.created_at, o.expires_at
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

		mail.Stop, found = t.stopToken(mail.To), true

		// Stored before the delivery, so that a program that is killed meanwhile does not send the
		// mail again and again.
		return t.Exec(`
			UPDATE outbox SET tries = tries + 1, uncertain = uncertain + 1, next_try_at = ?
			WHERE seq = ?`, t.Now.Add(domain.MailBackoff(mail.Tries)), mail.Seq)
	})

	return mail, found, err
}

// finishMail records the outcome of a delivery. It deletes a mail that was delivered or rejected.
// See giveUp for a mail that expires.
func (t *tx) finishMail(mail domain.Mail, outcome domain.MailOutcome) error {
	switch outcome {
	case domain.MailDelivered:
		return t.deleteMails(`seq = ?`, mail.Seq)

	case domain.MailRejected:
		n, err := t.Change(`DELETE FROM outbox WHERE seq = ?`, mail.Seq)
		if err != nil || n == 0 { // it has ended otherwise meanwhile
			return err
		}

		t.Erase(n)

		// It counts no longer against its agent, which may have mistyped the address, but still in
		// the pool and against mailbox and networks.
		err = t.Exec(`
			UPDATE mail_log SET agent_id = NULL
			WHERE seq = (SELECT MAX(seq) FROM mail_log WHERE agent_id = ? AND at = ?)`,
			mail.AgentID, mail.CreatedAt)
		if err != nil || isNotice(mail.Kind) { // notices are not the agent's
			return err
		}

		subject := domain.EventSubject{Handle: mail.Handle}
		return t.InsertEvent(mail.AgentID, domain.EventMailFailed, subject)

	case domain.MailDelayed: // not delivered, so this try is none of the two
		return t.Exec(
			`UPDATE outbox SET uncertain = uncertain - 1 WHERE seq = ? AND uncertain > 0`,
			mail.Seq,
		)
	}

	// It may have been delivered: after the second time it is given up.
	return t.deleteMails(`seq = ? AND uncertain = 2`, mail.Seq)
}
