package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// registerSpamWave registers n agents from one network, each with a post that is reported.
func (s *testStore) registerSpamWave(prefix string, n int) (handles []string) {
	s.Helper()
	for i := range n {
		c, _ := s.register(fmt.Sprintf("%s-%d", prefix, i), func(r *domain.Registration) {
			r.From = netip.MustParseAddr(fmt.Sprintf("2001:db8:7:%x::1", i))
		})
		post := s.post(c, func(d *domain.PostDraft) { d.Title = "Casino" })
		reporter := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		s.ok(s.ReportPost(context.Background(), post.ID, reporter, domain.ReportDraft{}))
		handles = append(handles, c.Handle)
	}
	return handles
}

// TestOperator_ActsOnManyAgents: an act on many leaves what the same act on each leaves.
func TestOperator_ActsOnManyAgents(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	ctx := context.Background()
	const n = 45 // more than two transactions
	for _, tt := range []struct {
		name        string
		mode        domain.RegistrationMode
		bulk        domain.BulkAct
		note        string
		found, left int // agents that the public sees, reports that are open
		posts       int // and reports, of the result
	}{
		{"suspend", "", domain.BulkAct{Act: domain.OperatorSuspend, Reason: "spam"}, "suspend %s spam; reports closed: 1", 1, 1, n},
		{"delete", "", domain.BulkAct{Act: domain.OperatorDelete}, "delete %s reports closed: 1", 1, 1, n},
		{"dry run", "", domain.BulkAct{Act: domain.OperatorDelete, DryRun: true}, "", n + 1, n + 1, n},
		{"approve those that do not wait", "", domain.BulkAct{Act: domain.OperatorApprove}, "", n + 1, n + 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			handles := s.registerSpamWave("spam", n)
			s.registerSpamWave("other", 1)
			tt.bulk.Handles = append(append([]string{"nobody"}, handles...), handles[0])
			result, err := s.ActOnAgents(ctx, tt.bulk)
			s.ok(err)
			want := domain.BulkResult{Posts: tt.posts, Reports: tt.posts}
			var notes []string
			if tt.posts == 0 {
				want.Rejected = append([]string{"nobody"}, handles...)
			} else {
				want.Rejected, want.Agents = []string{"nobody"}, handles
			}
			for _, handle := range handles {
				if tt.note != "" {
					notes = append(notes, fmt.Sprintf(tt.note, handle))
				}
			}
			sorted := cmp.Transformer("set", func(list []string) map[string]int {
				set := map[string]int{}
				for _, e := range list {
					set[e]++
				}
				return set
			})
			if diff := cmp.Diff(want, result, sorted); diff != "" {
				t.Errorf("the result: %s", diff)
			}
			if diff := cmp.Diff(notes, s.actLines(), sorted); diff != "" {
				t.Errorf("the notes: %s", diff)
			}
			if found := value[int](s, `SELECT COUNT(*) FROM agents WHERE hidden = 0`); found != tt.found {
				t.Errorf("the public sees %d agents, want %d", found, tt.found)
			}
			if left := value[int](s, `SELECT COUNT(*) FROM reports WHERE closed_at IS NULL`); left != tt.left {
				t.Errorf("%d reports are open, want %d", left, tt.left)
			}
			s.checkDerived(tt.name)
		})
	}
}

func TestOperator_RejectsAnActBeforeItBegins(t *testing.T) {
	s := newStore(t)
	handles := s.registerSpamWave("spam", 1)
	for name, bulk := range map[string]domain.BulkAct{
		"reason":  {Act: domain.OperatorSuspend, Reason: strings.Repeat("x", 301)},
		"newline": {Act: domain.OperatorSuspend, Reason: "a\nb"},
		"end":     {Act: domain.OperatorSuspend, Until: s.Now()},
	} {
		bulk.Handles = handles
		_, err := s.ActOnAgents(context.Background(), bulk)
		wantOutcome(t, name, err, "validation_failed")
	}
	if len(s.actLines()) > 0 {
		t.Errorf("notes: %q", s.actLines())
	}
}

