package store

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"callbook/store/domain"
)

const wakeURL = "https://harbour.example.org/wake"

// woken registers an agent that is to be woken, and one that replies to its post.
func (s *testStore) woken() (pilot, light domain.Caller, post domain.PostDocument) {
	s.Helper()
	pilot, light = s.verified("harbour-pilot"), s.verified("lighthouse")
	s.setWake(pilot)
	return pilot, light, s.post(pilot)
}

func (s *testStore) setWake(c domain.Caller) (secret []byte) {
	s.Helper()
	_, secret, err := s.SetWake(context.Background(), c, wakeURL)
	s.ok(err)
	return secret
}

// startWakes starts the requests that are due.
func (s *testStore) startWakes(provenOnly bool) []domain.DueWake {
	s.Helper()
	due, err := s.StartWakes(context.Background(), 100, provenOnly)
	s.ok(err)
	return due
}

func (s *testStore) finishWake(due domain.DueWake, outcome domain.WakeOutcome) {
	s.Helper()
	s.ok(s.FinishWake(context.Background(), due, outcome))
}

// wakeOf starts the one request that is due.
func (s *testStore) wakeOf(c domain.Caller) domain.DueWake {
	s.Helper()
	due := s.startWakes(false)
	if len(due) != 1 || due[0].AgentID != c.ID {
		s.Fatalf("%d requests are due: %+v", len(due), due)
	}
	return due[0]
}

func (s *testStore) wake(c domain.Caller) domain.Wake {
	s.Helper()
	w, err := s.Wake(context.Background(), c)
	s.ok(err)
	return w
}

// notDue fails the test if a request is due.
func (s *testStore) notDue(when string) {
	s.Helper()
	if due := s.startWakes(false); len(due) > 0 {
		s.Errorf("%s: %+v", when, due)
	}
}

// The first event is followed by a request at once; those after it by one for all, once the pause is over.
func TestWake_PauseBetweenRequests(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.woken()
	if w := s.wake(pilot); *w.URL != wakeURL || w.Status != "ok" || w.LastAt != nil {
		t.Errorf("at first: %+v", w)
	}
	s.notDue("before any event")
	pending := len(s.events(pilot, "", 100).Events)
	s.reply(light, post, "one")
	due := s.wakeOf(pilot)
	if due.Pending != pending+1 || due.Handle != pilot.Handle || due.URL != wakeURL {
		t.Errorf("%+v, with %d events before", due, pending)
	}
	s.reply(light, post, "while it is on its way")
	s.notDue("while one is on its way")
	s.finishWake(due, domain.WakeDelivered)
	if w := s.wake(pilot); w.Status != "ok" || *w.LastAt != domain.TimeOf(s.Now()) {
		t.Errorf("after a delivery: %+v", w)
	}
	s.clock.Advance(domain.WakePause - time.Millisecond)
	s.reply(light, post, "within the pause")
	s.notDue("within the pause")
	s.clock.Advance(time.Millisecond)
	second := s.wakeOf(pilot)
	if second.MessageID == due.MessageID || second.Pending != pending+3 || !second.Proven || due.Proven {
		t.Errorf("%+v", second)
	}
	s.finishWake(second, domain.WakeDelivered)
	s.clock.Advance(domain.Day)
	s.notDue("without further events")

	// Another URL does not lift the pause.
	s.reply(light, post, "one more")
	s.finishWake(s.wakeOf(pilot), domain.WakeDelivered)
	s.ok(s.RemoveWake(context.Background(), pilot))
	s.setWake(pilot)
	s.reply(light, post, "to another URL")
	s.notDue("after another URL is set")
	s.clock.Advance(domain.WakePause)
	s.wakeOf(pilot)
}

// A failed request is tried again with the same id, and then wake-ups are off, which an event says.
func TestWake_RetriesAndThenOff(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.woken()
	s.reply(light, post, "one")
	var ids []string
	for try, pause := range append(domain.WakeRetries[:], 0) {
		due := s.wakeOf(pilot)
		ids = append(ids, due.MessageID)
		s.finishWake(due, domain.WakeFailed)
		if pause == 0 {
			break
		}
		if w := s.wake(pilot); w.Status != "failing" {
			t.Errorf("after try %d: %+v", try+1, w)
		}
		s.clock.Advance(pause - time.Millisecond)
		s.reply(light, post, "meanwhile")
		s.notDue("before the next try")
		s.clock.Advance(time.Millisecond)
	}
	if len(ids) != 4 || len(slices.Compact(ids)) != 1 {
		t.Errorf("ids: %v", ids)
	}
	if w := s.wake(pilot); w.Status != "off" || w.URL == nil {
		t.Errorf("after the last try: %+v", w)
	}
	events := s.events(pilot, "", 100).Events
	if last := events[len(events)-1]; last.Type != "wake.failed" || last.Subject.Handle != pilot.Handle || last.Subject.ID != nil {
		t.Errorf("the last event is %+v", last)
	}
	s.clock.Advance(domain.Day)
	s.reply(light, post, "too late")
	s.notDue("when it is off")

	s.setWake(pilot)
	if w := s.wake(pilot); w.Status != "ok" {
		t.Errorf("set again: %+v", w)
	}
	s.reply(light, post, "again")
	if due := s.wakeOf(pilot); due.Tries != 0 || due.MessageID == ids[0] {
		t.Errorf("%+v", due)
	}
}

