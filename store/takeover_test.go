package store

import (
	"context"
	"net/netip"
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
	s.ok(errOf(s.StartRecovery(context.Background(), c.Handle, netip.Addr{})))
	return s.secrets()
}

// moveTo changes the mailbox of an agent, and verifies it as the agent does.
func (s *testStore) moveTo(c domain.Caller, mailbox string) {
	s.Helper()
	s.update(c, func(a *domain.Settings) { a.Mailbox = mailbox })
	s.ok(errOf(s.StartVerify(context.Background(), c)))
	s.ok(s.confirm(c, s.secrets()[mailbox]))
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
	s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, h.pilot.Handle))
	if claimed > 0 {
		h.own = s.owned(h.pilot, mei)
		s.clock.Advance(claimed)
	}
	s.deliver()
	return h
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

// wantOwn fails the test unless the agent is its holder's alone.
func (h *heist) wantOwn(key, mailbox string) {
	h.Helper()
	ctx := context.Background()
	h.hidden(h.pilot, false)
	own, err := h.Me(ctx, h.keyed(key))
	h.ok(err)
	if own.Mailbox != mailbox || !own.Card.Verified || own.DeletionAt != nil {
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