// TestOperator_RemovalsCloseTheirReports: what a report is about is settled by its removal.
func TestOperator_RemovalsCloseTheirReports(t *testing.T) {
	ctx := context.Background()
	for name, act := range map[string]func(s *testStore, post domain.PublicPost, reply domain.Reply) error{
		"post reply": func(s *testStore, p domain.PublicPost, _ domain.Reply) error { return s.RemovePost(ctx, p.ID) },
		"reply":      func(s *testStore, _ domain.PublicPost, r domain.Reply) error { return s.RemoveReply(ctx, r.ID) },
		"agent post request": func(s *testStore, _ domain.PublicPost, _ domain.Reply) error {
			return s.Suspend(ctx, "author", "", time.Time{})
		},
		"request post agent": func(s *testStore, _ domain.PublicPost, _ domain.Reply) error {
			return s.ActOnAgent(ctx, domain.OperatorDelete, "author")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			author, other := s.reachable("author"), s.reachable("other")
			post := s.post(author)
			reply := s.reply(other, post, "Casino")
			s.ok(errOf(s.ActOnRequest(ctx, other, s.sendRequest(author, other).ID, domain.ActReport, "")))
			for _, err := range []error{
				s.ReportPost(ctx, post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}), s.ReportReply(ctx, reply.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}),
				s.ReportAgent(ctx, "author", netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}), s.ReportAgent(ctx, "other", netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}),
			} {
				s.ok(err)
			}
			s.ok(act(s, post, reply))
			var closed []string
			s.ok(s.db.Select(ctx, &closed, ofTest+`SELECT about FROM reports WHERE closed_at IS NOT NULL`))
			if got := strings.Join(closed, " "); len(closed) != len(strings.Fields(name)) {
				t.Errorf("closed: %s", got)
			}
			if notes := s.actLines(); !strings.HasSuffix(notes[len(notes)-1], fmt.Sprintf("reports closed: %d", len(closed))) {
				t.Errorf("the notes: %q", notes)
			}
			if strings.HasPrefix(name, "agent") { // suspended
				s.ok(s.ActOnAgent(ctx, domain.OperatorUnsuspend, "author"))
				if open := value[int](s, `SELECT COUNT(*) FROM reports WHERE closed_at IS NULL`); open != 4+1-len(closed) {
					t.Errorf("%d open reports once the suspension has ended", open)
				}
			}
			for _, about := range closed {
				if !strings.Contains(name, about) {
					t.Errorf("closed: %s", about)
				}
			}
		})
	}
}

