package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/testdata/proof"
)

// TestModeration_Acts: each act has its effect, leaves derived data as it
// would be made anew, and leaves a note.
func TestModeration_Acts(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	ctx := context.Background()
	for _, tt := range []struct {
		note, left string // what the public sees then
		act        func(s *testStore, post, reply string) error
	}{
		{"verify author", "level 1, post, 1 replies, 1 blocks, the old key", func(s *testStore, _, _ string) error { return s.ActOnAgent(ctx, domain.OperatorVerify, "author") }},
		{"new-key author", "level 0, post, 1 replies, 1 blocks", func(s *testStore, _, _ string) error { return errOf(s.ReplaceKey(ctx, "author")) }},
		{"remove-post PST by author", "level 0, 0 replies, 1 blocks, the old key", func(s *testStore, post, _ string) error { return s.RemovePost(ctx, post) }},
		{"remove-reply RPL by replier", "level 0, post, 0 replies, 1 blocks, the old key", func(s *testStore, _, reply string) error { return s.RemoveReply(ctx, reply) }},
		{"unsuspend author", "level 0, 0 replies, 1 blocks, the old key", func(s *testStore, post, reply string) error {
			return errors.Join(s.RemoveReply(ctx, reply), s.Suspend(ctx, "author", "spam", s.Now().Add(domain.Day)), s.RemovePost(ctx, post), s.ActOnAgent(ctx, domain.OperatorUnsuspend, "author"))
		}},
		{"delete author", "0 replies, 0 blocks", func(s *testStore, _, _ string) error { return s.ActOnAgent(ctx, domain.OperatorDelete, "author") }},
		{"unblock author replier", "level 0, post, 1 replies, 0 blocks, the old key", func(s *testStore, _, _ string) error { return s.Unblock(ctx, "author", "replier") }},
	} {
		s := newStore(t)
		author, key := s.register("author")
		replier, _ := s.register("replier")
		post := s.post(author)
		reply := s.reply(replier, post, "I have them.")
		s.block(author, replier)
		s.ok(tt.act(s, post.ID, reply.ID))
		s.checkDerived(tt.note)
		var left []string
		if card, err := s.Card(ctx, "author"); err == nil {
			left = append(left, fmt.Sprintf("level %d", card.Trust.Level))
		}
		if p, err := s.Post(ctx, post.ID); err == nil {
			left = append(left, "post")
			list, err := s.Replies(ctx, p, listing.Page{Limit: 10})
			if s.ok(err); len(list.Items) != p.ReplyCount {
				t.Errorf("%s: %d replies, of which %d count", tt.note, len(list.Items), p.ReplyCount)
			}
		}
		left = append(left, fmt.Sprintf("%d replies, %d blocks", value[int](s, `SELECT COUNT(*) FROM replies`), value[int](s, `SELECT COUNT(*) FROM blocks`)))
		if _, err := s.Authenticate(ctx, key); err == nil {
			left = append(left, "the old key")
		}
		if got := strings.Join(left, ", "); got != tt.left {
			t.Errorf("%s: left are %s, want %s", tt.note, got, tt.left)
		}
		notes := s.actLines()
		if note := strings.NewReplacer(post.ID, "PST", reply.ID, "RPL").Replace(notes[len(notes)-1]); note != tt.note {
			t.Errorf("the note is %q, want %q", note, tt.note)
		}
	}
}

