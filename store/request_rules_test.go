package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/txn"
	"callbook/testdata/proof"
)

// stored is a request's state as the file holds it, whatever the clock says.
func (s *testStore) stored(id string) string {
	s.Helper()
	return value[string](s, `SELECT status FROM requests WHERE id = ?`, id)
}

// boxed are the ids of the requests in a box.
func (s *testStore) boxed(c domain.Caller, f RequestFilter) (ids []string) {
	s.Helper()
	found, err := s.Requests(context.Background(), c, f, listing.Page{Limit: 100})
	s.ok(err)
	for _, r := range found.Items {
		ids = append(ids, r.ID)
	}
	if found.Total != len(ids) || !found.TotalIsExact {
		s.Errorf("%d requests, total %d", len(ids), found.Total)
	}
	return ids
}

// TestRequest_ExpiresAtTheMillisecond reads it before and after, in every way.
func TestRequest_ExpiresAtTheMillisecond(t *testing.T) {
	for _, stage := range []string{"pending", "awaiting"} {
		p := newStore(t, noCaps).play()
		stages[stage](p)
		status := p.stored(p.id)
		expires := p.request(p.asker, p.id).ExpiresAt
		p.clock.Advance(7*domain.Day - time.Millisecond)
		for _, due := range []bool{false, true} {
			now := p.request(p.asker, p.id)
			own, err := p.Me(context.Background(), p.pilot)
			p.ok(err)
			open := own.PendingRequests + own.AwaitingReceipts + len(p.boxed(p.pilot, RequestFilter{Status: status})) + len(p.boxed(p.asker, RequestFilter{Sent: true, Status: status}))
			receipts := len(p.page(p.token).Receipts)
			expired := len(p.boxed(p.pilot, RequestFilter{Status: "expired"}))
			want := map[bool]string{false: "3 open, 0 expired, " + status, true: "0 open, 1 expired, expired"}[due]
			if got := fmt.Sprintf("%d open, %d expired, %s", open, expired, now.Status); got != want {
				t.Errorf("%s, due %v: %s, want %s", stage, due, got, want)
			}
			if (receipts == 1) != (stage == "awaiting" && !due) {
				t.Errorf("%s, due %v: the owner's page shows %d", stage, due, receipts)
			}
			if due && (now.UpdatedAt != expires || now.DecidedAt == nil || *now.DecidedAt != expires) {
				t.Errorf("%s: updated %v, decided %v, want %v", stage, now.UpdatedAt, now.DecidedAt, expires)
			}
			p.clock.Advance(time.Millisecond)
		}
		if got := p.stored(p.id); got != status {
			t.Errorf("%s: reading stored %s", stage, got)
		}
		read := p.request(p.asker, p.id)
		p.ok(p.RunJobs(context.Background()))
		if diff := cmp.Diff(read, p.request(p.asker, p.id)); diff != "" || p.stored(p.id) != "expired" {
			t.Errorf("%s: storing it changes what is read: %s", stage, diff)
		}
	}
}

// TestRequest_ExpiryIsStoredOnce does something once it is due: whatever
// touches the pair stores it and tells both sides once.
func TestRequest_ExpiryIsStoredOnce(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		do     func(p *played)
		stores bool
	}{
		"the due jobs":                 {func(p *played) { p.ok(p.RunJobs(ctx)) }, true},
		"the next request":             {func(p *played) { p.ask(p.asker, p.pilot) }, true},
		"the next request, refused":    {func(p *played) { p.accepting(p.pilot, false); _ = p.send(p.asker, p.pilot) }, true},
		"accepting":                    {func(p *played) { p.do("pilot accepts") }, true},
		"declining":                    {func(p *played) { p.do("pilot declines") }, true},
		"reporting":                    {func(p *played) { p.do("pilot reports") }, true},
		"withdrawing":                  {func(p *played) { p.do("asker withdraws") }, true},
		"the owner":                    {func(p *played) { p.do("owner agrees") }, true},
		"the wrong party":              {func(p *played) { p.do("asker accepts") }, true},
		"deleting the sender":          {func(p *played) { p.ok(p.DeleteAgent(ctx, p.asker)) }, true},
		"deleting the recipient":       {func(p *played) { p.ok(p.RemoveAgent(ctx, p.pilot.Handle)) }, true},
		"a stranger":                   {func(p *played) { p.do("stranger accepts") }, false},
		"a dry run":                    {func(p *played) { p.ok(p.TryRequest(ctx, p.asker, p.pilot.Handle, plainDraft)) }, false},
		"another's request":            {func(p *played) { p.ask(p.stranger, p.pilot) }, false},
		"a request to another":         {func(p *played) { p.ask(p.asker, p.stranger) }, false},
		"a request in the other sense": {func(p *played) { p.ask(p.pilot, p.asker) }, false},
	} {
		p := newStore(t, noCaps).play()
		p.clock.Advance(7 * domain.Day)
		tt.do(p)
		if stored := p.stored(p.id) == "expired"; stored != tt.stores {
			t.Errorf("%s: stored is %v", name, stored)
		}
		p.ok(p.RunJobs(ctx))
		p.ok(p.RunJobs(ctx))
		for _, c := range []domain.Caller{p.asker, p.pilot} {
			told := value[int](p.testStore, `SELECT COUNT(*) FROM events WHERE agent_id = ? AND type = 'request.expired'`, c.ID)
			gone := strings.HasPrefix(name, "deleting") && value[int](p.testStore, `SELECT COUNT(*) FROM agents WHERE id = ?`, c.ID) == 0
			if want := map[bool]int{false: 1, true: 0}[gone]; told != want {
				t.Errorf("%s: %s was told %d times, want %d", name, c.Handle, told, want)
			}
		}
	}
}

