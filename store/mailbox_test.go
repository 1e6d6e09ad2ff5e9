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

	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
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
		if code := s.verifyCode(c); code != "01A0-Z11K" {
			t.Fatalf("the code is shown as %s", code)
		}
		doc, err := s.ConfirmVerify(ctx, c, tt.code)
		wantOutcome(t, fmt.Sprintf("%q", tt.code), err, tt.want)
		if verified := doc.Trust.Level == 1; verified != (tt.want == "") {
			t.Errorf("%q: level %d", tt.code, doc.Trust.Level)
		}
	}
}

// A mailbox that changes takes the mail with its code along.
func TestCode_NewMailboxInvalidatesIt(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	s.ok(s.mailRequests()["verify"](pilot))
	s.update(pilot, func(a *domain.Settings) { a.Mailbox = "new@agents.example.org" })
	if mails := s.deliverMails(); len(mails) != 0 {
		t.Errorf("still on its way: %d mails", len(mails))
	}
	s.verifyCode(pilot)
}

func TestCode_CountsConcurrentAttempts(t *testing.T) {
	s := newStore(t, noCaps)
	rounds := proof.Rounds(15, 200, 4000)
	proof.Figure(t, "limit rounds", rounds)
	for round := range rounds {
		fresh, _ := s.register(fmt.Sprintf("agent-%d", round))
		code := s.verifyCode(fresh)
		wantOutcomes(t, "wrong codes", testkit.Together(rush, func(int) error { return s.confirmVerify(fresh, wrongCode) }),
			map[string]int{"wrong_code": 5, "too_many_attempts": rush - 5})
		if n := value[int](s, `SELECT wrong_tries FROM codes WHERE agent_id = ?`, fresh.ID); n != 5 {
			t.Errorf("%d tries counted", n)
		}
		wantOutcome(t, "the right code", s.confirmVerify(fresh, code), "too_many_attempts")
	}
}

func TestCode_ConcurrentUseSucceedsOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, noCaps)
	rounds := proof.Rounds(15, 100, 2000)
	proof.Figure(t, "act rounds", 2*rounds)
	for round := range rounds {
		pilot, first := s.register(fmt.Sprintf("agent-%d", round))
		code := s.verifyCode(pilot)
		wantOutcomes(t, "verifications", testkit.Together(rush, func(int) error { return s.confirmVerify(pilot, code) }),
			map[string]int{"": 1, "already_verified": rush - 1})
		code = s.recoveryCode(pilot)
		keys := make([]string, rush)
		errs := testkit.Together(rush, func(i int) (err error) {
			keys[i], err = s.confirmRecovery(pilot, code)
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
	t.Parallel()
	proof.OneByOne(t)
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	var seed [32]byte
	_, _ = rand.Read(seed[:])
	chance := mathrand.NewChaCha8(seed)
	var counted []domain.Time // those that were compared with a code
	days, guesses, guessed := proof.Rounds(3, 3, 500), 0, 0
	for range days * 24 * 12 {
		if got := outcome(s.mailRequests()["verify"](pilot)); got != "" && got != "rate_limited" {
			t.Fatalf("asking for a code: %q", got)
		}
		for range 7 {
			guess, err := domain.NewCode(chance)
			s.ok(err)
			guesses++
			switch got := outcome(s.confirmVerify(pilot, guess)); got {
			case "":
				guessed++
				t.Errorf("the guess %s of seed %x verifies the mailbox", guess, seed)
				s.execSQL(`UPDATE agents SET verified_at = NULL WHERE id = ?`, pilot.ID) // so that guessing goes on
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

// An agent that lost the answer of its registration too gets no second key by it.
func TestRecovery_KeyCountsAsUsed(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	once := domain.NewIdempotencyKey("createAgent", onceKey, "body")
	first, _, err := s.Register(ctx, registration("harbour-pilot"), once)
	s.ok(err)
	pilot := domain.Caller{ID: first.Agent.ID, Handle: "harbour-pilot"}
	s.ok(s.ActOnAgent(ctx, domain.OperatorVerify, pilot.Handle))
	key, err := s.confirmRecovery(pilot, s.recoveryCode(pilot))
	s.ok(err)
	again, replayed, err := s.Register(ctx, registration("harbour-pilot"), once)
	if s.ok(err); !replayed || again.Key != "" {
		t.Errorf("replayed %v, a key %v", replayed, again.Key != "")
	}
	_, err = s.Authenticate(ctx, key)
	wantOutcome(t, "the recovered key", err, "")
}

// TestCode_IsHashedWithTheSecretOfTheOperator holds promise 21 of SECURITY.md.
func TestCode_IsHashedWithTheSecretOfTheOperator(t *testing.T) {
	secret := []byte("a secret that the database does not hold")
	s := newStore(t, noCaps, func(o *Options) { o.Secret = secret })
	pilot, _ := s.register("harbour-pilot")
	code := s.verifyCode(pilot)
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
	wantOutcome(t, "without the secret", s.confirmVerify(pilot, code), "wrong_code")
	restart([]byte("another secret"))
	wantOutcome(t, "with another secret", s.confirmVerify(pilot, code), "wrong_code")
	restart(secret)
	wantOutcome(t, "with the secret", s.confirmVerify(pilot, code), "")
}

// TestCode_WithoutASecretIsHashedWithTheKeyInTheDatabase holds promise 21 of SECURITY.md.
func TestCode_WithoutASecretIsHashedWithTheKeyInTheDatabase(t *testing.T) {
	s := newStore(t, noCaps)
	pilot, _ := s.register("harbour-pilot")
	code := s.verifyCode(pilot)
	plain := domain.HashCode(pilot.ID, domain.MailVerify, "harbour-pilot@agents.example.org", code)
	mac := hmac.New(sha256.New, value[[]byte](s, `SELECT value FROM site WHERE name = 'secret'`))
	mac.Write(append([]byte("code\x00"), plain...))
	if stored := value[[]byte](s, `SELECT code_hash FROM codes`); !bytes.Equal(stored, mac.Sum(nil)) {
		t.Error("the hash in the database is another")
	}
	wantOutcome(t, "the code", s.confirmVerify(pilot, code), "")
}
