package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"callbook/store/domain"
)

// openBeside opens the directory once more, as another process does.
func (s *testStore) openBeside() *Store {
	s.Helper()
	other := openStore(s, Options{Path: s.path, Clock: s.clock.Now, Beside: true})
	s.Cleanup(func() { s.ok(other.Close()) })
	return other
}

// TestBeside_OtherProcessInvalidatesCaches: within a second, with nothing to do.
func TestBeside_OtherProcessInvalidatesCaches(t *testing.T) {
	s := newStore(t)
	news := make(chan Changes, 10)
	s.OnCommit(func(c Changes) { news <- c })
	next := func() (c Changes) {
		select {
		case c = <-news:
		case <-time.After(10 * time.Second):
			t.Fatal("it notices nothing")
		}
		return c
	}
	s.register("tide-reader")
	if c := next(); c.All {
		t.Errorf("its own write counts as another's: %+v", c)
	}
	s.ok(s.openBeside().Suspend(context.Background(), "tide-reader", "spam", time.Time{}))
	if c := next(); !c.All || !c.Public {
		t.Errorf("it notices only %+v", c)
	}
	if _, err := s.Card(context.Background(), "tide-reader"); !errors.Is(err, domain.NewError(domain.CodeNotFound)) {
		t.Errorf("the card: %v", err)
	}
}
