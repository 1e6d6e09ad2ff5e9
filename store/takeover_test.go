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
)

// heist is an agent whose key leaked: what a thief can do on an owner's page, or by a mailbox, against the
// holder of the mailbox as it was.
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
