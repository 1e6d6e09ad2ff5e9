package store

import (
	"callbook/store/domain"
)

// A notice tells the holder of an agent's mailbox what somebody did with the agent's key, which may
// have leaked.

const noticeValid = 7 * domain.Day // how long a notice is retried

// isNotice reports whether mails of a kind go to whoever held an agent's mailbox, and not to whom
// the agent says.
func isNotice(kind string) bool {
	switch kind {
	case domain.MailFormer, domain.MailChanged, domain.MailClaimed, domain.MailRecovered, domain.MailDeletion:
		return true
	}
	return false
}

// notifyMailbox mails a notice of a kind to the mailboxes of orders, but to those that have had their
// notices of the day or want no mails. Nothing else counts against that cap, and notices count in no
// pool, so that neither a thief of the key nor strangers can prevent them.
func notifyMailbox(t *tx, caps domain.MailCaps, kind string, orders ...mailOrder) error {
	for _, o := range orders {
		mailbox := t.MailboxHash(o.To)
		stopped, err := mailsStopped(t, mailbox)
		if err != nil {
			return err
		}
		hash := t.Pseudonym("notice\x00" + string(mailbox))
		_, spent, err := mailboxLimit(caps.Notices, hash).reached(t)
		if err != nil {
			return err
		}
		if stopped || spent {
			continue
		}

		err = t.Exec(`INSERT INTO mail_log (mailbox_hash, sent, at) VALUES (?, TRUE, ?)`, hash, t.Now)
		if err != nil {
			return err
		}
		if err := insertMail(t, o.AgentID, kind, o.To, "", t.Now.Add(noticeValid)); err != nil {
			return err
		}
	}
	return nil
}
