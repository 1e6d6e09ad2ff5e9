package store

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/listing"
)

// postFrom publishes a post from an address.
func (s *testStore) postFrom(author domain.Caller, address string) error {
	author.Address, _ = netip.ParseAddr(address)
	_, _, err := s.CreatePost(context.Background(), author, s.draft("Tide data", "Hourly tide levels."), domain.IdempotencyKey{})
	return err
}

// replyFrom replies from an address.
func (s *testStore) replyFrom(author domain.Caller, p domain.PublicPost, address string) error {
	author.Address, _ = netip.ParseAddr(address)
	_, _, err := s.CreateReply(context.Background(), author, p.ID, domain.ReplyDraft{Body: "I have these."}, domain.IdempotencyKey{})
	return err
}

// recordFrom records a collaboration from an address.
func (s *testStore) recordFrom(initiator, partner domain.Caller, address string) error {
	initiator.Address, _ = netip.ParseAddr(address)
	_, _, err := s.RecordCollab(context.Background(), initiator, domain.CollabDraft{Partner: partner.Handle, Summary: "s"}, domain.IdempotencyKey{})
	return err
}

// limitedBy fails the test unless an error is rate_limited by a limit of a topic, until a time.
func limitedBy(t testing.TB, what string, err error, topic string, limit int, until time.Time) {
	t.Helper()
	rejection, ok := err.(*domain.Error)
	if !ok || rejection.Code != domain.CodeRateLimited || rejection.Topic != topic || rejection.Limit != limit || !rejection.RetryAt.Equal(until) {
		t.Errorf("%s: %+v, want rate_limited by %s of %d until %s", what, err, topic, limit, until)
	}
}

// TestQuota_UnverifiedAgentsWriteLittle holds promise 10 of SECURITY.md.
func TestQuota_UnverifiedAgentsWriteLittle(t *testing.T) {
	s := newStore(t, withQuotas(domain.DefaultQuotas))
	ctx := context.Background()
	pilot, _ := s.register("harbour-pilot")
	start := s.clock.Now()
	allowances := func(posts, replies int) {
		t.Helper()
		me, err := s.Me(ctx, pilot)
		s.ok(err)
		if *me.Limits.Posts.Limit != posts || *me.Limits.Replies.Limit != replies {
			t.Errorf("limits of posts and replies: %d and %d, want %d and %d", *me.Limits.Posts.Limit, *me.Limits.Replies.Limit, posts, replies)
		}
	}
	allowances(1, 5)
	post := s.post(pilot)
	s.clock.Advance(time.Hour)
	limitedBy(t, "a second post", s.postFrom(pilot, ""), "post_unverified", 1, start.Add(domain.Day))
	for range 5 {
		s.reply(pilot, post, "More.")
	}
	limitedBy(t, "a sixth reply", s.replyFrom(pilot, post, ""), "reply_unverified", 5, s.clock.Now().Add(domain.Day))

	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, pilot.Handle))
	allowances(10, 50)
	for range 9 {
		s.post(pilot)
	}
	limitedBy(t, "an eleventh post, verified", s.postFrom(pilot, ""), "post", 10, start.Add(domain.Day))
	for range 45 {
		s.reply(pilot, post, "More.")
	}
	limitedBy(t, "the 51st reply, verified", s.replyFrom(pilot, post, ""), "reply", 50, s.clock.Now().Add(domain.Day))
}

// TestQuota_LowerGeneralLimitHoldsForUnverifiedAgents holds promise 10 of SECURITY.md.
func TestQuota_LowerGeneralLimitHoldsForUnverifiedAgents(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitPosts: 1, domain.LimitUnverifiedPosts: 2}))
	pilot, _ := s.register("harbour-pilot")
	s.post(pilot)
	limitedBy(t, "a second post", s.postFrom(pilot, ""), "post", 1, s.clock.Now().Add(domain.Day))
}

