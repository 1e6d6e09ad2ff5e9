package store

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
)

// hidden fails the test unless an agent is hidden from the public, or is not.
func (s *testStore) hidden(c domain.Caller, want bool) {
	s.Helper()
	_, err := s.Card(context.Background(), c.Handle)
	if got := outcome(err) == "not_found"; got != want {
		s.Errorf("%s is hidden: %t, want %t (%v)", c.Handle, got, want, err)
	}
}

// A key that leaked must not be enough to erase what a person has claimed.
func TestAbuse04_DeletionOfAClaimedAgentWaits(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, asker := s.reachable("harbour-pilot"), s.reachable("tide-gauge")
	token := s.owned(pilot, mei)
	post, request := s.post(pilot), s.ask(asker, pilot)
	own, err := s.Me(ctx, pilot)
	s.ok(err)

	s.ok(s.DeleteAgent(ctx, pilot))
	s.hidden(pilot, true)
	_, err = s.Post(ctx, post.ID)
	wantOutcome(t, "its call", err, "not_found")
	wantOutcome(t, "a request to it", s.send(asker, pilot), "not_found")
	_, err = s.AcceptRequest(ctx, pilot, request.ID)
	wantOutcome(t, "its acceptance", err, "invalid_state")
	wantOutcome(t, "its deletion again", s.DeleteAgent(ctx, pilot), "invalid_state")
	seen, err := s.Me(ctx, pilot)
	s.ok(err)
	if want := domain.TimeOf(s.clock.Now().Add(72 * time.Hour)); seen.DeletionAt == nil || *seen.DeletionAt != want {
		t.Errorf("it is deleted at %v, want %v", seen.DeletionAt, want)
	}
	if diff := cmp.Diff([]string{own.Card.Profile, own.Card.RecentPosts}, []string{seen.Card.Profile, seen.Card.RecentPosts}); diff != "" {
		t.Errorf("what it sees of itself (-before +after): %s", diff)
	}
	for _, act := range []domain.OwnerAction{domain.OwnerWithdraw, domain.OwnerConfirm, domain.OwnerWaive} {
		_, err := s.press(token, act)
		wantOutcome(t, string(act), err, "invalid_state")
	}

	s.clock.Advance(72*time.Hour - time.Millisecond)
	s.ok(s.RunJobs(ctx))
	s.pressed(token, domain.OwnerKeep)
	s.hidden(pilot, false)
	s.clock.Advance(time.Millisecond)
	s.ok(s.RunJobs(ctx))
	if got := s.request(asker, request.ID).Status; got != domain.RequestPending {
		t.Errorf("a request to the agent that stayed is %s", got)
	}
	_, err = s.press(token, domain.OwnerKeep)
	wantOutcome(t, "keep what stays", err, "invalid_state")

	s.ok(s.DeleteAgent(ctx, pilot))
	s.clock.Advance(72 * time.Hour)
	s.ok(s.RunJobs(ctx))
	_, err = s.Me(ctx, pilot)
	wantOutcome(t, "the agent after 72 hours", err, "not_found")
	_, err = s.OwnerPage(ctx, token)
	wantOutcome(t, "its owner's page", err, "not_found")
	if got := s.request(asker, request.ID).Status; got != domain.RequestDeclined {
		t.Errorf("a request to the deleted agent is %s", got)
	}
}

// A claim that a thief of the key made lapse protects the agent all the same; one that nobody has
// confirmed does not.
func TestAbuse04_WhichDeletionsWait(t *testing.T) {
	for state, waits := range map[string]bool{
		"pending": false, "expired": false, "withdrawn": false, "rejected": false,
		"claimed": true, "lapsed by another owner's name": true,
		"lapsed by another mailbox": true, "lapsed by another mailbox, verified": true,
	} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		claimStates[state](s, pilot)
		s.ok(s.DeleteAgent(context.Background(), pilot))
		if there := value[int](s, `SELECT COUNT(*) FROM agents`) == 1; there != waits {
			t.Errorf("%s: the deletion waits: %t", state, there)
		}
	}
}

