package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/listing"
	"callbook/store/text"
	"callbook/testdata/proof"
)

func (s *testStore) propose(c domain.Caller, partner string, change ...func(*domain.CollabDraft)) (domain.Collab, error) {
	d := domain.CollabDraft{Partner: partner, Summary: "Tide tables of Skagen"}
	for _, f := range change {
		f(&d)
	}
	collab, _, err := s.RecordCollab(context.Background(), c, d, domain.IdempotencyKey{})
	return collab, err
}

// record records a collaboration that waits for its partner.
func (s *testStore) record(initiator, partner domain.Caller) domain.Collab {
	s.Helper()
	collab, err := s.propose(initiator, partner.Handle)
	s.ok(err)
	return collab
}

// decisions are the partner's two answers, and the state that each leads to.
func (s *testStore) decisions() map[string]func(domain.Caller, string) (domain.Collab, error) {
	return map[string]func(domain.Caller, string) (domain.Collab, error){
		"confirmed": func(c domain.Caller, id string) (domain.Collab, error) {
			return s.ConfirmCollab(context.Background(), c, id)
		},
		"declined": func(c domain.Caller, id string) (domain.Collab, error) {
			return s.DeclineCollab(context.Background(), c, id)
		},
	}
}

func TestCollab_Fields(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	a, b := s.reachable("agent-a"), s.reachable("agent-b")
	s.claim(b, 2)
	post, request := s.post(b), s.ask(b, a)
	now := domain.TimeOf(s.clock.Now())
	got, err := s.propose(a, "agent-b", func(d *domain.CollabDraft) { d.PostID, d.RequestID, d.Summary = post.ID, request.ID, "Two\nlines" })
	s.ok(err)
	party := func(handle string, level int) domain.Party {
		name := "Name of " + handle
		return domain.Party{Handle: handle, Name: &name, Level: &level}
	}
	postID := value[string](s, `SELECT id FROM posts`)
	want := domain.Collab{
		ID: got.ID, Status: "pending", Initiator: party("agent-a", 1), Partner: party("agent-b", 2),
		Summary: "Two\nlines", PostID: &postID, RequestID: &request.ID, CreatedAt: now,
	}
	if diff := cmp.Diff(want, got); diff != "" || !strings.HasPrefix(got.ID, "col_") {
		t.Errorf("recorded (-want +got): %s", diff)
	}
	s.clock.Advance(time.Hour)
	decided := domain.TimeOf(s.clock.Now())
	want.Status, want.DecidedAt = "confirmed", &decided
	got, err = s.ConfirmCollab(ctx, b, got.ID)
	if s.ok(err); !cmp.Equal(want, got) {
		t.Errorf("confirmed (-want +got): %s", cmp.Diff(want, got))
	}
	s.claim(a, 1)
	want.Initiator, want.CountsAsEvidence = party("agent-a", 2), true
	list, err := s.Collabs(ctx, "agent-a", listing.Page{Limit: 10})
	if s.ok(err); !cmp.Equal([]domain.Collab{want}, list.Items) {
		t.Errorf("listed (-want +got): %s", cmp.Diff([]domain.Collab{want}, list.Items))
	}
	// What it came from may go.
	s.ok(s.DeletePost(ctx, b, post.ID))
	s.ok(s.DeleteAgent(ctx, a))
	want.Initiator, want.CountsAsEvidence = domain.Party{Handle: "agent-a"}, false
	list, err = s.OwnCollabs(ctx, b, "", listing.Page{Limit: 10})
	if s.ok(err); !cmp.Equal([]domain.Collab{want}, list.Items) {
		t.Errorf("with its initiator gone (-want +got): %s", cmp.Diff([]domain.Collab{want}, list.Items))
	}
}

