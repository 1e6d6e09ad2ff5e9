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

// replyBodies returns the bodies of the replies in an inbox.
func replyBodies(box domain.Inbox) (all []string) {
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
				if text := len(strings.Join(replyBodies(box), "")); len(box.Replies) > domain.InboxRecords || len(box.Replies) > 1 && text > domain.InboxBytes {
					t.Errorf("%d replies of %d bytes", len(box.Replies), text)
				}
				got = append(got, replyBodies(box)...)
				s.ok(s.MarkSeen(context.Background(), pilot, box.Next))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestInbox_ShowsTheOldestRequestsThatFit: each has 20 bytes beside its context.
func TestInbox_ShowsTheOldestRequestsThatFit(t *testing.T) {
	s := newStore(t)
	askers := s.reachableAgents("asker", domain.InboxRecords+1)
	const third = domain.InboxBytes/4/3 - 7 // of the characters that fit four times
	for i, tt := range []struct {
		context string
		want    int
	}{
		{"", domain.InboxRecords}, {strings.Repeat("潮", third) + "ab", 4}, {strings.Repeat("潮", third) + "abc", 3}, {strings.Repeat("潮", 500), 2},
	} {
		pilot := s.reachable(fmt.Sprintf("pilot-%d", i))
		draft := plainDraft
		draft.Context = tt.context
		var sent []string
		for _, asker := range askers {
			request, _, err := s.SendRequest(context.Background(), asker, pilot.Handle, draft, domain.IdempotencyKey{})
			s.ok(err)
			sent = append(sent, request.ID)
		}
		var got []string
		for _, request := range s.inbox(pilot).Requests {
			got = append(got, request.ID)
		}
		if diff := cmp.Diff(sent[:tt.want], got); diff != "" {
			t.Errorf("with contexts of %d bytes (-want +got):\n%s", len(tt.context), diff)
		}
	}
}

// TestInbox_SeenIsAPlaceInTheEvents, also where it is the number of another agent's event.
func TestInbox_SeenIsAPlaceInTheEvents(t *testing.T) {
	s := newStore(t)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.insertEvents(light, 1)
	s.ok(s.MarkSeen(context.Background(), pilot, domain.EventID(1<<47, 1<<60)))
	if page := s.events(pilot, s.inbox(pilot).Seen, 100); page.Gap || len(page.Events) > 0 {
		t.Errorf("a gap %v, %d events", page.Gap, len(page.Events))
	}
}

// TestInbox_CursorIsAnEvent of any file: one from before a restored backup is not reached yet.
func TestInbox_CursorIsAnEvent(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	post := s.post(pilot)
	s.ok(s.MarkSeen(context.Background(), pilot, domain.EventID(1, 1<<60)))
	s.reply(s.verified("lighthouse"), post, "three")
	_, seq, _ := domain.ParseEventID(s.events(pilot, "", 100).Next)
	s.ok(s.MarkSeen(context.Background(), pilot, domain.EventID(1, seq)))
	if got := replyBodies(s.inbox(pilot)); !cmp.Equal(got, []string{"three"}) {
		t.Errorf("after an id that is not reached yet, and one whose number another event has got since: %q", got)
	}
	for _, id := range []string{"", "evt_", post.ID, "1"} {
		wantOutcome(t, id, s.MarkSeen(context.Background(), pilot, id), "validation_failed")
	}
}