const thief = "thief@elsewhere.example.org"

// mails delivers what waits, and returns it by recipient: the kinds of the mails, and the newest secret.
func (s *testStore) mails() (kinds, secrets map[string]string) {
	s.Helper()
	kinds, secrets = map[string]string{}, map[string]string{}
	for _, mail := range s.deliver() {
		kinds[mail.To] = strings.TrimSpace(kinds[mail.To] + " " + mail.Kind)
		if mail.Secret != "" {
			secrets[mail.To] = mail.Secret
		}
	}
	return kinds, secrets
}

// codes has recovery codes mailed, and returns them by recipient.
func (s *testStore) codes(c domain.Caller) map[string]string {
	s.Helper()
	s.deliver()
	_, err := s.StartRecovery(context.Background(), c.Handle, netip.Addr{})
	s.ok(err)
	_, secrets := s.mails()
	return secrets
}

// wantMails fails the test unless these are the mails that wait.
func (s *testStore) wantMails(what string, want map[string]string) {
	s.Helper()
	kinds, _ := s.mails()
	if diff := cmp.Diff(want, kinds); diff != "" {
		s.Errorf("%s: mails (-want +got): %s", what, diff)
	}
}

// moveTo changes the mailbox of an agent, and verifies it as the agent does.
func (s *testStore) moveTo(c domain.Caller, mailbox string) {
	s.Helper()
	s.update(c, func(a *domain.Settings) { a.Mailbox = mailbox })
	_, err := s.StartVerify(context.Background(), c)
	s.ok(err)
	_, secrets := s.mails()
	s.ok(s.confirm(c, secrets[mailbox]))
}

func TestAbuse04_NoticesToTheMailboxAsItWas(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	fresh, _ := s.register("fresh")
	s.update(fresh, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	s.wantMails("a mailbox that was never verified", map[string]string{})

	pilot := s.verified("harbour-pilot")
	const before = "harbour-pilot@agents.example.org"
	s.update(pilot, func(a *domain.Settings) { a.Name = "New" })
	s.wantMails("another name", map[string]string{})
	token := s.invite(pilot, mei)
	s.wantMails("a claim that nobody confirmed", map[string]string{})
	s.pressed(token, domain.OwnerConfirm)
	s.wantMails("a claim", map[string]string{before: domain.MailClaimed})
	s.update(pilot, func(a *domain.Settings) { a.Owner = "Another" })
	s.pressed(token, domain.OwnerConfirm)
	s.wantMails("a claim confirmed anew", map[string]string{})
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = thief })
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "third@elsewhere.example.org" })
	s.wantMails("a changed mailbox, twice", map[string]string{before: domain.MailChanged})
	s.ok(s.DeleteAgent(ctx, pilot))
	s.wantMails("a deletion that waits", map[string]string{before: domain.MailDeletion})
	code := s.codes(pilot)[before]
	_, err := s.recover(pilot, code)
	s.ok(err)
	s.wantMails("a recovery", map[string]string{before: domain.MailRecovered})
}

