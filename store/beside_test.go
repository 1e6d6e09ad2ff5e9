package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/store/txn"
)

// beside opens the directory once more, as another process does.
func (s *testStore) beside() *Store {
	s.Helper()
	other := openStore(s, Options{Path: s.path, Clock: s.clock.Now, Beside: true})
	s.Cleanup(func() { s.ok(other.Close()) })
	return other
}

// TestBeside_OtherProcessInvalidatesCaches: within a second, with nothing to do.
func TestBeside_OtherProcessInvalidatesCaches(t *testing.T) {
	s := newStore(t)
	news := make(chan txn.Changes, 10)
	s.Watch(func(c txn.Changes) { news <- c })
	next := func() (c txn.Changes) {
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
	if _, err := s.Card(context.Background(), "tide-reader"); !errors.Is(err, domain.NewError(domain.CodeNotFound)) {
		t.Errorf("the card: %v", err)
	}
}

// TestBeside_OpensTheFileOfAKilledProcess: closing the file folds its log in, and still the next start checks it.
func TestBeside_OpensTheFileOfAKilledProcess(t *testing.T) {
	path, o := filled(t)
	o.Path, o.Beside = path, true
	apart := filepath.Join(t.TempDir(), "callbook.db") // closing it folds a log in
	if err := os.WriteFile(apart, []byte(readFiles(t, path)[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	damageAt(t, path, rootOf(t, apart, "reports"))
	beside, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := beside.Close(); err != nil {
		t.Error(err)
	}
	o.Beside, o.Crashed = false, true
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.CheckFile(t.Context()); !errors.Is(err, sqlitedb.ErrDamaged) {
		t.Error(err)
	}
}

func readFiles(t testing.TB, names ...string) (texts []string) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}
