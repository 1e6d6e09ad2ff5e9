package store

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/txn"
	"callbook/testdata/proof"
)

// story is what an agent was told, a line for each event.
func (s *testStore) story(c domain.Caller) string {
	s.Helper()
	page, err := s.Events(context.Background(), c, "", 1000)
	s.ok(err)
	var b strings.Builder
	for _, e := range page.Events {
		b.WriteString(e.Type + " " + e.Subject.Handle + "\n")
	}
	return b.String()
}

// events are those after a place.
func (s *testStore) events(c domain.Caller, after string, limit int) domain.EventPage {
	s.Helper()
	page, err := s.Events(context.Background(), c, after, limit)
	s.ok(err)
	if page.Next == "" {
		s.Errorf("no next after %q", after)
	}
	return page
}

// happen tells an agent of n things.
func (s *testStore) happen(c domain.Caller, n int) {
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
			if got, ok := domain.ParseEventID(id); !ok || got != seq || !shape.MatchString(id) {
				t.Errorf("%d at %d is %s, which is read as %d, %v", seq, at, id, got, ok)
			}
			if id <= last {
				t.Errorf("%s does not sort behind %s", id, last)
			}
			last = id
		}
	}
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	body := strings.TrimPrefix(domain.EventID(1, 1), domain.IdEvent)
	for name, id := range map[string]string{
		"no prefix": body, "another prefix": "req_" + body, "short": "evt_" + body[1:], "long": "evt_" + body + "0", "longer": "evt_" + body + "000000",
		"capitals": "evt_" + strings.ToUpper(body[:25]) + "V", "beyond the alphabet": "evt_" + body[:25] + "w", "prefix alone": "evt_",
		"negative": "evt_" + strings.Repeat("v", 26), "a number": "1", "blank": " ",
	} {
		_, err := s.Events(context.Background(), pilot, id, 10)
		wantOutcome(t, name, err, "invalid_query")
		if faults := refusalOf(err).Fields; len(faults) != 1 || faults[0] != (domain.FieldError{Field: "after", Code: domain.FaultBadValue, Topic: "event"}) {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// TestEvents_Resume walks with every size of page, while more happens on the way.
func TestEvents_Resume(t *testing.T) {
	proof.OneByOne(t)
	for limit := 1; limit <= 12; limit++ {
		s := newStore(t)
		pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
		start := s.events(pilot, "", 100).Next
		var seen []string
		after := start
		for n := range 8 {
			s.happen(pilot, n)
			s.happen(light, 3)
			page := s.events(pilot, after, limit)
			if again := s.events(pilot, after, limit); !cmp.Equal(page, again) || page.Gap {
				t.Errorf("the same place twice: %s; gap %v", cmp.Diff(page, again), page.Gap)
			}
			for _, e := range page.Events {
				seen = append(seen, e.ID)
			}
			after = page.Next
		}
		for range 28 {
			page := s.events(pilot, after, limit)
			for _, e := range page.Events {
				seen = append(seen, e.ID)
			}
			after = page.Next
		}
		if page := s.events(pilot, after, limit); page.Next != after {
			t.Errorf("next moves to %s though nothing happened", page.Next)
		}
		var want []string
		for _, e := range s.events(pilot, start, 100).Events {
			want = append(want, e.ID)
		}
		if len(want) != 28 || !slices.Equal(seen, want) {
			t.Errorf("by %d: %d events of %d, in another order or twice", limit, len(seen), len(want))
		}
		if others := s.events(light, after, 100); len(others.Events) > 3 {
			t.Errorf("another agent's place shows %d of one's own", len(others.Events))
		}
	}
}

func TestEvents_ReaderMissesNothing(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	after := s.events(pilot, "", 100).Next
	const writers, each = 20, 10
	var others sync.WaitGroup
	for range writers {
		others.Go(func() {
			for range each {
				if err := s.write(context.Background(), func(t *tx) error {
					return t.InsertEvent(pilot.ID, "request.received", domain.EventSubject{Handle: "asker"})
				}); err != nil {
					t.Errorf("tell: %v", err)
				}
			}
		})
	}
	var last int64
	for n := 0; n < writers*each; {
		page := s.events(pilot, after, 7)
		for _, e := range page.Events {
			if e.Seq <= last {
				t.Fatalf("event %d behind %d", e.Seq, last)
			}
			last = e.Seq
			n++
		}
		after = page.Next
	}
	others.Wait()
	if page := s.events(pilot, after, 7); len(page.Events) != 0 {
		t.Errorf("%d events more than happened", len(page.Events))
	}
}

// TestEvents_ReportGaps goes through the 30 days that events are kept.
func TestEvents_ReportGaps(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	start := s.clock.Now()
	s.happen(pilot, 2) // after the one of the verification
	first := s.events(pilot, "", 100).Events
	s.happen(s.verified("lighthouse"), 1)
	s.clock.Advance(time.Hour)
	s.happen(pilot, 1)
	third := s.events(pilot, "", 100).Next
	fresh := domain.EventID(0, 0)

	type reading struct {
		kept int
		gap  bool
	}
	for _, step := range []struct {
		at   time.Duration
		want map[string]reading // by where one reads on
	}{
		{30*domain.Day - time.Millisecond, map[string]reading{"": {4, false}, fresh: {4, false}, first[0].ID: {3, false}, first[2].ID: {1, false}, third: {0, false}}},
		{30 * domain.Day, map[string]reading{"": {1, false}, fresh: {1, true}, first[0].ID: {1, true}, first[1].ID: {1, true}, first[2].ID: {1, false}, third: {0, false}}},
		{30*domain.Day + time.Hour - time.Millisecond, map[string]reading{"": {1, false}, first[1].ID: {1, true}, first[2].ID: {1, false}, third: {0, false}}},
		{30*domain.Day + time.Hour, map[string]reading{"": {0, false}, first[2].ID: {0, true}, third: {0, false}}},
		{90 * domain.Day, map[string]reading{"": {0, false}, first[2].ID: {0, true}, third: {0, false}}},
	} {
		s.clock.Advance(step.at - s.since(start))
		s.ok(s.RunJobs(ctx))
		for after, want := range step.want {
			page := s.events(pilot, after, 100)
			if got := (reading{len(page.Events), page.Gap}); got != want {
				t.Errorf("after %v from %q: %v, want %v", step.at, after, got, want)
			}
			// Whoever reads on from there has heard of the gap.
			if next := s.events(pilot, page.Next, 100); next.Gap || len(next.Events) != 0 {
				t.Errorf("after %v from %q, on: %d events, gap %v", step.at, after, len(next.Events), next.Gap)
			}
		}
	}
	next := s.events(pilot, first[2].ID, 100).Next
	s.happen(pilot, 1)
	if page := s.events(pilot, next, 100); page.Gap || len(page.Events) != 1 {
		t.Errorf("after the gap: %d events, gap %v", len(page.Events), page.Gap)
	}
}

// A place that the file has not come to is one before a backup was restored: the
// reader may have missed what it does not know of, and reads all that is kept.
func TestEvents_AfterARestore(t *testing.T) {
	s := newStore(t)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.happen(pilot, 3)
	s.happen(light, 1)
	newest := value[int64](s, `SELECT MAX(seq) FROM events`)
	for _, c := range []domain.Caller{pilot, light} {
		kept := s.events(c, "", 100)
		if page := s.events(c, domain.EventID(0, newest), 100); page.Gap || len(page.Events) != 0 {
			t.Errorf("%s, from the newest place: %d events, gap %v", c.Handle, len(page.Events), page.Gap)
		}
		page := s.events(c, domain.EventID(0, newest+1), 100)
		if !page.Gap || !cmp.Equal(page.Events, kept.Events) {
			t.Errorf("%s, from a place beyond: %d events of %d, gap %v", c.Handle, len(page.Events), len(kept.Events), page.Gap)
		}
		if next := s.events(c, page.Next, 100); next.Gap || len(next.Events) != 0 {
			t.Errorf("%s, on from there: %d events, gap %v", c.Handle, len(next.Events), next.Gap)
		}
	}
}

// TestEvents_Fields causes each type, and looks at the whole of it.
func TestEvents_Fields(t *testing.T) {
	ctx := context.Background()
	p := newStore(t, noCaps).play()
	s := p.testStore
	s.clock.Advance(time.Minute)
	after := map[domain.Caller]string{p.asker: s.events(p.asker, "", 100).Next, p.pilot: s.events(p.pilot, "", 100).Next}
	post := s.post(p.asker, func(d *domain.PostDraft) { d.Title, d.Body = "canary title", "canary body" })
	postID := s.firstPost()
	var collabID, requestID, replyID string
	steps := []struct {
		do   func()
		told map[domain.Caller]domain.Event
	}{
		{func() { replyID = s.reply(p.pilot, post, "canary reply").ID }, map[domain.Caller]domain.Event{
			p.asker: {Type: "reply.received", Subject: domain.EventSubject{ID: &replyID, Handle: p.pilot.Handle, PostID: &postID}}}},
		{func() { s.reply(p.asker, post, "its own") }, nil},
		{func() {
			c, err := s.propose(p.asker, p.pilot.Handle, func(d *domain.CollabDraft) { d.Summary = "canary summary" })
			s.ok(err)
			collabID = c.ID
		}, map[domain.Caller]domain.Event{p.pilot: {Type: "collab.received", Subject: domain.EventSubject{ID: &collabID, Handle: p.asker.Handle, PostID: nil}}}},
		{func() { _, err := s.ConfirmCollab(ctx, p.pilot, collabID); s.ok(err) }, map[domain.Caller]domain.Event{
			p.asker: {Type: "collab.confirmed", Subject: domain.EventSubject{ID: &collabID, Handle: p.pilot.Handle, PostID: nil}}}},
		{func() { p.do("asker withdraws") }, map[domain.Caller]domain.Event{
			p.pilot: {Type: "request.withdrawn", Subject: domain.EventSubject{ID: &p.id, Handle: p.asker.Handle, PostID: nil}}}},
		{func() { requestID = s.ask(p.asker, p.pilot).ID }, map[domain.Caller]domain.Event{
			p.pilot: {Type: "request.received", Subject: domain.EventSubject{ID: &requestID, Handle: p.asker.Handle, PostID: nil}}}},
		{func() {
			_, err := s.DeclineRequest(ctx, p.pilot, requestID, domain.DeclineDraft{Reason: "busy"})
			s.ok(err)
		}, map[domain.Caller]domain.Event{
			p.asker: {Type: "request.declined", Subject: domain.EventSubject{ID: &requestID, Handle: p.pilot.Handle, PostID: nil}}}},
		{func() { s.update(p.pilot, func(a *domain.Settings) { a.Owner = "canary owner" }) }, map[domain.Caller]domain.Event{
			p.pilot: {Type: "trust.changed", Subject: domain.EventSubject{ID: nil, Handle: p.pilot.Handle, PostID: nil}}}},
		{func() { s.update(p.pilot, func(a *domain.Settings) { a.Name = "canary name" }) }, nil},
		{func() { requestID = s.ask(p.pilot, p.asker).ID }, map[domain.Caller]domain.Event{
			p.asker: {Type: "request.received", Subject: domain.EventSubject{ID: &requestID, Handle: p.pilot.Handle, PostID: nil}}}},
		{func() { s.clock.Advance(7 * domain.Day); s.ok(s.RunJobs(ctx)) }, map[domain.Caller]domain.Event{
			p.pilot: {Type: "request.expired", Subject: domain.EventSubject{ID: &requestID, Handle: p.asker.Handle, PostID: nil}},
			p.asker: {Type: "request.expired", Subject: domain.EventSubject{ID: &requestID, Handle: p.pilot.Handle, PostID: nil}}}},
	}
	told := txn.IDs{}
	s.Watch(func(c txn.Changes) { maps.Copy(told, c.NewEvents) })
	for i, step := range steps {
		clear(told)
		step.do()
		wantTold := txn.IDs{}
		for _, c := range []domain.Caller{p.asker, p.pilot} {
			page := s.events(c, after[c], 100)
			after[c] = page.Next
			var want []domain.Event
			if e, ok := step.told[c]; ok {
				e.At = domain.TimeOf(s.clock.Now())
				want, wantTold[c.ID] = []domain.Event{e}, struct{}{}
			}
			text, err := json.Marshal(page.Events)
			if s.ok(err); strings.Contains(string(text), "canary") {
				t.Errorf("step %d: an agent's words in an event: %s", i, text)
			}
			for j := range page.Events {
				page.Events[j].ID, page.Events[j].Seq = "", 0
			}
			if diff := cmp.Diff(want, append([]domain.Event(nil), page.Events...)); diff != "" {
				t.Errorf("step %d, %s (-want +got): %s", i, c.Handle, diff)
			}
		}
		if !maps.Equal(told, wantTold) {
			t.Errorf("step %d wakes %v, want %v", i, told, wantTold)
		}
	}
}

// TestEvents_RejectedWriteInsertsNone shares a commit with one that is admitted.
func TestEvents_RejectedWriteInsertsNone(t *testing.T) {
	s := newStore(t)
	pilot := s.reachable("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.WeeklyCap = 4 }) // one is kept for level 2
	askers := s.crowdOf("asker", 20)
	told := txn.IDs{}
	s.Watch(func(c txn.Changes) { maps.Copy(told, c.NewEvents) })
	release := s.hold()
	done := make(chan []error)
	go func() { done <- together(len(askers), func(i int) error { return s.send(askers[i], pilot) }) }()
	release()
	wantOutcomes(t, "requests", <-done, map[string]int{"": 3, "weekly_cap_reached": 17})
	if n := strings.Count(s.story(pilot), "request.received"); n != 3 || len(told) != 1 {
		t.Errorf("told of %d requests, %v woken", n, told)
	}
	clear(told)
	for i, c := range askers {
		_, err := s.propose(c, c.Handle)
		wantOutcome(t, "a collaboration with oneself", err, "validation_failed")
		if story := s.story(c); story != "trust.changed "+c.Handle+"\n" {
			t.Errorf("sender %d was told %q", i, story)
		}
	}
	if len(told) != 0 {
		t.Errorf("woken by refusals: %v", told)
	}
	// Of those that share a commit, one is admitted.
	release = s.hold()
	jobs := make([]*queued, len(askers))
	for i, c := range askers {
		jobs[i] = s.queue(func(t *tx) error {
			if err := t.InsertEvent(c.ID, "trust.changed", domain.EventSubject{Handle: "x"}); err != nil || i == 7 {
				return err
			}
			return domain.NewError(domain.CodeForbidden)
		})
	}
	release()
	for i, j := range jobs {
		<-j.done
		wantOutcome(t, fmt.Sprintf("told by write %d", i), j.err, map[bool]string{false: "forbidden"}[i == 7])
	}
	if want := (txn.IDs{askers[7].ID: {}}); !maps.Equal(told, want) {
		t.Errorf("woken: %v, want %v", told, want)
	}
	if n := value[int](s, `SELECT COUNT(*) FROM events WHERE subject LIKE '%"x"%'`); n != 1 {
		t.Errorf("%d events are stored, want one", n)
	}
}

func TestEvents_DeletedAgentGetsNone(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	s.happen(pilot, 2)
	s.ok(s.DeleteAgent(context.Background(), pilot))
	told := txn.IDs{}
	s.Watch(func(c txn.Changes) { maps.Copy(told, c.NewEvents) })
	s.happen(pilot, 1)
	if n := value[int](s, `SELECT COUNT(*) FROM events`); n != 0 || len(told) != 0 {
		t.Errorf("%d events, %v woken", n, told)
	}
	_, err := s.Events(context.Background(), pilot, "", 10)
	wantOutcome(t, "its events", err, "unauthorized")
}