// Notices have a cap of their own: what else is mailed to an address does not use it up, and the other way
// round.
func TestAbuse04_NoticesHaveTheirOwnCap(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	kinds := map[string]int{}
	for i := range 5 {
		c, _ := s.register(fmt.Sprintf("agent-%d", i), func(r *domain.Registration) { r.Mailbox = mei })
		s.ok(s.Verify(ctx, c.Handle))
		s.update(c, func(a *domain.Settings) { a.Mailbox = thief })
		_, err := s.StartRecovery(ctx, c.Handle, netip.Addr{})
		s.ok(err)
		for _, mail := range s.deliver() {
			if mail.To == mei {
				kinds[mail.Kind]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{domain.MailChanged: 3, domain.MailFormer: 5}, kinds); diff != "" {
		t.Errorf("mails to one address in a day (-want +got): %s", diff)
	}
}

func TestAbuse04_FormerMailboxRecoversForSevenDays(t *testing.T) {
	ctx := context.Background()
	const first, second = "harbour-pilot@agents.example.org", "second@agents.example.org"
	for name, tt := range map[string]struct {
		change func(*testStore, domain.Caller)
		after  time.Duration
		mails  []string // addresses that get a code
		by     string   // whose is used
		next   []string // addresses that get a code then, a day later
	}{
		"not verified": {func(s *testStore, c domain.Caller) { s.update(c, func(a *domain.Settings) { a.Mailbox = thief }) },
			7*domain.Day - time.Millisecond, []string{first}, first, []string{first}},
		"verified": {func(s *testStore, c domain.Caller) { s.moveTo(c, thief) },
			7*domain.Day - time.Millisecond, []string{first, thief}, first, []string{first}},
		"changed twice, back to the first": {func(s *testStore, c domain.Caller) {
			s.moveTo(c, second)
			s.clock.Advance(time.Hour)
			s.moveTo(c, thief)
		},
			domain.Day, []string{first, second, thief}, first, []string{first}},
		"changed twice, back to the second": {func(s *testStore, c domain.Caller) {
			s.moveTo(c, second)
			s.clock.Advance(time.Hour)
			s.moveTo(c, thief)
		},
			domain.Day, []string{first, second, thief}, second, []string{first, second}},
		"changed back by hand": {func(s *testStore, c domain.Caller) {
			s.moveTo(c, thief)
			s.clock.Advance(time.Hour)
			s.moveTo(c, first)
		},
			domain.Day, []string{first}, first, []string{first}},
		"changed back and not verified": {func(s *testStore, c domain.Caller) {
			s.moveTo(c, thief)
			s.clock.Advance(time.Hour)
			s.update(c, func(a *domain.Settings) { a.Mailbox = first })
		}, domain.Day, []string{first, thief}, first, []string{first}},
		"by the thief, who does not shut the first out": {func(s *testStore, c domain.Caller) { s.moveTo(c, thief) },
			domain.Day, []string{first, thief}, thief, []string{first, thief}},
		"after seven days": {func(s *testStore, c domain.Caller) { s.moveTo(c, thief) },
			7 * domain.Day, []string{thief}, thief, []string{thief}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, noCaps)
			pilot := s.verified("harbour-pilot")
			tt.change(s, pilot)
			s.clock.Advance(tt.after)
			s.ok(s.RunJobs(ctx))
			codes := s.codes(pilot)
			if diff := cmp.Diff(tt.mails, slices.Sorted(maps.Keys(codes))); diff != "" {
				t.Fatalf("codes are mailed to (-want +got): %s", diff)
			}
			_, err := s.recover(pilot, wrongCode)
			wantOutcome(t, "a wrong code", err, "wrong_code")
			key, err := s.recover(pilot, codes[tt.by])
			s.ok(err)
			own, err := s.Me(ctx, s.keyed(key))
			s.ok(err)
			if own.Mailbox != tt.by || own.Card.Level != 1 {
				t.Errorf("recovered: %s at level %d", own.Mailbox, own.Card.Level)
			}
			s.clock.Advance(25 * time.Hour)
			if diff := cmp.Diff(tt.next, slices.Sorted(maps.Keys(s.codes(pilot)))); diff != "" {
				t.Errorf("then codes are mailed to (-want +got): %s", diff)
			}
		})
	}
}

// What a thief does with the key does not end a former mailbox's codes.
func TestAbuse04_KeyVoidsNoCodeOfAFormerMailbox(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = thief })
	code := s.codes(pilot)["harbour-pilot@agents.example.org"]
	for i := range 5 {
		s.clock.Advance(time.Hour)
		s.update(pilot, func(a *domain.Settings) { a.Mailbox = fmt.Sprintf("thief-%d@elsewhere.example.org", i) })
		_, err := s.StartVerify(ctx, pilot)
		s.ok(err)
		_, err = s.recover(pilot, wrongCode)
		wantOutcome(t, "a wrong code", err, "wrong_code")
		_, err = s.StartRecovery(ctx, pilot.Handle, netip.Addr{})
		s.ok(err)
	}
	_, _, err := s.RotateKey(ctx, pilot)
	s.ok(err)
	_, err = s.recover(pilot, code)
	wantOutcome(t, "the first code", err, "")
}

