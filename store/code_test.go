package store

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// wrongCode is a code that is never right.
const wrongCode = "0000-0000"

// pickedCodes makes every code the one that is picked, and all else at random.
type pickedCodes struct{ code string }

func (p pickedCodes) Read(b []byte) (int, error) {
	if raw, err := base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").DecodeString(p.code); err == nil && len(b) == len(raw) {
		return copy(b, raw), nil
	}
	return rand.Read(b)
}

// code asks for a code and returns it.
func (s *testStore) code(c domain.Caller) string {
	s.Helper()
	s.ok(s.sends()["verify"](c))
	return s.mailed().Secret
}

// recoveryCode asks for a code to recover a key and returns it.
func (s *testStore) recoveryCode(c domain.Caller) string {
	s.Helper()
	s.ok(s.sends()["recover"](c))
	return s.mailed().Secret
}

func (s *testStore) confirm(c domain.Caller, code string) error {
	_, err := s.ConfirmVerify(context.Background(), c, code)
	return err
}

func (s *testStore) recover(c domain.Caller, code string) (key string, err error) {
	done, err := s.ConfirmRecovery(context.Background(), c.Handle, code, false)
	return done.Key, err
}

func TestCode_AcceptsSpellings(t *testing.T) {
	ctx := context.Background()
	s := newStore(t, noCaps, func(o *Options) { o.Random = pickedCodes{"01A0Z11K"} })
	for i, tt := range []struct{ code, want string }{
		{"01A0-Z11K", ""},
		{"01A0Z11K", ""},
		{"01a0-z11k", ""},
		{" 01A0 Z11K ", ""},
		{"0-1-A-0-Z-1-1-K", ""},
		{"OIAO-ZLIK", ""},
		{"oiao-zlik", ""},
		{"oLAOzilk", ""},
		{"01A0-Z11", "wrong_code"},
		{"01A0-Z11K1", "wrong_code"},
		{"Z11K-01A0", "wrong_code"},
		{"01A0-Z11X", "wrong_code"},
		{"01A0_Z11K", "wrong_code"},
		{"", "wrong_code"},
		{"０1A0-Z11K", "wrong_code"},
	} {
		c, _ := s.register(fmt.Sprintf("agent-%d", i))
		if code := s.code(c); code != "01A0-Z11K" {
			t.Fatalf("the code is shown as %s", code)
		}
		doc, err := s.ConfirmVerify(ctx, c, tt.code)
		wantOutcome(t, fmt.Sprintf("%q", tt.code), err, tt.want)
		if verified := doc.Level == 1; verified != (tt.want == "") {
			t.Errorf("%q: level %d", tt.code, doc.Level)
		}
	}
}

// TestCode_ResendAfter: then, and not a moment before.
func TestCode_ResendAfter(t *testing.T) {
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	for i := range 7 { // past the mailbox's three a day
		sent, err := s.StartVerify(context.Background(), pilot)
		s.ok(err)
		s.clock.Advance(sent.ResendAfter.Time().Sub(s.clock.Now()) - time.Millisecond)
		_, err = s.StartVerify(context.Background(), pilot)
		wantOutcome(t, fmt.Sprintf("just before %d", i), err, "rate_limited")
		s.clock.Advance(time.Millisecond)
	}
}

func TestCode_Errors(t *testing.T) {
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	now := domain.TimeOf(s.clock.Now())
	sent, err := s.StartVerify(context.Background(), pilot)
	s.ok(err)
	if want := (domain.CodeSent{ExpiresAt: now.Add(15 * time.Minute), ResendAfter: now.Add(time.Minute)}); sent != want {
		t.Errorf("sent %v, want %v", sent, want)
	}
	s.clock.Advance(time.Second)
	doc, err := s.ConfirmVerify(context.Background(), pilot, s.mailed().Secret)
	s.ok(err)
	card, err := s.Card(context.Background(), pilot.Handle)
	s.ok(err)
	doc.Brief = "" // no card holds it
	if diff := cmp.Diff(card, doc); diff != "" {
		t.Errorf("the card is another than the answer: %s", diff)
	}
	if verified := value[domain.Time](s, `SELECT verified_at FROM agents`); verified != now.Add(time.Second) || doc.Level != 1 {
		t.Errorf("level %d, verified at %v", doc.Level, verified)
	}
	wantOutcome(t, "a code for what is verified", s.sends()["verify"](pilot), "already_verified")
	wantOutcome(t, "any code for what is verified", s.confirm(pilot, wrongCode), "already_verified")
}

