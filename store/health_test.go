package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
)

func TestErasure_TruncatesTheLog(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	s.ok(s.RunJobs(ctx)) // a start empties the log once, for what a crash left
	s.post(caller)
	s.ok(s.RunJobs(ctx))
	if s.walSize() == 0 {
		t.Error("a run without an erasure emptied the log")
	}
	s.ok(s.DeleteAgent(ctx, caller))

	reader := s.connection("ro")
	reading, err := reader.Beginx()
	s.ok(err)
	var n int
	s.ok(reading.Get(&n, `SELECT COUNT(*) FROM agents`))
	began := time.Now()
	s.ok(s.RunJobs(ctx))
	if took := time.Since(began); took > 4*time.Second { // SQLite would wait for 5, and all writes with it
		t.Errorf("what is due waits %s for a reader", took)
	}
	if s.walSize() == 0 {
		t.Fatal("the log was emptied under a reader")
	}
	s.ok(reading.Rollback())
	s.ok(s.RunJobs(ctx))
	if size := s.walSize(); size != 0 {
		t.Errorf("the log has %d bytes", size)
	}
}

// A program that was killed between an erasure and the next run leaves the log
// behind; the next start must not take it for one that holds nothing erased.
func TestErasure_SurvivesACrash(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	s.ok(s.RunJobs(ctx)) // or the first run afterwards optimizes the full-text tables, and truncates the log for that
	// A reader is in the way of the last to close the database and of the next start, which fold the log.
	reader := s.connection("ro")
	reading, err := reader.Beginx()
	s.ok(err)
	var n int
	s.ok(reading.Get(&n, `SELECT COUNT(*) FROM agents`))
	s.ok(s.DeleteAgent(ctx, caller))
	s.setBusyTimeout(0)
	s.stop()
	s.Store = openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
	s.ok(errors.Join(reading.Rollback(), reader.Close()))
	if s.walSize() == 0 {
		t.Fatal("no log is left to test with")
	}
	s.ok(s.RunJobs(ctx))
	if size := s.walSize(); size != 0 {
		t.Errorf("the log still has %d bytes", size)
	}
}

func TestClear_DeletesEverything(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	s.reply(caller, s.post(caller), "a reply")
	release := s.holdWriter()
	queue := []*queuedWrite{ // in one transaction
		s.queueWrite(func(t *tx) error {
			author, err := t.Authorize(caller)
			if err != nil {
				return err
			}
			return errOf(t.createPost(author, caller.Address, s.draft("lantern", "b"), postWords(&domain.Post{Title: "lantern"})))
		}),
		s.queueWrite(func(t *tx) error { return t.clearDirectory() }),
	}
	release()
	for _, q := range queue {
		<-q.done
		s.ok(q.err)
	}
	var tables []string
	s.ok(s.db.Select(ctx, &tables, ofTest+`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%\_search%' ESCAPE '\'`))
	for _, table := range tables {
		if n := value[int](s, `SELECT COUNT(*) FROM `+table); n != 0 && table != "site" && table != "goose_db_version" {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	again, _ := s.register("harbour-pilot")
	found, err := s.Agents(ctx, domain.AgentFilter{Query: "harbour"}, listing.Page{Limit: 10})
	s.ok(err)
	if again.ID != caller.ID || len(found.Items) != 1 {
		t.Errorf("the next agent has number %d and is found %d times", again.ID, len(found.Items))
	}
}

func TestMarkDev_RejectsOtherDirectories(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	if err := s.MarkDev(ctx, false); !errors.Is(err, ErrNotDev) {
		t.Errorf("a served directory is taken for a test: %v", err)
	}
	s.ok(s.MarkDev(ctx, true))
	s.ok(s.Clear(ctx))
	s.ok(s.MarkDev(ctx, false))
}
