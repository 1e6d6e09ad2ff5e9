package outbox

import (
	"errors"
	"fmt"

	"callbook/store/domain"
	"callbook/store/txn"
)

// A leaked key must not take an agent over. Whoever held its verified mailbox is told of what a thief
// would do with the key, and may recover the key for some days after the mailbox was changed.

const (
	formerAge    = 7 * domain.Day // how long a former mailbox may recover the key
	formerNumber = 3              // how many of an agent may, those that were left first
	noticeValid  = formerAge      // how long a notice is retried
	noticeBoxes  = 3              // an agent causes as many notices a day as so many mailboxes get
)

// isNotice reports whether mails of a kind go to whoever held an agent's mailbox, and not to whom the
// agent says.
func isNotice(kind string) bool {
	switch kind {
	case domain.MailFormer, domain.MailChanged, domain.MailClaimed, domain.MailRecovered, domain.MailDeletion:
		return true
	}
	return false
}

// Notify mails a notice of a kind to mailboxes, but to those that have had their notices of the day.
func Notify(t *txn.Tx, caps domain.MailCaps, kind string, mailboxes ...Order) error {
	for _, o := range mailboxes {
		o.Kind = kind
		allowed, err := spendNotice(t, caps, o)
		if err == nil && allowed {
			err = Insert(t, o.AgentID, kind, o.To, "", t.Now.Add(noticeValid))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spendNotice counts a notice, or a recovery code to a former mailbox. Nothing else counts against its
// caps, and it counts in no pool, so that neither a thief of the key nor strangers can use them up: notices count
// by address and by agent, codes by address and agent. It reports false if a cap is used up, or the holder wants no mails.
func spendNotice(t *txn.Tx, caps domain.MailCaps, o Order) (allowed bool, err error) {
	mailbox := t.MailboxHash(o.To)
	var stopped bool
	if err := t.Get(&stopped, selectStopped, mailbox); err != nil || stopped {
		return false, err
	}
	name, total, kept := "notice", noticeBoxes*caps.Notices, false
	if o.Kind == domain.MailFormer {
		name, total, kept = fmt.Sprintf("former\x00%d", o.AgentID), 0, true // kept for the holder, so that it is no notice
	}
	hash := t.Pseudonym(name + "\x00" + string(mailbox))
	rejection, err := checkLimits(t, []limit{
		{"", caps.Notices, domain.Day, `mail_log WHERE mailbox_hash = ? AND sent`, []any{hash}},
		{"", total, domain.Day, `mail_log WHERE notice_of = ? AND NOT kept`, []any{o.AgentID}},
	})
	if err != nil || rejection != nil {
		return false, err
	}
	return true, t.Exec(`INSERT INTO mail_log (mailbox_hash, notice_of, kept, sent, at) VALUES (?, ?, ?, TRUE, ?)`, hash, o.AgentID, kept, t.Now)
}

// LeaveMailbox remembers the verified mailbox of an agent, which another replaces now, and tells it.
func LeaveMailbox(t *txn.Tx, caps domain.MailCaps, agentID int64, mailbox string) error {
	err := t.Exec(`
		INSERT INTO former_mailboxes (agent_id, mailbox, left_at) VALUES (?, ?, ?)
		ON CONFLICT (agent_id, mailbox) DO UPDATE SET left_at = excluded.left_at`, agentID, mailbox, t.Now)
	if err != nil {
		return fmt.Errorf("insert the former mailbox: %w", err)
	}
	return Notify(t, caps, domain.MailChanged, Order{AgentID: agentID, To: mailbox})
}

// RecoveryOrders returns the mails that an agent's recovery is about: to its mailbox, if that is
// verified, and to the first three of those that it left in the last seven days. A thief leaves later ones.
func RecoveryOrders(t *txn.Tx, agentID int64, mailbox string, verified bool) (orders []Order, err error) {
	if verified {
		orders = append(orders, Order{AgentID: agentID, Kind: domain.MailRecover, To: mailbox})
	}
	var former []Order
	err = t.Select(&former, `
		SELECT agent_id, 'former' AS kind, mailbox, left_at FROM former_mailboxes
		WHERE agent_id = ? AND left_at > ? AND (mailbox <> ? OR NOT ?)
		ORDER BY left_at, mailbox
		LIMIT ?`, agentID, t.Now.Add(-formerAge), mailbox, verified, formerNumber)
	return append(orders, former...), err
}

// TryRecovery uses up the recovery code of one of the orders, and returns that order. It returns
// wrong_code if there are codes, and code_expired if there are none.
func TryRecovery(t *txn.Tx, caps domain.MailCaps, orders []Order, code string) (Order, error) {
	var failure error = &domain.Error{Code: domain.CodeCodeExpired, Topic: domain.MailRecover}
	for _, o := range orders {
		switch err := TryCode(t, caps, o, code); {
		case err == nil:
			return o, nil
		case errors.Is(err, domain.NewError(domain.CodeWrongCode)): // whatever the mailbox
			failure = &domain.Error{Code: domain.CodeWrongCode, Topic: domain.MailRecover}
		case !errors.Is(err, domain.NewError(domain.CodeCodeExpired)):
			return o, err
		}
	}
	return Order{}, failure
}

// ReturnToMailbox is for a former mailbox that is verified again while it may recover the key. Mailboxes that the agent
// had after it may be a thief's, and can no longer recover the key.
func ReturnToMailbox(t *txn.Tx, agentID int64, mailbox string) error {
	return forget(t, agentID, `left_at >= (SELECT left_at FROM former_mailboxes WHERE agent_id = ?1 AND mailbox = ?2 AND left_at > ?3)`,
		mailbox, t.Now.Add(-formerAge))
}

// ForgetMailboxes forgets the former mailboxes of an agent but one, that it left after a time.
func ForgetMailboxes(t *txn.Tx, agentID int64, but string, after domain.Time) error {
	return forget(t, agentID, `mailbox <> ?2 AND left_at > ?3`, but, after)
}

// forget deletes former mailboxes of an agent, with their codes. The values of where are ?2 and ?3.
func forget(t *txn.Tx, agentID int64, where string, args ...any) error {
	n, err := t.Change(`DELETE FROM former_mailboxes WHERE agent_id = ?1 AND `+where, append([]any{agentID}, args...)...)
	if err != nil {
		return err
	}
	t.TouchErased(n)
	return t.Exec(`
		DELETE FROM codes
		WHERE agent_id = ?1 AND purpose = 'former'
			AND mailbox NOT IN (SELECT mailbox FROM former_mailboxes WHERE agent_id = ?1)`, agentID)
}

// DeleteFormer deletes the former mailboxes that can no longer recover a key.
func DeleteFormer(t *txn.Tx) error {
	n, err := t.Change(`DELETE FROM former_mailboxes WHERE left_at <= ?`, t.Now.Add(-formerAge))
	t.TouchErased(n)
	return err
}