func TestCode_ExpiresAfter15Minutes(t *testing.T) {
	for after, want := range map[time.Duration]struct{ verification, recovery string }{
		0:                                 {"", ""},
		15*time.Minute - time.Millisecond: {"", ""},
		15 * time.Minute:                  {"code_expired", ""},
		24*time.Hour - time.Millisecond:   {"code_expired", ""},
		24 * time.Hour:                    {"code_expired", "code_expired"},
		72 * time.Hour:                    {"code_expired", "code_expired"},
	} {
		for _, dueJobs := range []bool{false, true} {
			s := newStore(t, noCaps)
			fresh, _ := s.register("lighthouse")
			lost, _ := s.register("harbour-pilot")
			s.ok(s.Verify(context.Background(), lost.Handle))
			verify, recovery := s.code(fresh), s.recoveryCode(lost)
			s.clock.Advance(after)
			if dueJobs {
				s.ok(s.RunJobs(context.Background()))
			}
			_, err := s.recover(lost, recovery)
			wantOutcome(t, fmt.Sprintf("recovery after %v", after), err, want.recovery)
			wantOutcome(t, fmt.Sprintf("verification after %v", after), s.confirm(fresh, verify), want.verification)
			if want.verification != "" { // time is over for wrong ones as well
				wantOutcome(t, "a wrong code", s.confirm(fresh, wrongCode), want.verification)
			}
		}
	}
}

func TestCode_FiveFailedAttemptsInvalidateIt(t *testing.T) {
	s := newStore(t)
	fresh, _ := s.register("lighthouse")
	asked := s.clock.Now()
	code := s.code(fresh)
	for i := range 5 {
		wantOutcome(t, fmt.Sprintf("wrong try %d", i+1), s.confirm(fresh, wrongCode), "wrong_code")
	}
	for _, after := range []time.Duration{0, time.Minute, 14 * time.Minute, 2 * time.Hour, 40 * domain.Day} {
		s.clock.Advance(after - s.since(asked))
		s.ok(s.RunJobs(context.Background()))
		retry := max(after, time.Minute) // when another may be asked for
		for _, try := range []string{wrongCode, code} {
			err := s.confirm(fresh, try)
			wantOutcome(t, fmt.Sprintf("a burnt code after %v", after), err, "too_many_attempts")
			if refusal := refusalOf(err); refusal.RetryAt.Sub(asked) != retry || refusal.Limit != 5 {
				t.Errorf("retry after %v, limit %d", refusal.RetryAt.Sub(asked), refusal.Limit)
			}
		}
	}
	s.clock.Advance(41*domain.Day - s.since(asked))
	next := s.code(fresh)
	wantOutcome(t, "the old code after a new one", s.confirm(fresh, code), "wrong_code")
	for range 3 {
		wantOutcome(t, "wrong again", s.confirm(fresh, wrongCode), "wrong_code")
	}
	wantOutcome(t, "the new code at the fifth try", s.confirm(fresh, next), "")
}

