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
	"callbook/store/listing"
	"callbook/testdata/proof"
)

const mei, ada = "mei@people.example.org", "ada@people.example.org"

// verified registers an agent with a verified mailbox.
func (s *testStore) verified(handle string) domain.Caller {
	s.Helper()
	c, _ := s.register(handle)
	s.ok(s.Verify(context.Background(), handle))
	return c
}

// invite asks a person to claim an agent, and returns the token of the link.
func (s *testStore) invite(c domain.Caller, address string) string {
	s.Helper()
	_, err := s.ClaimOwner(context.Background(), c, address)
	s.ok(err)
	return s.mailed().Secret
}

// owned has an agent claimed, and returns the token of the owner's page.
func (s *testStore) owned(c domain.Caller, address string) string {
	s.Helper()
	token := s.invite(c, address)
	s.pressed(token, domain.OwnerConfirm)
	return token
}

// page is the owner's page as it is now.
func (s *testStore) page(token string) domain.OwnerPage {
	s.Helper()
	page, err := s.OwnerPage(context.Background(), token)
	s.ok(err)
	return page
}

// press opens the owner's page and presses a button.
func (s *testStore) press(token string, act domain.OwnerAction, set ...func(*domain.OwnerSubmission)) (domain.OwnerResult, error) {
	page, err := s.OwnerPage(context.Background(), token)
	if err != nil {
		return domain.OwnerResult{}, err
	}
	call := domain.OwnerSubmission{Token: token, Form: page.Form, Act: act}
	for _, f := range set {
		f(&call)
	}
	return s.ActAsOwner(context.Background(), call)
}

func (s *testStore) pressed(token string, act domain.OwnerAction, set ...func(*domain.OwnerSubmission)) domain.OwnerResult {
	s.Helper()
	done, err := s.press(token, act, set...)
	s.ok(err)
	return done
}

// about sets the request that an act is about.
func about(id string) func(*domain.OwnerSubmission) {
	return func(c *domain.OwnerSubmission) { c.Request = id }
}

// typed sets the handle that confirms a retirement.
func typed(handle string) func(*domain.OwnerSubmission) {
	return func(c *domain.OwnerSubmission) { c.Confirm = handle }
}

func (s *testStore) level(c domain.Caller) int {
	s.Helper()
	card, err := s.Card(context.Background(), c.Handle)
	s.ok(err)
	return card.Level
}

// claimStates are the states that an owner claim can be in, and how an agent comes
// there. Each returns the token of the last link.
var claimStates = map[string]func(s *testStore, pilot domain.Caller) string{
	"pending": func(s *testStore, pilot domain.Caller) string { return s.invite(pilot, mei) },
	"expired": func(s *testStore, pilot domain.Caller) string {
		token := s.invite(pilot, mei)
		s.clock.Advance(72 * time.Hour)
		return token
	},
	"claimed": func(s *testStore, pilot domain.Caller) string { return s.owned(pilot, mei) },
	"lapsed by another owner's name": func(s *testStore, pilot domain.Caller) string {
		token := s.owned(pilot, mei)
		s.update(pilot, func(a *domain.Settings) { a.Owner = "Another" })
		return token
	},
	"lapsed by another mailbox": func(s *testStore, pilot domain.Caller) string {
		token := s.owned(pilot, mei)
		s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
		return token
	},
	"lapsed by another mailbox, verified": func(s *testStore, pilot domain.Caller) string {
		token := s.owned(pilot, mei)
		s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
		s.ok(s.Verify(context.Background(), pilot.Handle))
		return token
	},
	"about to be deleted": func(s *testStore, pilot domain.Caller) string {
		token := s.owned(pilot, mei)
		s.ok(s.DeleteAgent(context.Background(), pilot))
		return token
	},
	"withdrawn": func(s *testStore, pilot domain.Caller) string {
		token := s.owned(pilot, mei)
		s.pressed(token, domain.OwnerWithdraw)
		return token
	},
	"rejected": func(s *testStore, pilot domain.Caller) string {
		token := s.invite(pilot, mei)
		s.pressed(token, domain.OwnerReject)
		return token
	},
	"voided by another mailbox": func(s *testStore, pilot domain.Caller) string {
		token := s.invite(pilot, mei)
		s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
		return token
	},
	"retired": func(s *testStore, pilot domain.Caller) string {
		token := s.owned(pilot, mei)
		s.pressed(token, domain.OwnerRetire, typed(pilot.Handle))
		return token
	},
}

