package store

import (
	"context"
	"crypto/hmac"
	"encoding/base64"

	"callbook/store/domain"
)

// A stop token is the pseudonym of an address and a code that authenticates it. Every mail has one
// in a link that ends all mails to the address, so that only who reads a mail there knows it.
const (
	hashBytes = 32
	stopBytes = 16
)

// stopToken returns the stop token of an address.
func (t *tx) stopToken(address string) string {
	hash := t.MailboxHash(address)
	mac := t.Pseudonym("stop\x00" + string(hash))
	return base64.RawURLEncoding.EncodeToString(append(hash, mac[:stopBytes]...))
}

// stoppedMailbox returns the pseudonym of the address of a stop token. It returns not_found for a
// token that the site did not make.
func (s *Store) stoppedMailbox(token string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != hashBytes+stopBytes ||
		len(token) != base64.RawURLEncoding.EncodedLen(len(raw)) { // it skips line breaks
		return nil, domain.NewError(domain.CodeNotFound)
	}

	mac := s.pseudonym("stop\x00" + string(raw[:hashBytes]))
	if !hmac.Equal(mac[:stopBytes], raw[hashBytes:]) {
		return nil, domain.NewError(domain.CodeNotFound)
	}

	return raw[:hashBytes], nil
}

// MailsStopped reports whether the holder of an address has ended all mails to it. It returns
// not_found for a token that was never mailed.
func (s *Store) MailsStopped(ctx context.Context, token string) (stopped bool, err error) {
	hash, err := s.stoppedMailbox(token)
	if err == nil {
		err = s.db.Get(ctx, &stopped, selectStopped, hash)
	}
	return stopped, err
}

// mailsStopped reports whether the holder of an address has ended all mails to it.
func (t *tx) mailsStopped(mailbox []byte) (stopped bool, err error) {
	err = t.Get(&stopped, selectStopped, mailbox)
	return stopped, err
}

const selectStopped = `SELECT EXISTS (SELECT 1 FROM mail_stops WHERE mailbox_hash = ?)`

// StopMails ends or resumes all mails to an address. Those that wait are deleted. It returns
// not_found for a token that was never mailed.
func (s *Store) StopMails(ctx context.Context, token string, stop bool) error {
	hash, err := s.stoppedMailbox(token)
	if err != nil {
		return err
	}

	return s.write(ctx, func(t *tx) error {
		if !stop {
			return t.Exec(`DELETE FROM mail_stops WHERE mailbox_hash = ?`, hash)
		}

		err := t.Exec(`
			INSERT INTO mail_stops (mailbox_hash, created_at) VALUES (?, ?)
			ON CONFLICT (mailbox_hash) DO NOTHING`, hash, t.Now)
		if err != nil {
			return err
		}

		return t.deleteMailsTo(hash)
	})
}

// deleteMailsTo deletes the mails to an address that wait.
func (t *tx) deleteMailsTo(mailbox []byte) error {
	// SQL cannot compare the addresses: all spellings of one have the same pseudonym.
	var waiting []struct {
		Seq int64  `db:"seq"`
		To  string `db:"recipient"`
	}

	if err := t.Select(&waiting, `SELECT seq, recipient FROM outbox`); err != nil {
		return err
	}

	for _, mail := range waiting {
		if !hmac.Equal(t.MailboxHash(mail.To), mailbox) {
			continue
		}
		if err := t.deleteMails(`seq = ?`, mail.Seq); err != nil {
			return err
		}
	}

	return nil
}

// A notice tells the holder of an agent's mailbox what somebody did with the agent's key, which may
// have leaked.

const noticeValid = 7 * domain.Day // how long a notice is retried

// isNotice reports whether mails of a kind go to whoever held an agent's mailbox, and not to whom
// the agent says.
func isNotice(kind string) bool {
	switch kind {
	case domain.MailFormer,
		domain.MailChanged,
		domain.MailClaimed,
		domain.MailRecovered,
		domain.MailDeletion:
		return true
	}
	return false
}

// notifyMailbox mails a notice of a kind to the mailboxes of orders, but to those that have had
// their notices of the day or want no mails.
func (t *tx) notifyMailbox(kind string, orders ...mailOrder) error {
	for _, o := range orders {
		mailbox := t.MailboxHash(o.To)
		stopped, err := t.mailsStopped(mailbox)
		if err != nil {
			return err
		}

		// Under a pseudonym of their own nothing else counts against their cap, and they count in
		// no pool: neither a thief of the key nor strangers can prevent them.
		hash := t.Pseudonym("notice\x00" + string(mailbox))
		_, spent, err := mailboxLimit(t.store.mails.Notices, hash).reached(t)
		if err != nil {
			return err
		}
		if stopped || spent {
			continue
		}

		err = t.Exec(
			`INSERT INTO mail_log (mailbox_hash, sent, at) VALUES (?, TRUE, ?)`,
			hash,
			t.Now,
		)
		if err != nil {
			return err
		}
		if err := t.insertMail(o.AgentID, kind, o.To, "", t.Now.Add(noticeValid)); err != nil {
			return err
		}
	}
	return nil
}
