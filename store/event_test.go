package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"callbook/store/domain"
)

// insertEvents inserts n events of an agent.
func (s *testStore) insertEvents(c domain.Caller, n int) {
	s.Helper()
	for i := range n {
		s.ok(s.write(context.Background(), func(t *tx) error {
			return t.InsertEvent(c.ID, "request.received", domain.EventSubject{Handle: fmt.Sprintf("asker-%d", i)})
		}))
	}
}

func TestEventID_RoundTrips(t *testing.T) {
	shape := regexp.MustCompile(`^evt_[0-9a-v]{26}$`)
	last := ""
	for _, at := range []domain.Time{0, 1, 1_795_000_000_000, 253402300799999} {
		for _, seq := range []int64{0, 1, 31, 32, 1 << 40, 1<<63 - 1} {
			id := domain.EventID(at, seq)
			if when, got, ok := domain.ParseEventID(id); !ok || when != at || got != seq || !shape.MatchString(id) {
				t.Errorf("%d at %d is %s, which is read as %d at %d, %v", seq, at, id, got, when, ok)
			}
			if id <= last {
				t.Errorf("%s does not sort behind %s", id, last)
			}
			last = id
		}
	}
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	body := strings.TrimPrefix(domain.EventID(1, 1), domain.IDEvent)
	for name, id := range map[string]string{
		"no prefix": body, "another prefix": "req_" + body, "short": "evt_" + body[1:], "long": "evt_" + body + "0", "longer": "evt_" + body + "000000",
		"capitals": "evt_" + strings.ToUpper(body[:25]) + "V", "beyond the alphabet": "evt_" + body[:25] + "w", "prefix alone": "evt_",
		"negative": "evt_" + strings.Repeat("v", 26), "a number": "1", "blank": " ",
	} {
		_, err := s.Events(context.Background(), pilot, id, 10)
		wantOutcome(t, name, err, "invalid_query")
		if faults := errorOf(err).Fields; len(faults) != 1 || faults[0] != (domain.FieldError{Field: "after", Code: domain.FaultBadValue, Topic: "event"}) {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// A place that the file has not come to is one before a backup was restored, and so is one whose number a later event
// has: the reader may have missed what it does not know of, and reads all that is kept.
func TestEvents_AfterARestore(t *testing.T) {
	s := newStore(t)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.insertEvents(pilot, 3)
	s.insertEvents(light, 1)
	newest := value[int64](s, `SELECT MAX(seq) FROM events`)
	newestAt := value[domain.Time](s, `SELECT at FROM events ORDER BY seq DESC LIMIT 1`)
	for _, c := range []domain.Caller{pilot, light} {
		kept := s.events(c, "", 100)
		if page := s.events(c, domain.EventID(newestAt, newest), 100); page.Gap || len(page.Events) != 0 {
			t.Errorf("%s, from the newest place: %d events, gap %v", c.Handle, len(page.Events), page.Gap)
		}
		later := s.events(c, domain.EventID(newestAt-1, newest), 100)
		page := s.events(c, domain.EventID(newestAt, newest+1), 100)
		if !later.Gap || !page.Gap || !cmp.Equal(later.Events, kept.Events) || !cmp.Equal(page.Events, kept.Events) {
			t.Errorf("%s, of %d events: %d, gap %v, from the place of a later one; %d, gap %v, from a place beyond", c.Handle, len(kept.Events), len(later.Events), later.Gap, len(page.Events), page.Gap)
		}
		if next := s.events(c, page.Next, 100); next.Gap || len(next.Events) != 0 {
			t.Errorf("%s, on from there: %d events, gap %v", c.Handle, len(next.Events), next.Gap)
		}
	}
}

// TestEvents_ResumeByPages: while more happens, each event is read once.
func TestEvents_ResumeByPages(t *testing.T) {
	s := newStore(t)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	var read []string
	for after, n := "", 0; n < 20; n++ {
		s.insertEvents(pilot, 7-n)
		s.insertEvents(light, 2)
		page := s.events(pilot, after, 2)
		for _, e := range page.Events {
			read = append(read, e.ID)
		}
		if after = page.Next; page.Gap {
			t.Error("a gap")
		}
	}
	var want []string
	for _, e := range s.events(pilot, "", 100).Events {
		want = append(want, e.ID)
	}
	if len(want) != 29 || !slices.Equal(read, want) {
		t.Errorf("read %d events of %d, in another order or twice", len(read), len(want))
	}
}

// TestEvents_WakeTheAgentAlone: only an agent that has a new event is woken, and the event has no text of agents. Those of
// requests, collaborations and trust are in the model.
func TestEvents_WakeTheAgentAlone(t *testing.T) {
	s := newStore(t)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	after := s.events(pilot, "", 100).Next
	notified := IDs{}
	s.OnCommit(func(c Changes) { maps.Copy(notified, c.NewEvents) })
	post := s.post(pilot)
	s.reply(pilot, post, "its own")
	release := s.holdWriter()
	rejected := s.queueWrite(func(t *tx) error {
		return errors.Join(t.InsertEvent(light.ID, "trust.changed", domain.EventSubject{Handle: "x"}), domain.NewError(domain.CodeForbidden))
	})
	admitted := s.queueWrite(insertBlockedWord("word")) // which shares the commit
	release()
	<-rejected.done
	<-admitted.done
	if s.ok(admitted.err); len(notified) > 0 {
		t.Errorf("woken: %v", notified)
	}
	reply := s.reply(light, post, "canary reply")
	want := []domain.Event{{Type: "reply.received", At: domain.TimeOf(s.Now()), Subject: domain.EventSubject{ID: &reply.ID, Handle: light.Handle, PostID: &post.ID}}}
	got := s.events(pilot, after, 100).Events
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(domain.Event{}, "ID", "Seq")); diff != "" || !maps.Equal(notified, IDs{pilot.ID: {}}) {
		t.Errorf("woken: %v (-want +got): %s", notified, diff)
	}
}

func TestEvents_DeletedAgentGetsNone(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	s.insertEvents(pilot, 2)
	s.ok(s.DeleteAgent(context.Background(), pilot))
	notified := IDs{}
	s.OnCommit(func(c Changes) { maps.Copy(notified, c.NewEvents) })
	s.insertEvents(pilot, 1)
	if n := value[int](s, `SELECT COUNT(*) FROM events`); n != 0 || len(notified) != 0 {
		t.Errorf("%d events, %v woken", n, notified)
	}
	_, err := s.Events(context.Background(), pilot, "", 10)
	wantOutcome(t, "its events", err, "unauthorized")
}