// TestOwner_ButtonsInEachState presses every button in every state of a claim.
func TestOwner_ButtonsInEachState(t *testing.T) {
	proof.OneByOne(t)
	acts := []domain.OwnerAction{domain.OwnerConfirm, domain.OwnerReject, domain.OwnerWithdraw, domain.OwnerRotateKey, domain.OwnerRetire, domain.OwnerAgree, domain.OwnerRefuse, domain.OwnerWaive, domain.OwnerKeep, "other"}
	gone := strings.Fields(strings.Repeat("not_found ", len(acts)))
	const state = "invalid_state"
	for name, want := range map[string][]string{
		"pending":                             {"", "", state, state, state, state, state, state, state, state},
		"expired":                             gone,
		"claimed":                             {state, state, "", "", "", "not_found", "not_found", state, state, state},
		"lapsed by another owner's name":      {"", state, "", "", "", "not_found", "not_found", state, state, state},
		"lapsed by another mailbox":           {"trust_too_low", state, "", "", "", "not_found", "not_found", state, state, state},
		"lapsed by another mailbox, verified": {"", state, "", "", "", "not_found", "not_found", state, state, state},
		"about to be deleted":                 {state, state, state, "", "", state, state, state, "", state},
		"withdrawn":                           gone,
		"rejected":                            gone,
		"voided by another mailbox":           gone,
		"retired":                             gone,
	} {
		for i, act := range acts {
			s := newStore(t, noCaps)
			pilot := s.verified("harbour-pilot")
			token := claimStates[name](s, pilot)
			before := s.dump()
			done, err := s.press(token, act, typed(pilot.Handle), about("req_unknown"))
			wantOutcome(t, name+", "+string(act), err, want[i])
			if err != nil {
				s.wantUnchanged(name+", "+string(act), before)
				continue
			}
			if done.Handle != pilot.Handle || (done.Key != "") != (act == domain.OwnerRotateKey) {
				t.Errorf("%s, %s: done for %q, a key %v", name, act, done.Handle, done.Key != "")
			}
		}
	}
}

// TestOwner_ClaimOfAnotherPerson asks another person in every state of a claim.
func TestOwner_ClaimOfAnotherPerson(t *testing.T) {
	for name, want := range map[string]struct{ same, other string }{
		"pending":                             {"", ""},
		"expired":                             {"", ""},
		"claimed":                             {"", "already_claimed"},
		"lapsed by another owner's name":      {"", "already_claimed"},
		"lapsed by another mailbox":           {"trust_too_low", "trust_too_low"},
		"lapsed by another mailbox, verified": {"", "already_claimed"},
		"withdrawn":                           {"", ""},
		"rejected":                            {"", ""},
		"voided by another mailbox":           {"trust_too_low", "trust_too_low"},
		"retired":                             {"unauthorized", "unauthorized"},
	} {
		for address, want := range map[string]string{mei: want.same, "Mei+x@People.example.org": want.same, ada: want.other} {
			s := newStore(t, noCaps)
			pilot := s.verified("harbour-pilot")
			old := claimStates[name](s, pilot)
			sent, err := s.ClaimOwner(context.Background(), pilot, address)
			wantOutcome(t, name+", claimed by "+address, err, want)
			if err != nil {
				continue
			}
			if sent.ExpiresAt != domain.TimeOf(s.clock.Now()).Add(72*time.Hour) {
				t.Errorf("%s: expires %v", name, sent.ExpiresAt)
			}
			// Where an owner has confirmed, the old link is good until the new one is
			// delivered: asking for one must not shut the owner out.
			before := "not_found"
			if strings.HasPrefix(name, "claimed") || strings.HasPrefix(name, "lapsed") {
				before = ""
			}
			_, err = s.OwnerPage(context.Background(), old)
			wantOutcome(t, name+", the page of the old link before the mail is delivered", err, before)
			mails := s.delivered()
			_, err = s.OwnerPage(context.Background(), old)
			wantOutcome(t, name+", the page of the old link", err, "not_found")
			if name == "rejected" && address != ada {
				if len(mails) != 0 {
					t.Error("one who said no is asked again")
				}
			} else if page := s.page(mails[0].Secret); page.Handle != pilot.Handle {
				t.Errorf("%s: the new page is of %q", name, page.Handle)
			}
		}
	}
	s := newStore(t)
	fresh, _ := s.register("lighthouse")
	_, err := s.ClaimOwner(context.Background(), fresh, mei)
	if wantOutcome(t, "with no verified mailbox", err, "trust_too_low"); refusalOf(err).Topic != "claim" {
		t.Errorf("topic %s", refusalOf(err).Topic)
	}
}

func TestOwner_OldLinkIsNotFound(t *testing.T) {
	for _, state := range []string{"pending", "claimed"} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		old := claimStates[state](s, pilot)
		call := domain.OwnerSubmission{Token: old, Form: s.page(old).Form, Act: domain.OwnerRotateKey}
		if state == "pending" {
			call.Act = domain.OwnerConfirm
		}
		token := s.invite(pilot, mei)
		_, err := s.ActAsOwner(context.Background(), call)
		wantOutcome(t, state+", a button of the old page", err, "not_found")
		call.Token = token
		_, err = s.ActAsOwner(context.Background(), call)
		wantOutcome(t, state+", the old form behind the new link", err, "invalid_state")
		if page := s.page(token); page.Claim != state || page.Claimed != (state == "claimed") {
			t.Errorf("%s: the new page says %s, %v", state, page.Claim, page.Claimed)
		}
		_, err = s.press(token, call.Act)
		wantOutcome(t, state+", a button of the new page", err, "")
	}
}

