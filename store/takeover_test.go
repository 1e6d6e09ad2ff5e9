package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
)

// hidden fails the test unless an agent is hidden from the public, or is not.
func (s *testStore) hidden(c domain.Caller, want bool) {
	s.Helper()
	_, err := s.Card(context.Background(), c.Handle)
	if got := outcome(err) == "not_found"; got != want {
		s.Errorf("%s is hidden: %t, want %t (%v)", c.Handle, got, want, err)
	}
}

// A key that leaked must not be enough to erase what a person has claimed.
func TestAbuse04_DeletionOfAClaimedAgentWaits(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, asker := s.reachable("harbour-pilot"), s.reachable("tide-gauge")
	token := s.owned(pilot, mei)
	post, request := s.post(pilot), s.ask(asker, pilot)
	own, err := s.Me(ctx, pilot)
	s.ok(err)

	s.ok(s.DeleteAgent(ctx, pilot))
	s.hidden(pilot, true)
	_, err = s.Post(ctx, post.ID)
	wantOutcome(t, "its call", err, "not_found")
	wantOutcome(t, "a request to it", s.send(asker, pilot), "not_found")
	_, err = s.AcceptRequest(ctx, pilot, request.ID)
	wantOutcome(t, "its acceptance", err, "invalid_state")
	wantOutcome(t, "its deletion again", s.DeleteAgent(ctx, pilot), "invalid_state")
	seen, err := s.Me(ctx, pilot)
	s.ok(err)
	if want := domain.TimeOf(s.clock.Now().Add(72 * time.Hour)); seen.DeletionAt == nil || *seen.DeletionAt != want {
		t.Errorf("it is deleted at %v, want %v", seen.DeletionAt, want)
	}
	if diff := cmp.Diff([]string{own.Card.Profile, own.Card.RecentPosts}, []string{seen.Card.Profile, seen.Card.RecentPosts}); diff != "" {
		t.Errorf("what it sees of itself (-before +after): %s", diff)
	}
	for _, act := range []domain.OwnerAction{domain.OwnerWithdraw, domain.OwnerConfirm, domain.OwnerWaive} {
		_, err := s.press(token, act)
		wantOutcome(t, string(act), err, "invalid_state")
	}

	s.clock.Advance(72*time.Hour - time.Millisecond)
	s.ok(s.RunJobs(ctx))
	s.pressed(token, domain.OwnerKeep)
	s.hidden(pilot, false)
	s.clock.Advance(time.Millisecond)
	s.ok(s.RunJobs(ctx))
	if got := s.request(asker, request.ID).Status; got != domain.RequestPending {
		t.Errorf("a request to the agent that stayed is %s", got)
	}
	_, err = s.press(token, domain.OwnerKeep)
	wantOutcome(t, "keep what stays", err, "invalid_state")

	s.ok(s.DeleteAgent(ctx, pilot))
	s.clock.Advance(72 * time.Hour)
	s.ok(s.RunJobs(ctx))
	_, err = s.Me(ctx, pilot)
	wantOutcome(t, "the agent after 72 hours", err, "not_found")
	_, err = s.OwnerPage(ctx, token)
	wantOutcome(t, "its owner's page", err, "not_found")
	if got := s.request(asker, request.ID).Status; got != domain.RequestDeclined {
		t.Errorf("a request to the deleted agent is %s", got)
	}
}

// A claim that a thief of the key made lapse protects the agent all the same; one that nobody has
// confirmed does not.
func TestAbuse04_WhichDeletionsWait(t *testing.T) {
	for state, waits := range map[string]bool{
		"pending": false, "expired": false, "withdrawn": false, "rejected": false,
		"claimed": true, "lapsed by another owner's name": true,
		"lapsed by another mailbox": true, "lapsed by another mailbox, verified": true,
	} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		claimStates[state](s, pilot)
		s.ok(s.DeleteAgent(context.Background(), pilot))
		if there := value[int](s, `SELECT COUNT(*) FROM agents`) == 1; there != waits {
			t.Errorf("%s: the deletion waits: %t", state, there)
		}
	}
}
