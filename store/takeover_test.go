package store

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

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

const thief = "thief@elsewhere.example.org"

// secrets delivers what waits, and returns the newest secret of each recipient.
func (s *testStore) secrets() map[string]string {
	s.Helper()
	secrets := map[string]string{}
	for _, mail := range s.deliver() {
		if mail.Secret != "" {
			secrets[mail.To] = mail.Secret
		}
	}
	return secrets
}

// codes has recovery codes mailed, and returns them by recipient.
func (s *testStore) codes(c domain.Caller) map[string]string {
	s.Helper()
	s.deliver()
	_, err := s.StartRecovery(context.Background(), c.Handle, netip.Addr{})
	s.ok(err)
	return s.secrets()
}

// moveTo changes the mailbox of an agent, and verifies it as the agent does.
func (s *testStore) moveTo(c domain.Caller, mailbox string) {
	s.Helper()
	s.update(c, func(a *domain.Settings) { a.Mailbox = mailbox })
	_, err := s.StartVerify(context.Background(), c)
	s.ok(err)
	s.ok(s.confirm(c, s.secrets()[mailbox]))
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