// TestCollab_PartnerDecides walks every act by everybody in every state.
func TestCollab_PartnerDecides(t *testing.T) {
	proof.OneByOne(t)
	for state, want := range map[string]map[string]string{
		"pending":   {"confirmed": "confirmed", "declined": "declined"},
		"confirmed": {"confirmed": "confirmed", "declined": "invalid_state"},
		"declined":  {"confirmed": "invalid_state", "declined": "declined"},
	} {
		for act, want := range want {
			for who, want := range map[string]string{"initiator": "forbidden", "partner": want, "stranger": "not_found"} {
				s := newStore(t)
				parties := map[string]domain.Caller{"initiator": s.verified("initiator"), "partner": s.verified("partner"), "stranger": s.verified("stranger")}
				collab := s.record(parties["initiator"], parties["partner"])
				if set := s.decisions()[state]; set != nil {
					_, err := set(parties["partner"], collab.ID)
					s.ok(err)
				}
				before := s.dump()
				s.clock.Advance(time.Second)
				answer, err := s.decisions()[act](parties[who], collab.ID)
				got := outcome(err)
				if err == nil {
					got = answer.Status
				}
				what := fmt.Sprintf("%s, %s by the %s", state, act, who)
				if got != want {
					t.Errorf("%s: %s, want %s", what, got, want)
				}
				if got == state || err != nil {
					s.wantUnchanged(what, before)
				}
			}
		}
	}
}

func TestCollab_Events(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		do                 func(s *testStore, a, b domain.Caller, id string)
		initiator, partner string
	}{
		"recorded":  {func(*testStore, domain.Caller, domain.Caller, string) {}, "", ""},
		"confirmed": {func(s *testStore, _, b domain.Caller, id string) { _, err := s.ConfirmCollab(ctx, b, id); s.ok(err) }, "collab.confirmed agent-b\n", ""},
		"declined":  {func(s *testStore, _, b domain.Caller, id string) { _, err := s.DeclineCollab(ctx, b, id); s.ok(err) }, "collab.declined agent-b\n", ""},
		"confirmed twice": {func(s *testStore, _, b domain.Caller, id string) {
			for range 2 {
				_, err := s.ConfirmCollab(ctx, b, id)
				s.ok(err)
			}
		}, "collab.confirmed agent-b\n", ""},
		"the partner is deleted":   {func(s *testStore, _, b domain.Caller, _ string) { s.ok(s.DeleteAgent(ctx, b)) }, "collab.declined agent-b\n", "gone"},
		"the initiator is deleted": {func(s *testStore, a, _ domain.Caller, _ string) { s.ok(s.DeleteAgent(ctx, a)) }, "gone", "collab.declined agent-a\n"},
	} {
		s := newStore(t)
		a, _ := s.register("agent-a")
		b, _ := s.register("agent-b")
		tt.do(s, a, b, s.record(a, b).ID)
		for c, want := range map[domain.Caller]string{a: tt.initiator, b: "collab.received agent-a\n" + tt.partner} {
			if strings.HasSuffix(want, "gone") {
				continue
			}
			if got := s.story(c); got != want {
				t.Errorf("%s: %s heard %q, want %q", name, c.Handle, got, want)
			}
		}
	}
}