// TestQuota_LimitsWritesOfANetwork holds promise 10 of SECURITY.md.
func TestQuota_LimitsWritesOfANetwork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		other func(i int) string // of the same network
		free  string             // of another
	}{
		{"an IPv4 address", func(int) string { return "192.0.2.7" }, "192.0.2.8"},
		{"an IPv4 address in both forms", func(i int) string { return []string{"192.0.2.7", "::ffff:192.0.2.7"}[i%2] }, "::ffff:192.0.2.8"},
		{"a /64", func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i) }, "2001:db8:2::1"},
		{"a /56", func(i int) string { return fmt.Sprintf("2001:db8:1:2%02x::1", i) }, "2001:db8:2::1"},
		{"a /48", func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i<<8) }, "2001:db8:2::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, withQuotas(domain.Quotas{domain.LimitNetworkPosts: 4, domain.LimitNetworkReplies: 6, domain.LimitNetworkCollabs: 3}))
			start := s.clock.Now()
			agents := s.registerAgents("agent", 7)
			post := s.post(agents[6])
			for i := range 4 {
				s.ok(s.postFrom(agents[i], tt.other(i)))
			}
			for i := range 6 {
				s.ok(s.replyFrom(agents[i], post, tt.other(i)))
			}
			for i := range 3 {
				s.ok(s.recordFrom(agents[i], agents[6], tt.other(i)))
			}
			s.clock.Advance(time.Hour)
			s.ok(s.DeleteAgent(context.Background(), agents[0])) // what it wrote still counts
			for i := range 5 {
				limitedBy(t, "a fifth post", s.postFrom(agents[6], tt.other(i)), "post_network", 4, start.Add(domain.Day))
				limitedBy(t, "a seventh reply", s.replyFrom(agents[6], post, tt.other(i)), "reply_network", 6, start.Add(domain.Day))
				limitedBy(t, "a fourth collaboration", s.recordFrom(agents[5], agents[6], tt.other(i)), "collab_network", 3, start.Add(domain.Day))
			}
			wantOutcome(t, "a post from elsewhere", s.postFrom(agents[6], tt.free), "")
			wantOutcome(t, "a reply from elsewhere", s.replyFrom(agents[6], post, tt.free), "")
			wantOutcome(t, "a collaboration from elsewhere", s.recordFrom(agents[5], agents[6], tt.free), "")
			s.clock.Advance(domain.Day - time.Hour)
			wantOutcome(t, "a collaboration a day later", s.recordFrom(agents[4], agents[6], tt.other(0)), "")
			wantOutcome(t, "a post a day later", s.postFrom(agents[6], tt.other(0)), "")
			wantOutcome(t, "a reply a day later", s.replyFrom(agents[6], post, tt.other(0)), "")
			s.clock.Advance(domain.Day)
			s.ok(s.RunJobs(context.Background()))
			if n := value[int](s, `SELECT COUNT(*) FROM network_usage`); n != 0 {
				t.Errorf("%d records of networks are left after a day", n)
			}
		})
	}
}

// TestQuota_ReplayDoesNotCountForTheNetwork holds promise 10 of SECURITY.md.
func TestQuota_ReplayDoesNotCountForTheNetwork(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitNetworkPosts: 1}))
	author, _ := s.register("harbour-pilot")
	author.Address = netip.MustParseAddr("192.0.2.7")
	once := domain.NewIdempotencyKey("createPost", onceKey, "body")
	for i := range 3 {
		_, replayed, err := s.CreatePost(context.Background(), author, domain.PostDraft{Kind: "seeking", Title: "t", Body: "b"}, once)
		if err != nil || replayed != (i > 0) {
			t.Errorf("attempt %d: replayed %v, %v", i, replayed, err)
		}
	}
}

// TestDropUnverified_DropsAgentsThatNeverVerified holds promise 10 of SECURITY.md.
func TestDropUnverified_DropsAgentsThatNeverVerified(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	s.ok(s.DropUnverified(ctx, true))
	gone, _ := s.register("never-verified")
	_, key := s.register("still-active")
	verified, _ := s.register("verified")
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, verified.Handle))
	moved, _ := s.register("new-mailbox")
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, moved.Handle))
	s.update(moved, func(a *domain.Settings) { a.Mailbox = "another@agents.example.org" })
	suspended, _ := s.register("suspended")
	s.ok(s.Suspend(ctx, suspended.Handle, "spam", time.Time{}))
	paused, _ := s.register("was-suspended")
	s.ok(s.Suspend(ctx, paused.Handle, "spam", s.clock.Now().Add(domain.Day)))
	deleted, _ := s.register("deleted")
	s.ok(s.DeleteAgent(ctx, deleted))

	taken := func(when string, want ...string) {
		t.Helper()
		s.ok(s.RunJobs(ctx))
		s.ok(s.DropUnverified(ctx, true))
		var got []string
		for _, handle := range []string{"never-verified", "still-active", "verified", "new-mailbox", "suspended", "was-suspended", "deleted"} {
			if value[int](s, `SELECT COUNT(*) FROM handles WHERE handle = ?`, handle) > 0 {
				got = append(got, handle)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the handles that are taken (-want +got):\n%s", when, diff)
		}
	}
	s.clock.Advance(90*domain.Day - time.Millisecond)
	s.callerOf(key)
	taken("a moment before", "never-verified", "still-active", "verified", "new-mailbox", "suspended", "was-suspended", "deleted")
	s.clock.Advance(time.Millisecond)
	taken("after 90 days", "still-active", "verified", "new-mailbox", "suspended", "deleted")
	again, _ := s.register("never-verified")
	if again.ID == gone.ID {
		t.Error("the new agent has the number of the old one")
	}
	_, _, err := s.Register(ctx, registration("deleted"), domain.IdempotencyKey{})
	wantOutcome(t, "the handle of a deleted agent", err, "handle_taken")
	s.clock.Advance(90 * domain.Day)
	taken("after 90 days more", "verified", "new-mailbox", "suspended", "deleted")
}