// A success ends the count of failures.
func TestWake_SuccessAfterFailures(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.woken()
	for range 3 {
		s.clock.Advance(time.Hour)
		s.reply(light, post, "news")
		s.finishWake(s.wakeOf(pilot), domain.WakeFailed)
		if due := s.startWakes(true); len(due) > 0 {
			t.Errorf("%+v is proven", due)
		}
		s.clock.Advance(domain.WakeRetries[0])
		s.finishWake(s.wakeOf(pilot), domain.WakeFailed)
		s.clock.Advance(domain.WakeRetries[1])
		s.finishWake(s.wakeOf(pilot), domain.WakeDelivered)
		if w := s.wake(pilot); w.Status != "ok" {
			t.Errorf("%+v", w)
		}
	}
}

// No request is sent to an agent that has seen everything, is suspended or about to be deleted, or has another URL by then.
func TestWake_NotSent(t *testing.T) {
	ctx := context.Background()
	inactive := []string{"suspended", "suspended for a time", "leaving", "unverified"} // considered again later
	for name, act := range map[string]func(*testStore, domain.Caller){
		"unverified": func(s *testStore, c domain.Caller) { s.ok(s.Unverify(ctx, c.Handle)) },
		"seen":       func(s *testStore, c domain.Caller) { s.ok(s.MarkSeen(ctx, c, s.inbox(c).Next)) },
		"suspended":  func(s *testStore, c domain.Caller) { s.ok(s.Suspend(ctx, c.Handle, "spam", time.Time{})) },
		"suspended for a time": func(s *testStore, c domain.Caller) {
			s.ok(s.Suspend(ctx, c.Handle, "spam", s.Now().Add(time.Hour)))
		},
		"leaving": func(s *testStore, c domain.Caller) {
			s.owned(c, "mei@people.example.org")
			s.ok(s.DeleteAgent(ctx, c))
		},
		"deleted": func(s *testStore, c domain.Caller) { s.ok(s.DeleteAgent(ctx, c)) },
		"removed": func(s *testStore, c domain.Caller) { s.ok(s.RemoveWake(ctx, c)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			pilot, light, post := s.woken()
			s.reply(light, post, "one")
			act(s, pilot)
			s.notDue(name)
			want := domain.Time(0)
			if slices.Contains(inactive, name) {
				want = domain.TimeOf(s.Now().Add(domain.WakeRest))
			}
			if next, err := s.NextWakeAt(ctx); err != nil || next != want {
				t.Errorf("due at %v, %v, want %v", next, err, want)
			}
		})
	}
	s := newStore(t)
	pilot, light, post := s.woken()
	s.reply(light, post, "one")
	old := s.wakeOf(pilot)
	s.setWake(pilot)
	s.finishWake(old, domain.WakeFailed)
	if w := s.wake(pilot); w.Status != "ok" {
		t.Errorf("the failure of another URL counts: %+v", w)
	}
}

// Events that wait for a request wait for one to the new URL, and what was not sent does not count.
func TestWake_AnotherURLIsWokenToo(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.woken()
	s.reply(light, post, "one")
	s.setWake(pilot)
	s.finishWake(s.wakeOf(pilot), domain.WakeDelayed)
	if w := s.wake(pilot); w.LastAt != nil {
		t.Errorf("it was not sent: %+v", w)
	}
	s.clock.Advance(domain.WakeDelay(false))
	for range 2 { // the next try is due much later than after the pause
		s.finishWake(s.wakeOf(pilot), domain.WakeFailed)
		s.clock.Advance(domain.WakePause)
	}
	s.setWake(pilot)
	s.finishWake(s.wakeOf(pilot), domain.WakeFailed)
	s.setWake(pilot)
	s.notDue("before the pause is over")
	s.clock.Advance(domain.WakePause)
	s.wakeOf(pilot)
}

// Whoever gets a new key by other means than the old one may have had it stolen: the thief is woken no more.
func TestWake_ANewKeyOfTheHolderEndsIt(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	pilot, _, _ := s.woken()
	if _, _, err := s.RotateKey(ctx, pilot); err != nil || s.wake(pilot).URL == nil {
		t.Errorf("the agent's own new key: %v, %+v", err, s.wake(pilot))
	}
	if _, err := s.ReplaceKey(ctx, pilot.Handle); err != nil || s.wake(pilot).URL != nil {
		t.Errorf("the operator's: %v, %+v", err, s.wake(pilot))
	}
}