func (s *testStore) accepting(c domain.Caller, accepting bool) {
	s.Helper()
	s.update(c, func(a *domain.Settings) { a.ContactPolicy.Accepting = accepting })
}

// refusals are the ways in which a request is refused, in the documented order.
var refusals = []struct {
	name string
	set  func(s *testStore, asker, pilot domain.Caller, d *domain.ContactRequestDraft)
	want string
}{
	{"admitted", func(*testStore, domain.Caller, domain.Caller, *domain.ContactRequestDraft) {}, ""},
	{"not verified", func(s *testStore, asker, _ domain.Caller, _ *domain.ContactRequestDraft) {
		s.update(asker, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	}, "trust_too_low verify"},
	{"below min_level", func(s *testStore, _, pilot domain.Caller, _ *domain.ContactRequestDraft) {
		s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.MinLevel = 2 })
	}, "trust_too_low min_level"},
	{"not accepting", func(s *testStore, _, pilot domain.Caller, _ *domain.ContactRequestDraft) { s.accepting(pilot, false) }, "not_accepting"},
	{"blocked", func(s *testStore, asker, pilot domain.Caller, _ *domain.ContactRequestDraft) {
		_, err := s.ReportRequest(context.Background(), pilot, s.ask(asker, pilot).ID, domain.ReportDraft{})
		s.ok(err)
	}, "not_accepting"},
	{"no offering", func(s *testStore, _, pilot domain.Caller, _ *domain.ContactRequestDraft) {
		s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOffering = true })
	}, "validation_failed [{offering_id required offering}]"},
	{"the sender's own offering", func(s *testStore, asker, _ domain.Caller, d *domain.ContactRequestDraft) {
		menu, err := s.ReplaceOfferings(context.Background(), asker, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "t", Deliverable: "d", Mode: "free"}}})
		s.ok(err)
		d.OfferingID = menu[0].ID
	}, "validation_failed [{offering_id unknown_id theirs}]"},
	{"a deadline that has passed", func(_ *testStore, _, _ domain.Caller, d *domain.ContactRequestDraft) { d.Deadline = "2026-11-18" }, "validation_failed [{deadline bad_value deadline}]"},
	{"one is open", func(s *testStore, asker, pilot domain.Caller, _ *domain.ContactRequestDraft) { s.ask(asker, pilot) }, "duplicate request"},
	{"declined", func(s *testStore, asker, pilot domain.Caller, _ *domain.ContactRequestDraft) {
		_, err := s.DeclineRequest(context.Background(), pilot, s.ask(asker, pilot).ID, domain.DeclineDraft{})
		s.ok(err)
	}, "cooldown request, retry after 720h0m0s"},
	{"the sender's limit", func(s *testStore, asker, _ domain.Caller, _ *domain.ContactRequestDraft) {
		for i := range 2 {
			s.ask(asker, s.reachable(fmt.Sprintf("busy-%d", i)))
		}
	}, "sender_limit_reached request 2, retry after 24h0m0s"},
	{"the weekly cap", func(s *testStore, _, pilot domain.Caller, _ *domain.ContactRequestDraft) {
		s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.WeeklyCap = 1 })
		s.ask(s.reachable("other"), pilot)
	}, "weekly_cap_reached 1, retry after 168h0m0s"},
}

// said is a refusal in one line; times are since start.
func said(err error, start time.Time) string {
	r := refusalOf(err)
	line := strings.TrimSpace(outcome(err) + " " + r.Topic)
	if r.Limit > 0 && r.Topic != "min_level" {
		line += fmt.Sprintf(" %d", r.Limit)
	}
	if len(r.Fields) > 0 {
		line += fmt.Sprintf(" %v", r.Fields)
	}
	if !r.RetryAt.IsZero() {
		line += fmt.Sprintf(", retry after %v", r.RetryAt.Sub(start))
	}
	return line
}