// TestOperator_FindsASpamWave by each filter, and by its origin.
func TestOperator_FindsASpamWave(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	s.register("old", func(r *domain.Registration) { r.From = netip.MustParseAddr("2001:db8:7:ff::1") })
	s.clock.Advance(domain.Day)
	since := domain.TimeOf(s.Now())
	s.registerSpamWave("spam", 3)
	honest, _ := s.register("honest", func(r *domain.Registration) { r.From = netip.MustParseAddr("192.0.2.1") })
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, "honest"))
	s.post(honest, func(d *domain.PostDraft) { d.Title = "First" })
	s.post(honest, func(d *domain.PostDraft) { d.Title = "Last" })
	s.register("100%", func(r *domain.Registration) { r.Handle = "percent"; r.Name = "100% sure" })
	s.ok(s.Suspend(ctx, "spam-0", "Casino", time.Time{}))
	s.ok(s.Suspend(ctx, "percent", "", s.Now().Add(time.Hour)))
	s.ok(s.Suspend(ctx, "old", "", s.Now().Add(time.Millisecond)))
	s.clock.Advance(time.Millisecond)
	zero := 0
	all, err := s.AgentRecords(ctx, domain.AgentRecordFilter{}, 10)
	s.ok(err)
	var origin string
	for _, a := range all {
		if (a.Handle == "percent") != (a.Network == "") {
			t.Errorf("%s has the network %q", a.Handle, a.Network)
		}
		if a.Handle == "spam-1" {
			origin = a.Network
		}
	}
	for _, tt := range []struct {
		name   string
		filter domain.AgentRecordFilter
		want   string
	}{
		{"all", domain.AgentRecordFilter{}, "percent honest spam-2 spam-1 spam-0 old"},
		{"query", domain.AgentRecordFilter{Query: "SPAM-"}, "spam-2 spam-1 spam-0"},
		{"a mailbox", domain.AgentRecordFilter{Query: "old@agents"}, "old"},
		{"query with a percent sign", domain.AgentRecordFilter{Query: "0%"}, "percent"},
		{"since", domain.AgentRecordFilter{Since: since, Query: "a"}, "percent honest spam-2 spam-1 spam-0"},
		{"level", domain.AgentRecordFilter{MaxLevel: &zero}, "percent spam-2 spam-1 spam-0 old"},
		{"reported", domain.AgentRecordFilter{Reported: true}, "spam-2 spam-1"},
		{"awaiting", domain.AgentRecordFilter{Awaiting: true}, ""},
		{"suspended", domain.AgentRecordFilter{Suspended: true}, "percent spam-0"},
		{"most reported", domain.AgentRecordFilter{Order: domain.MostReported}, "spam-2 spam-1 percent honest spam-0 old"},
		{"by network", domain.AgentRecordFilter{Order: domain.ByNetwork}, "spam-2 spam-1 spam-0 old honest percent"},
		{"shown", domain.AgentRecordFilter{Shown: true}, "honest spam-2 spam-1 old"},
		{"network, in all its /64", domain.AgentRecordFilter{Network: origin[:12]}, "spam-2 spam-1 spam-0 old"},
		{"network of an address", domain.AgentRecordFilter{Network: "2001:db8:7:ee::2"}, "spam-2 spam-1 spam-0 old"},
		{"network of another address", domain.AgentRecordFilter{Network: "2001:db8:8::2"}, ""},
	} {
		found, err := s.AgentRecords(ctx, tt.filter, 10)
		s.ok(err)
		var handles []string
		for _, a := range found {
			handles = append(handles, a.Handle)
		}
		if got := strings.Join(handles, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if honest := all[1]; honest.Title != "Last" {
		t.Errorf("the title of the newest post is %q", honest.Title)
	}
	if a := all[4]; a.Handle != "spam-0" || a.State != "suspended" || domain.Deref(a.Reason) != "Casino" || a.Until != nil || a.Posts != 1 || a.Reports != 0 {
		t.Errorf("%+v", a)
	}
	// The origin of an agent is forgotten.
	s.clock.Advance(domain.NetworkRetention - domain.Day)
	s.ok(s.RunJobs(ctx))
	left := value[string](s, `SELECT GROUP_CONCAT(h.handle) FROM agents a JOIN handles h ON h.id = a.id WHERE a.network IS NOT NULL`)
	if left != "spam-0,spam-1,spam-2,honest" {
		t.Errorf("networks of %s are stored", left)
	}
}

// TestRegistration_RepeatsBeforeTheMode: a lost response can be repeated whatever the mode is now.
func TestRegistration_RepeatsBeforeTheMode(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, func(o *Options) { o.Registration = domain.RegistrationInvite })
	secret, invite, err := s.CreateInvite(ctx, 1, s.Now().Add(time.Hour))
	s.ok(err)
	draft := registration("harbour-pilot")
	draft.Invite = secret
	once := domain.NewIdempotencyKey("registerAgent", onceKey, "")
	for _, again := range []bool{false, true} {
		got, replayed, err := s.Register(ctx, draft, once)
		if s.ok(err); replayed != again || got.Key == "" {
			t.Errorf("%v, key %q", replayed, got.Key)
		}
	}
	draft.Handle = "another"
	_, _, err = s.Register(ctx, draft, domain.IdempotencyKey{})
	wantOutcome(t, "a second agent", err, "invite_required")
	invites, err := s.Invites(ctx)
	if s.ok(err); len(invites) != 1 || invites[0].ID != invite.ID || invites[0].Used != 1 || strings.Contains(fmt.Sprintf("%+v", invites), secret) {
		t.Errorf("%+v", invites)
	}
	s.clock.Advance(time.Hour + domain.InviteRetention)
	s.ok(s.RunJobs(ctx))
	if invites, err = s.Invites(ctx); err != nil || len(invites) > 0 {
		t.Errorf("%+v, %v", invites, err)
	}
	s.stop()
	closed := openStore(t, Options{Path: s.path, Clock: s.clock.Now, Registration: domain.RegistrationClosed})
	defer closed.Close()
	_, _, err = closed.Register(ctx, draft, domain.IdempotencyKey{})
	wantOutcome(t, "a closed site", err, "registration_closed")
}

func TestInvites_HaveLimits(t *testing.T) {
	s := newStore(t)
	for name, create := range map[string]func() error{
		"no use":        func() error { _, _, err := s.CreateInvite(context.Background(), 0, s.Now().Add(time.Hour)); return err },
		"too many uses": func() error { return errOf3(s.CreateInvite(context.Background(), 100_001, s.Now().Add(time.Hour))) },
		"past":          func() error { _, _, err := s.CreateInvite(context.Background(), 1, s.Now()); return err },
	} {
		wantOutcome(t, name, create(), "validation_failed")
	}
	wantOutcome(t, "unknown", s.RevokeInvite(context.Background(), "inv_01234567"), "not_found")
}

