package store

import (
	"context"

	"callbook/store/domain"
)

// FinishMail records the outcome of a delivery. A mail that was delivered or rejected is deleted;
// a delivered link to an owner's page replaces the link before.
func (s *Store) FinishMail(ctx context.Context, mail domain.Mail, outcome domain.MailOutcome) error {
	return s.write(ctx, func(t *tx) error {
		isLink := mail.Kind == domain.MailClaim || mail.Kind == domain.MailOwner
		if isLink && outcome == domain.MailDelivered {
			if err := t.replaceOwnerLink(&mail); err != nil {
				return err
			}
		}
		return finishMail(t, mail, outcome)
	})
}