func TestAbuse04_RecoveryEndsAYoungClaim(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		age   time.Duration
		end   bool
		ended bool
	}{
		"young":       {30*domain.Day - time.Millisecond, true, true},
		"30 days old": {30 * domain.Day, true, false},
		"not asked":   {time.Hour, false, false},
	} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		token := s.owned(pilot, thief)
		s.update(pilot, func(a *domain.Settings) { a.ContactPolicy.RequireOwnerReceipt = true })
		s.clock.Advance(tt.age)
		done, err := s.ConfirmRecovery(ctx, pilot.Handle, s.codes(pilot)[pilot.Handle+"@agents.example.org"], tt.end)
		s.ok(err)
		if _, err := s.OwnerPage(ctx, token); (outcome(err) == "not_found") != tt.ended || done.ClaimEnded != tt.ended {
			t.Errorf("%s: the owner's page: %v; said to be ended: %t", name, err, done.ClaimEnded)
		}
		level, receipt := 2, true
		if tt.ended {
			level, receipt = 1, false
		}
		if got := value[bool](s, `SELECT require_owner_receipt FROM agents`); s.level(pilot) != level || got != receipt {
			t.Errorf("%s: level %d, receipts required: %t", name, s.level(pilot), got)
		}
	}
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.invite(pilot, thief)
	done, err := s.ConfirmRecovery(ctx, pilot.Handle, s.codes(pilot)[pilot.Handle+"@agents.example.org"], true)
	s.ok(err)
	if _, err := s.OwnerPage(ctx, token); outcome(err) != "not_found" || !done.ClaimEnded {
		t.Errorf("a claim that nobody confirmed stays: %v", err)
	}
}

// The owner who takes the agent back does not leave the thief a former mailbox.
func TestAbuse04_OwnersNewKeyEndsLaterMailboxes(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	token := s.owned(pilot, mei)
	s.moveTo(pilot, thief)
	s.clock.Advance(time.Hour)
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "another@elsewhere.example.org" })
	s.pressed(token, domain.OwnerRotateKey)
	codes := slices.Sorted(maps.Keys(s.codes(pilot)))
	if diff := cmp.Diff([]string{"harbour-pilot@agents.example.org"}, codes); diff != "" {
		t.Errorf("codes are mailed to (-want +got): %s", diff)
	}
}

func TestAbuse04_OperatorEndsAClaim(t *testing.T) {
	ctx := context.Background()
	for _, state := range []string{"pending", "claimed", "lapsed by another mailbox", "about to be deleted", "withdrawn"} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		token := claimStates[state](s, pilot)
		s.ok(s.Unclaim(ctx, pilot.Handle))
		_, err := s.OwnerPage(ctx, token)
		wantOutcome(t, state+": the owner's page", err, "not_found")
		if level := s.level(pilot); level == 2 { // and it is seen again
			t.Errorf("%s: level %d", state, level)
		}
		acts, err := s.Acts(ctx, 1)
		if s.ok(err); acts[0].Act != "unclaim" {
			t.Errorf("%s: the log says %v", state, acts)
		}
	}
	s := newStore(t, noCaps)
	wantOutcome(t, "nobody's", s.Unclaim(ctx, "nobody"), "not_found")
}

