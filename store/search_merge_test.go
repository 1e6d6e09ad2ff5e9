package store

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// segments is how many segments a search looks into.
func (s *testStore) segments(table string) int {
	s.Helper()
	return value[int](s, `SELECT COUNT(DISTINCT segid) FROM `+table+`_idx`)
}

func TestSearchTablesAreMerged(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	const posts = 40 // a commit and a segment each
	for i := range posts {
		s.post(caller, func(d *PostDraft) { d.Title = fmt.Sprintf("Tide data %d", i) })
	}
	if n := s.segments(postSearch); n < searchSettings[2].value {
		t.Fatalf("%d segments are none to test with", n)
	}
	s.ok(s.RunDue(ctx))
	if n := s.segments(postSearch); n > 4 {
		t.Errorf("%d segments are left", n)
	}
	for _, q := range []struct {
		query string
		found int
	}{{"tide", posts}, {"39", 1}} {
		list, err := s.Posts(ctx, PostFilter{Query: q.query}, Page{Limit: 100})
		s.ok(err)
		if len(list.Items) != q.found {
			t.Errorf("%s: %d calls, want %d", q.query, len(list.Items), q.found)
		}
	}
	before := s.writer.commits.Load()
	s.ok(s.mergeSearch(ctx))
	if s.writer.commits.Load() != before {
		t.Error("a table that is merged was written again")
	}
	s.post(caller)
	s.post(caller)
	s.ok(s.mergeSearch(ctx))
	if s.writer.commits.Load() == before+2 {
		t.Error("what was written since was not merged")
	}
}

// holds tells whether a search table's file holds a word, found or not.
func (s *testStore) holds(table, word string) bool {
	s.Helper()
	return value[bool](s, `SELECT EXISTS (SELECT 1 FROM `+table+`_data WHERE instr(block, CAST('`+word+`' AS BLOB)))`)
}

func TestSearchTablesAreMergedWholeOnceADay(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	title := func(title string) func(*PostDraft) { return func(d *PostDraft) { d.Title = title } }
	const posts = 40
	erased := s.post(caller, title("Quixotic zebrafish"))
	for i := range posts {
		if i == posts/2 { // FTS5 merges what follows the first merge with its result
			s.ok(s.RunDue(ctx))
			s.clock.Advance(mergeWholeEvery)
		}
		s.post(caller, title(fmt.Sprintf("Lock data %d", i)))
	}
	s.ok(s.RunDue(ctx))
	if n := s.segments(postSearch); n != 1 {
		t.Fatalf("%d segments at first", n)
	}
	for i := range 6 {
		s.post(caller, title(fmt.Sprintf("Weather data %d", i)))
	}
	s.ok(s.DeletePost(ctx, caller, erased.ID))
	s.ok(s.RunDue(ctx))
	if n := s.segments(postSearch); n == 1 {
		t.Error("merged whole twice a day")
	}
	if !s.holds(postSearch, "quixotic") {
		t.Fatal("nothing is left to be erased")
	}
	s.clock.Advance(mergeWholeEvery)
	s.ok(s.RunDue(ctx))
	if n := s.segments(postSearch); n != 1 {
		t.Errorf("%d segments a day later", n)
	}
	if s.holds(postSearch, "quixotic") {
		t.Error("a deleted call's word is still in the file")
	}
	for _, q := range []struct {
		query string
		found int
	}{{"tide", posts + 6}, {"weather", 6}, {"quixotic", 0}} {
		list, err := s.Posts(ctx, PostFilter{Query: q.query}, Page{Limit: 100})
		s.ok(err)
		if len(list.Items) != q.found {
			t.Errorf("%s: %d calls, want %d", q.query, len(list.Items), q.found)
		}
	}
	s.clock.Advance(mergeWholeEvery)
	before := value[int](s, `SELECT COUNT(*) FROM post_search_data`)
	s.ok(s.mergeSearch(ctx))
	if after := value[int](s, `SELECT COUNT(*) FROM post_search_data`); after != before || s.segments(postSearch) != 1 {
		t.Errorf("one segment is merged again: %d pages, then %d", before, after)
	}
}

// TestAMergeGoesOn also when the writer has forgotten all: told again, FTS5 would begin
// anew, and never come to an end with a large table.
func TestAMergeGoesOn(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	for range 40 {
		s.post(caller)
	}
	s.ok(s.writeDue(ctx, func(t *tx) error { return t.gatherSegments(postSearch) }))
	begun := s.clock.Now()
	s.post(caller)
	s.ok(s.outside(ctx, func(w *writer) error { w.forget(); return nil }))
	s.clock.Advance(time.Hour)
	s.ok(s.mergeSearch(ctx))
	if noted, err := s.notedTime(ctx, postSearch+mergedAt); err != nil || noted != at(begun) {
		t.Errorf("begun anew at %s, %v", noted, err)
	}
}

func TestAMergeWithoutRoomIsTriedLater(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	for range 40 {
		s.post(caller)
	}
	s.leaveNoRoom()
	for _, wanted := range []bool{true, false} {
		s.full.Store(false)
		s.ok(s.mergeSearch(ctx))
		if tried := s.full.Load(); tried != wanted {
			t.Errorf("tried %v, want %v", tried, wanted)
		}
	}
	s.limitPages(1000)
	s.clock.Advance(mergeRetry + time.Millisecond)
	s.ok(s.mergeSearch(ctx))
	if n := s.segments(postSearch); n != 1 {
		t.Errorf("%d segments", n)
	}
}

func TestSearchTablesHaveTheirSettings(t *testing.T) {
	s := newStore(t)
	caller, _ := s.register("harbour-pilot")
	s.post(caller)
	check := func(when string) {
		t.Helper()
		for _, table := range []string{agentSearch, postSearch} {
			for _, setting := range searchSettings {
				if v := value[int](s, `SELECT v FROM `+table+`_config WHERE k = ?`, setting.name); v != setting.value {
					t.Errorf("%s, %s: %s is %d", when, table, setting.name, v)
				}
			}
		}
	}
	check("a new file")
	s.stop()
	s.Store = openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true})
	s.change(nil, `INSERT INTO post_search (post_search, rank) VALUES ('automerge', 4)`)
	s.ok(s.outside(context.Background(), func(w *writer) error { w.forget(); return nil }))
	s.post(caller)
	check("a file with others")
}
