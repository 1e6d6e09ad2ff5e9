package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
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
	wantOutcomes(t, "posts", testkit.Together(len(agents), func(i int) error {
		return s.postFrom(agents[i], fmt.Sprintf("2001:db8:1:%x::1", i<<8)) // of one /48
	}), map[string]int{"": 10, "rate_limited": len(agents) - 10})
}

func TestQuota_HoldsForConcurrentWrites(t *testing.T) {
	t.Parallel()
	const limit = 7
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitPosts: limit, domain.LimitReplies: limit}))
	caller, _ := s.register("harbour-pilot")
	other, _ := s.register("lighthouse")
	post := s.post(other)
	want := map[string]int{"": limit, "rate_limited": rush - limit}
	days := proof.Rounds(10, 200, 4000)
	for day := 1; day <= days; day++ {
		wantOutcomes(t, "calls", testkit.Together(rush, func(int) error {
			_, _, err := s.CreatePost(context.Background(), caller, s.draft("t", "b"), domain.IdempotencyKey{})
			return err
		}), want)
		wantOutcomes(t, "replies", testkit.Together(rush, func(int) error {
			_, _, err := s.CreateReply(context.Background(), caller, post.ID, domain.ReplyDraft{Body: "b"}, domain.IdempotencyKey{})
			return err
		}), want)
		if n := value[int](s, `SELECT COUNT(*) FROM posts WHERE author_id = ?`, caller.ID); n != day*limit {
			t.Errorf("%d calls stored after %d days, want %d", n, day, day*limit)
		}
		again, err := s.Post(context.Background(), post.ID)
		s.ok(err)
		if n := value[int](s, `SELECT COUNT(*) FROM replies`); n != day*limit || again.ReplyCount != day*limit {
			t.Errorf("%d replies stored and %d counted after %d days, want %d", n, again.ReplyCount, day, day*limit)
		}
		s.clock.Advance(domain.Day)
	}
	proof.Figure(t, "limit rounds", 2*days)
}

// greedyNetwork is a client with as many agents as its address may register, which write as much as
// they may.
type greedyNetwork struct {
	*testStore
	address netip.Addr
	rng     *rand.Rand
	agents  []domain.Caller
	counts  map[string]int
	shorter int // divides the length of texts
}

// registrationsADay is how many agents the rate limit lets an address register in a day: 10 an hour,
// and 10 at once before.
const registrationsADay = 250

// text returns a text of n characters that makes the search rows as large as possible.
func (g *greedyNetwork) text(n int) string {
	var b strings.Builder
	for range max(1, n/g.shorter) {
		b.WriteRune(rune(0x4e00 + g.rng.IntN(0x5000)))
	}
	return b.String()
}

func (g *greedyNetwork) texts(items, n int) (list []string) {
	for range items {
		list = append(list, g.text(n))
	}
	return list
}

// key returns an Idempotency-Key, with which the response is stored too.
func (g *greedyNetwork) key(operation string) domain.IdempotencyKey {
	return domain.NewIdempotencyKey(operation, g.text(16*g.shorter))
}

// count counts an act that passed, and fails the test if it failed for another reason than a limit.
func (g *greedyNetwork) count(act string, err error) bool {
	g.Helper()
	var rejection *domain.Error
	switch {
	case err == nil:
		g.counts[act]++
	case !errors.As(err, &rejection) || rejection.Code != domain.CodeRateLimited:
		g.Fatalf("%s: %v", act, err)
	}
	return err == nil
}

func (g *greedyNetwork) join() {
	g.Helper()
	c, _ := g.register(fmt.Sprintf("greedy-%d", len(g.agents)), func(r *domain.Registration) {
		r.Name, r.Owner, r.Tagline, r.Model = g.text(60), g.text(60), g.text(80), g.text(60)
		r.DescriptionEN, r.DescriptionZH = g.text(600), g.text(600)
		r.Capabilities, r.Homepage = g.texts(12, 60), "https://example.org/"+strings.Repeat("x", 2000)
	})
	c.Address = g.address
	menu := domain.Menu{}
	for range 3 {
		menu.Offerings = append(menu.Offerings, domain.OfferingDraft{
			Title: g.text(40), Deliverable: g.text(120), Mode: "free", ForWhom: g.text(80), NotDoing: g.text(120), Tags: g.texts(5, 60),
		})
	}
	_, err := g.ReplaceOfferings(context.Background(), c, menu)
	g.ok(err)
	for i := range 5 {
		g.addLink(c, fmt.Sprintf("https://example.org/%d%s", i, strings.Repeat("x", 2000)))
	}
	g.agents = append(g.agents, c)
}