func TestOwner_ExpiredPage(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	token := s.invite(pilot, mei)
	form := s.page(token).Form
	s.clock.Advance(72 * time.Hour)
	before := s.dump()
	for _, act := range []domain.OwnerAction{domain.OwnerConfirm, domain.OwnerReject} {
		_, err := s.ActAsOwner(context.Background(), domain.OwnerSubmission{Token: token, Form: form, Act: act})
		wantOutcome(t, string(act), err, "not_found")
	}
	s.wantUnchanged("a page left open too long", before)
}

func TestOwner_FormActsOnce(t *testing.T) {
	s := newStore(t, noCaps)
	rounds := proof.Rounds(20, 70, 1400)
	proof.Figure(t, "act rounds", 3*rounds)
	for round := range rounds {
		pilot, first := s.register(fmt.Sprintf("agent-%d", round))
		s.ok(s.Verify(context.Background(), pilot.Handle))
		token := s.invite(pilot, mei)
		at := func(act domain.OwnerAction) ([]string, []error) {
			call := domain.OwnerSubmission{Token: token, Form: s.page(token).Form, Act: act}
			keys := make([]string, rush)
			return keys, together(rush, func(i int) error {
				done, err := s.ActAsOwner(context.Background(), call)
				keys[i] = done.Key
				return err
			})
		}
		want := map[string]int{"": 1, "invalid_state": rush - 1}
		_, errs := at(domain.OwnerConfirm)
		wantOutcomes(t, "confirm", errs, want)
		keys, errs := at(domain.OwnerRotateKey)
		wantOutcomes(t, "rotate", errs, want)
		works := 0
		for i, key := range append(keys, first) {
			if (key != "") != (i == rush || errs[i] == nil) {
				t.Errorf("press %d: a key %v, %v", i, key != "", errs[i])
			}
			if _, err := s.Authenticate(context.Background(), key); err == nil {
				works++
			}
		}
		if works != 1 || s.level(pilot) != 2 {
			t.Errorf("%d keys work, level %d", works, s.level(pilot))
		}
		_, errs = at(domain.OwnerWithdraw)
		wantOutcomes(t, "withdraw", errs, map[string]int{"": 1, "not_found": rush - 1})
	}
}

func TestOwner_EachActChangesTheForm(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.invite(pilot, mei)
	seen := map[string]bool{}
	for i, act := range []domain.OwnerAction{domain.OwnerConfirm, domain.OwnerRotateKey, domain.OwnerRotateKey, domain.OwnerRotateKey} {
		form := s.page(token).Form
		if again := s.page(token).Form; again != form || seen[form] {
			t.Errorf("act %d: opening the page changes the form, or it was there before", i)
		}
		seen[form] = true
		_, err := s.ActAsOwner(context.Background(), domain.OwnerSubmission{Token: token, Form: form, Act: "other"})
		wantOutcome(t, "an act that is none", err, "invalid_state")
		if s.page(token).Form != form {
			t.Error("a refused act changes the form")
		}
		for _, other := range []string{"", form[1:], strings.ToUpper(form) + "x"} {
			_, err := s.ActAsOwner(context.Background(), domain.OwnerSubmission{Token: token, Form: other, Act: act})
			wantOutcome(t, "another form", err, "invalid_state")
		}
		s.pressed(token, act)
	}
}