func TestCode_OfAnotherAgentIsWrong(t *testing.T) {
	ctx := context.Background()
	const here = "harbour-pilot@agents.example.org"
	for name, tt := range map[string]struct {
		code func(s *testStore, pilot, other domain.Caller) string
		want string
	}{
		"its own":         {func(s *testStore, pilot, _ domain.Caller) string { return s.code(pilot) }, ""},
		"none asked for":  {func(s *testStore, _, _ domain.Caller) string { return wrongCode }, "code_expired"},
		"another agent's": {func(s *testStore, _, other domain.Caller) string { return s.code(other) }, "code_expired"},
		"another agent's at the same mailbox, while it has its own": {func(s *testStore, pilot, other domain.Caller) string {
			s.update(other, func(a *domain.Settings) { a.Mailbox = here })
			s.code(pilot)
			return s.code(other)
		}, "wrong_code"},
		"one before the last": {func(s *testStore, pilot, _ domain.Caller) string {
			first := s.code(pilot)
			s.code(pilot)
			return first
		}, "wrong_code"},
		"one for recovery": {func(s *testStore, pilot, _ domain.Caller) string {
			s.ok(s.Verify(ctx, pilot.Handle))
			code := s.recoveryCode(pilot)
			s.change(nil, `UPDATE agents SET verified_at = NULL WHERE id = ?`, pilot.ID)
			return code
		}, "code_expired"},
		"one for recovery, while it has its own": {func(s *testStore, pilot, _ domain.Caller) string {
			s.ok(s.Verify(ctx, pilot.Handle))
			code := s.recoveryCode(pilot)
			s.change(nil, `UPDATE agents SET verified_at = NULL WHERE id = ?`, pilot.ID)
			s.code(pilot)
			return code
		}, "wrong_code"},
		"an earlier mailbox's": {func(s *testStore, pilot, _ domain.Caller) string {
			code := s.code(pilot)
			s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
			return code
		}, "code_expired"},
		"the same mailbox's after another": {func(s *testStore, pilot, _ domain.Caller) string {
			code := s.code(pilot)
			s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
			s.update(pilot, func(a *domain.Settings) { a.Mailbox = here })
			return code
		}, "code_expired"},
		"an earlier mailbox's, while it has a new one": {func(s *testStore, pilot, _ domain.Caller) string {
			code := s.code(pilot)
			s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
			s.code(pilot)
			return code
		}, "wrong_code"},
		"its own under a new name": {func(s *testStore, pilot, _ domain.Caller) string {
			code := s.code(pilot)
			s.update(pilot, func(a *domain.Settings) { a.Name, a.Owner = "Another", "Another" })
			return code
		}, ""},
	} {
		s := newStore(t, noCaps)
		pilot, _ := s.register("harbour-pilot")
		other, _ := s.register("lighthouse")
		wantOutcome(t, name, s.confirm(pilot, tt.code(s, pilot, other)), tt.want)
	}
}

// A mailbox that changes takes the mail with its code along.
func TestCode_NewMailboxInvalidatesIt(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	s.ok(s.sends()["verify"](pilot))
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	if mails := s.deliver(); len(mails) != 0 {
		t.Errorf("still on its way: %d mails", len(mails))
	}
	s.code(pilot)
}

const rush = 100

func TestCode_CountsConcurrentAttempts(t *testing.T) {
	s := newStore(t, noCaps)
	rounds := proof.Rounds(60, 200, 4000)
	proof.Figure(t, "limit rounds", rounds)
	for round := range rounds {
		fresh, _ := s.register(fmt.Sprintf("agent-%d", round))
		code := s.code(fresh)
		wantOutcomes(t, "wrong codes", together(rush, func(int) error { return s.confirm(fresh, wrongCode) }),
			map[string]int{"wrong_code": 5, "too_many_attempts": rush - 5})
		if n := value[int](s, `SELECT wrong_tries FROM codes WHERE agent_id = ?`, fresh.ID); n != 5 {
			t.Errorf("%d tries counted", n)
		}
		wantOutcome(t, "the right code", s.confirm(fresh, code), "too_many_attempts")
	}
}

func TestCode_ConcurrentUseSucceedsOnce(t *testing.T) {
	s := newStore(t, noCaps)
	rounds := proof.Rounds(60, 100, 2000)
	proof.Figure(t, "act rounds", 2*rounds)
	for round := range rounds {
		pilot, first := s.register(fmt.Sprintf("agent-%d", round))
		code := s.code(pilot)
		wantOutcomes(t, "verifications", together(rush, func(int) error { return s.confirm(pilot, code) }),
			map[string]int{"": 1, "already_verified": rush - 1})
		code = s.recoveryCode(pilot)
		keys := make([]string, rush)
		errs := together(rush, func(i int) (err error) {
			keys[i], err = s.recover(pilot, code)
			return err
		})
		wantOutcomes(t, "recoveries", errs, map[string]int{"": 1, "code_expired": rush - 1})
		for i, key := range append(keys, first) {
			if _, err := s.Authenticate(context.Background(), key); (err == nil) != (i < rush && errs[i] == nil) {
				t.Errorf("key %d: %v", i, err)
			}
		}
	}
}

