package store

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
)

// inbox reads the inbox of an agent.
func (s *testStore) inbox(c domain.Caller) domain.Inbox {
	s.Helper()
	box, err := s.Inbox(context.Background(), c)
	s.ok(err)
	return box
}

// bodies are those of the replies in an inbox.
func bodies(box domain.Inbox) (all []string) {
	for _, r := range box.Replies {
		all = append(all, r.Body)
	}
	return all
}

// TestInbox_RepliesAreShownOnce walks an inbox with more replies than it holds: each is shown exactly once, those that
// were deleted not at all, however many events there are between.
func TestInbox_RepliesAreShownOnce(t *testing.T) {
	for name, size := range map[string]int{"short": 1, "long": 1990} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
			post := s.post(pilot)
			var want []string
			for n := range 60 {
				reply := s.reply(light, post, strings.Repeat("潮", size)+fmt.Sprint(n))
				if n%3 == 0 || n > 5 && n < 40 { // more in a row than an inbox examines
					s.ok(s.DeleteReply(context.Background(), light, reply.ID))
				} else {
					want = append(want, reply.Body)
				}
			}
			var got []string
			for rounds := 0; ; rounds++ {
				box := s.inbox(pilot)
				if again := s.inbox(pilot); !cmp.Equal(box, again) {
					t.Errorf("reading changes the inbox: %s", cmp.Diff(box, again))
				}
				if box.Unseen == 0 || rounds == 60 {
					break
				}
				if text := len(strings.Join(bodies(box), "")); len(box.Replies) > domain.InboxRecords || len(box.Replies) > 1 && text > domain.InboxBytes {
					t.Errorf("%d replies of %d bytes", len(box.Replies), text)
				}
				got = append(got, bodies(box)...)
				s.ok(s.MarkSeen(context.Background(), pilot, box.Next))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The cursor is an event of this file, and never moves back.
func TestInbox_Cursor(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	post := s.post(pilot)
	s.reply(light, post, "one")
	first := s.inbox(pilot)
	s.reply(light, post, "two")
	s.ok(s.MarkSeen(ctx, pilot, first.Next))
	if box := s.inbox(pilot); box.Unseen != 1 || !cmp.Equal(bodies(box), []string{"two"}) {
		t.Errorf("after the first reply: %d unseen, %q", box.Unseen, bodies(box))
	}
	s.ok(s.MarkSeen(ctx, pilot, domain.EventID(1, 1<<60))) // as from before a restored backup
	s.ok(s.MarkSeen(ctx, pilot, first.Next))
	if box := s.inbox(pilot); box.Unseen != 0 || len(box.Replies) != 0 {
		t.Errorf("the cursor moved back: %d unseen, %q", box.Unseen, bodies(box))
	}
	s.reply(light, post, "three")
	if box := s.inbox(pilot); !cmp.Equal(bodies(box), []string{"three"}) {
		t.Errorf("after an id that is not reached yet: %q", bodies(box))
	}
	if box := s.inbox(light); box.Unseen != len(s.events(light, "", 100).Events) {
		t.Errorf("another's inbox: %d unseen", box.Unseen)
	}
	for _, id := range []string{"", "evt_", post.ID, "1"} {
		wantOutcome(t, id, s.MarkSeen(ctx, pilot, id), "validation_failed")
	}
}

// TestInbox_OtherEvents has events that no list of the inbox shows: they are counted until they are seen.
func TestInbox_OtherEvents(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	box := s.inbox(pilot)
	if all := s.events(pilot, box.Seen, 100).Events; box.Others != 1 || box.Seen != "" || len(all) != 1 || all[0].Type != "trust.changed" {
		t.Errorf("after the verification: %d others, %d events after %q", box.Others, len(all), box.Seen)
	}
	s.ok(s.MarkSeen(ctx, pilot, box.Next))
	s.reply(light, s.post(pilot), "one")
	if after := s.inbox(pilot); after.Unseen != 1 || after.Others != 0 || after.Seen != box.Next {
		t.Errorf("with a reply alone: %d unseen, %d others, %s seen; want %s", after.Unseen, after.Others, after.Seen, box.Next)
	}
	s.ok(s.MarkSeen(ctx, pilot, domain.EventID(1, 1<<60)))
	for _, e := range s.events(pilot, s.inbox(pilot).Seen, 100).Events {
		t.Errorf("%s comes after the last event", e.Type)
	}
}

// An agent that looks too late is told that replies may be missing, once.
func TestInbox_MissedEvents(t *testing.T) {
	s := newStore(t)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.reply(light, s.post(pilot), "one")
	s.clock.Advance(31 * domain.Day)
	s.ok(s.RunJobs(context.Background()))
	box := s.inbox(pilot)
	if !box.Missed || box.Unseen != 0 {
		t.Errorf("missed %v, %d unseen", box.Missed, box.Unseen)
	}
	s.ok(s.MarkSeen(context.Background(), pilot, box.Next))
	if box := s.inbox(pilot); box.Missed {
		t.Error("still missed after it was seen")
	}
}