func TestOwner_PageFields(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	asked := domain.TimeOf(s.clock.Now())
	token := s.invite(pilot, mei)
	want := domain.OwnerPage{
		Handle: "harbour-pilot", Name: "Name of harbour-pilot", Owner: "Mei Lin", Claim: "pending",
		MailboxVerified: true, ExpiresAt: asked.Add(72 * time.Hour), Receipts: []domain.ContactRequest{},
	}
	for _, step := range []struct {
		name string
		do   func()
		want func()
	}{
		{"asked", func() {}, func() {}},
		{"just before the end", func() { s.clock.Advance(72*time.Hour - time.Millisecond) }, func() {}},
		{"confirmed", func() { s.pressed(token, domain.OwnerConfirm) }, func() { want.Claim, want.Claimed = "claimed", true }},
		{"long after", func() { s.clock.Advance(364 * domain.Day); s.ok(s.RunJobs(context.Background())) }, func() {}},
		{"another name", func() { s.update(pilot, func(a *domain.Settings) { a.Name = "New" }) }, func() { want.Name = "New" }},
		{"another owner's name", func() { s.update(pilot, func(a *domain.Settings) { a.Owner = "Ada" }) }, func() { want.Owner, want.Claimed = "Ada", false }},
		{"confirmed anew", func() { s.pressed(token, domain.OwnerConfirm) }, func() { want.Claimed = true }},
		{"another mailbox", func() { s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" }) },
			func() { want.Claimed, want.MailboxVerified, want.MailboxChanged = false, false, true }},
		{"which is verified", func() { s.ok(s.Verify(context.Background(), pilot.Handle)) }, func() { want.MailboxVerified = true }},
		{"confirmed with it", func() { s.pressed(token, domain.OwnerConfirm) }, func() { want.Claimed, want.MailboxChanged = true, false }},
	} {
		step.do()
		step.want()
		page := s.page(token)
		page.Form = ""
		if diff := cmp.Diff(want, page); diff != "" {
			t.Errorf("%s (-want +got): %s", step.name, diff)
		}
	}
	for name, other := range map[string]string{"empty": "", "another case": strings.ToLower(token), "unknown": token + "x", "of a key": "cq_" + token} {
		_, err := s.OwnerPage(context.Background(), other)
		wantOutcome(t, "the page of a token that is "+name, err, "not_found")
	}
}

// TestOwner_ClaimAsTheAgentSeesIt looks at what the agent itself is told of its claim.
func TestOwner_ClaimAsTheAgentSeesIt(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := ""
	asked := domain.TimeOf(s.clock.Now())
	expires := asked.Add(72 * time.Hour)
	none, open := domain.OwnerClaim{Status: "none"}, domain.OwnerClaim{Status: "pending", RequestedAt: &asked, ExpiresAt: &expires}
	expired, claimed := domain.OwnerClaim{Status: "expired", RequestedAt: &asked, ExpiresAt: &expires}, domain.OwnerClaim{Status: "claimed", RequestedAt: &asked, ExpiresAt: nil}
	for _, step := range []struct {
		name string
		do   func()
		want *domain.OwnerClaim
	}{
		{"new", func() {}, &none},
		{"asked", func() { s.invite(pilot, mei) }, &open},
		{"just before the end", func() { s.clock.Advance(72*time.Hour - time.Millisecond) }, &open},
		{"at the end", func() { s.clock.Advance(time.Millisecond) }, &expired},
		{"after the due jobs", func() { s.ok(s.RunJobs(ctx)) }, &expired},
		{"just before it is forgotten", func() { s.clock.Advance(30*domain.Day - time.Millisecond); s.ok(s.RunJobs(ctx)) }, &expired},
		{"forgotten", func() { s.clock.Advance(time.Millisecond); s.ok(s.RunJobs(ctx)) }, &none},
		{"asked again", func() {
			asked = domain.TimeOf(s.clock.Now())
			expires = asked.Add(72 * time.Hour)
			token = s.invite(pilot, ada)
		}, &open},
		{"confirmed", func() { s.pressed(token, domain.OwnerConfirm) }, &claimed},
		{"a month later", func() { s.clock.Advance(40 * domain.Day); s.ok(s.RunJobs(ctx)) }, &claimed},
		{"lapsed", func() { s.update(pilot, func(a *domain.Settings) { a.Owner = "Another" }) }, &domain.OwnerClaim{Status: "pending", RequestedAt: &asked, ExpiresAt: nil}},
		{"confirmed anew", func() { s.pressed(token, domain.OwnerConfirm) }, &claimed},
		{"withdrawn", func() { s.pressed(token, domain.OwnerWithdraw) }, &none},
		{"rejected", func() { s.pressed(s.invite(pilot, mei), domain.OwnerReject) }, &none},
	} {
		step.do()
		own, err := s.Me(ctx, pilot)
		s.ok(err)
		if diff := cmp.Diff(*step.want, own.Claim); diff != "" {
			t.Errorf("%s (-want +got): %s", step.name, diff)
		}
	}
}

func TestOwner_RejectedClaim(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, light := s.verified("harbour-pilot"), s.verified("lighthouse")
	s.pressed(s.invite(pilot, mei), domain.OwnerReject)
	heard := value[string](s, `SELECT about || ' ' || subject || ' ' || length(reporter) || ' ' || COALESCE(reason, 'no reason') FROM reports`)
	if heard != "claim harbour-pilot 32 no reason" {
		t.Errorf("the operator hears of %q", heard)
	}
	for _, step := range []struct {
		name    string
		after   time.Duration
		by      domain.Caller
		address string
		mails   int
	}{
		{"asked again", 0, pilot, mei, 0},
		{"in other letters", 0, pilot, "MEI+again@people.example.org", 0},
		{"by another agent", 0, light, mei, 1},
		{"another person", 0, pilot, ada, 1},
		{"the first once more", time.Hour, pilot, mei, 0},
		{"at the end", 30*domain.Day - time.Hour - time.Millisecond, pilot, mei, 0},
		{"after it", time.Millisecond, pilot, mei, 1},
	} {
		s.clock.Advance(step.after)
		s.ok(s.RunJobs(ctx))
		sent, err := s.ClaimOwner(ctx, step.by, step.address)
		expires := sent.ExpiresAt
		wantOutcome(t, step.name, err, "")
		if mails := s.deliver(); len(mails) != step.mails || expires != domain.TimeOf(s.clock.Now()).Add(72*time.Hour) {
			t.Errorf("%s: %d mails, want %d; expires %v", step.name, len(mails), step.mails, expires)
		}
		own, err := s.Me(ctx, step.by)
		if s.ok(err); own.Claim.Status != "pending" || *own.Claim.ExpiresAt != expires || *own.Claim.RequestedAt != domain.TimeOf(s.clock.Now()) {
			t.Errorf("%s: own claim %v", step.name, own.Claim)
		}
	}
	if n := value[int](s, `SELECT COUNT(*) FROM reports WHERE reporter IS NOT NULL`); n != 0 {
		t.Error("who said no is still known after 30 days")
	}
}

// A link that cannot be replaced, because its address got all the mails of a day,
// is not voided either: the owner would be shut out.
func TestOwner_UnsentMailLeavesTheLinkValid(t *testing.T) {
	ctx := context.Background()
	for _, state := range []string{"pending", "claimed"} {
		s := newStore(t)
		pilot := s.verified("harbour-pilot")
		token := claimStates[state](s, pilot)
		for i, c := range []domain.Caller{s.verified("agent-a"), s.verified("agent-b")} {
			_, err := s.ClaimOwner(ctx, c, mei)
			s.ok(err)
			if n := len(s.delivered()); n != 1 {
				t.Errorf("mail %d: %d", i, n)
			}
		}
		s.clock.Advance(time.Minute)
		_, err := s.ClaimOwner(ctx, pilot, mei)
		if s.ok(err); len(s.deliver()) != 0 {
			t.Error("a fourth mail")
		}
		act := map[string]domain.OwnerAction{"pending": domain.OwnerConfirm, "claimed": domain.OwnerRotateKey}[state]
		_, err = s.press(token, act)
		wantOutcome(t, state+", the link that was sent", err, "")
	}
}

// A claim that is silently replaced takes the mail of the one before along.
func TestOwner_UnsentClaimDeletesTheMail(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	for i := range 3 {
		_, err := s.ClaimOwner(ctx, s.verified(fmt.Sprintf("agent-%d", i)), ada)
		s.ok(err)
	}
	s.deliver()
	_, err := s.ClaimOwner(ctx, pilot, mei)
	s.ok(err)
	s.clock.Advance(time.Minute)
	_, err = s.ClaimOwner(ctx, pilot, ada)
	if s.ok(err); len(s.deliver()) != 0 {
		t.Error("a link that is dead is mailed")
	}
}

func TestOwner_LimitOfAgents(t *testing.T) {
	s := newStore(t, noCaps)
	const limit = 20
	var tokens []string
	for i := range limit + 12 {
		tokens = append(tokens, s.invite(s.verified(fmt.Sprintf("agent-%d", i)), fmt.Sprintf("Mei+%d@people.example.org", i)))
	}
	forms := make([]string, len(tokens))
	for i, token := range tokens {
		forms[i] = s.page(token).Form
	}
	errs := together(len(tokens), func(i int) error {
		_, err := s.ActAsOwner(context.Background(), domain.OwnerSubmission{Token: tokens[i], Form: forms[i], Act: domain.OwnerConfirm})
		return err
	})
	wantOutcomes(t, "confirmed at once", errs, map[string]int{"": limit, "sender_limit_reached": 12})
	var claimed []domain.Caller
	var inForce, refused []string
	for i, token := range tokens {
		if errs[i] == nil {
			inForce, claimed = append(inForce, token), append(claimed, domain.Caller{ID: int64(i + 1), Handle: fmt.Sprintf("agent-%d", i)})
		} else {
			refused = append(refused, token)
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"one too many", func() {}, "sender_limit_reached"},
		{"a claim that has lapsed counts", func() { s.update(claimed[0], func(a *domain.Settings) { a.Owner = "Another" }) }, "sender_limit_reached"},
		{"its own is confirmed anew", func() { s.pressed(inForce[0], domain.OwnerConfirm) }, "sender_limit_reached"},
		{"one withdrawn", func() { s.pressed(inForce[0], domain.OwnerWithdraw) }, ""},
		{"and taken by another", func() {}, "sender_limit_reached"},
		{"one retired", func() { s.pressed(inForce[1], domain.OwnerRetire, typed(claimed[1].Handle)) }, ""},
	} {
		step.do()
		_, err := s.press(refused[0], domain.OwnerConfirm)
		if wantOutcome(t, step.name, err, step.want); err == nil {
			refused = refused[1:]
		} else if refusal := refusalOf(err); refusal.Limit != limit || refusal.Topic != "owner_agents" {
			t.Errorf("%s: %+v", step.name, refusal)
		}
	}
	other := s.verified("another-owners")
	s.owned(other, ada)
	for limit, want := range map[int]string{0: "", limit - 1: "sender_limit_reached", limit: "sender_limit_reached", limit + 1: ""} {
		s.reopen(noCaps, func(o *Options) { o.OwnerAgents = &limit })
		_, err := s.press(refused[0], domain.OwnerConfirm)
		if wantOutcome(t, fmt.Sprintf("with a limit of %d", limit), err, want); err == nil {
			s.pressed(refused[0], domain.OwnerWithdraw)
			refused = refused[1:]
		}
	}
}

// TestOwner_LevelAndEvidenceFollowTheClaim goes through claims in both directions, and
// looks at the cards of both sides and at what they are told.
func TestOwner_LevelAndEvidenceFollowTheClaim(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	a, b := s.verified("agent-a"), s.verified("agent-b")
	s.collab("col_1", a, b)
	var tokenA, tokenB string
	owner := func(name string) func() {
		return func() { s.update(a, func(set *domain.Settings) { set.Owner = name }) }
	}
	mailbox := func(address string) func() {
		return func() { s.update(a, func(set *domain.Settings) { set.Mailbox = address }) }
	}
	type state struct{ levelA, levelB, evidence int }
	told := map[string]int{}
	before := state{1, 1, 0}
	for _, step := range []struct {
		name string
		do   func()
		want state
	}{
		{"nobody", func() {}, state{1, 1, 0}},
		{"one", func() { tokenA = s.owned(a, mei) }, state{2, 1, 0}},
		{"both by the same", func() { tokenB = s.owned(b, "MEI+b@people.example.org") }, state{2, 2, 0}},
		{"withdrawn", func() { s.pressed(tokenB, domain.OwnerWithdraw) }, state{2, 1, 0}},
		{"by another", func() { tokenB = s.owned(b, ada) }, state{2, 2, 1}},
		{"another owner's name", owner("Another"), state{1, 2, 0}},
		{"the old name again", owner("Mei Lin"), state{1, 2, 0}},
		{"confirmed anew", func() { s.pressed(tokenA, domain.OwnerConfirm) }, state{2, 2, 1}},
		{"another mailbox", mailbox("new@agents.example.org"), state{0, 2, 0}},
		{"verified", func() { s.ok(s.Verify(ctx, a.Handle)) }, state{1, 2, 0}},
		{"confirmed with it", func() { s.pressed(tokenA, domain.OwnerConfirm) }, state{2, 2, 1}},
		{"a fresh link", func() { tokenA = s.invite(a, mei) }, state{2, 2, 1}},
		{"a fresh key", func() { a = s.keyed(s.pressed(tokenA, domain.OwnerRotateKey).Key) }, state{2, 2, 1}},
		{"the other withdraws", func() { s.pressed(tokenB, domain.OwnerWithdraw) }, state{2, 1, 0}},
		{"and comes back", func() { tokenB = s.owned(b, ada) }, state{2, 2, 1}},
		{"a mailbox changed and taken back", func() { mailbox("thief@agents.example.org")(); s.pressed(tokenA, domain.OwnerRotateKey) }, state{0, 2, 0}},
	} {
		step.do()
		one, err := s.Card(ctx, a.Handle)
		s.ok(err)
		other, err := s.Card(ctx, b.Handle)
		s.ok(err)
		if got := (state{one.Level, other.Level, one.Confirmed}); got != step.want || other.Confirmed != one.Confirmed {
			t.Errorf("%s: %v, want %v; evidence of the partner %d", step.name, got, step.want, other.Confirmed)
		}
		collabs, err := s.Collabs(ctx, "", listing.Page{Limit: 1})
		if s.ok(err); collabs.Items[0].CountsAsEvidence != (step.want.evidence == 1) {
			t.Errorf("%s: counts as evidence is %v", step.name, collabs.Items[0].CountsAsEvidence)
		}
		if step.want.levelA != before.levelA {
			told["agent-a"]++
		}
		if step.want.levelB != before.levelB {
			told["agent-b"]++
		}
		before = step.want
		for _, c := range []domain.Caller{a, b} {
			// One more: the operator's verification, with which both began.
			if n := strings.Count(s.story(c), "trust.changed "+c.Handle); n != told[c.Handle]+1 {
				t.Errorf("%s: %s was told %d times, want %d", step.name, c.Handle, n, told[c.Handle]+1)
			}
		}
	}
}

// TestOwner_TakesAStolenAgentBack tells the whole story of one who holds an agent's key and
// wants it for good.
// TestOwner_UndeliveredLinkLeavesTheOldOneValid: the thief of a key asks for one again and again,
// to a spelling of the owner's address where no mail arrives.
func TestOwner_UndeliveredLinkLeavesTheOldOneValid(t *testing.T) {
	ctx := context.Background()
	for name, outcome := range map[string]domain.MailOutcome{"refused": domain.MailRejected, "delayed": domain.MailDelayed, "perhaps delivered": domain.MailUncertain} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		token := s.owned(pilot, mei)
		s.deliver()
		_, err := s.ClaimOwner(ctx, pilot, "mei+void@people.example.org")
		s.ok(err)
		mail, due := s.begin()
		if !due || mail.Kind != domain.MailOwner {
			t.Fatalf("%s: the fresh link is not on its way: %+v", name, mail)
		}
		s.ok(s.FinishMail(ctx, mail, outcome))
		if page := s.page(token); page.Handle != pilot.Handle {
			t.Errorf("%s: the owner's page is gone", name)
		}
		// One that has arrived all the same is good, and from its first use on alone.
		s.pressed(mail.Secret, domain.OwnerRotateKey)
		_, err = s.OwnerPage(ctx, token)
		wantOutcome(t, name+", the old link once the new one is used", err, "not_found")
	}
}

