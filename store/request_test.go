package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// reachable registers an agent at level 1 that takes requests without an offering.
func (s *testStore) reachable(handle string) domain.Caller {
	s.Helper()
	c := s.verified(handle)
	s.update(c, func(a *domain.Settings) { a.ContactPolicy.RequireOffering = false })
	return c
}

func (s *testStore) crowdOf(prefix string, n int) []domain.Caller {
	s.Helper()
	callers := make([]domain.Caller, n)
	for i := range callers {
		callers[i] = s.reachable(fmt.Sprintf("%s-%d", prefix, i))
	}
	return callers
}

var plainDraft = domain.ContactRequestDraft{Purpose: "Tide tables", Deliverable: "Two files", Compensation: "none"}

func (s *testStore) send(from, to domain.Caller) error {
	_, _, err := s.SendRequest(context.Background(), from, to.Handle, plainDraft, domain.IdempotencyKey{})
	return err
}

// ask sends a request that is admitted.
func (s *testStore) ask(from, to domain.Caller) domain.ContactRequest {
	s.Helper()
	r, _, err := s.SendRequest(context.Background(), from, to.Handle, plainDraft, domain.IdempotencyKey{})
	s.ok(err)
	return r
}

// request is a request as one of its parties reads it.
func (s *testStore) request(c domain.Caller, id string) domain.ContactRequest {
	s.Helper()
	r, err := s.Request(context.Background(), c, id)
	s.ok(err)
	return r
}

// answers are the acts on a request that are calls of an agent.
func (s *testStore) answers() map[string]func(c domain.Caller, id string) (domain.ContactRequest, error) {
	ctx := context.Background()
	return map[string]func(domain.Caller, string) (domain.ContactRequest, error){
		"accepts": func(c domain.Caller, id string) (domain.ContactRequest, error) { return s.AcceptRequest(ctx, c, id) },
		"declines": func(c domain.Caller, id string) (domain.ContactRequest, error) {
			return s.DeclineRequest(ctx, c, id, domain.DeclineDraft{})
		},
		"withdraws": func(c domain.Caller, id string) (domain.ContactRequest, error) { return s.WithdrawRequest(ctx, c, id) },
		"reports": func(c domain.Caller, id string) (domain.ContactRequest, error) {
			return s.ReportRequest(ctx, c, id, domain.ReportDraft{})
		},
	}
}

// played is one request and all who may touch it.
type played struct {
	*testStore
	asker, pilot, stranger domain.Caller
	token                  string // of the page of the pilot's owner
	id                     string
}

// play sends a request from a new agent to another one, which has an owner.
func (s *testStore) play() *played {
	s.Helper()
	var n int
	db := s.connection("ro")
	s.ok(errors.Join(db.Get(&n, `SELECT COUNT(*) FROM handles`), db.Close()))
	name := func(what string) string { return fmt.Sprintf("%s-%d", what, n) }
	p := &played{testStore: s, asker: s.reachable(name("asker")), pilot: s.reachable(name("pilot")), stranger: s.reachable(name("stranger"))}
	p.token = s.owned(p.pilot, name("owner")+"@people.example.org")
	p.id = s.ask(p.asker, p.pilot).ID
	return p
}

// do does what such as "asker withdraws" says, and returns the status that it
// leads to, or the refusal.
func (p *played) do(what string) string {
	p.Helper()
	who, act, _ := strings.Cut(what, " ")
	var err error
	if who == "owner" {
		_, err = p.press(p.token, map[string]domain.OwnerAction{"agrees": domain.OwnerAgree, "refuses": domain.OwnerRefuse}[act], about(p.id))
	} else {
		var r domain.ContactRequest
		r, err = p.answers()[act](map[string]domain.Caller{"asker": p.asker, "pilot": p.pilot, "stranger": p.stranger}[who], p.id)
		if err == nil {
			if diff := cmp.Diff(p.request(p.pilot, p.id), r); diff != "" {
				p.Errorf("%s: the answer is not what is read (-read +answer): %s", what, diff)
			}
		}
	}
	if err != nil {
		return outcome(err)
	}
	return p.request(p.pilot, p.id).Status
}