// TestTryRequest_StoresNothing holds it against the real request: the answer is the
// same, and all tables are as before.
func TestTryRequest_StoresNothing(t *testing.T) {
	proof.OneByOne(t)
	ctx := context.Background()
	for _, tt := range refusals {
		s := newStore(t, withQuotas(domain.DefaultQuotas))
		asker, pilot := s.reachable("asker"), s.reachable("harbour-pilot")
		draft := plainDraft
		tt.set(s, asker, pilot, &draft)
		changes := 0
		s.Watch(func(txn.Changes) { changes++ })
		before := s.dump()
		dry := said(s.TryRequest(ctx, asker, pilot.Handle, draft), s.clock.Now())
		if dry != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, dry, tt.want)
		}
		if s.wantUnchanged("the dry run: "+tt.name, before); changes != 0 {
			t.Errorf("%s: the dry run wakes those who watch", tt.name)
		}
		_, _, err := s.SendRequest(ctx, asker, pilot.Handle, draft, domain.NewIdempotencyKey("createRequest", onceKey, tt.name))
		if real := said(err, s.clock.Now()); real != dry {
			t.Errorf("%s: %q in a dry run, %q for real", tt.name, dry, real)
		}
		if err != nil { // nothing is kept of a refusal either
			s.wantUnchanged(tt.name, before)
		}
	}
}

func TestSendRequest_UnknownRecipients(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	asker, gone, hidden := s.reachable("asker"), s.reachable("gone"), s.reachable("hidden")
	s.ok(s.DeleteAgent(ctx, gone))
	s.change([]domain.Caller{hidden}, `UPDATE agents SET suspended_at = 1, suspended_until = ? WHERE id = ?`, domain.TimeOf(s.clock.Now()).Add(domain.Day), hidden.ID)
	for handle, want := range map[string]string{"unknown": "not_found", "gone": "not_found", "hidden": "not_found", "asker": "self_request", "Asker": "not_found"} {
		_, _, err := s.SendRequest(ctx, asker, handle, plainDraft, domain.IdempotencyKey{})
		wantOutcome(t, handle, err, want)
		wantOutcome(t, handle+", dry", s.TryRequest(ctx, asker, handle, plainDraft), want)
	}
	wantOutcome(t, "from a hidden one", s.send(hidden, asker), "suspended")
	wantOutcome(t, "from one that is gone", s.send(gone, asker), "unauthorized")
	s.clock.Advance(domain.Day)
	wantOutcome(t, "after the suspension", s.send(asker, hidden), "")
}

// TestSendRequest_SenderLimits counts by the day: 2 in an agent's first week, then 5.
// Whatever became of a request, it counts.
func TestSendRequest_SenderLimits(t *testing.T) {
	s := newStore(t, withQuotas(domain.DefaultQuotas))
	joined := s.clock.Now()
	asker := s.reachable("asker")
	n := 0
	for i, step := range []struct {
		at   time.Duration
		want string
		left int // after it
	}{
		{0, "", 1},
		{time.Hour, "", 0},
		{time.Hour, "sender_limit_reached request 2, retry after 24h0m0s", 0},
		{domain.Day - time.Millisecond, "sender_limit_reached request 2, retry after 24h0m0s", 0},
		{domain.Day, "", 0},
		{domain.Day, "sender_limit_reached request 2, retry after 25h0m0s", 0},
		{7*domain.Day - time.Millisecond, "", 1},
		{7*domain.Day - time.Millisecond, "", 0},
		{7*domain.Day - time.Millisecond, "sender_limit_reached request 2, retry after 191h59m59.999s", 0},
		{7 * domain.Day, "", 2},
		{7 * domain.Day, "", 1},
		{7 * domain.Day, "", 0},
		{7 * domain.Day, "sender_limit_reached request 5, retry after 191h59m59.999s", 0},
		{8*domain.Day - time.Millisecond, "", 1},
		{8*domain.Day - time.Millisecond, "", 0},
		{8*domain.Day - time.Millisecond, "sender_limit_reached request 5, retry after 192h0m0s", 0},
	} {
		s.clock.Advance(step.at - s.since(joined))
		n++
		pilot := s.reachable(fmt.Sprintf("pilot-%d", n))
		err := s.send(asker, pilot)
		if got := said(err, joined); got != step.want {
			t.Errorf("step %d at %v: %q, want %q", i, step.at, got, step.want)
		}
		own, errOwn := s.Me(context.Background(), asker)
		if s.ok(errOwn); *own.Limits.RequestsSent.Left != step.left {
			t.Errorf("step %d: %d left, want %d", i, *own.Limits.RequestsSent.Left, step.left)
		}
		if err != nil {
			continue
		}
		switch i % 3 { // what follows does not matter
		case 0:
			_, err := s.WithdrawRequest(context.Background(), asker, s.boxed(asker, RequestFilter{Sent: true})[0])
			s.ok(err)
		case 1:
			s.ok(s.DeleteAgent(context.Background(), pilot))
		}
	}
}

