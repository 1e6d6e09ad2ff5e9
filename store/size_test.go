package store

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// TestMaxBytes_RejectsWhatCreatesOrEnlargesRecords: once a post finds no room, so does everything else that needs some, however
// small. Deletions, decisions and keys pass, and what deletions free can be used again.
func TestMaxBytes_RejectsWhatCreatesOrEnlargesRecords(t *testing.T) {
	t.Parallel()
	ctx, once := context.Background(), domain.IdempotencyKey{}
	s := newStore(t, func(o *Options) { o.MaxBytes = 2 << 20 })
	pilot, other := s.reachable("harbour-pilot"), s.reachable("lighthouse")
	fresh, _ := s.register("fresh")
	request := s.sendRequest(other, pilot)
	first := s.post(pilot)
	reply := s.reply(other, first, "Here.")

	var posts []string
	for {
		post, _, err := s.CreatePost(ctx, pilot, s.draft("Tide data", strings.Repeat("Hourly tide levels. ", 100)), once)
		if errors.Is(err, domain.NewError(domain.CodeStorageFull)) {
			break
		}
		s.ok(err)
		posts = append(posts, post.ID)
	}

	address := netip.MustParseAddr("192.0.2.1")
	full := string(domain.CodeStorageFull)
	settings := func(text string) error {
		_, err := s.UpdateAgent(ctx, pilot, func(a *domain.Settings) error { a.DescriptionEN = text; return nil })
		return err
	}
	menu := domain.Menu{Offerings: []domain.OfferingDraft{{
		Title: "Tides", Deliverable: "d", ForWhom: "f", Mode: "free",
	}}}
	_, ready := s.Ready(ctx)
	for _, tt := range []struct {
		what string
		err  error
		want string
	}{
		{"a reply", errOf3(s.CreateReply(ctx, other, first.ID, domain.ReplyDraft{Body: "Here."}, once)), full},
		{"a registration", errOf3(s.Register(ctx, registration("newcomer"), once)), full},
		{"a request", s.requestError(pilot, other), full},
		{"a dry run", s.TryRequest(ctx, pilot, other.Handle, plainDraft), full},
		{"a collaboration", errOf3(s.RecordCollab(ctx, pilot, domain.CollabDraft{Partner: other.Handle, Summary: "s"}, once)), full},
		{"a report", s.ReportPost(ctx, first.ID, address, domain.ReportDraft{}), full},
		{"a menu", errOf(s.ReplaceOfferings(ctx, pilot, menu)), full},
		{"a link", errOf(s.AddLink(ctx, pilot, "https://example.org/", "website")), full},
		{"a watch", errOf(s.ReplaceWatches(ctx, pilot, domain.WatchDrafts{Watches: []domain.WatchDraft{{Tag: "tides"}}})), full},
		{"a URL to wake", errOf3(s.SetWake(ctx, pilot, "https://example.org/")), full},
		{"a longer profile", settings(strings.Repeat("Does things. ", 20)), full},
		{"readiness", ready, full},

		{"a switch", errOf(s.UpdateAgent(ctx, pilot, func(a *domain.Settings) error { a.ContactPolicy.Accepting = false; return nil })), ""},
		{"a shorter profile", settings("Does."), ""},
		{"an empty menu", errOf(s.ReplaceOfferings(ctx, pilot, domain.Menu{})), ""},
		{"a decision", errOf(s.ActOnRequest(ctx, pilot, request.ID, domain.ActAccept, "")), ""},
		{"a code", errOf(s.StartVerify(ctx, fresh)), ""},
		{"a new key", errOf3(s.RotateKey(ctx, other)), ""},
		{"a deletion", s.DeleteReply(ctx, pilot, reply.ID), ""},
	} {
		wantOutcome(t, tt.what, tt.err, tt.want)
	}
	if !errors.Is(ready, sqlitedb.ErrWrites) {
		t.Errorf("readiness: %v", ready)
	}

	for _, post := range posts[len(posts)/2:] {
		s.ok(s.DeletePost(ctx, pilot, post))
	}
	err := errOf3(s.Register(ctx, registration("newcomer"), once))
	wantOutcome(t, "a registration in the freed room", err, "")
}
