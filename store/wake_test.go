package store

import (
	"bytes"
	"context"
	"testing"

	"callbook/store/domain"
	"callbook/store/text"
)

const wakeURL = "https://harbour.example.org/wake"

// newWakeScene registers an agent that is to be woken, and one that replies to its post.
func (s *testStore) newWakeScene() (pilot, light domain.Caller, post domain.PublicPost) {
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
func (s *testStore) startWakes() []domain.DueWake {
	s.Helper()
	due, err := s.StartWakes(context.Background(), 100)
	s.ok(err)
	return due
}

func (s *testStore) finishWake(due domain.DueWake, delivered bool) {
	s.Helper()
	s.ok(s.FinishWake(context.Background(), due, delivered))
}

// startOneWake starts the one request that is due.
func (s *testStore) startOneWake(c domain.Caller) domain.DueWake {
	s.Helper()
	due := s.startWakes()
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

// wantNoWake fails the test if a request is due.
func (s *testStore) wantNoWake(when string) {
	s.Helper()
	if due := s.startWakes(); len(due) > 0 {
		s.Errorf("%s: %+v", when, due)
	}
}

// Whoever gets a new key by other means than the old one may have had it stolen: the thief is woken no more.
func TestWake_ANewKeyOfTheHolderEndsIt(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	pilot, _, _ := s.newWakeScene()
	if _, _, err := s.RotateKey(ctx, pilot); err != nil || s.wake(pilot).URL == nil {
		t.Errorf("the agent's own new key: %v, %+v", err, s.wake(pilot))
	}
	if _, err := s.ReplaceKey(ctx, pilot.Handle); err != nil || s.wake(pilot).URL != nil {
		t.Errorf("the operator's: %v, %+v", err, s.wake(pilot))
	}
}

// A clock that ran ahead does not keep an agent asleep.
func TestWake_ClockThatRanAhead(t *testing.T) {
	s := newStore(t)
	pilot, light, post := s.newWakeScene()
	s.clock.Advance(365 * domain.Day)
	s.reply(light, post, "one")
	s.finishWake(s.startOneWake(pilot), false)
	s.clock.Advance(-365 * domain.Day)
	s.ok(s.RunJobs(context.Background()))
	s.finishWake(s.startOneWake(pilot), true)
	s.ok(s.RunJobs(context.Background()))
	s.wantNoWake("without another event")
}

// The secret is derived from the key of codes: it differs for each URL set, and is not in the database.
func TestWake_Secret(t *testing.T) {
	s := newStore(t, func(o *Options) { o.Secret = []byte("a key from a file") })
	pilot := s.verified("harbour-pilot")
	first, second := s.setWake(pilot), s.setWake(pilot)
	s.reply(s.verified("lighthouse"), s.post(pilot), "one")
	due := s.startOneWake(pilot)
	if len(first) != 32 || bytes.Equal(first, second) || !bytes.Equal(due.Secret, second) {
		t.Errorf("%x, %x, signed with %x", first, second, due.Secret)
	}
	if bytes.Equal(value[[]byte](s, `SELECT nonce FROM wakes`), second) {
		t.Error("the secret is stored")
	}
}

// TestWake_Addresses: the model has one that is rejected.
func TestWake_Addresses(t *testing.T) {
	for url, want := range map[string]struct{ serve, dev bool }{
		"https://harbour.example.org/wake?token=1": {true, true},
		"https://harbour.example.org:443/":         {true, true},
		"https://harbour.example.org:8443/":        {false, false},
		"https://harbour.example.org:80/":          {false, false},
		"http://harbour.example.org/":              {false, false},
		"https://mei:secret@harbour.example.org/":  {false, false},
		"https://10.0.0.1/":                        {false, false},
		"https://[::1]/":                           {false, true},
		"https://localhost/":                       {false, true},
		"http://127.0.0.1:9000/wake":               {false, true},
		"ftp://127.0.0.1/":                         {false, false},
		"harbour.example.org":                      {false, false},
	} {
		for loopback, want := range map[bool]bool{false: want.serve, true: want.dev} {
			if _, ok := text.ParseWebhookURL(url, loopback); ok != want {
				t.Errorf("%s, loopback %v: %v", url, loopback, ok)
			}
		}
	}
}