// TestSendRequest_WeeklyCap counts what a recipient got in seven days; what one sender
// withdrew counts as one.
func TestSendRequest_WeeklyCap(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.reachable("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.WeeklyCap = 4 })
	askers := s.crowdOf("asker", 8)
	for i, c := range askers {
		s.claim(c, byte(i))
	}
	start := s.clock.Now()
	const h = time.Hour
	for i, step := range []struct {
		at   time.Duration
		from int
		then string // what becomes of it
		want string
		left int
	}{
		{0, 0, "withdraws", "", 3},
		{1 * h, 0, "withdraws", "", 3},
		{2 * h, 0, "withdraws", "", 3}, // three withdrawn by one: one, two hours old
		{3 * h, 1, "withdraws", "", 2}, // another sender's
		{4 * h, 2, "declines", "", 1},
		{5 * h, 3, "accepts", "", 0},
		{6 * h, 4, "", "weekly_cap_reached 4, retry after 170h0m0s", 0},
		{7*domain.Day + 2*h - time.Millisecond, 4, "", "weekly_cap_reached 4, retry after 170h0m0s", 0},
		{7*domain.Day + 2*h, 4, "", "", 0},
		{7*domain.Day + 2*h, 5, "", "weekly_cap_reached 4, retry after 171h0m0s", 0},
		{7*domain.Day + 3*h, 5, "is deleted", "", 0}, // which withdraws it
		{7*domain.Day + 3*h, 6, "", "weekly_cap_reached 4, retry after 172h0m0s", 0},
		{7*domain.Day + 4*h, 0, "withdraws", "", 0},
		{7*domain.Day + 5*h, 0, "withdraws", "", 1}, // the accepted one is old, and this one stands for its own before
		{7*domain.Day + 5*h, 6, "", "", 0},
		{7*domain.Day + 5*h, 7, "", "weekly_cap_reached 4, retry after 338h0m0s", 0},
	} {
		s.clock.Advance(step.at - s.since(start))
		r, _, err := s.SendRequest(ctx, askers[step.from], pilot.Handle, plainDraft, domain.IdempotencyKey{})
		if got := said(err, start); got != step.want {
			t.Errorf("step %d at %v: %q, want %q", i, step.at, got, step.want)
		}
		switch step.then {
		case "withdraws":
			_, err = s.WithdrawRequest(ctx, askers[step.from], r.ID)
			s.ok(err)
		case "is deleted":
			s.ok(s.DeleteAgent(ctx, askers[step.from]))
		case "accepts", "declines":
			_, err = s.answers()[step.then](pilot, r.ID)
			s.ok(err)
		}
		own, err := s.Me(ctx, pilot)
		if s.ok(err); *own.Limits.RequestsReceived.Left != step.left {
			t.Errorf("step %d: %d left, want %d", i, *own.Limits.RequestsReceived.Left, step.left)
		}
	}
}

// TestAbuse12_ReportedRequestsLeaveRoom: ten senders of level 1 cannot shut a recipient for a week.
func TestAbuse12_ReportedRequestsLeaveRoom(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, askers, claimed := s.reachable("harbour-pilot"), s.crowdOf("asker", 20), s.crowdOf("claimed", 3)
	for i, c := range claimed {
		s.claim(c, byte(i))
	}
	left := func(want int) {
		t.Helper()
		own, err := s.Me(ctx, pilot)
		if s.ok(err); *own.Limits.RequestsReceived.Left != want {
			t.Errorf("%d left, want %d", *own.Limits.RequestsReceived.Left, want)
		}
	}
	var sent []string
	for _, c := range askers[:8] {
		sent = append(sent, s.ask(c, pilot).ID)
	}
	_, err := s.WithdrawRequest(ctx, askers[7], sent[7]) // still counts as one
	s.ok(err)
	err = s.send(askers[8], pilot)
	if got := said(err, testStart()); got != "weekly_cap_reached reserve 8, retry after 168h0m0s" {
		t.Errorf("the ninth of level 1: %q", got)
	}
	for i, want := range []string{"", "", "weekly_cap_reached"} {
		wantOutcome(t, fmt.Sprintf("%d. of level 2", i), s.send(claimed[i], pilot), want)
	}
	left(0)
	for _, id := range sent {
		_, err := s.ReportRequest(ctx, pilot, id, domain.ReportDraft{})
		s.ok(err)
	}
	left(8)
	for _, c := range askers[8:14] {
		wantOutcome(t, "after the reports", s.send(c, pilot), "")
	}
	wantOutcome(t, "past the general part", s.send(askers[14], pilot), "weekly_cap_reached") // two of level 2 stand in it now
	wantOutcome(t, "of level 2", s.send(claimed[2], pilot), "")
}

// TestAbuse12_WithdrawnRequestsOfAReportedSenderLeaveRoom, also once the sender is deleted.
func TestAbuse12_WithdrawnRequestsOfAReportedSenderLeaveRoom(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, withQuotas(domain.Quotas{}))
	pilot, other, sender, honest := s.reachable("harbour-pilot"), s.reachable("other"), s.verified("sender"), s.verified("honest")
	left := func(what string, want int) {
		t.Helper()
		own, err := s.Me(ctx, pilot)
		if s.ok(err); *own.Limits.RequestsReceived.Left != want {
			t.Errorf("%s: %d left, want %d", what, *own.Limits.RequestsReceived.Left, want)
		}
	}
	for _, c := range []domain.Caller{sender, honest, sender} {
		_, err := s.WithdrawRequest(ctx, c, s.ask(c, pilot).ID)
		s.ok(err)
	}
	left("two senders withdrew", 8)
	_, err := s.ReportRequest(ctx, other, s.ask(sender, other).ID, domain.ReportDraft{})
	s.ok(err)
	left("another recipient reported one of them", 8)
	_, err = s.ReportRequest(ctx, pilot, s.ask(sender, pilot).ID, domain.ReportDraft{})
	s.ok(err)
	left("the recipient did", 9)
	s.ok(s.DeleteAgent(ctx, sender))
	left("the sender is deleted", 9)
}