// A request whose result is not known, as after a crash, is repeated; one that found no slot is tried soon.
func TestWake_RepeatedWithoutResult(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.woken()
	s.reply(light, post, "one")
	first := s.wakeOf(pilot)
	s.clock.Advance(domain.WakeLease)
	second := s.wakeOf(pilot)
	s.finishWake(second, domain.WakeDelayed)
	s.clock.Advance(domain.WakeDelay(false))
	third := s.wakeOf(pilot)
	if first.MessageID != second.MessageID || third.MessageID != first.MessageID || third.Tries != 0 {
		t.Errorf("%+v\n%+v\n%+v", first, second, third)
	}
}

// A result that comes after the next request was started, or after the agent has seen its inbox meanwhile, changes nothing: it
// would bring a request within the pause, or one for nothing.
func TestWake_LateResultDoesNotCount(t *testing.T) {
	for name, outcome := range map[string]domain.WakeOutcome{"delivered": domain.WakeDelivered, "failed": domain.WakeFailed, "delayed": domain.WakeDelayed} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			pilot, light, post := s.woken()
			s.reply(light, post, "one")
			first := s.wakeOf(pilot)
			s.reply(light, post, "two")
			s.clock.Advance(domain.WakeLease)
			second := s.wakeOf(pilot)
			s.finishWake(first, outcome)
			s.clock.Advance(domain.WakePause - time.Millisecond)
			s.notDue("within the pause after the second request")
			s.ok(s.MarkSeen(context.Background(), pilot, s.inbox(pilot).Next))
			s.clock.Advance(time.Millisecond)
			s.notDue("for a seen event")
			s.finishWake(second, outcome)
			if next, err := s.NextWakeAt(context.Background()); err != nil || next != 0 || s.wake(pilot).Status != domain.WakeOK {
				t.Errorf("due at %v, %v: %+v", next, err, s.wake(pilot))
			}
		})
	}
}

// A clock that ran ahead does not keep an agent asleep.
func TestWake_ClockThatRanAhead(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.woken()
	s.clock.Advance(365 * domain.Day)
	s.reply(light, post, "one")
	s.finishWake(s.wakeOf(pilot), domain.WakeFailed)
	s.clock.Advance(-365 * domain.Day)
	s.ok(s.RunJobs(context.Background()))
	s.finishWake(s.wakeOf(pilot), domain.WakeDelivered)
	s.ok(s.RunJobs(context.Background()))
	s.notDue("without another event")
}

// The secret is derived from the key of codes: it differs for each URL set, and is not in the database.
func TestWake_Secret(t *testing.T) {
	s := newStore(t, func(o *Options) { o.Secret = []byte("a key from a file") })
	pilot := s.verified("harbour-pilot")
	first, second := s.setWake(pilot), s.setWake(pilot)
	s.reply(s.verified("lighthouse"), s.post(pilot), "one")
	due := s.wakeOf(pilot)
	if len(first) != 32 || bytes.Equal(first, second) || !bytes.Equal(due.Secret, second) {
		t.Errorf("%x, %x, signed with %x", first, second, due.Secret)
	}
	if bytes.Equal(value[[]byte](s, `SELECT nonce FROM wakes`), second) {
		t.Error("the secret is stored")
	}
	wantOutcome(t, "at level 0", func() error {
		c, _ := s.register("tide-gauge")
		_, _, err := s.SetWake(context.Background(), c, wakeURL)
		return err
	}(), "trust_too_low")
}

func TestWake_Addresses(t *testing.T) {
	for url, want := range map[string]struct{ serve, dev string }{
		"https://harbour.example.org/wake?token=1": {"", ""},
		"https://harbour.example.org:443/":         {"", ""},
		"https://harbour.example.org:8443/":        {"validation_failed", "validation_failed"},
		"https://harbour.example.org:80/":          {"validation_failed", "validation_failed"},
		"http://harbour.example.org/":              {"validation_failed", "validation_failed"},
		"https://mei:secret@harbour.example.org/":  {"validation_failed", "validation_failed"},
		"https://10.0.0.1/":                        {"validation_failed", "validation_failed"},
		"https://[::1]/":                           {"validation_failed", ""},
		"https://localhost/":                       {"validation_failed", ""},
		"http://127.0.0.1:9000/wake":               {"validation_failed", ""},
		"ftp://127.0.0.1/":                         {"validation_failed", "validation_failed"},
		"harbour.example.org":                      {"validation_failed", "validation_failed"},
	} {
		for loopback, want := range map[bool]string{false: want.serve, true: want.dev} {
			s := newStore(t, func(o *Options) { o.LoopbackLinks = loopback })
			_, _, err := s.SetWake(context.Background(), s.verified("harbour-pilot"), url)
			wantOutcome(t, url, err, want)
		}
	}
}
