package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"

	"github.com/google/go-cmp/cmp"
)

// What a thief can do on an owner's page, or by a mailbox, against the holder of the mailbox as it was.

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

// TestTakeover_HolderWinsWhateverTheThiefDoes plays a thief who does anything that a key, an owner's page and the
// mails to mailboxes of the thief allow, in any order, for up to five days after the theft, but erasing an agent
// that nobody claimed. An hour or a day after that the holder of the former mailbox wins, and so does an
// owner from before, who wins even eight days later.
// It holds promise 4 of SECURITY.md.
func TestTakeover_HolderWinsWhateverTheThiefDoes(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	sequences := proof.Rounds(6, 100, 1000)
	for seed := range sequences {
		for _, claimed := range []time.Duration{0, domain.Day, 60 * domain.Day} {
			r := rand.New(rand.NewPCG(uint64(seed), uint64(claimed)))
			s := newStore(t) // with all caps
			h := s.heldBefore(claimed)
			h.plot(r)
			byOwner := h.own != "" && seed%2 == 1
			after := []time.Duration{time.Hour, domain.Day}[r.IntN(2)]
			if byOwner && !h.deleted {
				after = 8 * domain.Day
			}
			s.clock.Advance(after)
			s.ok(s.RunJobs(context.Background()))
			if h.own != "" {
				if _, err := h.OwnerPage(context.Background(), h.own); err != nil {
					t.Fatalf("sequence %d, claimed for %v: %s: the owner's page: %v", seed, claimed, strings.Join(h.did, ", "), err)
				}
			}
			key := ""
			if byOwner {
				key = h.byOwner()
			} else {
				key = h.byAnyCode()
			}
			if key != "" {
				h.wantOwn(key, holder)
			}
			if key == "" || t.Failed() {
				t.Fatalf("sequence %d, claimed for %v, by the owner %t: %s", seed, claimed, byOwner, strings.Join(h.did, ", "))
			}
			s.stop()
		}
	}
}

// plot has the thief act at random. What fails is of no account.
func (h *heist) plot(r *rand.Rand) {
	h.Helper()
	ctx := context.Background()
	box := func() string { return fmt.Sprintf("thief-%d@elsewhere.example.org", r.IntN(5)) }
	move := func(to string) {
		_, _ = h.UpdateAgent(ctx, h.pilot, func(set *domain.Settings) error { set.Mailbox = to; return nil })
	}
	press := func(act domain.OwnerAction) {
		if done, err := h.tryOwnerAct(h.claims, act); err == nil && done.Key != "" {
			h.rekey(done.Key)
		}
	}
	acts := []struct {
		name string
		do   func()
	}{
		{"move", func() { move(box()) }},
		{"move and verify", func() { move(box()); h.verifyAsThief() }},
		{"move and verify", func() { move(box()); h.verifyAsThief() }},
		{"move back", func() { move(holder) }},
		{"verify", h.verifyAsThief},
		{"claim and confirm", func() { _, _ = h.ClaimOwner(ctx, h.pilot, boss); h.read(); press(domain.OwnerConfirm) }},
		{"claim", func() { _, _ = h.ClaimOwner(ctx, h.pilot, boss); h.read() }},
		{"name the holder as owner", func() { _, _ = h.ClaimOwner(ctx, h.pilot, "Harbour-Pilot+x@agents.example.org"); h.read() }},
		{"confirm", func() { press(domain.OwnerConfirm) }},
		{"claim and confirm", func() { _, _ = h.ClaimOwner(ctx, h.pilot, boss); h.read(); press(domain.OwnerConfirm) }},
		{"rotate-key on the page", func() { press(domain.OwnerRotateKey) }},
		{"rotate-key on the page", func() { press(domain.OwnerRotateKey) }},
		{"withdraw", func() { press(domain.OwnerWithdraw) }},
		{"require receipts", func() {
			_, _ = h.UpdateAgent(ctx, h.pilot, func(set *domain.Settings) error { set.ContactPolicy.RequireOwnerReceipt = true; return nil })
		}},
		{"recover", func() { h.recoverAsThief(r, true) }},
		{"recover", func() { h.recoverAsThief(r, false) }},
		{"rotate the key", func() {
			if key, _, err := h.RotateKey(ctx, h.pilot); err == nil {
				h.rekey(key)
			}
		}},
		{"end mails", func() { h.ok(h.StopMails(ctx, h.stop, r.IntN(2) == 0)) }},
		{"delete", func() {
			if value[bool](h.testStore, `SELECT EXISTS (SELECT 1 FROM owner_claims WHERE status = 'claimed')`) {
				h.deleted = h.DeleteAgent(ctx, h.pilot) == nil || h.deleted
			}
		}},
	}
	end := h.clock.Now().Add(5 * domain.Day)
	h.rekey(h.stolen)
	for i := range 4 + r.IntN(20) {
		act := acts[r.IntN(len(acts))]
		if i < 3 && r.IntN(2) == 0 { // often the worst: another mailbox, a claim, its page
			act = acts[[]int{1, 5, 10}[i]]
		}
		h.did = append(h.did, act.name)
		if act.name == "end mails" && h.stop == "" {
			continue
		}
		act.do()
		h.read()
		pause := time.Duration(r.Int64N(int64(6 * time.Hour)))
		if h.deleted || h.clock.Now().Add(pause).After(end) {
			pause = time.Minute
		}
		h.clock.Advance(pause)
		h.ok(h.RunJobs(ctx))
	}
}