func TestSendRequest_ConcurrentRequestsKeepLimits(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{RequestsFirstWeek: 2, Requests: 5}))
	many := s.crowdOf("many", rush)
	for i, c := range many {
		s.claim(c, byte(i))
	}
	unlimited := func() { s.change(nil, `DELETE FROM usage`) }
	rounds := proof.Rounds(60, 200, 4000)
	proof.Figure(t, "limit rounds", 2*rounds)
	proof.Figure(t, "act rounds", rounds)
	for round := range rounds {
		unlimited()
		pilot := s.reachable(fmt.Sprintf("pilot-%d", round))
		wantOutcomes(t, "to one recipient", together(rush, func(i int) error { return s.send(many[i], pilot) }),
			map[string]int{"": 10, "weekly_cap_reached": rush - 10})
		unlimited()
		asker := s.reachable(fmt.Sprintf("asker-%d", round))
		wantOutcomes(t, "from one sender", together(rush, func(i int) error { return s.send(asker, many[i]) }),
			map[string]int{"": 2, "sender_limit_reached": rush - 2})
		other, mate := s.reachable(fmt.Sprintf("other-%d", round)), s.reachable(fmt.Sprintf("mate-%d", round))
		wantOutcomes(t, "between two", together(rush, func(int) error { return s.send(other, mate) }),
			map[string]int{"": 1, "duplicate": rush - 1})
		if n := value[int](s, `SELECT COUNT(*) FROM requests`); n != 10+2+1 {
			t.Errorf("%d requests are stored", n)
		}
		s.change(nil, `DELETE FROM requests`) // the many would be full next time
		if t.Failed() {
			return
		}
	}
}

func TestRequest_ConcurrentActs(t *testing.T) {
	s := newStore(t, noCaps)
	for range 60 {
		p := s.play()
		acts := []string{"accepts", "declines", "withdraws", "reports"}
		by := map[string]domain.Caller{"accepts": p.pilot, "declines": p.pilot, "withdraws": p.asker, "reports": p.pilot}
		errs := together(len(acts), func(i int) error {
			_, err := s.answers()[acts[i]](by[acts[i]], p.id)
			return err
		})
		r := p.request(p.asker, p.id)
		for i, act := range acts {
			leads := map[string]string{"accepts": "accepted", "declines": "declined", "withdraws": "withdrawn", "reports": r.Status}[act]
			wantOutcome(t, act+" where it is "+r.Status, errs[i], map[bool]string{true: "", false: "invalid_state"}[leads == r.Status])
		}
		if (r.Mailboxes != nil) != (r.Status == "accepted") {
			t.Errorf("%s with mailboxes %v", r.Status, r.Mailboxes)
		}
		if n := strings.Count(p.story(p.asker), "request.a") + strings.Count(p.story(p.asker), "request.d") + strings.Count(p.story(p.pilot), "request.w"); n != 1 {
			t.Errorf("%s: told %d times", r.Status, n)
		}
	}
}