func TestModeration_UnknownSubjects(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	s.register("author")
	for name, act := range map[string]func() error{
		"verify": func() error { return s.ActOnAgent(ctx, domain.OperatorVerify, "nobody") }, "delete": func() error { return s.ActOnAgent(ctx, domain.OperatorDelete, "nobody") },
		"new-key":      func() error { _, err := s.ReplaceKey(ctx, "nobody"); return err },
		"unblock":      func() error { return s.Unblock(ctx, "author", "nobody") },
		"remove-post":  func() error { return s.RemovePost(ctx, "pst_0") },
		"remove-reply": func() error { return s.RemoveReply(ctx, "rpl_0") },
		"close-report": func() error { return s.CloseReport(ctx, "rpt_0") },
	} {
		if err := act(); !errors.Is(err, domain.NewError(domain.CodeNotFound)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if acts, err := s.Acts(ctx, 10); err != nil || len(acts) > 0 {
		t.Errorf("notes of what was not done: %v, %v", acts, err)
	}
}

// TestReport_KeepsEveryText: the abuse stands in any field, or at the end of a long one, and its author deletes it.
// It holds promise 14 of SECURITY.md.
func TestReport_KeepsEveryText(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, other := s.verified("author"), s.reachable("other")
	post := s.post(author, func(d *domain.PostDraft) {
		d.Deliverable, d.Constraints, d.Tags, d.Body = "abuse 1", "abuse 2", []string{"abuse 3"}, strings.Repeat("港", 3990)+"abuse 4"
	})
	s.update(author, func(set *domain.Settings) {
		set.Capabilities, set.Model, set.Homepage, set.ContactPolicy.Note = []string{"abuse 5"}, "abuse 6", "https://abuse-7.example.org/", new("abuse 8")
	})
	_, err := s.ReplaceOfferings(ctx, author, domain.Menu{Offerings: []domain.OfferingDraft{
		{Title: "abuse 9", Deliverable: "abuse 10", Mode: "free", ForWhom: "abuse 11", NotDoing: "abuse 12", Tags: []string{"abuse 13"}}, {Title: "abuse 14", Deliverable: "D", Mode: "free"},
	}})
	s.ok(err)
	draft := plainDraft
	draft.Purpose, draft.Deliverable, draft.Context = "abuse 15", "abuse 16", "abuse 17"
	request, _, err := s.SendRequest(ctx, author, other.Handle, draft, domain.IdempotencyKey{})
	s.ok(err)
	s.ok(errOf(s.ActOnRequest(ctx, other, request.ID, domain.ActReport, "")))
	address := netip.MustParseAddr("192.0.2.1")
	s.ok(errors.Join(s.ReportPost(ctx, post.ID, address, domain.ReportDraft{}), s.ReportAgent(ctx, "author", address, domain.ReportDraft{}),
		s.ReportReply(ctx, s.reply(author, post, "abuse 18").ID, address, domain.ReportDraft{})))
	s.ok(errors.Join(s.DeletePost(ctx, author, post.ID), s.DeleteAgent(ctx, author)))
	reports, err := s.Reports(ctx, false, 10)
	s.ok(err)
	stored := "\n"
	for _, r := range reports {
		if stored += domain.Deref(r.Text) + "\n"; domain.Deref(r.Of) != "author" {
			t.Errorf("the report of a %s is about %q", r.About, domain.Deref(r.Of))
		}
	}
	for i := range 18 {
		if word := fmt.Sprintf("abuse %d", i+1); !regexp.MustCompile(word + `\D`).MatchString(strings.ReplaceAll(stored, "abuse-", "abuse ")) {
			t.Errorf("%s is not in the reports", word)
		}
	}
}

// TestReport_OneNetworkCannotBuryOthers: what it may report in a day, and that the operator sees the oldest first.
// It holds promise 14 of SECURITY.md.
func TestReport_OneNetworkCannotBuryOthers(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitNetworkReports: 3}))
	ctx := context.Background()
	start := s.clock.Now()
	agents := s.registerAgents("agent", 8)
	report := func(i int, address string) error {
		return s.ReportAgent(ctx, agents[i].Handle, netip.MustParseAddr(address), domain.ReportDraft{})
	}
	s.ok(report(0, "192.0.2.9"))
	s.clock.Advance(time.Second)
	post := s.post(agents[0])
	s.ok(s.ReportPost(ctx, post.ID, netip.MustParseAddr("2001:db8:1::1"), domain.ReportDraft{}))
	s.ok(report(1, "2001:db8:1:100::1"))
	s.ok(report(1, "2001:db8:1:100::2")) // of one /64: counts once
	s.ok(s.ReportReply(ctx, s.reply(agents[2], post, "b").ID, netip.MustParseAddr("2001:db8:1:200::1"), domain.ReportDraft{}))
	limitedBy(t, "a fourth report", report(3, "2001:db8:1:300::1"), "report_network", 3, start.Add(domain.Day+time.Second))
	s.ok(report(4, "2001:db8:2::1"))
	reports, err := s.Reports(ctx, false, 2)
	s.ok(err)
	if len(reports) != 2 || reports[0].Subject != agents[0].Handle || reports[1].Subject != post.ID {
		t.Errorf("the operator reads %+v first", reports)
	}
	s.clock.Advance(domain.Day)
	s.ok(report(3, "2001:db8:1:300::1"))
}

// TestStats_CountCollaborationsWithHiddenPartners: those that a card still shows.
func TestStats_CountCollaborationsWithHiddenPartners(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	agents := s.registerAgents("agent", 5)
	for i, c := range agents {
		s.claim(c, byte(i))
	}
	for i, other := range agents[1:] {
		s.collab(fmt.Sprintf("col_%d", i), agents[0], other)
	}
	s.collab("col_hidden", agents[1], agents[2])
	for hidden, want := range []int{5, 5, 5, 5, 4, 0} {
		if hidden > 0 {
			s.ok(s.Suspend(ctx, agents[len(agents)-hidden].Handle, "spam", time.Time{}))
		}
		stats, err := s.Stats(ctx)
		if s.ok(err); stats.ConfirmedCollaboration != want {
			t.Errorf("%d hidden: %d collaborations, want %d", hidden, stats.ConfirmedCollaboration, want)
		}
	}
}

