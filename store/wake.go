package store

import (
	"context"

	"callbook/store/blocklist"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/store/text"
	"callbook/store/txn"
	"callbook/store/wake"
)

// SetWake stores the URL at which the caller is woken, in place of the one before, and returns the secret of its
// signatures. It returns validation_failed for a blocked host, and trust_too_low below level 1.
func (s *Store) SetWake(ctx context.Context, caller domain.Caller, url string) (address string, secret []byte, err error) {
	address, ok := text.ParseWebhookURL(url, s.loopbackLinks)
	if !ok {
		return "", nil, domain.Invalid(domain.FieldError{Field: "url", Code: domain.FaultBadFormat, Topic: "webhook"})
	}
	err = s.writeAs(ctx, caller, func(t *tx) error {
		if err := blocklist.Check(t.Tx, domain.WakeDraft{URL: address}); err != nil {
			return err
		}
		secret, err = wake.Set(t.Tx, caller.ID, address)
		return err
	})
	return address, secret, err
}

// RemoveWake deletes the URL at which the caller is woken, if there is one.
func (s *Store) RemoveWake(ctx context.Context, caller domain.Caller) error {
	return s.writeOwn(sqlitedb.Freeing(ctx), caller, func(t *tx) error { return wake.Remove(t.Tx, caller.ID) })
}

// Wake returns the wake-ups of the caller.
func (s *Store) Wake(ctx context.Context, caller domain.Caller) (domain.Wake, error) {
	return wake.Get(ctx, s.db, caller.ID)
}

// NextWakeAt returns when the next request that wakes an agent is due; 0 if none is.
func (s *Store) NextWakeAt(ctx context.Context) (domain.Time, error) { return wake.NextAt(ctx, s.db) }

// StartWakes returns requests to send now, at most limit, and records that they are on their way. Each must be
// followed by FinishWake; if it is not, as when the program is killed, the request is repeated. If provenOnly is
// set, it leaves out URLs whose last request did not succeed.
func (s *Store) StartWakes(ctx context.Context, limit int, provenOnly bool) ([]domain.DueWake, error) {
	return wake.Start(ctx, s.db, limit, provenOnly)
}

// FinishWake records the outcome of a request.
func (s *Store) FinishWake(ctx context.Context, due domain.DueWake, outcome domain.WakeOutcome) error {
	return s.db.WriteBackground(ctx, func(t *txn.Tx) error { return wake.Finish(t, due, outcome) })
}