func TestSendRequest_Idempotency(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, withQuotas(domain.DefaultQuotas))
	asker, pilot, other := s.reachable("asker"), s.reachable("harbour-pilot"), s.reachable("other")
	once := domain.NewIdempotencyKey("createRequest", onceKey, "body")
	answers := make([]domain.ContactRequest, rush)
	fresh := make([]bool, rush)
	wantOutcomes(t, "the same call at once", together(rush, func(i int) (err error) {
		var replayed bool
		answers[i], replayed, err = s.SendRequest(ctx, asker, pilot.Handle, plainDraft, once)
		fresh[i] = !replayed
		return err
	}), map[string]int{"": rush})
	first := slices.Index(fresh, true)
	for i, a := range answers {
		if !cmp.Equal(a, answers[first]) || fresh[i] != (i == first) {
			t.Fatalf("answer %d, first %v: %s", i, fresh[i], cmp.Diff(answers[first], a))
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		key  domain.IdempotencyKey
		want string
	}{
		{"after it was accepted", func() { _, err := s.AcceptRequest(ctx, pilot, answers[0].ID); s.ok(err) }, once, ""},
		{"by one that is suspended meanwhile", func() { s.accepting(pilot, false) }, once, ""},
		{"another body", func() {}, domain.NewIdempotencyKey("createRequest", onceKey, "other"), "idempotency_conflict"},
		{"the recipient is gone", func() { s.ok(s.DeleteAgent(ctx, pilot)) }, once, "not_found"},
	} {
		step.do()
		again, replayed, err := s.SendRequest(ctx, asker, pilot.Handle, plainDraft, step.key)
		wantOutcome(t, step.name, err, step.want)
		if err == nil && (!replayed || !cmp.Equal(again, answers[first])) {
			t.Errorf("%s: replayed %v: %s", step.name, replayed, cmp.Diff(answers[first], again))
		}
	}
	_, replayed, err := s.SendRequest(ctx, other, asker.Handle, plainDraft, once)
	if wantOutcome(t, "another's call with the same key", err, ""); replayed {
		t.Error("one agent gets another's answer")
	}
}

func TestReportRequest_BlocksTheSender(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	asker, pilot, other := s.reachable("asker"), s.reachable("harbour-pilot"), s.reachable("other")
	earlier := s.ask(asker, pilot)
	_, err := s.AcceptRequest(ctx, pilot, earlier.ID)
	s.ok(err)
	sent := s.ask(asker, pilot)
	for range 2 {
		_, err = s.ReportRequest(ctx, pilot, sent.ID, domain.ReportDraft{Reason: "It sells things."})
		s.ok(err)
	}
	_, err = s.ReportRequest(ctx, pilot, earlier.ID, domain.ReportDraft{})
	s.ok(err)
	var heard []string
	s.ok(s.db.Select(ctx, &heard, `SELECT about || ' ' || subject || ' ' || reporter_id || ' ' || COALESCE(reason, '') || ' ' || (reporter IS NULL) FROM reports ORDER BY seq`))
	want := []string{
		fmt.Sprintf("request %s %d It sells things. 1", sent.ID, pilot.ID), fmt.Sprintf("request %s %d  1", earlier.ID, pilot.ID),
	}
	if !slices.Equal(heard, want) {
		t.Errorf("the operator hears %q, want %q", heard, want)
	}
	// The sender sees a decline as any other.
	r := s.request(asker, sent.ID)
	if r.Status != "declined" || r.DeclineReason != nil || s.request(asker, earlier.ID).Status != "accepted" {
		t.Errorf("the sender sees %s, %v", r.Status, domain.Deref(r.DeclineReason))
	}
	text, err := json.Marshal(r)
	if s.ok(err); strings.Contains(string(text), "report") || strings.Contains(string(text), "block") {
		t.Errorf("the sender sees %s", text)
	}
	export, err := s.Export(ctx, asker)
	if s.ok(err); strings.Contains(export, "It sells") || strings.Contains(export, `"blocked"`) {
		t.Error("the sender's export tells of the report or the block")
	}
	s.clock.Advance(31 * domain.Day)
	for _, tt := range []struct {
		name     string
		from, to domain.Caller
		want     string
	}{
		{"to the one that reported it", asker, pilot, "not_accepting"},
		{"to another", asker, other, ""},
		{"back", pilot, asker, ""},
		{"from another", other, pilot, ""},
	} {
		wantOutcome(t, tt.name, s.send(tt.from, tt.to), tt.want)
	}
}