func TestOwner_TakesAStolenAgentBack(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.owned(pilot, mei)
	mine := s.pressed(token, domain.OwnerRotateKey).Key
	stolen, _, err := s.RotateKey(ctx, s.keyed(mine)) // the thief has it now
	s.ok(err)
	pilot = s.keyed(stolen)

	// Whatever it asks for in the owner's name goes to the owner.
	_, err = s.ClaimOwner(ctx, pilot, mei)
	s.ok(err)
	s.update(pilot, func(a *domain.Settings) { a.Mailbox, a.Owner = "thief@agents.example.org", "A. Thief" })
	mails := s.delivered()
	if len(mails) != 1 || mails[0].To != mei {
		t.Fatalf("the owner's fresh link is not on its way: %d mails", len(mails))
	}
	s.page(mails[0].Secret)
	s.ok(s.confirm(pilot, s.code(pilot)))
	_, err = s.ClaimOwner(ctx, pilot, "thief@people.example.org")
	wantOutcome(t, "the thief's claim", err, "already_claimed")
	token = s.invite(pilot, mei) // asked for from the thief's mailbox, it tells of it all the same
	if s.level(pilot) != 1 {
		t.Errorf("level %d under the thief", s.level(pilot))
	}
	recovery := s.codes(pilot)["thief@agents.example.org"]

	page := s.page(token)
	if !page.MailboxChanged || page.Claimed || page.Owner != "A. Thief" {
		t.Errorf("the owner's page hides what happened: %+v", page)
	}
	mine = s.pressed(token, domain.OwnerRotateKey).Key
	_, err = s.Authenticate(ctx, stolen)
	wantOutcome(t, "the stolen key", err, "unauthorized")
	_, err = s.recover(pilot, recovery)
	wantOutcome(t, "the thief's code", err, "wrong_code") // there is one of the former mailbox
	s.clock.Advance(domain.Day)
	if codes := s.codes(pilot); codes["thief@agents.example.org"] != "" || s.level(pilot) != 0 {
		t.Errorf("codes to %v, level %d", codes, s.level(pilot))
	}

	pilot = s.keyed(mine)
	s.update(pilot, func(a *domain.Settings) { a.Mailbox, a.Owner = "harbour-pilot@agents.example.org", "Mei Lin" })
	s.ok(s.confirm(pilot, s.code(pilot)))
	s.pressed(token, domain.OwnerConfirm)
	if page := s.page(token); page.MailboxChanged || s.level(pilot) != 2 {
		t.Errorf("level %d at the end", s.level(pilot))
	}
}

