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

// from returns the caller at another address.
func from(c domain.Caller, address string) domain.Caller {
	c.Address = netip.MustParseAddr(address)
	return c
}

// requestMail has a new agent request a mail of a kind from an address, and returns the number of mails sent.
func (s *testStore) requestMail(kind, handle, address string) int {
	s.Helper()
	c, _ := s.register(handle)
	c = from(c, address)
	var err error
	switch kind {
	case domain.MailVerify:
		_, err = s.StartVerify(context.Background(), c)
	case domain.MailRecover:
		s.ok(s.Verify(context.Background(), handle))
		_, err = s.StartRecovery(context.Background(), handle, c.Address)
	case domain.MailClaim:
		s.ok(s.Verify(context.Background(), handle))
		_, err = s.ClaimOwner(context.Background(), c, "owner-of-"+handle+"@people.example.org")
	}
	if refusal := refusalOf(err); err != nil && refusal.Topic != "mails_network" {
		s.Fatalf("%s of %s: %v %s", kind, handle, err, refusal.Topic)
	}
	return len(s.deliver())
}

// TestAbuse03_OneNetworkCannotSpendTheMails has one IPv4 address and one /48 request mails in every way. The
// site goes on verifying newcomers and recovering keys.
func TestAbuse03_OneNetworkCannotSpendTheMails(t *testing.T) {
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

func TestAbuse03_CountsAtEachNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		address func(i int) string
		mails   int // of 30 requests
	}{
		"an IPv4 address":         {func(i int) string { return "192.0.2.7" }, 5},
		"the same, mapped":        {func(i int) string { return []string{"192.0.2.7", "::ffff:192.0.2.7"}[i%2] }, 5},
		"IPv4 addresses":          {func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 30},
		"addresses of a /64":      {func(i int) string { return fmt.Sprintf("2001:db8:7:1::%x", i) }, 5},
		"/64s of a /56":           {func(i int) string { return fmt.Sprintf("2001:db8:7:1%02x::1", i) }, 10},
		"/56s of a /48":           {func(i int) string { return fmt.Sprintf("2001:db8:7:%x00::1", i+1) }, 20},
		"/48s":                    {func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }, 30},
		"the program, or a test":  {func(i int) string { return "" }, 30},
		"interfaces of a machine": {func(i int) string { return fmt.Sprintf("fe80::1%%eth%d", i) }, 5},
	} {
		s := newStore(t)
		request := func(i int) (mails int) {
			c, _ := s.register(fmt.Sprintf("agent-%d", i))
			if address := tt.address(i); address != "" {
				c = from(c, address)
			}
			sent, err := s.StartVerify(context.Background(), c)
			if refusal := refusalOf(err); err != nil && (refusal.Topic != "mails_network" || refusal.RetryAt.Sub(s.clock.Now()) != domain.Day) {
				t.Errorf("%s, request %d: %v %+v", name, i, err, refusal)
			}
			if mails = len(s.deliver()); err == nil && sent.ResendAfter < domain.TimeOf(s.clock.Now()).Add(time.Minute) {
				t.Errorf("%s, request %d: another after %v", name, i, sent.ResendAfter)
			}
			return mails
		}
		mails := 0
		for i := range 30 {
			mails += request(i)
		}
		if mails != tt.mails {
			t.Errorf("%s: %d mails of 30 requests, want %d", name, mails, tt.mails)
		}
		s.clock.Advance(domain.Day)
		if request(30) != 1 {
			t.Errorf("%s: no mail after a day", name)
		}
		s.clock.Advance(domain.Day)
		s.ok(s.RunJobs(context.Background()))
		if n := value[int](s, `SELECT COUNT(*) FROM mail_networks`); n != 0 {
			t.Errorf("%s: %d requests are remembered after a day", name, n)
		}
	}
}

