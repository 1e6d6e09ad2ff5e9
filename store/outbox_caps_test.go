package store

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// fromAddress returns the caller at another address.
func fromAddress(c domain.Caller, address string) domain.Caller {
	c.Address = netip.MustParseAddr(address)
	return c
}

// TestMailPool_OneNetworkCannotSpendTheMails has one IPv4 address and one /48 request mails in every way. The
// site goes on verifying newcomers and recovering keys.
// It holds promise 3 of SECURITY.md.
func TestMailPool_OneNetworkCannotSpendTheMails(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	kinds := []string{domain.MailVerify, domain.MailRecover, domain.MailClaim}
	s := newStore(t)
	requests := proof.Rounds(60, 300, 3000)
	var mails4, mails48, verified, recovered int
	for i := range requests {
		mails4 += s.requestMail(kinds[i%3], fmt.Sprintf("four-%d", i), "192.0.2.7")
		mails48 += s.requestMail(kinds[i%3], fmt.Sprintf("six-%d", i), fmt.Sprintf("2001:db8:7:%x::1", i*211%(1<<16)))
	}
	if mails4 != 5 || mails48 != 20 {
		t.Errorf("%d mails for an IPv4 address, %d for a /48; want 5 and 20", mails4, mails48)
	}
	for i := range 75 {
		address := fmt.Sprintf("198.51.100.%d", i)
		verified += s.requestMail(domain.MailVerify, fmt.Sprintf("new-%d", i), address)
		recovered += s.requestMail(domain.MailRecover, fmt.Sprintf("lost-%d", i), address)
	}
	proof.Figure(t, "greedy requests", 2*requests)
	proof.Figure(t, "mails of an address", mails4)
	proof.Figure(t, "mails of a 48", mails48)
	proof.Figure(t, "newcomers", verified)
	proof.Figure(t, "keys", recovered)
	if verified != 75 || recovered != 75 {
		t.Errorf("%d newcomers and %d lost keys get a mail, want 75 each", verified, recovered)
	}
}

// TestMailPool_ReportsItsState holds promise 3 of SECURITY.md.
func TestMailPool_ReportsItsState(t *testing.T) {
	caps := domain.DefaultMailCaps
	caps.Site = 4
	s := newStore(t, func(o *Options) { o.Mails = &caps })
	want := func(what string, newcomers, proven domain.PoolState) {
		t.Helper()
		got, err := s.MailPools(context.Background())
		s.ok(err)
		newcomers.Pool, newcomers.Limit, proven.Pool, proven.Limit = domain.PoolNew, 2, domain.PoolProven, 2
		if diff := cmp.Diff([]domain.PoolState{newcomers, proven}, got); diff != "" {
			t.Errorf("%s (-want +got): %s", what, diff)
		}
	}
	want("at first", domain.PoolState{Left: 2}, domain.PoolState{Left: 2})
	start := domain.TimeOf(s.clock.Now())
	s.requestMail(domain.MailVerify, "one", "192.0.2.1")
	s.clock.Advance(time.Hour)
	s.requestMail(domain.MailVerify, "two", "192.0.2.2")
	s.requestMail(domain.MailClaim, "three", "192.0.2.3")
	want("verifications spent", domain.PoolState{Until: start.Add(domain.Day)}, domain.PoolState{Left: 1})
	s.clock.Advance(domain.Day - time.Hour)
	want("a day after the first", domain.PoolState{Left: 1}, domain.PoolState{Left: 1})
}

// TestNotices_HaveNoPool: they are mailed while a half of the site's mails is spent, and do not spend it.
// It holds promise 4 of SECURITY.md.
func TestNotices_HaveNoPool(t *testing.T) {
	caps := domain.DefaultMailCaps
	caps.Site, caps.Agent, caps.Pause = 2, 0, 0
	s := newStore(t, func(o *Options) { o.Mails = &caps })
	pilot := s.verified("harbour-pilot")
	s.claimBy(pilot, mei) // spends the half
	notices := len(s.deliverMails())
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "another@agents.example.org" })
	notices += len(s.deliverMails())
	pools, err := s.MailPools(context.Background())
	if s.ok(err); notices != 2 || pools[1].Left != 0 {
		t.Errorf("%d notices, want 2; %+v", notices, pools)
	}
	s.clock.Advance(domain.Day)
	if pools, err = s.MailPools(context.Background()); err != nil || pools[1].Left != 1 {
		t.Errorf("a day later: %+v, %v", pools, err)
	}
}

// requestMail has a new agent request a mail of a kind from an address, and returns the number of mails sent.
func (s *testStore) requestMail(kind, handle, address string) int {
	s.Helper()
	c, _ := s.register(handle)
	c = fromAddress(c, address)
	var err error
	switch kind {
	case domain.MailVerify:
		_, err = s.StartVerify(context.Background(), c)
	case domain.MailRecover:
		s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, handle))
		_, err = s.StartRecovery(context.Background(), handle, c.Address)
	case domain.MailClaim:
		s.ok(s.ActOnAgent(context.Background(), domain.OperatorVerify, handle))
		_, err = s.ClaimOwner(context.Background(), c, "owner-of-"+handle+"@people.example.org")
	}
	if refusal := errorOf(err); err != nil && refusal.Topic != "mails_network" {
		s.Fatalf("%s of %s: %v %s", kind, handle, err, refusal.Topic)
	}
	return len(s.deliverMails())
}
