package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestMoreReadThanThereArePlaces: they wait for each other, until their context ends.
func TestMoreReadThanThereArePlaces(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	ctx := context.Background()
	var wait sync.WaitGroup
	for range 4 * readingPlaces {
		wait.Go(func() {
			if d, err := s.Card(ctx, caller.Handle); err != nil || d.ID != caller.ID {
				t.Errorf("card of %d: %v", d.ID, err)
			}
			if l, err := s.Agents(ctx, AgentFilter{Query: "harbour"}, Page{Limit: 1}); err != nil || len(l.Items) != 1 {
				t.Errorf("%d agents: %v", len(l.Items), err)
			}
		})
	}
	wait.Wait()
	if n := len(s.readers.free); n < 1 || n > readingPlaces {
		t.Errorf("%d connections are free", n)
	}
	for range readingPlaces {
		r, err := s.readers.take(ctx, s.reading)
		s.ok(err)
		defer s.readers.giveBack(r)
	}
	ended, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	_, err := s.Card(ended, caller.Handle)
	wantOutcome(t, "without a place", err, string(CodeUnavailable))
	timeout := readTimeout
	readTimeout = time.Millisecond
	defer func() { readTimeout = timeout }()
	_, err = s.Card(ctx, caller.Handle)
	wantOutcome(t, "without a place and an end", err, string(CodeUnavailable))
}

func TestNothingIsReadAfterTheEnd(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	s.stop()
	_, err := s.Card(context.Background(), caller.Handle)
	if !errors.Is(err, errClosed) {
		t.Errorf("a card: %v", err)
	}
	_, err = s.Agents(context.Background(), AgentFilter{}, Page{Limit: 1})
	wantOutcome(t, "a list", err, string(CodeUnavailable))
}

// TestACursorOutlivesTheExactHandle: an agent that comes to have the very handle that
// is searched for puts no other twice or nowhere.
func TestACursorOutlivesTheExactHandle(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	for i := range 5 {
		s.register(fmt.Sprintf("tide-%d", i))
	}
	f := AgentFilter{Query: "tide"}
	first, err := s.Agents(ctx, f, Page{Limit: 2})
	s.ok(err)
	s.register("tide")
	rest, err := s.Agents(ctx, f, Page{Limit: 10, Cursor: first.Next})
	s.ok(err)
	var names []string
	for _, d := range append(first.Items, rest.Items...) {
		names = append(names, d.Handle)
	}
	if got := fmt.Sprint(names); got != "[tide-4 tide-3 tide-2 tide-1 tide-0]" {
		t.Error(got)
	}
}

// TestAReadWithoutAnEndIsEnded, before checkpoints wait for it and its caller goes.
func TestAReadWithoutAnEndIsEnded(t *testing.T) {
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
}
