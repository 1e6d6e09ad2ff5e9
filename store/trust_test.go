package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
)

// TestSuspension_EndsOnAFullDisk: the caller reads on, as all others do.
func TestSuspension_EndsOnAFullDisk(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, key := s.register("harbour-pilot")
	s.ok(errOf(s.Authenticate(ctx, key)))
	for i := range 20 { // to be shown again, they need room
		var words strings.Builder
		for word := range 400 {
			fmt.Fprintf(&words, "word%d ", 1000*i+word)
		}
		s.post(pilot, func(d *domain.PostDraft) { d.Body = words.String() })
	}
	s.ok(s.Suspend(ctx, pilot.Handle, "spam", s.clock.Now().Add(time.Hour)))
	s.leaveNoRoom()
	s.clock.Advance(2 * time.Hour)
	wantOutcome(t, "what ends it", s.endSuspension(ctx, pilot.ID), string(domain.CodeStorageFull))
	_, err := s.Authenticate(ctx, key)
	wantOutcome(t, "a call", err, "")
	s.limitPages(1000)
	s.ok(errOf(s.Authenticate(ctx, key)))
	if _, err := s.Card(ctx, pilot.Handle); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

func TestSearch_ForgetsFormerNames(t *testing.T) {
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.Name = "Formername" })
	s.update(pilot, func(a *domain.Settings) { a.Name = "Another" })
	s.clock.Advance(domain.Day)
	s.ok(s.RunJobs(t.Context()))
	if n := value[int](s, `SELECT COUNT(*) FROM agent_tokens WHERE term LIKE '%formername'`); n != 0 {
		t.Error("a word that no text holds is still in the index")
	}
	if n := value[int](s, `SELECT COUNT(*) FROM agent_tokens WHERE term LIKE '%another'`); n == 0 {
		t.Error("a word of the present name is not in the index")
	}
}

func TestPost_ClockThatRanAheadClosesItForATime(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	s.post(pilot, func(d *domain.PostDraft) { d.Deadline = domain.TimeOf(s.clock.Now()).Add(3 * domain.Day).Date() })
	for _, tt := range []struct {
		jump time.Duration
		want int
	}{{10 * domain.Day, 0}, {-10 * domain.Day, 1}} {
		s.clock.Advance(tt.jump)
		s.ok(s.RunJobs(ctx))
		open, err := s.Posts(ctx, domain.PostFilter{Open: true}, listing.Page{Limit: 10})
		if s.ok(err); len(open.Items) != tt.want {
			t.Errorf("after a jump of %v: %d open calls, want %d", tt.jump, len(open.Items), tt.want)
		}
	}
}

func TestIdempotency_DeletedRecordIsNotReplayed(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	draft := domain.PostDraft{Kind: "seeking", Title: "canarytitle", Body: "b"}
	once := domain.NewIdempotencyKey("createPost", "0123456789abcdef", "body")
	post, _, err := s.CreatePost(ctx, pilot, draft, once)
	s.ok(err)
	s.ok(s.DeletePost(ctx, pilot, post.ID))
	_, _, err = s.CreatePost(ctx, pilot, draft, once)
	wantOutcome(t, "the call", err, string(domain.CodeNotFound))
	if n := value[int](s, `SELECT COUNT(*) FROM idempotency WHERE answer LIKE '%canarytitle%'`); n != 0 {
		t.Error("the text of a deleted call is kept")
	}
	if n := value[int](s, `SELECT COUNT(*) FROM posts`); n != 0 {
		t.Error("the repeated call made another")
	}
}

// TestIdempotency_DeletedAgentIsErasedFromResponses: the other side's first answer shows the name and
// level of the one that goes.
func TestIdempotency_DeletedAgentIsErasedFromResponses(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	asker, gone := s.reachable("asker"), s.reachable("harbour-pilot")
	s.update(gone, func(a *domain.Settings) { a.Name = "canaryname" })
	once := func(operation string) domain.IdempotencyKey {
		return domain.NewIdempotencyKey(operation, onceKey, "body")
	}
	acts := map[string]func() error{
		"a request": func() error { return errOf3(s.SendRequest(ctx, asker, gone.Handle, plainDraft, once("sendRequest"))) },
		"a collaboration": func() error {
			return errOf3(s.RecordCollab(ctx, asker, domain.CollabDraft{Partner: gone.Handle, Summary: "s"}, once("recordCollab")))
		},
	}
	for _, act := range acts {
		s.ok(act())
	}
	s.ok(s.DeleteAgent(ctx, gone))
	for name, act := range acts {
		wantOutcome(t, name, act(), string(domain.CodeNotFound))
	}
	if n := value[int](s, `SELECT COUNT(*) FROM idempotency WHERE answer LIKE '%canaryname%'`); n != 0 {
		t.Errorf("%d answers name it", n)
	}
}
