package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// beside opens the directory once more, as another process does.
func (s *testStore) beside() *Store {
	s.Helper()
	other := openStore(s, Options{Path: s.path, Clock: s.clock.Now, Beside: true})
	s.Cleanup(func() { s.ok(other.Close()) })
	return other
}

// TestWhatAnotherProcessWritesIsNoticed: within a second, with nothing to do.
func TestWhatAnotherProcessWritesIsNoticed(t *testing.T) {
	s := newStore(t)
	news := make(chan Changes, 10)
	s.Watch(func(c Changes) { news <- c })
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
	s.ok(s.beside().Suspend(context.Background(), "tide-reader", "spam", time.Time{}))
	if c := next(); !c.All || !c.Agents || !c.Posts || !c.Collabs {
		t.Errorf("it notices only %+v", c)
	}
	if noticePeriod > time.Second/2 {
		t.Errorf("an idle writer looks only every %s", noticePeriod)
	}
	if _, err := s.Card(context.Background(), "tide-reader"); !errors.Is(err, refuse(CodeNotFound)) {
		t.Errorf("the card: %v", err)
	}
}

// TestAnotherProcessMayForgetWords: the writer keeps in mind which words are
// stored; what another deletes is stored again with the next write.
func TestAnotherProcessMayForgetWords(t *testing.T) {
	s := newStore(t)
	other := s.beside()
	leaving, _ := s.register("leaving", func(r *Registration) { r.Tagline = "antidisestablishment" })
	s.ok(other.DeleteAgent(context.Background(), leaving))
	s.register("staying", func(r *Registration) { r.Tagline = "antidisestablishment" })
	list, err := s.Agents(context.Background(), AgentFilter{Query: "antidisest"}, Page{Limit: 10})
	if err != nil || list.Total != 1 {
		t.Errorf("found %d, %v", list.Total, err)
	}
}

func TestBesideMakesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := Open(context.Background(), Options{Path: path, Beside: true}); err == nil || !missing(path) {
		t.Errorf("opened, or made: %v", err)
	}
}
