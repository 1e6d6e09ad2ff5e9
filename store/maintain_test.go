package store

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
)

func TestJobs_DeleteRecordsPastTheirRetention(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	post, _, err := s.CreatePost(ctx, caller, domain.PostDraft{Kind: "seeking", Title: "t", Body: "b"}, domain.NewIdempotencyKey("createPost", onceKey, "body"))
	s.ok(err)
	s.ok(s.ReportPost(ctx, post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{Reason: "spam"}))

	counts := func() [4]int {
		return [4]int{
			value[int](s, `SELECT COUNT(*) FROM idempotency`),
			value[int](s, `SELECT COUNT(*) FROM reports WHERE reporter IS NOT NULL`),
			value[int](s, `SELECT COUNT(*) FROM reports`),
			value[int](s, `SELECT COUNT(*) FROM usage`),
		}
	}
	for _, tt := range []struct {
		after time.Duration
		want  [4]int
	}{
		{0, [4]int{1, 1, 1, 1}},
		{domain.Day - time.Millisecond, [4]int{1, 1, 1, 1}},
		{time.Millisecond, [4]int{0, 0, 1, 0}},
	} {
		s.clock.Advance(tt.after)
		s.ok(s.RunJobs(ctx))
		if got := counts(); got != tt.want {
			t.Errorf("after another %v: idempotency keys, reporters, reports, usage: %v, want %v", tt.after, got, tt.want)
		}
	}
}

func TestJobs_PostsCloseAtMidnight(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	for _, deadline := range []string{"", "2026-11-19", "2026-11-20", "2026-11-21", "9999-12-31"} {
		s.post(caller, func(d *domain.PostDraft) { d.Deadline, d.Title = deadline, "until "+deadline })
	}
	open := func(query string) int {
		found, err := s.Posts(ctx, domain.PostFilter{Open: true, Query: query}, listing.Page{Limit: 10})
		s.ok(err)
		if found.Total != len(found.Items) {
			t.Errorf("%d calls, total %d", len(found.Items), found.Total)
		}
		return len(found.Items)
	}
	s.clock.Advance(domain.NextDay(s.clock.Now()).Sub(s.clock.Now()) - time.Millisecond)
	for _, tt := range []struct {
		after time.Duration
		open  int
		rows  int // search rows still marked open after the due jobs
	}{{0, 4, 4}, {time.Millisecond, 3, 3}, {domain.Day, 2, 2}, {10 * domain.Day, 2, 2}} {
		s.clock.Advance(tt.after)
		// What is open is right at once, whether or not the due jobs ran.
		if n, m := open(""), open("until"); n != tt.open || m != tt.open {
			t.Errorf("%v: %d and with words %d open, want %d", s.clock.Now(), n, m, tt.open)
		}
		s.ok(s.RunJobs(ctx))
		if n := value[int](s, `SELECT COUNT(*) FROM posts WHERE closed = 0`); n != tt.rows || open("") != tt.open {
			t.Errorf("%v: %d rows marked open and %d open, want %d", s.clock.Now(), n, open(""), tt.rows)
		}
	}
}

func TestJobs_ClockJumps(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitPosts: 3}))
	ctx := context.Background()
	caller, key := s.register("harbour-pilot")
	var ids []string
	joined := []string{"harbour-pilot"}
	for i, jump := range []time.Duration{0, -domain.Day, 10 * 365 * domain.Day, -10 * 365 * domain.Day, -20 * 365 * domain.Day, 20 * 365 * domain.Day} {
		s.clock.Advance(jump)
		author, _ := s.register("author-" + string(rune('a'+i)))
		joined = append(joined, author.Handle)
		for range 3 {
			ids = append(ids, s.post(author).ID)
		}
		s.ok(s.RunJobs(ctx))
		if _, err := s.Authenticate(ctx, key); err != nil {
			t.Errorf("after a jump of %v the key: %v", jump, err)
		}
	}
	posts, err := s.Posts(ctx, domain.PostFilter{}, listing.Page{Limit: 100})
	s.ok(err)
	for i, p := range posts.Items {
		if want := ids[len(ids)-1-i]; p.ID != want {
			t.Fatalf("call %d is %s, want %s", i, p.ID, want)
		}
	}
	agents, err := s.Agents(ctx, domain.AgentFilter{}, listing.Page{Limit: 100})
	s.ok(err)
	for i, a := range agents.Items {
		if want := joined[len(joined)-1-i]; a.Handle != want {
			t.Fatalf("agent %d is %s, want %s", i, a.Handle, want)
		}
	}

	// A day's limit used up under a clock that was far ahead does not outlive
	// the clock's mending by more than a day.
	s.clock.Advance(10 * 365 * domain.Day)
	for range 3 {
		s.post(caller)
	}
	s.clock.Advance(-10 * 365 * domain.Day)
	s.ok(s.RunJobs(ctx))
	s.clock.Advance(domain.Day)
	s.post(caller)
}

// walSize looks at the write-ahead log without opening it: closing a file of a
// live database drops SQLite's locks on it.
func (s *testStore) walSize() int64 {
	s.Helper()
	info, err := os.Stat(s.path + "-wal")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	s.ok(err)
	return info.Size()
}

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
