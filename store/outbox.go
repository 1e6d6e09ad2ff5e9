package store

import (
	"context"

	"callbook/store/domain"
	"callbook/store/outbox"
)

// NextMailAt returns when the next mail must be sent; 0 if the outbox is empty.
func (s *Store) NextMailAt(ctx context.Context) (domain.Time, error) {
	return outbox.NextAt(ctx, s.db)
}

// MailPools returns how much is left of each pool of the site's mails.
func (s *Store) MailPools(ctx context.Context) ([]domain.PoolState, error) {
	return outbox.Pools(ctx, s.db, s.mails)
}

// MailsStopped reports whether the holder of an address has ended all mails to it. It returns not_found
// for a token that was never mailed.
func (s *Store) MailsStopped(ctx context.Context, token string) (bool, error) {
	return outbox.Stopped(ctx, s.db, token)
}

// StopMails ends or resumes all mails to an address. It returns not_found for a token that was never
// mailed.
func (s *Store) StopMails(ctx context.Context, token string, stop bool) error {
	return s.write(ctx, func(t *tx) error { return outbox.Stop(t.Tx, token, stop) })
}

// StartMail returns a mail to send now, if there is one, and records that its delivery has
// started. It must be followed by FinishMail. If it is not, as when the program is killed, the
// mail is tried once more.
func (s *Store) StartMail(ctx context.Context) (mail domain.Mail, found bool, err error) {
	return outbox.Start(ctx, s.db)
}

// FinishMail records the outcome of a delivery. A mail that was delivered or rejected is deleted;
// a delivered link to an owner's page replaces the link before.
func (s *Store) FinishMail(ctx context.Context, mail domain.Mail, outcome domain.MailOutcome) error {
	return s.write(ctx, func(t *tx) error {
		if mail.Kind == domain.MailOwner && outcome == domain.MailDelivered {
			if err := t.replaceOwnerLink(mail.Secret); err != nil {
				return err
			}
		}
		return outbox.Finish(t.Tx, mail, outcome)
	})
}