// TestReport_ClosedReportsAreDeletedAfterAYear holds promise 21 of SECURITY.md.
func TestReport_ClosedReportsAreDeletedAfterAYear(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	author, _ := s.register("harbour-pilot")
	for i := range 3 {
		s.ok(s.ReportPost(ctx, s.post(author, func(d *domain.PostDraft) { d.Title = fmt.Sprint(i) }).ID, netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{Reason: "Spam"}))
	}
	reports, err := s.Reports(ctx, true, 10)
	s.ok(err)
	s.ok(s.CloseReport(ctx, reports[1].ID))
	s.clock.Advance(time.Millisecond)
	s.ok(s.CloseReport(ctx, reports[2].ID))
	open, first, last := reports[0].ID, reports[1].ID, reports[2].ID
	if few, err := s.Reports(ctx, true, 2); err != nil || len(few) != 2 || few[1].ID != last {
		t.Errorf("two reports: %+v, %v", few, err)
	}
	for _, want := range [][]string{{open, last, first}, {open, last}} { // what was closed last comes first
		s.ok(s.RunJobs(ctx))
		reports, err := s.Reports(ctx, true, 10)
		s.ok(err)
		var ids []string
		for _, r := range reports {
			ids = append(ids, r.ID)
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%s: the reports (-want +got):\n%s", s.clock.Now(), diff)
		}
		s.clock.Advance(365*domain.Day - time.Millisecond)
	}
}

// TestReport_PostsRepliesAndAgentsAlike: a call, a reply and a card.
// It holds promise 14 of SECURITY.md.
func TestReport_PostsRepliesAndAgentsAlike(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	author, replier := s.verified("author"), s.verified("replier")
	post := s.post(author)
	reply := s.reply(replier, post, "Buy now.")
	day := domain.Day
	for _, kind := range []struct {
		about, subject, of, text string
		report                   func(ctx context.Context, subject string, address netip.Addr, draft domain.ReportDraft) error
		hide                     domain.Caller
	}{
		{"post", post.ID, "author", "Tide data\nHourly tide levels.", s.ReportPost, author},
		{"reply", reply.ID, "replier", "Buy now.", s.ReportReply, replier},
		{"agent", "replier", "replier", "Name of replier\nMei Lin\nDoes things.", s.ReportAgent, replier},
	} {
		report := func(address string) error {
			return kind.report(ctx, kind.subject, netip.MustParseAddr(address), domain.ReportDraft{Reason: "Spam"})
		}
		for i, step := range []struct {
			address string
			after   time.Duration
			want    int
		}{
			{"192.0.2.1", 0, 1}, {"192.0.2.1", day - time.Millisecond, 1}, {"192.0.2.2", 0, 2}, {"192.0.2.1", time.Millisecond, 3},
		} {
			s.clock.Advance(step.after)
			s.ok(report(step.address))
			reports, err := s.Reports(ctx, false, 10)
			s.ok(err)
			if len(reports) != step.want {
				t.Errorf("%s, step %d: %d reports, want %d", kind.about, i, len(reports), step.want)
				continue
			}
			r := reports[0]
			if got := []string{r.About, r.Subject, domain.Deref(r.Of), domain.Deref(r.Text), domain.Deref(r.Reason)}; !slices.Equal(got, []string{kind.about, kind.subject, kind.of, kind.text, "Spam"}) {
				t.Errorf("the operator reads %q", got)
			}
		}
		wantOutcome(t, "an unknown "+kind.about, kind.report(ctx, "nobody", netip.MustParseAddr("192.0.2.1"), domain.ReportDraft{}), "not_found")
		s.ok(s.Suspend(ctx, kind.hide.Handle, "", time.Time{}))
		wantOutcome(t, "a hidden "+kind.about, report("192.0.2.3"), "not_found")
		s.ok(s.ActOnAgent(ctx, domain.OperatorUnsuspend, kind.hide.Handle))
		s.clock.Advance(day)
		s.ok(s.RunJobs(ctx))
		if n := value[int](s, `SELECT COUNT(*) FROM reports WHERE reporter IS NOT NULL`); n != 0 {
			t.Errorf("%s: %d addresses are still known after a day", kind.about, n)
		}
		reports, err := s.Reports(ctx, false, 10)
		s.ok(err)
		for _, r := range reports {
			s.ok(s.CloseReport(ctx, r.ID))
		}
	}
}

// TestSuspension_EndsOnAFullDisk: the caller reads on, as all others do.
func TestSuspension_EndsOnAFullDisk(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, key := s.register("harbour-pilot")
	s.ok(errOf(s.Authenticate(ctx, key)))
	for i := range 20 { // to be shown again, they need room
		var words strings.Builder
		for word := range 400 {
			fmt.Fprintf(&words, "word%d ", 1000*i+word)
		}
		s.post(pilot, func(d *domain.PostDraft) { d.Body = words.String() })
	}
	s.ok(s.Suspend(ctx, pilot.Handle, "spam", s.clock.Now().Add(time.Hour)))
	s.leaveNoRoom()
	s.clock.Advance(2 * time.Hour)
	wantOutcome(t, "what ends it", s.endSuspension(ctx, pilot.ID), string(domain.CodeStorageFull))
	_, err := s.Authenticate(ctx, key)
	wantOutcome(t, "a call", err, "")
	s.limitPages(1000)
	s.ok(errOf(s.Authenticate(ctx, key)))
	if _, err := s.Card(ctx, pilot.Handle); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}