// TestRecordCollab_Errors holds each refusal, and that it leaves nothing.
func TestRecordCollab_Errors(t *testing.T) {
	proof.OneByOne(t)
	ctx := context.Background()
	type rule struct {
		set  func(s *testStore, a, b domain.Caller, d *domain.CollabDraft)
		want string
	}
	cooldown := "cooldown collab, retry after 720h0m0s"
	for name, tt := range map[string]rule{
		"an unknown partner": {func(_ *testStore, _, _ domain.Caller, d *domain.CollabDraft) { d.Partner = "nobody-here" }, "validation_failed [{partner unknown_id partner}]"},
		"oneself":            {func(_ *testStore, a, _ domain.Caller, d *domain.CollabDraft) { d.Partner = a.Handle }, "validation_failed [{partner bad_value partner}]"},
		"a deleted partner":  {func(s *testStore, _, b domain.Caller, _ *domain.CollabDraft) { s.ok(s.DeleteAgent(ctx, b)) }, "validation_failed [{partner unknown_id partner}]"},
		"a suspended partner": {func(s *testStore, _, b domain.Caller, _ *domain.CollabDraft) {
			s.change([]domain.Caller{b}, `UPDATE agents SET suspended_at = 1 WHERE id = ?`, b.ID)
		}, "validation_failed [{partner unknown_id partner}]"},
		"an unknown call":    {func(_ *testStore, _, _ domain.Caller, d *domain.CollabDraft) { d.PostID = "pst_unknown" }, "validation_failed [{post_id unknown_id post}]"},
		"the partner's call": {func(s *testStore, _, b domain.Caller, d *domain.CollabDraft) { d.PostID = s.post(b).ID }, ""},
		"one's own call":     {func(s *testStore, a, _ domain.Caller, d *domain.CollabDraft) { d.PostID = s.post(a).ID }, ""},
		"another's call": {func(s *testStore, _, _ domain.Caller, d *domain.CollabDraft) {
			d.PostID = s.post(s.verified("other")).ID
		}, "validation_failed [{post_id unknown_id post}]"},
		"an unknown request": {func(_ *testStore, _, _ domain.Caller, d *domain.CollabDraft) { d.RequestID = "req_unknown" }, "validation_failed [{request_id unknown_id request}]"},
		"both unknown": {func(_ *testStore, _, _ domain.Caller, d *domain.CollabDraft) { d.PostID, d.RequestID = "x", "x" },
			"validation_failed [{post_id unknown_id post} {request_id unknown_id request}]"},
		"a request between them": {func(s *testStore, a, b domain.Caller, d *domain.CollabDraft) { d.RequestID = s.ask(a, b).ID }, ""},
		"a request in return":    {func(s *testStore, a, b domain.Caller, d *domain.CollabDraft) { d.RequestID = s.ask(b, a).ID }, ""},
		"a request with another": {func(s *testStore, a, _ domain.Caller, d *domain.CollabDraft) {
			d.RequestID = s.ask(a, s.reachable("other")).ID
		}, "validation_failed [{request_id unknown_id request}]"},
		"a request among others": {func(s *testStore, _, b domain.Caller, d *domain.CollabDraft) {
			d.RequestID = s.ask(s.reachable("other"), b).ID
		}, "validation_failed [{request_id unknown_id request}]"},
		"blocked by the partner": {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.block(b, a) }, "not_accepting collab"},
		"the partner is blocked": {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.block(a, b) }, ""},
		"one waits already":      {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.record(a, b) }, "duplicate collab"},
		"one waits in return":    {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.record(b, a) }, ""},
		"one was confirmed":      {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.settled(a, b, "confirmed") }, ""},
		"one was declined":       {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.settled(a, b, "declined") }, cooldown},
		"declined in return":     {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.settled(b, a, "declined") }, ""},
		"by another, declined": {func(s *testStore, _, b domain.Caller, _ *domain.CollabDraft) {
			s.settled(s.verified("other"), b, "declined")
		}, ""},
		"four wait": {func(s *testStore, a, _ domain.Caller, _ *domain.CollabDraft) { s.waiting(a, 4) }, ""},
		"five wait": {func(s *testStore, a, _ domain.Caller, _ *domain.CollabDraft) { s.waiting(a, 5) }, "sender_limit_reached collab 5, retry after 24h0m0s"},
		"not verified, any level": {func(s *testStore, a, _ domain.Caller, _ *domain.CollabDraft) {
			s.update(a, func(set *domain.Settings) { set.Mailbox = "new@x.example.org" })
		}, ""},
		"blocked and declined": {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) {
			s.settled(a, b, "declined")
			s.block(b, a)
		}, "not_accepting collab"},
		"waits, and five wait": {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) { s.record(a, b); s.waiting(a, 4) }, "duplicate collab"},
		"declined, and five wait": {func(s *testStore, a, b domain.Caller, _ *domain.CollabDraft) {
			s.settled(a, b, "declined")
			s.waiting(a, 5)
		}, cooldown},
	} {
		s := newStore(t)
		a, b := s.reachable("agent-a"), s.reachable("agent-b")
		draft := domain.CollabDraft{Partner: b.Handle, Summary: "s"}
		tt.set(s, a, b, &draft)
		before := s.dump()
		_, _, err := s.RecordCollab(ctx, a, draft, domain.NewIdempotencyKey("createCollab", onceKey, name))
		if got := said(err, s.clock.Now()); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if err != nil {
			s.wantUnchanged(name, before)
		}
		if tt.want == cooldown {
			s.clock.Advance(30*domain.Day - time.Millisecond)
			_, err := s.propose(a, b.Handle)
			wantOutcome(t, name+", just before a month is over", err, "cooldown")
			s.clock.Advance(time.Millisecond)
			_, err = s.propose(a, b.Handle)
			wantOutcome(t, name+", a month later", err, "") // and those that wait no longer count
		}
	}
}

