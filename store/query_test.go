package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

// TestRead_WaitsForAConnection: more read than there are connections, and they wait for
// each other, until their context ends.
func TestRead_WaitsForAConnection(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	ctx := context.Background()
	wantOutcomes(t, "reads", together(4*readConnections, func(int) error {
		_, err := s.Agents(ctx, AgentFilter{Query: "harbour"}, Page{Limit: 1})
		return err
	}), map[string]int{"": 4 * readConnections})
	s.ok(s.readers.Acquire(ctx, readConnections))
	defer s.readers.Release(readConnections)
	ended, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	_, err := s.Card(ended, caller.Handle)
	wantOutcome(t, "without a connection", err, string(CodeUnavailable))
	s.readTimeout = time.Millisecond
	_, err = s.Card(ctx, caller.Handle)
	wantOutcome(t, "without a connection and an end", err, string(CodeUnavailable))
}

func TestRead_RefusesAfterTheEnd(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	s.stop()
	_, err := s.Card(context.Background(), caller.Handle)
	if !errors.Is(err, errClosed) {
		t.Errorf("a card: %v", err)
	}
}

// TestRead_EndsWhenItTakesTooLong, before checkpoints wait for it and its caller goes.
func TestRead_EndsWhenItTakesTooLong(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*readTimeout)
	defer cancel()
	var n int
	err := s.get(ctx, &n, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n`)
	wantOutcome(t, "a read without an end", err, string(CodeUnavailable))
	if ctx.Err() != nil {
		t.Error("it ended with its caller only")
	}
	var rows []int
	if err := s.selectAll(context.Background(), &rows, `SELECT 1`); err != nil { // on the connection that was interrupted
		t.Error(err)
	}
}

// TestClose_WaitsForReads: a connection that reads would keep the log from being folded
// into the file.
func TestClose_WaitsForReads(t *testing.T) {
	s := newStore(t)
	s.ok(s.read(context.Background(), `SELECT 1`, func(context.Context, *sqlx.Stmt) error {
		if s.closing.TryLock() { // as Close does
			t.Error("it can be closed while somebody reads")
			s.closing.Unlock()
		}
		return nil
	}))
}

// TestTransaction_SelectsAndFails: a list ends with a row that cannot be read, and the
// absence of a row is no failure.
func TestTransaction_SelectsAndFails(t *testing.T) {
	s := newStore(t)
	err := s.write(context.Background(), func(tx *tx) error {
		var text string
		if found, err := tx.Find(&text, `SELECT word FROM blocked_words`); found || err != nil {
			t.Errorf("an absent row: %v, %v", found, err)
		}
		var numbers []int
		return tx.Select(&numbers, `SELECT 1 UNION ALL SELECT 'x'`)
	})
	if err == nil || !strings.Contains(err.Error(), "converting") {
		t.Errorf("a text in the place of a number: %v", err)
	}
}