// rekey gives the thief a new key.
func (h *heist) rekey(key string) {
	h.stolen, h.pilot.KeyHash = key, string(domain.HashKey(key))
}

// read delivers the mails, and keeps what the thief and the holder find in theirs. The holder denies a claim.
func (h *heist) read() {
	h.Helper()
	for _, mail := range h.deliverMails() {
		switch {
		case mail.To == boss:
			h.claims = mail.Secret
		case strings.HasSuffix(mail.To, "@elsewhere.example.org"):
			h.stop = mail.Stop
			if mail.Secret != "" {
				h.thiefs[mail.Kind+" "+mail.To] = mail.Secret
			}
		case mail.Kind == domain.MailClaim && h.own == "":
			_, _ = h.tryOwnerAct(mail.Secret, domain.OwnerReject)
		case mail.Kind == domain.MailRecover || mail.Kind == domain.MailFormer:
			h.codesOfHolder = append(h.codesOfHolder, mail.Secret)
		}
	}
}

func (h *heist) verifyAsThief() {
	own, err := h.Me(context.Background(), h.pilot)
	h.ok(err)
	_, _ = h.StartVerify(context.Background(), h.pilot)
	h.read()
	_ = h.confirmVerify(h.pilot, h.thiefs[domain.MailVerify+" "+own.Mailbox])
}

// recoverAsThief tries all codes that the thief has been mailed.
func (h *heist) recoverAsThief(r *rand.Rand, endClaim bool) {
	ctx := context.Background()
	_, err := h.StartRecovery(ctx, h.pilot.Handle, netip.MustParseAddr("192.0.2.66"))
	h.ok(err)
	h.read()
	codes := slices.Sorted(maps.Values(h.thiefs))
	r.Shuffle(len(codes), func(i, j int) { codes[i], codes[j] = codes[j], codes[i] })
	for _, code := range codes {
		if done, err := h.ConfirmRecovery(ctx, h.pilot.Handle, code, endClaim); err == nil {
			h.rekey(done.Key)
		}
	}
}

// byAnyCode recovers the key with a code that the holder has or asks for now.
func (h *heist) byAnyCode() string {
	h.Helper()
	_, err := h.StartRecovery(context.Background(), h.pilot.Handle, netip.MustParseAddr("198.51.100.1"))
	h.ok(err)
	h.read()
	for _, code := range slices.Backward(h.codesOfHolder) {
		if done, err := h.ConfirmRecovery(context.Background(), h.pilot.Handle, code, true); err == nil {
			return done.Key
		}
	}
	return ""
}