func (p *played) receipts(on bool) {
	p.Helper()
	if !on {
		p.pressed(p.token, domain.OwnerWaive)
		return
	}
	p.update(p.pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
}

// stages are the ways into each state of a request.
var stages = map[string]func(*played){
	"pending":               func(p *played) {},
	"pending with receipts": func(p *played) { p.receipts(true) },
	"awaiting":              func(p *played) { p.receipts(true); p.do("pilot accepts") },
	"awaiting, receipts off": func(p *played) {
		p.receipts(true)
		p.do("pilot accepts")
		p.receipts(false)
	},
	"accepted":              func(p *played) { p.do("pilot accepts") },
	"accepted, receipts on": func(p *played) { p.do("pilot accepts"); p.receipts(true) },
	"accepted by the owner": func(p *played) { p.receipts(true); p.do("pilot accepts"); p.do("owner agrees") },
	"declined":              func(p *played) { p.do("pilot declines") },
	"declined by the owner": func(p *played) { p.receipts(true); p.do("pilot accepts"); p.do("owner refuses") },
	"reported":              func(p *played) { p.do("pilot reports") },
	"withdrawn":             func(p *played) { p.do("asker withdraws") },
	"expired":               func(p *played) { p.clock.Advance(7 * domain.Day); p.ok(p.RunJobs(context.Background())) },
	"expired while awaiting": func(p *played) {
		p.receipts(true)
		p.do("pilot accepts")
		p.clock.Advance(7 * domain.Day)
		p.ok(p.RunJobs(context.Background()))
	},
}

// TestRequest_EveryActInEveryState walks the table of states: what it does not
// name is refused and leaves nothing behind.
func TestRequest_EveryActInEveryState(t *testing.T) {
	proof.OneByOne(t)
	const state = "invalid_state"
	acts := []string{"asker withdraws", "pilot accepts", "pilot declines", "pilot reports", "owner agrees", "owner refuses"}
	for stage, want := range map[string][]string{
		"pending":                {"withdrawn", "accepted", "declined", "declined", state, state},
		"pending with receipts":  {"withdrawn", "awaiting_owner", "declined", "declined", state, state},
		"awaiting":               {"withdrawn", "awaiting_owner", "declined", "declined", "accepted", "declined"},
		"awaiting, receipts off": {"withdrawn", "awaiting_owner", "declined", "declined", "accepted", "declined"},
		"accepted":               {state, "accepted", state, "accepted", "accepted", state},
		"accepted, receipts on":  {state, "accepted", state, "accepted", "accepted", state},
		"accepted by the owner":  {state, "accepted", state, "accepted", "accepted", state},
		"declined":               {state, state, "declined", "declined", state, "declined"},
		"declined by the owner":  {state, state, "declined", "declined", state, "declined"},
		"reported":               {state, state, "declined", "declined", state, "declined"},
		"withdrawn":              {"withdrawn", state, state, "withdrawn", state, state},
		"expired":                {state, state, state, "expired", state, state},
		"expired while awaiting": {state, state, state, "expired", state, state},
	} {
		outcomes := map[string]string{}
		for i, act := range acts {
			outcomes[act] = want[i]
		}
		for _, act := range []string{"accepts", "declines", "reports"} {
			outcomes["asker "+act] = "forbidden"
		}
		outcomes["pilot withdraws"] = "forbidden"
		for _, act := range []string{"accepts", "declines", "reports", "withdraws"} {
			outcomes["stranger "+act] = "not_found"
		}
		s := newStore(t, noCaps)
		for act, want := range outcomes {
			p := s.play()
			stages[stage](p)
			p.check(stage, act, want)
		}
	}
}

// The owner of a suspended agent can refuse for it, but exchange no mailbox.
func TestRequest_ReceiptsOfASuspendedAgent(t *testing.T) {
	for act, want := range map[string]string{"owner agrees": "invalid_state", "owner refuses": "declined"} {
		p := newStore(t, noCaps).play()
		stages["awaiting"](p)
		p.change([]domain.Caller{p.pilot}, `UPDATE agents SET suspended_at = 1, suspended_until = ? WHERE id = ?`, domain.TimeOf(p.clock.Now()).Add(domain.Day), p.pilot.ID)
		_, err := p.press(p.token, map[string]domain.OwnerAction{"owner agrees": domain.OwnerAgree, "owner refuses": domain.OwnerRefuse}[act], about(p.id))
		if got := outcome(err) + p.request(p.asker, p.id).Status; got != want && got != want+"awaiting_owner" {
			t.Errorf("%s while it is suspended: %s, want %s", act, got, want)
		}
		if p.clock.Advance(domain.Day); want == "invalid_state" {
			if got := p.do(act); got != "accepted" {
				t.Errorf("%s after it: %s", act, got)
			}
		}
	}
}

// check does an act, and once more if it is allowed: then the answer is the same,
// and nobody hears of it.
func (p *played) check(stage, act, want string) {
	p.Helper()
	p.page(p.token) // which records a use of the link
	what, before := stage+", "+act, p.dump()
	got := p.do(act)
	if got != want {
		p.Errorf("%s: %s, want %s", what, got, want)
	}
	if strings.Contains("invalid_state forbidden not_found", got) {
		p.wantUnchanged(what, before)
		return
	}
	first, stories := p.request(p.asker, p.id), p.story(p.asker)+p.story(p.pilot)
	if open := got == "pending" || got == "awaiting_owner"; (first.DecidedAt == nil) != open {
		p.Errorf("%s: decided at %v", what, first.DecidedAt)
	}
	p.clock.Advance(time.Second)
	if again := p.do(act); again != got {
		p.Errorf("%s, repeated: %s", what, again)
	}
	if diff := cmp.Diff(first, p.request(p.asker, p.id)); diff != "" {
		p.Errorf("%s, repeated (-first +second): %s", what, diff)
	}
	if again := p.story(p.asker) + p.story(p.pilot); again != stories {
		p.Errorf("%s, repeated: told %q, then %q", what, stories, again)
	}
}

// TestRequest_Events looks at what both sides are told on the way to each
// state, in this order.
func TestRequest_Events(t *testing.T) {
	const received = "request.received ASKER\n"
	for stage, want := range map[string]struct{ asker, pilot string }{
		"pending":                {"", received},
		"awaiting":               {"", received},
		"accepted":               {"request.accepted PILOT\n", received},
		"accepted by the owner":  {"request.accepted PILOT\n", received + "request.accepted ASKER\n"},
		"declined":               {"request.declined PILOT\n", received},
		"declined by the owner":  {"request.declined PILOT\n", received + "request.declined ASKER\n"},
		"reported":               {"request.declined PILOT\n", received},
		"withdrawn":              {"", received + "request.withdrawn ASKER\n"},
		"expired":                {"request.expired PILOT\n", received + "request.expired ASKER\n"},
		"expired while awaiting": {"request.expired PILOT\n", received + "request.expired ASKER\n"},
	} {
		p := newStore(t, noCaps).play()
		stages[stage](p)
		names := strings.NewReplacer(p.asker.Handle, "ASKER", p.pilot.Handle, "PILOT")
		ofRequests := func(c domain.Caller) (story string) {
			for line := range strings.Lines(names.Replace(p.story(c))) {
				if strings.HasPrefix(line, "request.") {
					story += line
				}
			}
			return story
		}
		if got := ofRequests(p.asker); got != want.asker {
			t.Errorf("%s: the sender heard %q, want %q", stage, got, want.asker)
		}
		if got := ofRequests(p.pilot); got != want.pilot {
			t.Errorf("%s: the recipient heard %q, want %q", stage, got, want.pilot)
		}
	}
}

func TestRequest_Fields(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	asker, pilot := s.verified("asker"), s.verified("harbour-pilot")
	menu, err := s.ReplaceOfferings(ctx, pilot, domain.Menu{Offerings: []domain.OfferingDraft{{Title: "Tide table", Deliverable: "A CSV", Mode: "free", TurnaroundDays: 2}}})
	s.ok(err)
	draft := domain.ContactRequestDraft{
		Purpose: "Tides", Deliverable: "CSV", Compensation: "offsite_paid", OfferingID: menu[0].ID,
		Deadline: "2026-12-01", Context: "For two ports.\nNo hurry.",
	}
	now := domain.TimeOf(s.clock.Now())
	got, replayed, err := s.SendRequest(ctx, asker, pilot.Handle, draft, domain.IdempotencyKey{})
	s.ok(err)
	party := func(handle string, level int) domain.Party {
		name := "Name of " + handle
		return domain.Party{Handle: handle, Name: &name, Level: &level}
	}
	want := domain.ContactRequest{
		ID: got.ID, Status: "pending", From: party("asker", 1), To: party("harbour-pilot", 1),
		Purpose: "Tides", Deliverable: "CSV", Compensation: "offsite_paid", Offering: &menu[0],
		Deadline: &draft.Deadline, Context: &draft.Context, CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(7 * domain.Day),
	}
	if diff := cmp.Diff(want, got); diff != "" || replayed || !strings.HasPrefix(got.ID, "req_") {
		t.Errorf("sent (-want +got): %s", diff)
	}
	from, to, later := "asker@agents.example.org", "harbour-pilot@agents.example.org", "later@agents.example.org"
	decided := func(status string) func() {
		return func() {
			want.Status, want.UpdatedAt = status, domain.TimeOf(s.clock.Now())
			want.DecidedAt = &want.UpdatedAt
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want func()
	}{
		{"another menu", func() {
			_, err := s.ReplaceOfferings(ctx, pilot, domain.Menu{Offerings: []domain.OfferingDraft{{ID: menu[0].ID, Title: "Other", Deliverable: "d", Mode: "quote"}}})
			s.ok(err)
		}, func() {}},
		{"other names and levels", func() {
			s.update(asker, func(a *domain.Settings) { a.Name = "Renamed" })
			s.claim(pilot, 1)
		}, func() {
			want.To = party("harbour-pilot", 2)
			*want.From.Name = "Renamed"
		}},
		{"accepted", func() { _, err := s.AcceptRequest(ctx, pilot, got.ID); s.ok(err) }, func() {
			decided("accepted")()
			want.Mailboxes = &domain.Mailboxes{From: &from, To: &to}
		}},
		{"other mailboxes", func() {
			for _, c := range []domain.Caller{asker, pilot} {
				s.update(c, func(a *domain.Settings) { a.Mailbox = later })
			}
		}, func() { want.From.Level, want.To.Level = new(int), new(int) }},
		{"the sender is gone", func() { s.ok(s.DeleteAgent(ctx, asker)) }, func() {
			want.From, want.Mailboxes = domain.Party{Handle: "asker"}, &domain.Mailboxes{From: nil, To: &to}
		}},
	} {
		s.clock.Advance(time.Minute)
		step.do()
		step.want()
		if diff := cmp.Diff(want, s.request(pilot, got.ID)); diff != "" {
			t.Errorf("%s (-want +got): %s", step.name, diff)
		}
	}
}

func TestDeclineRequest_Reasons(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	for i, reason := range []string{"", "not_a_fit", "busy", "need_more_info", "other"} {
		asker, pilot := s.reachable(fmt.Sprintf("asker-%d", i)), s.reachable(fmt.Sprintf("pilot-%d", i))
		sent := s.ask(asker, pilot)
		first, err := s.DeclineRequest(ctx, pilot, sent.ID, domain.DeclineDraft{Reason: reason})
		if s.ok(err); domain.Deref(first.DeclineReason) != reason || (first.DeclineReason == nil) != (reason == "") {
			t.Errorf("declined with %q: %v", reason, first.DeclineReason)
		}
		again, err := s.DeclineRequest(ctx, pilot, sent.ID, domain.DeclineDraft{Reason: "other"})
		if s.ok(err); !cmp.Equal(first, again) {
			t.Errorf("another reason afterwards: %s", cmp.Diff(first, again))
		}
	}
}

func TestAbuse08_CardHasFactsAboutRequests(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	c := s.reachable("harbour-pilot")
	want := func(what string, received, answered int, median string) {
		t.Helper()
		card, err := s.Card(ctx, c.Handle)
		s.ok(err)
		got := fmt.Sprintf("%d %d nil", card.Requests.Received, card.Requests.Answered)
		if card.Requests.MedianHours != nil {
			got = fmt.Sprintf("%d %d %v", card.Requests.Received, card.Requests.Answered, *card.Requests.MedianHours)
		}
		if wanted := fmt.Sprintf("%d %d %s", received, answered, median); got != wanted {
			t.Errorf("%s: %s, want %s", what, got, wanted)
		}
	}
	ask := func(i int) domain.ContactRequest { return s.ask(s.reachable(fmt.Sprintf("asker-%d", i)), c) }
	want("none", 0, 0, "nil")
	for i, hours := range []float64{1, 5.04, 7} {
		request := ask(i)
		want("a request", i+1, i, "nil")
		s.clock.Advance(time.Duration(hours * float64(time.Hour)))
		_, err := s.DeclineRequest(ctx, c, request.ID, domain.DeclineDraft{})
		s.ok(err)
	}
	want("three answers", 3, 3, "5")
	request := ask(3)
	s.clock.Advance(6 * time.Hour)
	_, err := s.AcceptRequest(ctx, c, request.ID)
	s.ok(err)
	want("an even number", 4, 4, "5.5")
	sender := s.reachable("undecided")
	_, err = s.WithdrawRequest(ctx, sender, s.ask(sender, c).ID)
	s.ok(err)
	want("a withdrawn one", 4, 4, "5.5")
	ask(4)
	s.clock.Advance(domain.RequestAge)
	want("one that expired", 5, 4, "5.5")
	s.clock.Advance(domain.NextDay(testStart()).Add(domain.FactsAge).Sub(s.clock.Now()) - time.Millisecond)
	want("the last day", 5, 4, "5.5")
	s.clock.Advance(time.Millisecond)
	want("all but one are past", 1, 0, "nil")
}