// TestAbuse04_TheHolderWins plays a thief whom an agent's key leaked to, and then what the rightful holder
// can do after an hour, a day and eight days. With a verified mailbox that is still the agent's, or was
// within seven days, or with an owner's page, the holder always wins; else the operator helps.
func TestAbuse04_TheHolderWins(t *testing.T) {
	const mine = "harbour-pilot@agents.example.org"
	day, week := domain.Day, 8*domain.Day
	for _, tt := range []struct {
		name    string
		claimed bool // by its owner, long before
		moves   bool // the thief changes the mailbox, else leaves it
		deletes bool
		after   time.Duration
		wins    map[string]bool // the ways in which the holder wins; the others do not work
	}{
		{"claims it, an hour", false, false, false, time.Hour, map[string]bool{"mailbox": true}},
		{"claims it, a day", false, false, false, day, map[string]bool{"mailbox": true}},
		{"claims it, eight days", false, false, false, week, map[string]bool{"mailbox": true}},
		{"claims and deletes it, a day", false, false, true, day, map[string]bool{"mailbox": true}},
		{"moves and claims it, an hour", false, true, false, time.Hour, map[string]bool{"mailbox": true}},
		{"moves and claims it, a day", false, true, false, day, map[string]bool{"mailbox": true}},
		{"moves, claims and deletes it, a day", false, true, true, day, map[string]bool{"mailbox": true}},
		{"moves and claims it, eight days", false, true, false, week, map[string]bool{"operator": true}},
		{"moves what has an owner, an hour", true, true, false, time.Hour, map[string]bool{"mailbox": true, "owner": true}},
		{"moves what has an owner, a day", true, true, false, day, map[string]bool{"mailbox": true, "owner": true}},
		{"moves what has an owner, eight days", true, true, false, week, map[string]bool{"owner": true}},
		{"deletes what has an owner, a day", true, true, true, day, map[string]bool{"mailbox": true, "owner": true}},
	} {
		for _, way := range []string{"mailbox", "owner", "operator"} {
			if way == "owner" && !tt.claimed || way == "operator" && !tt.wins[way] {
				continue
			}
			t.Run(tt.name+", by the "+way, func(t *testing.T) {
				s := newStore(t) // with all caps
				claimed := time.Duration(0)
				if tt.claimed {
					claimed = 60 * domain.Day
				}
				h := s.heldBefore(claimed)
				h.steal(tt.moves, tt.deletes)
				s.clock.Advance(tt.after)
				s.ok(s.RunJobs(context.Background()))
				key := map[string]func() string{"mailbox": h.byMailbox, "owner": h.byOwner, "operator": h.byOperator}[way]()
				if (key != "") != tt.wins[way] {
					t.Fatalf("the holder has the key: %t, want %t", key != "", tt.wins[way])
				}
				if key != "" {
					h.wantOwn(key, mine)
				}
			})
		}
	}
}

// heist is an agent whose key leaked.
type heist struct {
	*testStore
	pilot          domain.Caller
	own            string            // the token of the rightful owner's page
	codesOfHolder  []string          // recovery codes in the holder's mailbox
	stolen, claims string            // the thief's key, and the token of the thief's page
	thiefs         map[string]string // codes in the thief's mailboxes, by kind and mailbox
	stop           string            // the token of a mail to the thief
	deleted        bool
	did            []string
}

// boss is whom the thief names as the owner.
const boss = "boss@elsewhere.example.org"

// heldBefore makes an agent that has had an owner for some time; 0 is none.
func (s *testStore) heldBefore(claimed time.Duration) *heist {
	s.Helper()
	h := &heist{testStore: s, thiefs: map[string]string{}}
	h.pilot, h.stolen = s.register("harbour-pilot")
	s.ok(s.Verify(context.Background(), h.pilot.Handle))
	if claimed > 0 {
		h.own = s.owned(h.pilot, mei)
		s.clock.Advance(claimed)
	}
	s.deliver()
	return h
}

