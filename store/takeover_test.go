package store

import (
	"context"
	"net/netip"
	"time"

	"callbook/store/domain"
)

// wantHidden fails the test unless an agent is hidden from the public, or is not.
func (s *testStore) wantHidden(c domain.Caller, want bool) {
	s.Helper()
	_, err := s.Card(context.Background(), c.Handle)
	if got := outcome(err) == "not_found"; got != want {
		s.Errorf("%s is hidden: %t, want %t (%v)", c.Handle, got, want, err)
	}
}

const thief = "thief@elsewhere.example.org"

// deliverSecrets delivers what waits, and returns the newest secret of each recipient.
func (s *testStore) deliverSecrets() map[string]string {
	s.Helper()
	secrets := map[string]string{}
	for _, mail := range s.deliverMails() {
		if mail.Secret != "" {
			secrets[mail.To] = mail.Secret
		}
	}
	return secrets
}

// recoveryCodes has recovery codes mailed, and returns them by recipient.
func (s *testStore) recoveryCodes(c domain.Caller) map[string]string {
	s.Helper()
	s.deliverMails()
	s.ok(errOf(s.StartRecovery(context.Background(), c.Handle, netip.Addr{})))
	return s.deliverSecrets()
}

// moveMailbox changes the mailbox of an agent, and verifies it as the agent does.
func (s *testStore) moveMailbox(c domain.Caller, mailbox string) {
	s.Helper()
	s.update(c, func(a *domain.Settings) { a.Mailbox = mailbox })
	s.ok(errOf(s.StartVerify(context.Background(), c)))
	s.ok(s.confirmVerify(c, s.deliverSecrets()[mailbox]))
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
		h.own = s.claimBy(h.pilot, mei)
		s.clock.Advance(claimed)
	}
	s.deliverMails()
	return h
}

// byOwner takes the agent back on the owner's page.
func (h *heist) byOwner() string {
	h.Helper()
	page := h.ownerPage(h.own)
	key := h.actAsOwner(h.own, domain.OwnerRotateKey).Key
	if page.DeletionAt != nil {
		h.actAsOwner(h.own, domain.OwnerKeep)
	}
	c := h.callerOf(key)
	h.update(c, func(a *domain.Settings) { a.Mailbox, a.Owner = "harbour-pilot@agents.example.org", "Mei Lin" })
	h.clock.Advance(domain.Day)
	if !h.ownerPage(h.own).MailboxVerified {
		h.ok(h.confirmVerify(c, h.verifyCode(c)))
	}
	if !h.ownerPage(h.own).Claimed {
		h.actAsOwner(h.own, domain.OwnerConfirm)
	}
	return key
}

// wantOwn fails the test unless the agent is its holder's alone.
func (h *heist) wantOwn(key, mailbox string) {
	h.Helper()
	ctx := context.Background()
	h.wantHidden(h.pilot, false)
	own, err := h.Me(ctx, h.callerOf(key))
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
	for to := range h.recoveryCodes(h.pilot) {
		if to != mailbox {
			h.Errorf("a code is mailed to %s", to)
		}
	}
	for _, code := range h.thiefs {
		_, err := h.confirmRecovery(h.pilot, code)
		if outcome(err) == "" {
			h.Error("a code of the thief recovers the key")
		}
	}
	h.wantHidden(h.pilot, false)
}