// One who guesses all the time, and asks for a code whenever there may be one.
func TestCode_LimitsGuessesPerDay(t *testing.T) {
	proof.OneByOne(t)
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	var seed [32]byte
	_, _ = rand.Read(seed[:])
	chance := mathrand.NewChaCha8(seed)
	var counted []domain.Time // those that were compared with a code
	days, guesses, guessed := proof.Rounds(3, 3, 500), 0, 0
	for range days * 24 * 12 {
		if got := outcome(s.sends()["verify"](pilot)); got != "" && got != "rate_limited" {
			t.Fatalf("asking for a code: %q", got)
		}
		for range 7 {
			guess, err := domain.NewCode(chance)
			s.ok(err)
			guesses++
			switch got := outcome(s.confirm(pilot, guess)); got {
			case "":
				guessed++
				t.Errorf("the guess %s of seed %x verifies the mailbox", guess, seed)
				s.change(nil, `UPDATE agents SET verified_at = NULL WHERE id = ?`, pilot.ID) // so that guessing goes on
			case "wrong_code":
				counted = append(counted, domain.TimeOf(s.clock.Now()))
			case "code_expired", "too_many_attempts":
			default:
				t.Fatalf("the guess %s of seed %x: %q", guess, seed, got)
			}
		}
		s.clock.Advance(5 * time.Minute)
	}
	if most := mostADay(counted); most != 3*5 {
		t.Errorf("seed %x: %d guesses count within a day, want 15", seed, most)
	}
	proof.Figure(t, "guesses", guesses)
	proof.Figure(t, "guessed", guessed)
	proof.Figure(t, "compared", len(counted))
	proof.Figure(t, "that count a day", mostADay(counted))
}

func TestRecovery_NeedsAVerifiedMailbox(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		set   string // what makes the agent so
		mails int
		want  string // with the code that was sent
	}{
		"verified":                {`UPDATE agents SET verified_at = 1 WHERE id = ?`, 1, ""},
		"claimed":                 {`UPDATE agents SET verified_at = 1, claimed_at = 1, claimed_by = randomblob(32) WHERE id = ?`, 1, ""},
		"not verified":            {`UPDATE agents SET verified_at = NULL WHERE id = ?`, 0, "code_expired"},
		"suspended":               {`UPDATE agents SET verified_at = 1, suspended_at = 1 WHERE id = ?`, 1, ""},
		"no longer suspended":     {`UPDATE agents SET verified_at = 1, suspended_at = 1, suspended_until = 2 WHERE id = ?`, 1, ""},
		"deleted":                 {`DELETE FROM agents WHERE id = ?`, 0, "code_expired"},
		"unknown":                 {`UPDATE handles SET handle = 'other' WHERE id = ?`, 0, "code_expired"},
		"suspended with a code":   {`UPDATE agents SET verified_at = 1 WHERE id = ?`, 1, ""},
		"not verified any longer": {`UPDATE agents SET verified_at = 1 WHERE id = ?`, 1, "code_expired"},
	} {
		s := newStore(t, noCaps)
		pilot, key := s.register("harbour-pilot")
		s.change(nil, tt.set, pilot.ID)
		s.ok(s.sends()["recover"](pilot))
		code := wrongCode
		mails := s.deliver()
		if len(mails) != tt.mails {
			t.Errorf("%s: %d mails, want %d", name, len(mails), tt.mails)
		} else if tt.mails == 1 {
			code = mails[0].Secret
		}
		switch name {
		case "suspended with a code":
			s.change(nil, `UPDATE agents SET suspended_at = 1`)
		case "not verified any longer":
			s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
		}
		now := s.clock.Now()
		done, err := s.ConfirmRecovery(ctx, pilot.Handle, code, false)
		wantOutcome(t, name, err, tt.want)
		if err != nil {
			continue
		}
		recovered := done.Key
		if done.RotatedAt != domain.TimeOf(now) || !domain.WellFormedKey(recovered) {
			t.Errorf("%s: rotated at %v", name, done.RotatedAt)
		}
		_, err = s.Authenticate(ctx, recovered)
		access := "" // a recovery does not end a suspension
		if name == "suspended" || name == "suspended with a code" {
			access = "suspended"
		}
		wantOutcome(t, name+", the new key", err, access)
		_, err = s.Authenticate(ctx, key)
		wantOutcome(t, name+", the old key", err, "unauthorized")
		_, err = s.recover(pilot, code)
		wantOutcome(t, name+", the code again", err, "code_expired")
	}
}