// TestAbuse03_RecoveryTellsNothingOfTheAgent: what a stranger learns is the same for every handle, also past its own
// cap and while the pool is spent.
func TestAbuse03_RecoveryTellsNothingOfTheAgent(t *testing.T) {
	caps := domain.DefaultMailCaps
	caps.Site = 8
	seen := map[string][]time.Duration{}
	for _, handle := range []string{"verified", "unverified", "nobody"} {
		s := newStore(t, func(o *Options) { o.Mails = &caps })
		_, _ = s.verified("verified"), s.agents("unverified", 1)
		s.change(nil, `UPDATE handles SET handle = 'unverified' WHERE handle = 'unverified-0'`)
		ask := func(address string) {
			next, err := s.StartRecovery(context.Background(), handle, netip.MustParseAddr(address))
			s.ok(err)
			seen[handle] = append(seen[handle], next.Time().Sub(s.clock.Now()))
		}
		for range 7 {
			ask("192.0.2.7")
		}
		for i := range 4 - len(s.deliver()) {
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

func TestAbuse03_ReportsTheStateOfThePools(t *testing.T) {
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

// TestAbuse05_StrangersCannotPreventRecovery has 100 strangers at addresses of their own do all that they can without a
// key, every hour: ask for the agent's code, try wrong ones, and name its mailbox as theirs. Once a day, at another hour
// each day, the agent asks too, and recovers its key with the newest code that its mailbox has.
func TestAbuse05_StrangersCannotPreventRecovery(t *testing.T) {
	const strangers = 100
	ctx := context.Background()
	s := newStore(t)
	lost := s.verified("harbour-pilot")
	mailbox := ""
	read := func() {
		for _, mail := range s.deliver() {
			if mail.Kind == domain.MailRecover {
				mailbox = mail.Secret
			}
		}
	}
	address := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::1", i)) }
	days, tries, recovered := proof.Rounds(3, 7, 60), 0, 0
	for hour := range days * 24 {
		for i := range strangers {
			_, err := s.StartRecovery(ctx, lost.Handle, address(i))
			s.ok(err)
			for range 2 {
				tries++
				_, err := s.recover(lost, wrongCode)
				if got := outcome(err); got != "wrong_code" && got != "code_expired" {
					t.Fatalf("a stranger's try: %q", got)
				}
			}
			if hour%24 == i%24 && i < 24 {
				namesake, _ := s.register(fmt.Sprintf("namesake-%d-%d", hour, i), func(r *domain.Registration) { r.Mailbox = "harbour-pilot+x@agents.example.org" })
				_ = s.sends()["verify"](namesake)
			}
		}
		read()
		if day := hour / 24; hour%24 == day*7%24 {
			_, err := s.StartRecovery(ctx, lost.Handle, netip.MustParseAddr("192.0.2.7"))
			s.ok(err)
			read()
			if _, err := s.recover(lost, mailbox); err != nil {
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

func TestAbuse05_RecoveryCodeLivesADay(t *testing.T) {
	type step struct {
		after time.Duration // since the step before
		mails int
		same  bool // as the code before
	}
	for name, steps := range map[string][]step{
		"asked for all the time": {
			{0, 1, false}, {time.Minute, 0, true}, {59*time.Minute - time.Millisecond, 0, true}, {time.Millisecond, 1, true},
			{time.Hour - time.Millisecond, 0, true}, {time.Millisecond, 1, true}, {time.Hour, 0, true},
			{21*time.Hour - time.Millisecond, 0, true}, {time.Millisecond, 1, false},
		},
		"mailed again late": {
			{0, 1, false}, {23 * time.Hour, 1, true}, {time.Hour, 1, false}, {time.Hour, 1, true}, {time.Hour, 0, true},
		},
	} {
		s := newStore(t)
		lost := s.verified("harbour-pilot")
		code := ""
		for i, step := range steps {
			s.clock.Advance(step.after)
			for range 7 { // wrong tries do not void it
				_, _ = s.recover(lost, wrongCode)
			}
			s.ok(s.sends()["recover"](lost))
			mails := s.deliver()
			if len(mails) != step.mails {
				t.Fatalf("%s, step %d: %d mails, want %d", name, i, len(mails), step.mails)
			}
			if len(mails) == 0 {
				continue
			}
			if mail := mails[0]; (mail.Secret == code) != step.same || len(mail.Secret) != len("XXXX-XXXX-XXXX-XXXX-XXXX-XXXX-XX") {
				t.Errorf("%s, step %d: the code %s after %s", name, i, mail.Secret, code)
			}
			code = mails[0].Secret
		}
		_, err := s.recover(lost, code)
		wantOutcome(t, name, err, "")
		_, err = s.recover(lost, code)
		wantOutcome(t, name+", once more", err, "code_expired")
	}
}

// TestAbuse05_ThiefOfTheKeyCannotHoldBackTheCode spends the agent's mails of the day before it is asked for.
func TestAbuse05_ThiefOfTheKeyCannotHoldBackTheCode(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	for i := range 5 {
		_, err := s.ClaimOwner(context.Background(), pilot, fmt.Sprintf("owner-%d@people.example.org", i))
		s.ok(err)
		s.clock.Advance(time.Minute)
	}
	s.deliver()
	s.recoveryCode(pilot)
}

// TestAbuse05_CodeIsNotStored: not in the file, although it can be mailed again.
func TestAbuse05_CodeIsNotStored(t *testing.T) {
	s := newStore(t)
	lost := s.verified("harbour-pilot")
	code := s.recoveryCode(lost)
	s.clock.Advance(time.Hour)
	if again := s.recoveryCode(lost); again != code {
		t.Errorf("mailed again as %s, not %s", again, code)
	}
	s.ok(s.RunJobs(context.Background()))
	s.stop()
	if n := s.occurrences([]byte(code)); n != 0 {
		t.Errorf("the code stands %d times in the file", n)
	}
}

// TestAbuse06_OneMailIsKeptForTheVerifiedAgent: others who name its mailbox, in any spelling, get two of three.
func TestAbuse06_OneMailIsKeptForTheVerifiedAgent(t *testing.T) {
	ctx := context.Background()
	const mailbox = "harbour-pilot@agents.example.org"
	for name, tt := range map[string]struct {
		prepare func(s *testStore, pilot domain.Caller)
		others  int // mails of three that others request
		own     int // of one that the agent asks for then
	}{
		"a verified agent": {func(s *testStore, pilot domain.Caller) {}, 2, 1},
		"an agent that is not": {func(s *testStore, pilot domain.Caller) {
			s.change([]domain.Caller{pilot}, `UPDATE agents SET verified_at = NULL`)
		}, 3, 0},
		"a deleted agent":   {func(s *testStore, pilot domain.Caller) { s.ok(s.DeleteAgent(ctx, pilot)) }, 3, 0},
		"a suspended agent": {func(s *testStore, pilot domain.Caller) { s.ok(s.Suspend(ctx, pilot.Handle, "spam", time.Time{})) }, 2, 1},
		"one that has gone elsewhere": {func(s *testStore, pilot domain.Caller) {
			s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
		}, 3, 1}, // and has a mail of its own for recovery, for some days
	} {
		s := newStore(t)
		pilot := s.verified("harbour-pilot")
		tt.prepare(s, pilot)
		s.deliver()
		others, own := 0, 0
		for i, spelling := range []string{mailbox, "Harbour-Pilot+x@agents.example.org", mailbox} {
			namesake, _ := s.register(fmt.Sprintf("namesake-%d", i), func(r *domain.Registration) { r.Mailbox = spelling })
			sent, err := s.StartVerify(ctx, namesake)
			if s.ok(err); sent.ResendAfter != domain.TimeOf(s.clock.Now()).Add(time.Minute) {
				t.Errorf("%s: another after %v", name, sent.ResendAfter)
			}
			others += len(s.deliver())
		}
		s.ok(s.sends()["recover"](pilot))
		own += len(s.deliver())
		if others != tt.others || own != tt.own {
			t.Errorf("%s: %d mails for others and %d for itself, want %d and %d", name, others, own, tt.others, tt.own)
		}
	}
}

// TestAbuse06_RepeatedMailsDoNotUseTheKeptOne: strangers who have a code mailed again late cannot hold back the next.
func TestAbuse06_RepeatedMailsDoNotUseTheKeptOne(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	s.recoveryCode(pilot)
	s.clock.Advance(22 * time.Hour)
	s.recoveryCode(pilot) // the same
	namesake, _ := s.register("namesake", func(r *domain.Registration) { r.Mailbox = "harbour-pilot@agents.example.org" })
	s.ok(s.sends()["verify"](namesake))
	s.clock.Advance(time.Hour)
	s.ok(s.sends()["recover"](pilot))
	s.deliver()
	s.clock.Advance(time.Hour)
	s.recoveryCode(pilot) // a new one
}

// TestAbuse17_GuessingTheOwnerCountsAsMails: an agent, and a network over all agents, has five tries a day to find out
// who has claimed an agent, and none of them sends a mail.
func TestAbuse17_GuessingTheOwnerCountsAsMails(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	s.owned(pilot, mei)
	s.clock.Advance(domain.Day)
	guess := func(c domain.Caller, i int) error {
		_, err := s.ClaimOwner(context.Background(), c, fmt.Sprintf("guess-%d@people.example.org", i))
		return err
	}
	for i := range 5 {
		wantOutcome(t, fmt.Sprintf("guess %d", i), guess(from(pilot, "192.0.2.7"), i), "already_claimed")
		s.clock.Advance(time.Minute)
	}
	err := guess(from(pilot, "198.51.100.1"), 5)
	if wantOutcome(t, "the sixth guess", err, "rate_limited"); refusalOf(err).Topic != "mails" {
		t.Errorf("the sixth guess: %+v", refusalOf(err))
	}
	other := s.verified("tide-gauge")
	s.owned(other, ada)
	err = guess(from(other, "192.0.2.7"), 6)
	if refusalOf(err).Topic != "mails_network" {
		t.Errorf("a guess by another agent of the network: %v", err)
	}
	if n := len(s.delivered()); n != 0 {
		t.Errorf("%d mails to those that were guessed", n)
	}
}

// TestAbuse17_SpellingsAtGmailAreOneAddress: for the mails of a day, and for who owns an agent.
func TestAbuse17_SpellingsAtGmailAreOneAddress(t *testing.T) {
	s := newStore(t)
	mails := 0
	for i, mailbox := range []string{"mei.lin@gmail.com", "m.e.i.lin@gmail.com", "MeiLin+a@googlemail.com", "meilin@gmail.com", "me.ilin@gmail.com"} {
		c, _ := s.register(fmt.Sprintf("agent-%d", i), func(r *domain.Registration) { r.Mailbox = mailbox })
		s.ok(s.sends()["verify"](c))
		mails += len(s.deliver())
	}
	if mails != 3 {
		t.Errorf("%d mails to one address, want 3", mails)
	}
	s = newStore(t, noCaps)
	one, other := s.verified("one"), s.verified("other")
	s.owned(one, "mei.lin@gmail.com")
	s.owned(other, "m.eilin@googlemail.com")
	if n := value[int](s, `SELECT COUNT(DISTINCT claimed_by) FROM agents`); n != 1 {
		t.Errorf("one person counts as %d owners", n)
	}
}

// TestAbuse17_StopEndsAllMails: by any agent, in any spelling of the address, until its holder takes that back. The
// agents learn nothing of it.
func TestAbuse17_StopEndsAllMails(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = mei })
	s.ok(s.sends()["verify"](pilot))
	first := s.mailed()
	s.ok(s.confirm(pilot, first.Secret))
	others := s.agents("other", 2)
	for _, c := range others {
		s.update(c, func(a *domain.Settings) { a.Mailbox = "Mei+x@people.example.org" })
		s.ok(s.sends()["verify"](c)) // waits
	}
	requestAll := func() (mails int) {
		for _, c := range others {
			sent, err := s.StartVerify(ctx, c)
			if s.ok(err); sent.ExpiresAt != domain.TimeOf(s.clock.Now()).Add(15*time.Minute) {
				t.Errorf("the response is another: %v", sent)
			}
			wantOutcome(t, "a wrong code", s.confirm(c, wrongCode), "wrong_code")
		}
		s.ok(s.sends()["recover"](pilot))
		s.ok(s.sends()["claim mei otherwise"](pilot))
		for _, mail := range s.deliver() {
			if mail.To != "harbour-pilot@agents.example.org" { // the former mailbox is another person's
				mails++
			}
		}
		return mails
	}
	stopped := func(want bool) {
		t.Helper()
		got, err := s.MailsStopped(ctx, first.Stop)
		if s.ok(err); got != want {
			t.Errorf("stopped %v, want %v", got, want)
		}
	}
	stopped(false)
	s.ok(s.StopMails(ctx, first.Stop, true))
	s.ok(s.StopMails(ctx, first.Stop, true))
	stopped(true)
	if n := len(s.deliver()); n != 0 {
		t.Errorf("%d mails are still on their way", n)
	}
	if n := requestAll(); n != 0 {
		t.Errorf("%d mails to a person who wants none", n)
	}
	if n := s.requestMail(domain.MailVerify, "another", "192.0.2.1"); n != 1 {
		t.Errorf("%d mails to another person, want 1", n)
	}
	s.ok(s.StopMails(ctx, first.Stop, false))
	stopped(false)
	if n := requestAll(); n != 4 {
		t.Errorf("%d mails to a person who wants them again, want 4", n)
	}
	s.reopen(noCaps)
	stopped(false)
}

func TestAbuse17_StopNeedsTheTokenOfAMail(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps)
	_, err := s.MailsStopped(ctx, "x")
	wantOutcome(t, "before there is a mail", err, "not_found")
	s.code(s.agents("agent", 1)[0])
	other, _ := s.register("other")
	s.ok(s.sends()["verify"](other))
	token := s.mailed().Stop
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

func TestAbuse17_OnlyAVerifiedMailboxIsPublic(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot", func(r *domain.Registration) { r.ContactPublic = true })
	shown := func() string {
		card, err := s.Card(context.Background(), pilot.Handle)
		s.ok(err)
		return domain.Deref(card.Email)
	}
	if got := shown(); got != "" {
		t.Errorf("an unverified mailbox is shown: %s", got)
	}
	s.ok(s.Verify(context.Background(), pilot.Handle))
	if got := shown(); got != "harbour-pilot@agents.example.org" {
		t.Errorf("the verified mailbox is shown as %q", got)
	}
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "victim@people.example.org" })
	if got := shown(); got != "" {
		t.Errorf("a changed mailbox is shown: %s", got)
	}
}