// TestDeclineRequest_CooldownOf30Days goes by the newest decline in one direction.
func TestDeclineRequest_CooldownOf30Days(t *testing.T) {
	s := newStore(t)
	asker, pilot, other := s.reachable("asker"), s.reachable("harbour-pilot"), s.reachable("other")
	decline := func() {
		_, err := s.DeclineRequest(context.Background(), pilot, s.ask(asker, pilot).ID, domain.DeclineDraft{})
		s.ok(err)
	}
	decline()
	start := s.clock.Now()
	wantOutcome(t, "another's", s.send(other, pilot), "")
	wantOutcome(t, "in the other direction", s.send(pilot, asker), "")
	for _, step := range []struct {
		at   time.Duration
		want string
	}{
		{0, "cooldown request, retry after 720h0m0s"},
		{30*domain.Day - time.Millisecond, "cooldown request, retry after 720h0m0s"},
	} {
		s.clock.Advance(step.at - s.since(start))
		if got := said(s.send(asker, pilot), start); got != step.want {
			t.Errorf("after %v: %q, want %q", step.at, got, step.want)
		}
	}
	s.clock.Advance(time.Millisecond)
	decline()
	if got := said(s.send(asker, pilot), start); got != "cooldown request, retry after 1440h0m0s" {
		t.Errorf("after the second decline: %q", got)
	}
}

// TestRequest_AfterDeletionOfAParty deletes one of its sides.
func TestRequest_AfterDeletionOfAParty(t *testing.T) {
	proof.OneByOne(t)
	ctx := context.Background()
	for stage, want := range map[string]struct{ senderGone, recipientGone string }{
		"pending":               {"withdrawn", "declined"},
		"awaiting":              {"withdrawn", "declined"},
		"accepted":              {"accepted", "accepted"},
		"declined":              {"declined", "declined"},
		"withdrawn":             {"withdrawn", "withdrawn"},
		"expired":               {"expired", "expired"},
		"accepted by the owner": {"accepted", "accepted"},
	} {
		for gone, want := range map[string]string{"sender": want.senderGone, "recipient": want.recipientGone} {
			p := newStore(t, noCaps).play()
			stages[stage](p)
			what := fmt.Sprintf("%s, the %s is gone", stage, gone)
			leaves, stays := p.asker, p.pilot
			if gone == "recipient" {
				leaves, stays = p.pilot, p.asker
			}
			before := p.request(stays, p.id)
			told := p.story(stays)
			p.ok(p.RemoveAgent(ctx, leaves.Handle))
			r := p.request(stays, p.id)
			side, other := &r.From, &before.To
			if gone == "recipient" {
				side, other = &r.To, &before.From
			}
			if r.Status != want || side.Name != nil || side.Level != nil || side.Handle != leaves.Handle || r.Purpose != before.Purpose {
				t.Errorf("%s: %s, %+v", what, r.Status, side)
			}
			if (r.Mailboxes != nil) != (want == "accepted") {
				t.Errorf("%s: mailboxes %v", what, r.Mailboxes)
			} else if m := r.Mailboxes; m != nil && ((m.From == nil) != (gone == "sender") || (m.To == nil) != (gone == "recipient")) {
				t.Errorf("%s: mailboxes %v, %v", what, m.From, m.To)
			}
			if other.Name == nil {
				t.Errorf("%s: the side that stays has lost its name", what)
			}
			moved := r.Status != before.Status
			if news := strings.TrimPrefix(p.story(stays), told); (news != "") != moved || moved && news != "request."+want+" "+leaves.Handle+"\n" {
				t.Errorf("%s: told %q", what, news)
			}
			for act, answer := range p.answers() {
				before := p.dump()
				if _, err := answer(stays, p.id); outcome(err) == "" && act != "reports" {
					p.wantUnchanged(what+", "+act, before)
				}
			}
		}
	}
}