// An agent that lost the answer of its registration too gets no second key by it.
func TestRecovery_KeyCountsAsUsed(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	once := domain.NewIdempotencyKey("createAgent", onceKey, "body")
	first, _, err := s.Register(ctx, registration("harbour-pilot"), once)
	s.ok(err)
	pilot := domain.Caller{ID: first.Agent.ID, Handle: "harbour-pilot"}
	s.ok(s.Verify(ctx, pilot.Handle))
	key, err := s.recover(pilot, s.recoveryCode(pilot))
	s.ok(err)
	again, replayed, err := s.Register(ctx, registration("harbour-pilot"), once)
	if s.ok(err); !replayed || again.Key != "" {
		t.Errorf("replayed %v, a key %v", replayed, again.Key != "")
	}
	_, err = s.Authenticate(ctx, key)
	wantOutcome(t, "the recovered key", err, "")
}

func TestCode_OnlyItsHashIsStored(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	code := s.code(pilot)
	s.ok(s.RunJobs(context.Background()))
	s.stop()
	for _, spelling := range []string{code, code[:4] + code[5:]} {
		if n := s.occurrences([]byte(spelling)); n != 0 {
			t.Errorf("the code stands %d times in the file", n)
		}
	}
}

func TestAbuse21_CodesAreHashedWithTheSecretOfTheOperator(t *testing.T) {
	secret := []byte("a secret that the database does not hold")
	s := newStore(t, noCaps, func(o *Options) { o.Secret = secret })
	pilot, _ := s.register("harbour-pilot")
	code := s.code(pilot)
	stored := value[[]byte](s, `SELECT code_hash FROM codes`)
	mac := hmac.New(sha256.New, secret)
	mac.Write(domain.HashCode(pilot.ID, domain.MailVerify, "harbour-pilot@agents.example.org", code))
	if !bytes.Equal(stored, mac.Sum(nil)) {
		t.Error("the hash in the database is another")
	}
	restart := func(secret []byte) {
		s.stop()
		s.Store = openStore(t, Options{Path: s.path, Clock: s.clock.Now, Normal: true, Secret: secret, Mails: &domain.MailCaps{}})
	}
	restart(nil)
	wantOutcome(t, "without the secret", s.confirm(pilot, code), "wrong_code")
	restart([]byte("another secret"))
	wantOutcome(t, "with another secret", s.confirm(pilot, code), "wrong_code")
	restart(secret)
	wantOutcome(t, "with the secret", s.confirm(pilot, code), "")
}

func TestAbuse21_WithoutASecretCodesAreHashedWithTheKeyInTheDatabase(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	code := s.code(pilot)
	plain := domain.HashCode(pilot.ID, domain.MailVerify, "harbour-pilot@agents.example.org", code)
	mac := hmac.New(sha256.New, value[[]byte](s, `SELECT value FROM site WHERE name = 'secret'`))
	mac.Write(append([]byte("code\x00"), plain...))
	if stored := value[[]byte](s, `SELECT code_hash FROM codes`); !bytes.Equal(stored, mac.Sum(nil)) {
		t.Error("the hash in the database is another")
	}
	wantOutcome(t, "the code", s.confirm(pilot, code), "")
}
