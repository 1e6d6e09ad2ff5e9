package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"callbook/store/domain"
	"callbook/store/text"
)

// The outbox holds the site's own mails until they are delivered, so that a slow
// mail server holds back no call and a restart loses no code. A mail is sent at
// least once and at most twice: before each try the row says that one has begun,
// and one whose end nobody knows is tried once more and then given up.

// spendMail counts a mail that an agent asks for. It refuses one past the agent's
// or the site's limit with rate_limited. Where others have used up a mailbox's
// mails it returns false, without an error: whether a mailbox is in use here is
// nobody's business.
func (t *tx) spendMail(agentID int64, address string) (allowed bool, err error) {
	hash, err := t.mailboxHash(address)
	if err != nil {
		return false, err
	}
	refusal, err := t.mailRefusal(agentID, hash)
	if err != nil {
		return false, err
	}
	if refusal != nil {
		return false, refusal
	}
	caps := t.store.mails
	_, met, err := t.limitMet(caps.Mailbox, t.now.Add(-domain.Day), `mailbox_hash = ? AND sent`, hash)
	if err != nil {
		return false, err
	}
	allowed = !met
	return allowed, t.Exec(`INSERT INTO mail_log (agent_id, mailbox_hash, sent, at) VALUES (?, ?, ?, ?)`, agentID, hash, allowed, t.now)
}

// mailboxHash is all that is kept of a mailbox for the caps.
func (t *tx) mailboxHash(address string) ([]byte, error) {
	return t.pseudonym("mailbox\x00" + text.NormalMailbox(address))
}

// mailRefusal is by that cap on mails, of those that are met, which ends last; nil when
// none is met.
func (t *tx) mailRefusal(agentID int64, mailbox []byte) (refusal *domain.Error, err error) {
	caps := t.store.mails
	atOnce := 0
	if caps.Pause > 0 {
		atOnce = 1
	}
	for _, limit := range []struct {
		topic  string
		calls  int
		window time.Duration
		where  string
		args   []any
	}{
		{"mails", caps.Agent, domain.Day, `agent_id = ?`, []any{agentID}},
		{"mail_pause", atOnce, caps.Pause, `agent_id = ?`, []any{agentID}},
		// Its own to one mailbox count whether or not they were sent: the answer must not
		// tell of others.
		{"mails_mailbox", caps.Mailbox, domain.Day, `agent_id = ? AND mailbox_hash = ?`, []any{agentID, mailbox}},
		{"mails_site", caps.Site, domain.Day, `sent`, nil},
	} {
		oldest, met, err := t.limitMet(limit.calls, t.now.Add(-limit.window), limit.where, limit.args...)
		if err != nil {
			return nil, err
		}
		if !met {
			continue
		}
		if ends := oldest.Add(limit.window).Time(); refusal == nil || ends.After(refusal.RetryAt) {
			refusal = &domain.Error{Code: domain.CodeRateLimited, Topic: limit.topic, Limit: limit.calls, RetryAt: ends}
		}
	}
	return refusal, nil
}

// nextMail is when an agent may ask for a mail again, at the earliest.
func (t *tx) nextMail(agent *agentRow) (domain.Time, error) {
	hash, err := t.mailboxHash(agent.Mailbox)
	if err != nil {
		return 0, err
	}
	refusal, err := t.mailRefusal(agent.ID, hash)
	if refusal == nil {
		return t.now, err
	}
	return domain.TimeOf(refusal.RetryAt), err
}

// limitMet tells whether so many mails were asked for, and when the oldest of
// these was.
func (t *tx) limitMet(limit int, since domain.Time, where string, args ...any) (oldest domain.Time, met bool, err error) {
	if limit == 0 {
		return 0, false, nil
	}
	met, err = t.Find(&oldest, `SELECT at FROM mail_log WHERE `+where+` AND at > ? ORDER BY at DESC LIMIT 1 OFFSET ?`,
		append(args, since, limit-1)...)
	return oldest, met, err
}