func TestOwner_RotateKey(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, old := s.register("harbour-pilot")
	s.ok(s.Verify(ctx, pilot.Handle))
	token := s.owned(pilot, mei)
	done := s.pressed(token, domain.OwnerRotateKey)
	_, err := s.Authenticate(ctx, old)
	wantOutcome(t, "the old key", err, "unauthorized")
	_, err = s.Authenticate(ctx, done.Key)
	wantOutcome(t, "the new key", err, "")
	if s.level(pilot) != 2 {
		t.Errorf("level %d", s.level(pilot))
	}
}

func TestOwner_Retire(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, key := s.register("harbour-pilot")
	s.ok(s.Verify(context.Background(), pilot.Handle))
	token := s.owned(pilot, mei)
	for _, handle := range []string{"", "Harbour-Pilot", "harbour-pilot ", "lighthouse"} {
		_, err := s.press(token, domain.OwnerRetire, typed(handle))
		wantOutcome(t, fmt.Sprintf("typed %q", handle), err, "validation_failed")
		if faults := refusalOf(err).Fields; len(faults) != 1 || faults[0] != (domain.FieldError{Field: "confirm", Code: domain.FaultBadValue, Topic: "confirm"}) {
			t.Errorf("typed %q: %v", handle, faults)
		}
	}
	s.pressed(token, domain.OwnerRetire, typed("harbour-pilot"))
	_, err := s.Authenticate(context.Background(), key)
	wantOutcome(t, "its key", err, "unauthorized")
	_, err = s.Card(context.Background(), "harbour-pilot")
	wantOutcome(t, "its card", err, "not_found")
	_, _, err = s.Register(context.Background(), registration("harbour-pilot"), domain.IdempotencyKey{})
	wantOutcome(t, "its handle", err, "handle_taken")
}

