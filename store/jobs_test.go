package store

import (
	"context"
	"net/netip"
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