// TestAbuse08_SilentPartnersDoNotEndRecording: what has waited for 30 days no longer counts, and can still be confirmed.
func TestAbuse08_SilentPartnersDoNotEndRecording(t *testing.T) {
	s := newStore(t)
	a, b, silent := s.verified("agent-a"), s.verified("agent-b"), s.verified("silent")
	first := s.record(a, silent)
	s.clock.Advance(time.Hour)
	s.waiting(a, 4)
	s.clock.Advance(30*domain.Day - time.Hour - time.Millisecond)
	_, err := s.propose(a, b.Handle)
	wantOutcome(t, "just before 30 days", err, "sender_limit_reached")
	s.clock.Advance(time.Millisecond)
	_, err = s.propose(a, silent.Handle)
	wantOutcome(t, "with the same partner", err, "duplicate")
	_, err = s.propose(a, b.Handle)
	wantOutcome(t, "after 30 days", err, "")
	_, err = s.propose(a, s.verified("third").Handle)
	wantOutcome(t, "while the others wait", err, "sender_limit_reached")
	confirmed, err := s.ConfirmCollab(context.Background(), silent, first.ID)
	if s.ok(err); confirmed.Status != domain.CollabConfirmed {
		t.Errorf("confirmed later: %s", confirmed.Status)
	}
}

// TestRecordCollab_DailyLimit: partners that answer at once make room for more, up to
// the day's limit.
func TestRecordCollab_DailyLimit(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{Collabs: 3}))
	a := s.verified("agent-a")
	start := s.clock.Now()
	for i, step := range []struct {
		at   time.Duration
		want string
	}{
		{0, ""},
		{time.Hour, ""},
		{time.Hour, ""},
		{time.Hour, "rate_limited collab 3, retry after 24h0m0s"},
		{domain.Day - time.Millisecond, "rate_limited collab 3, retry after 24h0m0s"},
		{domain.Day, ""},
		{domain.Day, "rate_limited collab 3, retry after 25h0m0s"},
	} {
		s.clock.Advance(step.at - s.since(start))
		partner := s.verified(fmt.Sprintf("partner-%d", i))
		collab, err := s.propose(a, partner.Handle)
		if got := said(err, start); got != step.want {
			t.Errorf("step %d at %v: %q, want %q", i, step.at, got, step.want)
		}
		if err == nil {
			_, err = s.decisions()[[]string{"confirmed", "declined"}[i%2]](partner, collab.ID)
			s.ok(err)
		}
	}
}

func (s *testStore) firstPost() string {
	s.Helper()
	return value[string](s, `SELECT id FROM posts`)
}

func (s *testStore) block(blocker, blocked domain.Caller) {
	s.Helper()
	s.change(nil, `INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES (?, ?, 1)`, blocker.ID, blocked.ID)
}

// settled records a collaboration and has its partner decide.
func (s *testStore) settled(initiator, partner domain.Caller, decision string) {
	s.Helper()
	_, err := s.decisions()[decision](partner, s.record(initiator, partner).ID)
	s.ok(err)
}

// waiting records collaborations with n partners that do not answer.
func (s *testStore) waiting(initiator domain.Caller, n int) {
	s.Helper()
	for i := range n {
		s.record(initiator, s.verified(fmt.Sprintf("silent-%d", i)))
	}
}