// With the claim goes the duty to ask the owner, whom nobody knows any longer.
func TestOwner_WithdrawalEndsReceipts(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	receipt := func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true }
	_, err := s.UpdateAgent(context.Background(), pilot, func(a *domain.Settings) error { receipt(a); return nil })
	wantOutcome(t, "with no owner", err, "trust_too_low")
	token := s.owned(pilot, mei)
	s.update(pilot, receipt)
	required := func() bool { return value[bool](s, `SELECT require_owner_receipt FROM agents`) }
	if s.update(pilot, func(a *domain.Settings) { a.Owner = "Another" }); !required() {
		t.Error("a claim that lapsed ends the owner's receipts")
	}
	if s.pressed(token, domain.OwnerWithdraw); required() {
		t.Error("receipts are required of nobody")
	}
	card, err := s.Card(context.Background(), pilot.Handle)
	if s.ok(err); !strings.Contains(card.Profile, `"require_owner_receipt":false`) {
		t.Errorf("the card says otherwise: %s", card.Profile)
	}
}

func TestAbuse16_FormCoversNameAndOwner(t *testing.T) {
	for name, change := range map[string]func(*domain.Settings){
		"another name":  func(a *domain.Settings) { a.Name = "Bank of Skagen" },
		"another owner": func(a *domain.Settings) { a.Owner = "Somebody Else" },
	} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		token := s.invite(pilot, mei)
		shown := s.page(token)
		s.update(pilot, change)
		confirm := domain.OwnerSubmission{Token: token, Form: shown.Form, Act: domain.OwnerConfirm}
		_, err := s.ActAsOwner(context.Background(), confirm)
		wantOutcome(t, name+": a page that shows the old one", err, "invalid_state")
		s.update(pilot, func(a *domain.Settings) { a.Tagline, a.Name, a.Owner = "Berths", shown.Name, shown.Owner })
		_, err = s.ActAsOwner(context.Background(), confirm)
		wantOutcome(t, name+": and back, with another tagline", err, "")
	}
}