func TestRequests_Boxes(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.reachable("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.WeeklyCap = 50 })
	statuses := []string{"pending", "accepted", "declined", "withdrawn"}
	in := map[string][]string{}
	var sent, expired []string
	for i, c := range s.crowdOf("old", 3) {
		expired = append(expired, s.ask(c, pilot).ID)
		sent = append(sent, s.ask(pilot, c).ID)
		if i == 0 {
			s.clock.Advance(time.Second)
		}
	}
	s.clock.Advance(7 * domain.Day)
	for i, c := range s.crowdOf("asker", 24) {
		r := s.ask(c, pilot)
		status := statuses[i%4]
		if act := map[string]string{"accepted": "accepts", "declined": "declines"}[status]; act != "" {
			_, err := s.answers()[act](pilot, r.ID)
			s.ok(err)
		} else if status == "withdrawn" {
			_, err := s.WithdrawRequest(ctx, c, r.ID)
			s.ok(err)
		}
		in[status], in[""] = append(in[status], r.ID), append(in[""], r.ID)
	}
	in["expired"], in[""], in["awaiting_owner"] = expired, append(slices.Clone(expired), in[""]...), nil
	requestID := func(r domain.ContactRequest) string { return r.ID }
	for status, want := range in {
		slices.Reverse(want)
		box := walked{status, named(requestID, func(p listing.Page) (listing.List[domain.ContactRequest], error) {
			return s.Requests(ctx, pilot, RequestFilter{Status: status}, p)
		}), want}
		for limit := 1; limit <= 28; limit += 3 {
			if got, err := box.walk(limit); err != nil || !slices.Equal(got, want) {
				t.Errorf("those that are %q by %d: %v %v, want %v", status, limit, got, err, want)
			}
		}
		if got := s.boxed(pilot, RequestFilter{Status: status}); !slices.Equal(got, want) {
			t.Errorf("those that are %q: %v", status, got)
		}
	}
	slices.Reverse(sent)
	if got := s.boxed(pilot, RequestFilter{Sent: true}); !slices.Equal(got, sent) {
		t.Errorf("sent: %v, want %v", got, sent)
	}
	first, err := s.Requests(ctx, pilot, RequestFilter{}, listing.Page{Limit: 1})
	s.ok(err)
	for name, filter := range map[string]RequestFilter{"another box": {Sent: true}, "another status": {Status: "pending"}} {
		_, err := s.Requests(ctx, pilot, filter, listing.Page{Limit: 1, Cursor: first.Next})
		wantOutcome(t, "a cursor of "+name, err, "invalid_query")
	}
	_, err = s.Requests(ctx, domain.Caller{ID: 2}, RequestFilter{}, listing.Page{Limit: 1, Cursor: first.Next})
	wantOutcome(t, "a cursor of another agent", err, "invalid_query")
}

// TestRequest_MailboxesAreForThePartiesAlone looks at all that each side can read, in
// every state.
func TestRequest_MailboxesAreForThePartiesAlone(t *testing.T) {
	ctx := context.Background()
	for stage := range stages {
		p := newStore(t, noCaps).play()
		stages[stage](p)
		shown := func(c domain.Caller) bool {
			var read []any
			r, err := p.Request(ctx, c, p.id)
			read = append(read, r, err)
			for _, f := range []RequestFilter{{}, {Sent: true}} {
				box, err := p.Requests(ctx, c, f, listing.Page{Limit: 10})
				read = append(read, box.Items, err)
			}
			events, err := p.Events(ctx, c, "", 100)
			read = append(read, events, err)
			for _, act := range p.answers() {
				r, err := act(c, p.id)
				read = append(read, r, refusalOf(err))
			}
			text, err := json.Marshal(read)
			p.ok(err)
			other := p.pilot
			if c == p.pilot {
				other = p.asker
			}
			return strings.Contains(string(text), other.Handle+"@")
		}
		accepted := p.request(p.asker, p.id).Status == "accepted"
		for name, c := range map[string]domain.Caller{"stranger": p.stranger, "asker": p.asker} {
			if got := shown(c); got != (accepted && name != "stranger") {
				t.Errorf("%s: the %s sees a mailbox: %v", stage, name, got)
			}
		}
	}
}

// Each side's mailbox may have changed after the request was sent.
func TestAbuse07_AcceptanceLooksAgainAtBothMailboxes(t *testing.T) {
	for name, act := range map[string]struct{ first, what, verified string }{
		"accepted at once":       {"", "pilot accepts", domain.RequestAccepted},
		"accepted for the owner": {"receipt", "pilot accepts", domain.RequestAwaiting},
		"agreed by the owner":    {"awaiting", "owner agrees", domain.RequestAccepted},
	} {
		for _, side := range []string{"asker", "pilot"} {
			t.Run(name+", the mailbox changed of the "+side, func(t *testing.T) {
				p := newStore(t).play()
				if act.first != "" {
					p.update(p.pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
				}
				if act.first == "awaiting" {
					p.do("pilot accepts")
				}
				changed := map[string]domain.Caller{"asker": p.asker, "pilot": p.pilot}[side]
				p.update(changed, func(a *domain.Settings) { a.Mailbox = "never-verified@agents.example.org" })
				if got := p.do(act.what); got != string(domain.CodeInvalidState) {
					t.Errorf("with a mailbox that nobody verified: %s", got)
				}
				if boxes := p.request(p.asker, p.id).Mailboxes; boxes != nil {
					t.Errorf("the mailboxes are shown: %v", boxes)
				}
				p.ok(p.Verify(context.Background(), changed.Handle))
				if got := p.do(act.what); got != act.verified {
					t.Errorf("once it is verified: %s, want %s", got, act.verified)
				}
			})
		}
	}
}