func TestRecordCollab_ConcurrentRequests(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	many := s.agents("many", rush)
	rounds := proof.Rounds(30, 60, 1200)
	proof.Figure(t, "limit rounds", rounds)
	proof.Figure(t, "act rounds", 2*rounds)
	for round := range rounds {
		a, _ := s.register(fmt.Sprintf("agent-%d", round))
		b, _ := s.register(fmt.Sprintf("partner-%d", round))
		wantOutcomes(t, "with one", together(rush, func(int) error { _, err := s.propose(a, b.Handle); return err }),
			map[string]int{"": 1, "duplicate": rush - 1})
		wantOutcomes(t, "with many", together(rush, func(i int) error { _, err := s.propose(a, many[i].Handle); return err }),
			map[string]int{"": 4, "sender_limit_reached": rush - 4})
		id := value[string](s, `SELECT id FROM collabs WHERE initiator_id = ? ORDER BY seq LIMIT 1`, a.ID)
		errs := together(rush, func(i int) error {
			_, err := s.decisions()[[]string{"confirmed", "declined"}[i%2]](b, id)
			return err
		})
		wantOutcomes(t, "decided", errs, map[string]int{"": rush / 2, "invalid_state": rush / 2})
		if n := strings.Count(s.story(a), "collab."); n != 1 {
			t.Errorf("the initiator was told %d times", n)
		}
	}
	a, b := s.verified("once"), s.verified("once-partner")
	once := domain.NewIdempotencyKey("createCollab", onceKey, "body")
	ids := map[string]bool{}
	found := make([]domain.Collab, rush)
	wantOutcomes(t, "the same call", together(rush, func(i int) (err error) {
		found[i], _, err = s.RecordCollab(ctx, a, domain.CollabDraft{Partner: b.Handle, Summary: "s"}, once)
		return err
	}), map[string]int{"": rush})
	for _, c := range found {
		ids[c.ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("the same call made %d", len(ids))
	}
	_, _, err := s.RecordCollab(ctx, a, domain.CollabDraft{Partner: b.Handle, Summary: "x"}, domain.NewIdempotencyKey("createCollab", onceKey, "other"))
	wantOutcome(t, "another body", err, "idempotency_conflict")
	s.ok(s.DeleteAgent(ctx, b))
	_, _, err = s.RecordCollab(ctx, a, domain.CollabDraft{Partner: b.Handle, Summary: "s"}, once)
	wantOutcome(t, "after the partner is gone", err, "not_found")
}

func TestCollabs_Lists(t *testing.T) {
	ctx := context.Background()
	proof.OneByOne(t)
	s := newStore(t)
	a, b, c := s.verified("agent-a"), s.verified("agent-b"), s.verified("agent-c")
	hidden, gone := s.verified("hidden"), s.verified("gone")
	var want struct{ all, ofA, ofB, ofGone, own, ownPending, ownDeclined []string }
	add := func(initiator, partner domain.Caller, decision string, lists ...*[]string) {
		collab := s.record(initiator, partner)
		if decision != "" {
			_, err := s.decisions()[decision](partner, collab.ID)
			s.ok(err)
		}
		for _, list := range lists {
			*list = append(*list, collab.ID)
		}
	}
	for range 8 {
		add(a, b, "confirmed", &want.all, &want.ofA, &want.ofB, &want.own)
		add(b, c, "confirmed", &want.all, &want.ofB)
		add(c, a, "confirmed", &want.all, &want.ofA, &want.own)
		add(a, hidden, "confirmed", &want.own)
		add(gone, a, "confirmed", &want.all, &want.ofA, &want.own, &want.ofGone)
		add(hidden, gone, "confirmed")
	}
	add(a, c, "declined", &want.own, &want.ownDeclined)
	add(b, a, "", &want.own, &want.ownPending)
	s.change([]domain.Caller{hidden}, `UPDATE agents SET suspended_at = 1 WHERE id = ?`, hidden.ID)
	s.ok(s.DeleteAgent(ctx, gone))
	id := func(c domain.Collab) string { return c.ID }
	public := func(handle string) func(listing.Page) ([]string, string, error) {
		return named(id, func(p listing.Page) (listing.List[domain.Collab], error) { return s.Collabs(ctx, handle, p) })
	}
	own := func(status string) func(listing.Page) ([]string, string, error) {
		return named(id, func(p listing.Page) (listing.List[domain.Collab], error) { return s.OwnCollabs(ctx, a, status, p) })
	}
	var ownConfirmed []string
	for _, id := range want.own {
		if !slices.Contains(append(want.ownPending, want.ownDeclined...), id) {
			ownConfirmed = append(ownConfirmed, id)
		}
	}
	for _, list := range []walked{
		{"all", public(""), want.all},
		{"of one", public("agent-a"), want.ofA},
		{"of another", public("agent-b"), want.ofB},
		{"of one that is gone", public("gone"), want.ofGone},
		{"of a hidden one", public("hidden"), nil},
		{"of nobody", public("nobody-here"), nil},
		{"own", own(""), want.own},
		{"own pending", own("pending"), want.ownPending},
		{"own declined", own("declined"), want.ownDeclined},
		{"own confirmed", own("confirmed"), ownConfirmed},
	} {
		slices.Reverse(list.want)
		for _, limit := range []int{1, 3, 7, 50} {
			if got, err := list.walk(limit); err != nil || !slices.Equal(got, list.want) {
				t.Errorf("%s by %d: %v %v, want %v", list.name, limit, got, err, list.want)
			}
		}
	}
	found, err := s.Collabs(ctx, "agent-a", listing.Page{Limit: 1})
	if s.ok(err); found.Total != len(want.ofA) {
		t.Errorf("total %d, want %d", found.Total, len(want.ofA))
	}
	_, err = s.Collabs(ctx, "agent-b", listing.Page{Limit: 1, Cursor: found.Next})
	wantOutcome(t, "a cursor of another list", err, "invalid_query")
	_, err = s.OwnCollabs(ctx, b, "", listing.Page{Limit: 1, Cursor: found.Next})
	wantOutcome(t, "a public cursor for the own", err, "invalid_query")
}

// TestCollab_CountsAsEvidence tries all owners on both sides: of the same person by
// any spelling of the address, nothing counts.
func TestCollab_CountsAsEvidence(t *testing.T) {
	proof.OneByOne(t)
	owners := []string{"", mei, "Mei+agents@People.Example.org", "MEI@people.example.org", ada, "m.ei@people.example.org"}
	same := func(a, b string) bool { return text.NormalMailbox(a) == text.NormalMailbox(b) }
	s := newStore(t, noCaps, func(o *Options) { o.OwnerAgents = new(int) })
	for i, one := range owners {
		for j, other := range owners {
			s.clock.Advance(domain.EvidenceWindow) // of the same two owners, another counts
			a, b := s.verified(fmt.Sprintf("agent-%d-%d", i, j)), s.verified(fmt.Sprintf("partner-%d-%d", i, j))
			collab := s.record(a, b)
			for c, address := range map[domain.Caller]string{a: one, b: other} {
				if address != "" {
					s.owned(c, address)
				}
			}
			collab, err := s.ConfirmCollab(context.Background(), b, collab.ID)
			s.ok(err)
			want := one != "" && other != "" && !same(one, other)
			counted := map[string]int{}
			for _, c := range []domain.Caller{a, b} {
				card, err := s.Card(context.Background(), c.Handle)
				s.ok(err)
				counted[c.Handle] = card.Confirmed
			}
			n := map[bool]int{true: 1}[want]
			if wantCounted := map[string]int{a.Handle: n, b.Handle: n}; collab.CountsAsEvidence != want || !maps.Equal(counted, wantCounted) {
				t.Errorf("%q and %q: %v, counted %v", one, other, collab.CountsAsEvidence, counted)
			}
		}
	}
}

// agreed records a collaboration and has the partner confirm it.
func (s *testStore) agreed(initiator, partner domain.Caller) domain.Collab {
	s.Helper()
	collab, err := s.ConfirmCollab(context.Background(), partner, s.record(initiator, partner).ID)
	s.ok(err)
	return collab
}

// wantEvidence compares the collaborations that count on a card and the owners on their other side.
func (s *testStore) wantEvidence(what string, c domain.Caller, confirmed, partners int) {
	s.Helper()
	card, err := s.Card(context.Background(), c.Handle)
	s.ok(err)
	if card.Confirmed != confirmed || card.Partners != partners {
		s.Errorf("%s: %d collaborations of %s count, with %d owners, want %d and %d",
			what, card.Confirmed, c.Handle, card.Partners, confirmed, partners)
	}
}

func TestAbuse08_TwoOwnersCountOnceInNinetyDays(t *testing.T) {
	s := newStore(t, noCaps)
	var hers, his []domain.Caller
	for i := range 3 {
		hers, his = append(hers, s.verified(fmt.Sprintf("hers-%d", i))), append(his, s.verified(fmt.Sprintf("his-%d", i)))
		s.owned(hers[i], mei)
		s.owned(his[i], ada)
	}
	count := func(a, b domain.Caller) (n int) {
		if s.agreed(a, b).CountsAsEvidence {
			n++
		}
		return n
	}
	n := 0
	for _, one := range hers {
		for _, other := range his {
			n += count(one, other) + count(other, one)
		}
	}
	if n != 1 {
		t.Errorf("%d of 18 collaborations count, want 1", n)
	}
	s.wantEvidence("the first", hers[0], 1, 1)
	s.wantEvidence("the others", hers[1], 0, 0)
	s.clock.Advance(domain.EvidenceWindow - time.Millisecond)
	if count(hers[0], his[0]) != 0 {
		t.Error("one counts before 90 days are over")
	}
	s.clock.Advance(time.Millisecond)
	if count(his[0], hers[0]) != 1 {
		t.Error("none counts after 90 days")
	}
	s.wantEvidence("after 90 days", hers[0], 2, 1)
	third := s.verified("third")
	s.owned(third, "third@people.example.org")
	s.agreed(hers[0], third)
	s.wantEvidence("with another owner", hers[0], 3, 2)
	s.checkDerived("all of it")
}

func TestAbuse08_EvidenceFollowsTheClaims(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	a1, a2, b := s.verified("agent-a1"), s.verified("agent-a2"), s.verified("agent-b")
	s.agreed(a1, b)
	s.clock.Advance(time.Hour)
	s.agreed(a2, b)
	token := s.owned(a2, mei)
	s.owned(b, ada)
	s.wantEvidence("one is claimed", b, 1, 1)
	s.owned(a1, mei)
	s.wantEvidence("an earlier one comes in", a1, 1, 1)
	s.wantEvidence("the later one", a2, 0, 0)
	s.wantEvidence("still one", b, 1, 1)
	s.ok(s.DeleteAgent(ctx, a1))
	s.clock.Advance(deletionDelay)
	s.ok(s.RunJobs(ctx))
	s.wantEvidence("the earlier one has gone", a2, 1, 1)
	s.pressed(token, domain.OwnerWithdraw)
	s.wantEvidence("nobody claims it", b, 0, 0)
	s.checkDerived("all claims")
}

// TestAbuse08_FormerSpellingsAreAdopted: an owner whose agents were claimed by an older program, which
// took the spellings of a Gmail address for different people.
func TestAbuse08_FormerSpellingsAreAdopted(t *testing.T) {
	s := newStore(t, noCaps)
	a, b := s.verified("agent-a"), s.verified("agent-b")
	s.owned(a, "meilin@gmail.com")
	s.owned(b, ada)
	s.agreed(a, b)
	s.ok(s.write(context.Background(), func(t *tx) error {
		former, err := t.Pseudonym("owner\x00mei.lin@gmail.com")
		if err == nil {
			err = t.Exec(`UPDATE agents SET claimed_by = ? WHERE id = ?`, former, b.ID)
		}
		if err == nil {
			err = t.Exec(`UPDATE owner_claims SET owner = ? WHERE agent_id = ?`, former, b.ID)
		}
		return err
	}))
	_, err := s.ClaimOwner(context.Background(), b, ada)
	wantOutcome(t, "another owner", err, "already_claimed")
	s.wantEvidence("by two spellings", a, 1, 1)
	_, err = s.ClaimOwner(context.Background(), b, "mei.lin@gmail.com")
	wantOutcome(t, "the owner", err, "")
	if mail := s.mailed(); mail.Kind != domain.MailOwner {
		t.Errorf("the owner gets a mail of the kind %s", mail.Kind)
	}
	s.wantEvidence("by one spelling", a, 0, 0)
	s.checkDerived("the adoption")
}

// TestAbuse08_EvidenceOfManyCollaborations: a claim that is lost and confirmed again, and collaborations that are confirmed
// at one time, must not read everything that the owners of both agents have done together.
func TestAbuse08_EvidenceOfManyCollaborations(t *testing.T) {
	proof.OneByOne(t)
	fastest := func(n int) time.Duration {
		s := newStore(t, noCaps)
		busy, idle, other := s.verified("busy"), s.verified("idle"), s.verified("other")
		for c, address := range map[domain.Caller]string{busy: mei, idle: mei, other: ada} {
			s.owned(c, address)
		}
		s.change(nil, `
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)
			INSERT INTO collabs (id, initiator_id, partner_id, status, summary, created_at, decided_at)
			SELECT 'col_' || i, CASE i % 2 WHEN 0 THEN ?1 ELSE ?2 END, CASE i % 2 WHEN 0 THEN ?2 ELSE ?1 END, 'confirmed', 'Done.', i, i FROM n`,
			busy.ID, other.ID, n)
		best := time.Hour
		for range 5 {
			start := time.Now()
			s.agreed(idle, other)
			s.agreed(other, idle)
			s.ok(s.write(context.Background(), func(t *tx) error {
				return errors.Join(lifecycle.Unclaim(t.Tx, idle.ID), t.Exec(`UPDATE agents SET claimed_at = ? WHERE id = ?`, t.Now, idle.ID),
					document.RebuildEvidence(t.Tx, idle.ID))
			}))
			best = min(best, time.Since(start))
		}
		return best
	}
	if few, many := fastest(10), fastest(40_000); many > 5*few+100*time.Millisecond {
		t.Errorf("%v with 40,000 collaborations of the owners, %v with 10", many, few)
	}
}