// insertMail puts a mail into the outbox, in place of one of the same kind about the
// same agent that still waits there.
func (t *tx) insertMail(agentID int64, kind, recipient, secret string, expires domain.Time) error {
	if err := t.dropMails(agentID, kind); err != nil {
		return err
	}
	id, err := t.newID(domain.IdMail)
	if err != nil {
		return err
	}
	t.changes.Mail = true
	err = t.Exec(`
		INSERT INTO outbox (id, agent_id, kind, recipient, secret, tries, uncertain, next_try_at, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`, id, agentID, kind, recipient, secret, t.now, t.now, expires)
	if err != nil {
		return fmt.Errorf("put a mail into the outbox: %w", err)
	}
	return nil
}

func (t *tx) dropMails(agentID int64, kind string) error {
	n, err := t.Change(`DELETE FROM outbox WHERE agent_id = ? AND kind = ?`, agentID, kind)
	t.erased(n)
	return err
}

// erased says that rows with personal data were deleted.
func (t *tx) erased(rows int64) {
	t.changes.Removed = t.changes.Removed || rows > 0
}

// NextMailAt is when the next mail is due; zero when none waits.
func (s *Store) NextMailAt(ctx context.Context) (domain.Time, error) {
	var due *domain.Time
	err := s.get(ctx, &due, `SELECT MIN(next_try_at) FROM outbox`)
	if err != nil || due == nil {
		return 0, err
	}
	return *due, nil
}

// BeginMail takes a mail that is due, and says in the outbox that its delivery
// has begun. It must be followed by EndMail; if it is not, as when the program
// is killed, the mail is tried once more.
func (s *Store) BeginMail(ctx context.Context) (mail domain.Mail, due bool, err error) {
	if next, err := s.NextMailAt(ctx); err != nil || next == 0 || next > domain.TimeOf(s.clock()) {
		return domain.Mail{}, false, err
	}
	err = s.write(ctx, func(t *tx) error {
		mail, due = domain.Mail{}, false
		if err := t.expireMails(); err != nil {
			return err
		}
		err := t.Get(&mail, `
			SELECT o.seq, o.id, o.kind, o.recipient, h.handle, a.name, o.secret, o.tries, o.created_at, o.expires_at
			FROM outbox o
			JOIN agents a ON a.id = o.agent_id
			JOIN handles h ON h.id = o.agent_id
			WHERE o.next_try_at <= ?
			ORDER BY o.next_try_at, o.seq
			LIMIT 1`, t.now)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		due = true
		return t.Exec(`
			UPDATE outbox SET tries = tries + 1, uncertain = uncertain + 1, next_try_at = ?
			WHERE seq = ?`, t.now.Add(domain.MailBackoff(mail.Tries)), mail.Seq)
	})
	return mail, due, err
}

// expireMails drops the mails whose time has passed, and those that may have
// been delivered twice.
func (t *tx) expireMails() error {
	n, err := t.Change(`DELETE FROM outbox WHERE expires_at <= ? OR uncertain = 2 AND next_try_at <= ?`, t.now, t.now)
	t.erased(n)
	return err
}

// EndMail says how a delivery ended. What is delivered or refused for good is
// erased.
func (s *Store) EndMail(ctx context.Context, mail domain.Mail, outcome domain.MailOutcome) error {
	return s.write(ctx, func(t *tx) error {
		switch outcome {
		case domain.MailDelivered, domain.MailRefused:
			if mail.Kind == domain.MailOwner && outcome == domain.MailDelivered {
				if err := t.voidOldLink(mail.Secret); err != nil {
					return err
				}
			}
			n, err := t.Change(`DELETE FROM outbox WHERE seq = ?`, mail.Seq)
			t.erased(n)
			return err
		case domain.MailDelayed:
			return t.Exec(`UPDATE outbox SET uncertain = uncertain - 1 WHERE seq = ? AND uncertain > 0`, mail.Seq)
		}
		n, err := t.Change(`DELETE FROM outbox WHERE seq = ? AND uncertain = 2`, mail.Seq)
		t.erased(n)
		return err
	})
}
