package store

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
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

const holder = "harbour-pilot@agents.example.org"

// TestRecovery_FormerMailboxRecovers: the one that was left first, for seven days, so that a thief who changes the mailbox
// again does not shut it out.
// It holds promise 4 of SECURITY.md.
func TestRecovery_FormerMailboxRecovers(t *testing.T) {
	s := newStore(t, noCaps)
	pilot := s.verified("harbour-pilot")
	box := func(i int) string { return fmt.Sprintf("box-%d@elsewhere.example.org", i) }
	s.moveMailbox(pilot, box(0))
	left := s.clock.Now()
	for i := 1; i < 3; i++ {
		s.clock.Advance(time.Hour)
		s.moveMailbox(pilot, box(i))
	}
	want := func(mailboxes ...string) {
		t.Helper()
		if diff := cmp.Diff(mailboxes, slices.Sorted(maps.Keys(s.recoveryCodes(pilot)))); diff != "" {
			t.Errorf("after %v codes are mailed to (-want +got): %s", s.elapsed(left), diff)
		}
	}
	s.clock.Advance(7*domain.Day - time.Millisecond - s.elapsed(left))
	want(box(2), holder)
	s.clock.Advance(time.Millisecond)
	want(box(2))
	s.moveMailbox(pilot, box(3))
	want(box(2), box(3))
}

// TestRecovery_WhichMailboxEndsAClaim: the one that it was confirmed with when it is asked to, and always one that was left
// before that; but not one that came later, which may be a thief's.
// It holds promise 4 of SECURITY.md.
func TestRecovery_WhichMailboxEndsAClaim(t *testing.T) {
	proof.OneByOne(t)
	for _, tt := range []struct {
		name        string
		before      int // mailboxes that the agent had by then, of two
		by          string
		asked, ends bool
	}{
		{"its own mailbox", 1, holder, true, true},
		{"its own mailbox, not asked", 1, holder, false, false},
		{"a later mailbox", 1, thief, true, false},
		{"an earlier mailbox, not asked", 2, holder, false, true},
	} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		for i, mailbox := range []string{holder, thief} {
			if i > 0 {
				s.moveMailbox(pilot, mailbox)
			}
			s.clock.Advance(time.Hour)
			if i+1 == tt.before {
				s.claimBy(pilot, mei)
			}
			s.clock.Advance(time.Hour)
		}
		done, err := s.ConfirmRecovery(context.Background(), pilot.Handle, s.recoveryCodes(pilot)[tt.by], tt.asked)
		if s.ok(err); done.ClaimEnded != tt.ends {
			t.Errorf("%s: said to be ended %t", tt.name, done.ClaimEnded)
		}
	}
}

// TestRecovery_EndsAClaimOfLessThan30Days holds promise 4 of SECURITY.md.
func TestRecovery_EndsAClaimOfLessThan30Days(t *testing.T) {
	for age, ends := range map[time.Duration]bool{30*domain.Day - time.Millisecond: true, 30 * domain.Day: false} {
		s := newStore(t, noCaps)
		pilot := s.verified("harbour-pilot")
		s.claimBy(pilot, thief)
		s.clock.Advance(age)
		done, err := s.ConfirmRecovery(context.Background(), pilot.Handle, s.recoveryCodes(pilot)[holder], true)
		if s.ok(err); done.ClaimEnded != ends || s.level(pilot) == 1 != ends {
			t.Errorf("after %v: ended %t, level %d", age, done.ClaimEnded, s.level(pilot))
		}
	}
}

// TestRecovery_SuspendedAgentRecovers: what the thief did may have led to it. The agent stays suspended.
// It holds promise 5 of SECURITY.md.
func TestRecovery_SuspendedAgentRecovers(t *testing.T) {
	s := newStore(t)
	pilot := s.verified("harbour-pilot")
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = thief })
	s.ok(s.Suspend(context.Background(), pilot.Handle, "spam", time.Time{}))
	key, err := s.confirmRecovery(pilot, s.recoveryCodes(pilot)[holder])
	wantOutcome(t, "the code", err, "")
	_, err = s.Authenticate(context.Background(), key)
	wantOutcome(t, "the new key", err, "suspended")
	s.wantHidden(pilot, true)
	s.checkDerived("a recovery")
}

// TestRecovery_AnotherSecretEndsTheCode: after the operator replaced it, the next mail has a code that works.
// It holds promise 5 of SECURITY.md.
func TestRecovery_AnotherSecretEndsTheCode(t *testing.T) {
	s := newStore(t, func(o *Options) { o.Secret = []byte("a secret that the database does not hold") })
	pilot := s.verified("harbour-pilot")
	before := s.recoveryCode(pilot)
	s.clock.Advance(time.Hour)
	s.stop()
	s.Store = openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true, Secret: []byte("another secret that it does not hold")})
	code := s.recoveryCode(pilot)
	_, err := s.confirmRecovery(pilot, before)
	wantOutcome(t, "the code before", err, "wrong_code")
	_, err = s.confirmRecovery(pilot, code)
	wantOutcome(t, "the code", err, "")
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