func TestAbuse16_UnusedLinkEndsAfterAYear(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.owned(pilot, mei)
	for _, use := range []func(){
		func() { s.page(token) },
		func() { s.pressed(token, domain.OwnerRotateKey) },
		func() { pilot = s.keyed(s.pressed(token, domain.OwnerRotateKey).Key) },
	} {
		s.clock.Advance(364 * domain.Day)
		use()
	}
	s.clock.Advance(365*domain.Day - time.Millisecond)
	form := s.page(token).Form // less than a year, and a use

	s.clock.Advance(365 * domain.Day)
	_, err := s.OwnerPage(context.Background(), token)
	wantOutcome(t, "the page after a year", err, "not_found")
	_, err = s.ActAsOwner(context.Background(), domain.OwnerSubmission{Token: token, Form: form, Act: domain.OwnerRotateKey})
	wantOutcome(t, "its button", err, "not_found")
	if s.level(pilot) != 2 {
		t.Error("the claim ended with its link")
	}
	fresh := s.invite(pilot, mei)
	_, err = s.OwnerPage(context.Background(), token)
	wantOutcome(t, "the old link once there is a fresh one", err, "not_found")
	s.clock.Advance(364 * domain.Day)
	s.pressed(fresh, domain.OwnerWithdraw)
}

// A thief of the key must not be able to lift what is to hold the key back.
func TestAbuse15_OnlyTheOwnerWaivesReceipts(t *testing.T) {
	for name, lapse := range map[string]func(*domain.Settings){
		"claimed":             func(*domain.Settings) {},
		"another owner named": func(a *domain.Settings) { a.Owner = "Another" },
		"mailbox changed":     func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" },
		"in one call with it": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, noCaps)
			pilot := s.verified("harbour-pilot")
			token := s.owned(pilot, mei)
			s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
			waive := func(a *domain.Settings) error {
				a.ContactPolicy.RequireOwnerReceipt = false
				if lapse == nil {
					a.Owner = "Another"
				}
				return nil
			}
			if lapse != nil {
				s.update(pilot, lapse)
			}
			_, err := s.UpdateAgent(context.Background(), pilot, waive)
			wantOutcome(t, "switched off by the key", err, "forbidden")
			if !s.page(token).ReceiptRequired {
				t.Error("receipts are no longer required")
			}
			s.pressed(token, domain.OwnerWaive)
			if s.page(token).ReceiptRequired {
				t.Error("the owner waived receipts, and they are still required")
			}
			_, err = s.UpdateAgent(context.Background(), pilot, waive)
			wantOutcome(t, "left off by the key", err, "")
		})
	}
}

func TestOwner_OnlyHashesAreStored(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	var tokens []string
	for _, act := range []func() string{
		func() string { return s.owned(pilot, "canary7q@people.example.org") },
		func() string { return s.invite(pilot, "canary7q@people.example.org") },
	} {
		tokens = append(tokens, act())
	}
	form := s.page(tokens[1]).Form
	s.ok(errors.Join(s.RunJobs(context.Background())))
	s.stop()
	for name, secret := range map[string]string{"an address": "canary7q", "the old token": tokens[0], "the token": tokens[1], "the form": form} {
		if n := s.occurrences([]byte(secret)); n != 0 {
			t.Errorf("%s stands %d times in the file", name, n)
		}
	}
}
