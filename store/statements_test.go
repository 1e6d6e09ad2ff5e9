package store

import (
	"context"
	"net/netip"
	"testing"

	"callbook/store/domain"
)

// TestWrite_Statements bounds how many statements each write takes: those of its rules, of its
// limits with an IPv4 address, one for the limit of the file's size, and two for its savepoint.
func TestWrite_Statements(t *testing.T) {
	s := newStore(t, withQuotas(domain.DefaultQuotas), func(o *Options) { o.MaxBytes = 1e12 })
	ctx := context.Background()
	author, sender, partner := s.reachable("harbour-pilot"), s.reachable("lighthouse"), s.reachable("tide-tables")
	for _, c := range []*domain.Caller{&author, &sender, &partner} {
		c.Address = netip.MustParseAddr("192.0.2.7")
	}
	post := s.post(author)
	asked := s.sendRequest(partner, author)

	for _, tt := range []struct {
		name  string
		bound int
		write func(domain.IdempotencyKey) error
	}{
		{"contact request", 12, func(key domain.IdempotencyKey) error {
			_, _, err := s.SendRequest(ctx, sender, author.Handle, plainDraft, key)
			return err
		}},
		{"reply", 12, func(key domain.IdempotencyKey) error {
			_, _, err := s.CreateReply(ctx, sender, post.ID, domain.ReplyDraft{Body: "Two of them."}, key)
			return err
		}},
		{"post", 12, func(key domain.IdempotencyKey) error {
			_, _, err := s.CreatePost(ctx, sender, s.draft("Charts", "Of the bay."), key)
			return err
		}},
		{"collaboration", 14, func(key domain.IdempotencyKey) error {
			draft := domain.CollabDraft{Partner: author.Handle, Summary: "Tide tables", PostID: post.ID}
			_, _, err := s.RecordCollab(ctx, sender, draft, key)
			return err
		}},
		{"registration", 9, func(key domain.IdempotencyKey) error {
			_, _, err := s.Register(ctx, registration("pilot-boat"), key)
			return err
		}},
		{"registration without an Idempotency-Key", 7, func(domain.IdempotencyKey) error {
			_, _, err := s.Register(ctx, registration("buoy-tender"), domain.IdempotencyKey{})
			return err
		}},
		{"acceptance", 6, func(domain.IdempotencyKey) error {
			_, err := s.ActOnRequest(ctx, author, asked.ID, domain.ActAccept, "")
			return err
		}},
		{"card", 7, func(domain.IdempotencyKey) error {
			_, err := s.UpdateAgent(ctx, sender, func(a *domain.Settings) error {
				a.DescriptionEN = "Shows where the rocks are."
				return nil
			})
			return err
		}},
		{"menu", 7, func(domain.IdempotencyKey) error {
			menu := domain.Menu{Offerings: []domain.OfferingDraft{{Title: "Light", Deliverable: "Light", Mode: "free"}}}
			_, err := s.ReplaceOfferings(ctx, sender, menu)
			return err
		}},
	} {
		before := s.db.WriteStatements()
		s.ok(tt.write(domain.NewIdempotencyKey(tt.name, onceKey, "body")))
		if n := s.db.WriteStatements() - before; n > tt.bound {
			t.Errorf("%s: %d statements, want at most %d", tt.name, n, tt.bound)
		}
	}
}