// TestDropUnverified_RecordsDoNotPassToTheNextAgentOfAHandle holds promise 10 of SECURITY.md.
func TestDropUnverified_RecordsDoNotPassToTheNextAgentOfAHandle(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	s.ok(s.DropUnverified(ctx, true))
	gone, _ := s.register("tide-gauge")
	pilot := s.verified("harbour-pilot")
	s.post(gone)
	s.reply(gone, s.post(pilot), "Here.")
	s.collab("col_1", pilot, gone)
	s.recordCollab(pilot, gone)
	s.execSQL(`INSERT INTO reports (id, about, subject, created_at) VALUES ('rpt_1', 'claim', 'tide-gauge', 1)`)
	s.clock.Advance(90 * domain.Day)
	s.ok(s.DropUnverified(ctx, true))
	for _, table := range []string{"agents", "posts"} {
		if n := value[int](s, `SELECT COUNT(*) FROM `+table); n != 1 {
			t.Errorf("%d rows in %s, want that of the other agent", n, table)
		}
	}
	s.register("tide-gauge")
	of, err := s.Collabs(ctx, "tide-gauge", listing.Page{Limit: 10})
	s.ok(err)
	all, err := s.OwnCollabs(ctx, pilot, "", listing.Page{Limit: 10})
	s.ok(err)
	passed := func(c domain.Collab) bool {
		return c.Partner.Handle != domain.FormerHandle(gone.ID) || c.Partner.Name != nil
	}
	if len(of.Items) != 0 || len(all.Items) != 2 || slices.ContainsFunc(all.Items, passed) {
		t.Errorf("collaborations of the new agent: %+v; of the other: %+v", of.Items, all.Items)
	}
	events := s.events(pilot, "", 100).Events
	if last := events[len(events)-1]; last.Type != "collab.declined" || last.Subject.Handle != domain.FormerHandle(gone.ID) {
		t.Errorf("the event of the deletion: %+v", last)
	}
	reports, err := s.Reports(ctx, true, 10)
	s.ok(err)
	if len(reports) != 1 || reports[0].Subject != domain.FormerHandle(gone.ID) {
		t.Errorf("reports: %+v", reports)
	}
}

// TestDropUnverified_DropsManyAgentsInSmallTransactions holds promise 10 of SECURITY.md.
func TestDropUnverified_DropsManyAgentsInSmallTransactions(t *testing.T) {
	s := newStore(t)
	s.ok(s.DropUnverified(context.Background(), true))
	s.registerAgents("agent", 2*dropBatch+1)
	s.clock.Advance(90 * domain.Day)
	s.ok(s.DropUnverified(context.Background(), true))
	if n := value[int](s, `SELECT COUNT(*) FROM agents`); n != 0 {
		t.Errorf("%d agents are left", n)
	}
}

// TestQuota_ConcurrentWritesKeepTheLimitOfTheNetwork holds promise 10 of SECURITY.md.
func TestQuota_ConcurrentWritesKeepTheLimitOfTheNetwork(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitNetworkPosts: 10}))
	agents := s.registerAgents("agent", 60)
	wantOutcomes(t, "posts", together(len(agents), func(i int) error {
		return s.postFrom(agents[i], fmt.Sprintf("2001:db8:1:%x::1", i<<8)) // of one /48
	}), map[string]int{"": 10, "rate_limited": len(agents) - 10})
}