// collaborate has every agent record as many collaborations as it and the network may, which another one confirms.
func (g *greedyNetwork) collaborate() {
	g.Helper()
	ctx := context.Background()
	for i, c := range g.agents {
		partner := g.agents[(i+1)%len(g.agents)]
		for {
			collab, _, err := g.RecordCollab(ctx, c, domain.CollabDraft{Partner: partner.Handle, Summary: g.text(300)}, g.key("recordCollab"))
			if !g.count("collaborations", err) {
				break
			}
			_, err = g.DecideCollab(ctx, partner, collab.ID, domain.CollabConfirmed)
			g.ok(err)
		}
	}
}

// write has every agent post and reply as much as it and the network may.
func (g *greedyNetwork) write() {
	g.Helper()
	ctx := context.Background()
	var post domain.PublicPost
	for _, c := range g.agents {
		for {
			doc, _, err := g.CreatePost(ctx, c, domain.PostDraft{
				Kind: "seeking", Title: g.text(120), Body: g.text(4000), Deliverable: g.text(300), Constraints: g.text(300), Tags: g.texts(6, 60),
			}, g.key("createPost"))
			if !g.count("posts", err) {
				break
			}
			post = doc
		}
	}
	for _, c := range g.agents {
		for {
			_, _, err := g.CreateReply(ctx, c, post.ID, domain.ReplyDraft{Body: g.text(2000)}, g.key("createReply"))
			if !g.count("replies", err) {
				break
			}
		}
	}
}

// fileSize returns the size of the database with its whole log in it.
func (s *testStore) fileSize() int64 {
	s.Helper()
	_, err := s.db.TruncateLog(context.Background())
	s.ok(err)
	info, err := os.Stat(s.path)
	s.ok(err)
	return info.Size()
}

// TestGreed_OneNetworkAddsLittleADay measures what an agent of the network adds at most, and
// what all of them may add together; a day has registrationsADay of them.
// It holds promise 10 of SECURITY.md.
func TestGreed_OneNetworkAddsLittleADay(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	quotas := maps.Clone(domain.DefaultQuotas)
	quotas[domain.LimitCollabs] = proof.Rounds(1, quotas[domain.LimitCollabs], quotas[domain.LimitCollabs]) // each takes a while: it changes two large cards
	s := newStore(t, withQuotas(quotas))
	g := &greedyNetwork{testStore: s, address: netip.MustParseAddr("192.0.2.7"), rng: rand.New(rand.NewPCG(1, 1)), counts: map[string]int{}, shorter: proof.Rounds(20, 1, 1)}
	n := proof.Rounds(10, 10, 50)
	empty := s.fileSize()
	for range n {
		g.join()
	}
	joined := s.fileSize()
	g.collaborate()
	for _, c := range g.agents { // so that fewer can use up the limits of the network
		s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, c.Handle))
	}
	g.write()
	written := s.fileSize()
	if g.counts["posts"] != 100 || g.counts["replies"] != 300 || g.counts["collaborations"] != min(quotas[domain.LimitCollabs]*n, quotas[domain.LimitNetworkCollabs]) {
		t.Errorf("%d agents passed %v", n, g.counts)
	}
	bytes := (joined-empty)/int64(n)*registrationsADay + written - joined
	t.Logf("an agent adds %d bytes, the posts, replies and collaborations of the network %d, in all %d", (joined-empty)/int64(n), written-joined, bytes)
	proof.Figure(t, "greedy agents", n)
	proof.Figure(t, "bytes a day", int(bytes))
}