func TestInvites_ConcurrentRegistrationsKeepTheLimit(t *testing.T) {
	s := newStore(t, func(o *Options) { o.Registration = domain.RegistrationInvite })
	secret, _, err := s.CreateInvite(context.Background(), 3, s.Now().Add(time.Hour))
	s.ok(err)
	wantOutcomes(t, "registrations", testkit.Together(rush, func(i int) error {
		draft := registration(fmt.Sprintf("agent-%d", i))
		draft.Invite = secret
		return errOf3(s.Register(context.Background(), draft, domain.IdempotencyKey{}))
	}), map[string]int{"": 3, "invite_required": rush - 3})
}

// TestPageLinks_EndAfterTwelveHours: a link ends by itself, whatever links there are beside it, or with all others.
func TestPageLinks_EndAfterTwelveHours(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	first, err := s.CreatePageLink(ctx)
	s.ok(err)
	if len(first) < 43 || value[int](s, `SELECT COUNT(*) FROM operator_links WHERE token_hash = ?`, domain.HashKey(first)) != 1 {
		t.Errorf("the token %q, of which the SHA-256 is not stored", first)
	}
	s.clock.Advance(12*time.Hour - time.Millisecond)
	second, err := s.CreatePageLink(ctx)
	s.ok(errors.Join(err, s.CheckPageLink(ctx, first), s.CheckPageLink(ctx, second)))
	s.clock.Advance(time.Millisecond)
	for _, token := range []string{first, "", second + "x", second[:42]} {
		wantOutcome(t, token, s.CheckPageLink(ctx, token), "not_found")
	}
	s.ok(errors.Join(s.CheckPageLink(ctx, second), s.RunJobs(ctx), s.CheckPageLink(ctx, second)))
	if left := value[int](s, `SELECT COUNT(*) FROM operator_links`); left != 1 {
		t.Errorf("%d links are stored", left)
	}
	s.ok(s.RevokePageLinks(ctx))
	wantOutcome(t, "revoked", s.CheckPageLink(ctx, second), "not_found")
	want := []string{"page until 2026-11-20T21:30:00Z", "page until 2026-11-21T09:29:59Z", "page earlier links revoked"}
	if diff := cmp.Diff(want, s.actLines()); diff != "" {
		t.Errorf("the notes: %s", diff)
	}
}

func TestCountByDay_CountsTheLastDays(t *testing.T) {
	s := newStore(t)
	for _, step := range []time.Duration{domain.Day, 28 * domain.Day, 14 * time.Hour} { // to 2026-12-19T23:30
		c, _ := s.register(fmt.Sprintf("a%d", step))
		s.post(c)
		s.post(c)
		s.ok(errors.Join(s.AddAbuse(context.Background(), 1), s.AddAbuse(context.Background(), 0), s.AddAbuse(context.Background(), 2)))
		s.clock.Advance(step)
	}
	s.register("today")
	for kind, want := range map[domain.Counted][]int{
		domain.CountedAgents:   {1, 1, 2},
		domain.CountedPosts:    {2, 2, 2},
		domain.CountedRequests: {0, 0, 0},
		domain.CountedAbuse:    {3, 3, 3},
	} {
		first, counts, err := s.CountByDay(context.Background(), kind, 30)
		s.ok(err)
		want = append(append(slices.Clone(want[:2]), make([]int, 27)...), want[2])
		if diff := cmp.Diff(want, counts); diff != "" || first.Date() != "2026-11-20" {
			t.Errorf("%d from %s: %s", kind, first, diff)
		}
	}
	for _, left := range []int{3, 2} { // days in the charts of the last minute of the thirtieth day, and after it
		s.ok(s.RunJobs(context.Background()))
		if n := value[int](s, `SELECT COUNT(*) FROM abuse_days`); n != left {
			t.Errorf("%d days are stored, want %d", n, left)
		}
		s.clock.Advance(time.Hour)
	}
}

// TestOperator_ReportsStayWithTheAuthor: who deletes a text that was reported is listed all the same, until the operator
// acts on the agent.
func TestOperator_ReportsStayWithTheAuthor(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	author := s.reachable("author")
	post := s.post(author)
	s.ok(s.ReportPost(ctx, post.ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}))
	s.ok(s.DeletePost(ctx, author, post.ID))
	for _, want := range []int{1, 0} {
		agents, err := s.AgentRecords(ctx, domain.AgentRecordFilter{Reported: true}, 10)
		if s.ok(err); len(agents) != want || want > 0 && agents[0].Reports != 1 {
			t.Errorf("%+v, want %d agents", agents, want)
		}
		s.ok(s.Suspend(ctx, "author", "", time.Time{}))
	}
}
