package store

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
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

// TestRecovery_DisclosesNothingOfTheAgent: what a stranger learns is the same for every handle, also past its own
// cap and while the pool is spent.
// It holds promise 3 of SECURITY.md.
func TestRecovery_DisclosesNothingOfTheAgent(t *testing.T) {
	caps := domain.DefaultMailCaps
	caps.Site = 8
	seen := map[string][]time.Duration{}
	for _, handle := range []string{"verified", "unverified", "nobody"} {
		s := newStore(t, func(o *Options) { o.Mails = &caps })
		_, _ = s.verified("verified"), s.registerAgents("unverified", 1)
		s.execSQL(`UPDATE handles SET handle = 'unverified' WHERE handle = 'unverified-0'`)
		ask := func(address string) {
			next, err := s.StartRecovery(context.Background(), handle, netip.MustParseAddr(address))
			s.ok(err)
			seen[handle] = append(seen[handle], next.Time().Sub(s.clock.Now()))
		}
		for range 7 {
			ask("192.0.2.7")
		}
		for i := range 4 - len(s.deliverMails()) {
			s.requestMail(domain.MailRecover, fmt.Sprintf("other-%d", i), fmt.Sprintf("198.51.100.%d", i))
		}
		ask("203.0.113.1")
		s.clock.Advance(domain.Day)
		ask("192.0.2.7")
	}
	day, hour := domain.Day, time.Hour
	want := []time.Duration{hour, hour, hour, hour, day, day, day, day, hour}
	for handle := range seen {
		if diff := cmp.Diff(want, seen[handle]); diff != "" {
			t.Errorf("%s (-want +got): %s", handle, diff)
		}
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

// TestRecovery_StrangersCannotPreventIt has strangers at addresses of their own do all that they can without a
// key, every hour: ask for the agent's code, try wrong ones, and name its mailbox as theirs. Once a day, at another hour
// each day, the agent asks too, and recovers its key with the newest code that its mailbox has.
// It holds promise 5 of SECURITY.md.
func TestRecovery_StrangersCannotPreventIt(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	ctx, strangers := context.Background(), proof.Rounds(25, 100, 100)
	s := newStore(t)
	lost := s.verified("harbour-pilot")
	mailbox := ""
	read := func() {
		for _, mail := range s.deliverMails() {
			if mail.Kind == domain.MailRecover {
				mailbox = mail.Secret
			}
		}
	}
	address := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::1", i)) }
	days, tries, recovered := proof.Rounds(3, 7, 60), 0, 0
	for hour := range days * 24 {
		for i := range strangers {
			s.ok(errOf(s.StartRecovery(ctx, lost.Handle, address(i))))
			for range 2 {
				tries++
				_, err := s.confirmRecovery(lost, wrongCode)
				if got := outcome(err); got != "wrong_code" && got != "code_expired" {
					t.Fatalf("a stranger's try: %q", got)
				}
			}
			if hour%24 == i%24 && i < 24 {
				namesake, _ := s.register(fmt.Sprintf("namesake-%d-%d", hour, i), func(r *domain.Registration) { r.Mailbox = "harbour-pilot+x@agents.example.org" })
				_ = s.mailRequests()["verify"](namesake)
			}
		}
		read()
		if day := hour / 24; hour%24 == day*7%24 {
			s.ok(errOf(s.StartRecovery(ctx, lost.Handle, netip.MustParseAddr("192.0.2.7"))))
			read()
			if _, err := s.confirmRecovery(lost, mailbox); err != nil {
				t.Errorf("day %d: %v", day, err)
				continue
			}
			recovered++
		}
		s.clock.Advance(time.Hour)
		s.ok(s.RunJobs(ctx))
	}
	proof.Figure(t, "strangers", strangers)
	proof.Figure(t, "wrong codes", tries)
	proof.Figure(t, "days", days)
	proof.Figure(t, "days without a key", days-recovered)
}

// TestStopMails_NeedsTheTokenOfAMail holds promise 17 of SECURITY.md.
func TestStopMails_NeedsTheTokenOfAMail(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	_, err := s.MailsStopped(ctx, "x")
	wantOutcome(t, "before there is a mail", err, "not_found")
	s.verifyCode(s.registerAgents("agent", 1)[0])
	other, _ := s.register("other")
	s.ok(s.mailRequests()["verify"](other))
	token := s.deliverOneMail().Stop
	forged := "A" + token[1:]
	if forged == token {
		forged = "B" + token[1:]
	}
	before := s.dump()
	for _, bad := range []string{"", "x", forged, token[1:], token + "A", token[:63], token[:43], "../" + token, token + "\n"} {
		_, err := s.MailsStopped(ctx, bad)
		wantOutcome(t, fmt.Sprintf("%q", bad), err, "not_found")
		wantOutcome(t, fmt.Sprintf("%q", bad), s.StopMails(ctx, bad, true), "not_found")
	}
	s.wantUnchanged("tokens of no mail", before)
}

// TestRecovery_CodesLiveADay: each of up to three mails a day has a code of its own, and none voids another.
// It holds promise 5 of SECURITY.md.
func TestRecovery_CodesLiveADay(t *testing.T) {
	s := newStore(t)
	lost := s.verified("harbour-pilot")
	var codes []string
	for i, step := range []struct {
		after time.Duration // since the step before
		mails int
	}{
		{0, 1}, {time.Hour - time.Millisecond, 0}, {time.Millisecond, 1}, {time.Hour, 1}, {time.Hour, 0},
		{21*time.Hour - time.Millisecond, 0},
	} {
		s.clock.Advance(step.after)
		for range 7 { // wrong tries do not void them
			_, err := s.confirmRecovery(lost, wrongCode)
			wantOutcome(t, "a wrong code", err, map[bool]string{true: "code_expired", false: "wrong_code"}[i == 0])
		}
		s.ok(s.mailRequests()["recover"](lost))
		mails := s.deliverMails()
		if len(mails) != step.mails {
			t.Fatalf("step %d: %d mails, want %d", i, len(mails), step.mails)
		}
		for _, mail := range mails {
			if slices.Contains(codes, mail.Secret) || len(mail.Secret) != len("XXXX-XXXX-XXXX-XXXX-XXXX-XXXX-XX") {
				t.Errorf("step %d: the code %s", i, mail.Secret)
			}
			codes = append(codes, mail.Secret)
		}
	}
	s.clock.Advance(time.Millisecond)
	_, err := s.confirmRecovery(lost, codes[0])
	wantOutcome(t, "the first, after a day", err, "wrong_code")
	_, err = s.confirmRecovery(lost, codes[1])
	wantOutcome(t, "the second", err, "")
	_, err = s.confirmRecovery(lost, codes[2])
	wantOutcome(t, "the third, once the key is recovered", err, "code_expired")
}

// TestStopMails_DeletesQueuedMails: also those that agents requested in other spellings of the address, until its holder
// takes that back.
// It holds promise 17 of SECURITY.md.
func TestStopMails_DeletesQueuedMails(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot", func(r *domain.Registration) { r.Mailbox = mei })
	s.ok(s.mailRequests()["verify"](pilot))
	token := s.deliverOneMail().Stop
	other, _ := s.register("other", func(r *domain.Registration) { r.Mailbox = "Mei+x@people.example.org" })
	another, _ := s.register("another")
	for _, c := range []domain.Caller{other, another} {
		s.ok(s.mailRequests()["verify"](c))
	}
	s.ok(s.StopMails(ctx, token, true))
	if mails := s.deliverMails(); len(mails) != 1 || mails[0].Handle != "another" {
		t.Errorf("%d mails are on their way", len(mails))
	}
	s.ok(s.StopMails(ctx, token, false))
	s.verifyCode(other)
}