// steal does what a thief can do with the key: the mailbox, the claim, the key, the mails of the day.
func (h *heist) steal(moves, deletes bool) {
	h.Helper()
	ctx := context.Background()
	if moves {
		h.update(h.pilot, func(a *domain.Settings) { a.Mailbox, a.Owner = thief, "A. Thief" })
		h.ok(h.confirm(h.pilot, h.code(h.pilot)))
	}
	h.clock.Advance(time.Minute)
	if h.own == "" {
		h.claims = h.invite(h.pilot, boss)
		h.pressed(h.claims, domain.OwnerConfirm)
	}
	for range 6 { // so that no mail is left for the holder
		h.clock.Advance(time.Minute)
		_, _ = h.ClaimOwner(ctx, h.pilot, boss)
		_, _ = h.ConfirmRecovery(ctx, h.pilot.Handle, wrongCode, false)
	}
	for _, mail := range h.delivered() {
		if mail.Kind == domain.MailOwner {
			h.claims = mail.Secret
		}
	}
	key, _, err := h.RotateKey(ctx, h.pilot)
	h.ok(err)
	h.rekey(key)
	if h.own == "" {
		h.rekey(h.pressed(h.claims, domain.OwnerRotateKey).Key)
	}
	if moves { // so that the claim of the rightful owner ends
		done, err := h.ConfirmRecovery(ctx, h.pilot.Handle, h.codes(h.pilot)[thief], h.own != "")
		h.ok(err)
		h.rekey(done.Key)
	}
	if deletes {
		h.ok(h.DeleteAgent(ctx, h.keyed(h.stolen)))
		h.hidden(h.pilot, true)
	}
}

// byMailbox recovers the key as the holder of the first mailbox; "" if that gets no code.
func (h *heist) byMailbox() string {
	h.Helper()
	code := h.codes(h.pilot)["harbour-pilot@agents.example.org"]
	if code == "" {
		return ""
	}
	done, err := h.ConfirmRecovery(context.Background(), h.pilot.Handle, code, true)
	h.ok(err)
	return done.Key
}

// byOwner takes the agent back on the owner's page.
func (h *heist) byOwner() string {
	h.Helper()
	page := h.page(h.own)
	key := h.pressed(h.own, domain.OwnerRotateKey).Key
	if page.DeletionAt != nil {
		h.pressed(h.own, domain.OwnerKeep)
	}
	c := h.keyed(key)
	h.update(c, func(a *domain.Settings) { a.Mailbox, a.Owner = "harbour-pilot@agents.example.org", "Mei Lin" })
	h.clock.Advance(domain.Day)
	if !h.page(h.own).MailboxVerified {
		h.ok(h.confirm(c, h.code(c)))
	}
	if !h.page(h.own).Claimed {
		h.pressed(h.own, domain.OwnerConfirm)
	}
	return key
}

// byOperator asks the operator for help, who ends the claim, trusts no mailbox and replaces the key.
func (h *heist) byOperator() string {
	h.Helper()
	ctx := context.Background()
	h.ok(h.Unclaim(ctx, h.pilot.Handle))
	h.ok(h.Unverify(ctx, h.pilot.Handle))
	key, err := h.ReplaceKey(ctx, h.pilot.Handle)
	h.ok(err)
	c := h.keyed(key)
	h.update(c, func(a *domain.Settings) { a.Mailbox = "harbour-pilot@agents.example.org" })
	h.ok(h.Verify(ctx, h.pilot.Handle))
	return key
}

// wantOwn fails the test unless the agent is its holder's alone.
func (h *heist) wantOwn(key, mailbox string) {
	h.Helper()
	ctx := context.Background()
	h.hidden(h.pilot, false)
	own, err := h.Me(ctx, h.keyed(key))
	h.ok(err)
	if own.Mailbox != mailbox || !strings.Contains(own.Card.Profile, `"verified":true`) || own.DeletionAt != nil {
		h.Errorf("the agent: %+v", own)
	}
	_, err = h.Authenticate(ctx, h.stolen)
	wantOutcome(h, "the thief's key", err, "unauthorized")
	if h.claims != "" {
		_, err = h.OwnerPage(ctx, h.claims)
		wantOutcome(h, "the thief's page", err, "not_found")
	}
	h.clock.Advance(2 * domain.Day)
	h.ok(h.RunJobs(ctx))
	for to := range h.codes(h.pilot) {
		if to != mailbox {
			h.Errorf("a code is mailed to %s", to)
		}
	}
	for _, code := range h.thiefs {
		_, err := h.recover(h.pilot, code)
		if outcome(err) == "" {
			h.Error("a code of the thief recovers the key")
		}
	}
	h.hidden(h.pilot, false)
}
