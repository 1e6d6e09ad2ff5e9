package store

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"callbook/store/domain"
	"callbook/testdata/testkit"
)

const onceKey = "0123456789abcdef"

func TestIdempotency_ConcurrentRegistrationsLeaveOneKey(t *testing.T) {
	s := newStore(t)
	once := domain.NewIdempotencyKey("createAgent", onceKey, "body")
	answers := make([]domain.Registered, crowd)
	wantOutcomes(t, "registrations", testkit.Together(crowd, func(i int) (err error) {
		answers[i], _, err = s.Register(context.Background(), registration("harbour-pilot"), once)
		return err
	}), map[string]int{"": crowd})
	working := 0
	for i, a := range answers {
		a.Key = ""
		if diff := cmp.Diff(answers[0], a, cmpopts.IgnoreFields(domain.Registered{}, "Key")); diff != "" {
			t.Fatalf("answer %d: %s", i, diff)
		}
		if _, err := s.Authenticate(context.Background(), answers[i].Key); err == nil {
			working++
		}
	}
	if n := value[int](s, `SELECT COUNT(*) FROM handles`); n != 1 || working != 1 {
		t.Errorf("%d agents and %d working keys, want 1 and 1", n, working)
	}
}

func TestIdempotency_RepeatedRegistrationGetsANewKey(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	once := domain.NewIdempotencyKey("createAgent", onceKey, "body")
	first, replayed, err := s.Register(ctx, registration("harbour-pilot"), once)
	s.ok(err)
	if replayed || first.Key == "" {
		t.Fatalf("first: replayed %v", replayed)
	}
	second, replayed, err := s.Register(ctx, registration("harbour-pilot"), once)
	s.ok(err)
	if !replayed || second.Key == "" || second.Key == first.Key || second.Agent.ID != first.Agent.ID {
		t.Fatalf("second: replayed %v, agent %d", replayed, second.Agent.ID)
	}
	_, err = s.Authenticate(ctx, first.Key)
	wantOutcome(t, "the lost key", err, "unauthorized")
	caller, err := s.Authenticate(ctx, second.Key)
	s.ok(err)
	third, replayed, err := s.Register(ctx, registration("harbour-pilot"), once)
	s.ok(err)
	if !replayed || third.Key != "" {
		t.Errorf("after the key was used: replayed %v, a key %v", replayed, third.Key != "")
	}
	_, err = s.Authenticate(ctx, second.Key)
	wantOutcome(t, "the used key", err, "")

	s.ok(s.DeleteAgent(ctx, caller))
	_, _, err = s.Register(ctx, registration("harbour-pilot"), once)
	wantOutcome(t, "after the agent is gone", err, "handle_taken")
}

func TestIdempotency_Scope(t *testing.T) {
	s := newStore(t, withQuotas(domain.Quotas{domain.LimitPosts: 1, domain.LimitReplies: 50}))
	ctx := context.Background()
	caller, _ := s.register("harbour-pilot")
	other, _ := s.register("lighthouse")
	once := domain.NewIdempotencyKey("createPost", onceKey, "body")
	create := func(c domain.Caller, o domain.IdempotencyKey) (bool, string) {
		_, replayed, err := s.CreatePost(ctx, c, s.draft("t", "b"), o)
		return replayed, outcome(err)
	}
	tests := []struct {
		name     string
		caller   domain.Caller
		once     domain.IdempotencyKey
		replayed bool
		want     string
	}{
		{"first", caller, once, false, ""},
		{"again, before the limit is looked at", caller, once, true, ""},
		{"with another body", caller, domain.NewIdempotencyKey("createPost", onceKey, "another"), false, "idempotency_conflict"},
		{"by another caller", other, once, false, ""},
		{"with another key, past the limit", caller, domain.NewIdempotencyKey("createPost", onceKey+"g", "body"), false, "rate_limited"},
		{"a refusal is not kept", caller, domain.NewIdempotencyKey("createPost", onceKey+"g", "another"), false, "rate_limited"},
		{"without a key", caller, domain.IdempotencyKey{}, false, "rate_limited"},
	}
	for _, tt := range tests {
		if replayed, got := create(tt.caller, tt.once); replayed != tt.replayed || got != tt.want {
			t.Errorf("%s: replayed %v, %q; want %v, %q", tt.name, replayed, got, tt.replayed, tt.want)
		}
	}
	s.clock.Advance(domain.IdempotencyRetention - time.Millisecond)
	if replayed, got := create(caller, once); !replayed || got != "" {
		t.Errorf("within 24 hours: replayed %v, %q", replayed, got)
	}
	s.clock.Advance(time.Millisecond)
	if replayed, got := create(caller, domain.NewIdempotencyKey("createPost", onceKey, "another")); replayed || got != "" {
		t.Errorf("24 hours later, another body: replayed %v, %q", replayed, got)
	}
}

func TestIdempotency_DistinguishesPartsOfARequest(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{{"a", "b"}, {"ab"}, {"a", "", "b"}, {"", "ab"}, {"ab", ""}, {"b", "a"}} {
		sum := string(domain.NewIdempotencyKey("op", onceKey, parts...).RequestHash())
		if before, ok := seen[sum]; ok {
			t.Errorf("%q and %q are the same call", before, parts)
		}
		seen[sum] = parts
	}
}

// TestIdempotency_RegistrationIsReplayedToItsNetworkOnly holds promise 18 of SECURITY.md.
func TestIdempotency_RegistrationIsReplayedToItsNetworkOnly(t *testing.T) {
	for _, tt := range []struct {
		name, first, second string
		want                string // outcome of the second registration
	}{
		{"the same address", "192.0.2.7", "192.0.2.7", ""},
		{"the address in its other form", "192.0.2.7", "::ffff:192.0.2.7", ""},
		{"another address", "192.0.2.7", "192.0.2.8", "handle_taken"},
		{"the same /64", "2001:db8:1:2::1", "2001:db8:1:2::ffff", ""},
		{"another /64", "2001:db8:1:2::1", "2001:db8:1:3::1", "handle_taken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t)
			register := func(address string) (domain.Registered, bool, error) {
				once := domain.NewIdempotencyKey("createAgent", onceKey, "body").From(netip.MustParseAddr(address))
				return s.Register(context.Background(), registration("harbour-pilot"), once)
			}
			first, _, err := register(tt.first)
			s.ok(err)
			second, replayed, err := register(tt.second)
			wantOutcome(t, "the second", err, tt.want)
			if replayed != (tt.want == "") {
				t.Errorf("replayed: %v", replayed)
			}
			works := first.Key
			if replayed {
				works = second.Key
			}
			s.callerOf(works) // the key of the first is not replaced from elsewhere
		})
	}
}

func TestIdempotency_DeletedRecordIsNotReplayed(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	pilot, _ := s.register("harbour-pilot")
	draft := domain.PostDraft{Kind: "seeking", Title: "canarytitle", Body: "b"}
	once := domain.NewIdempotencyKey("createPost", "0123456789abcdef", "body")
	post, _, err := s.CreatePost(ctx, pilot, draft, once)
	s.ok(err)
	s.ok(s.DeletePost(ctx, pilot, post.ID))
	_, _, err = s.CreatePost(ctx, pilot, draft, once)
	wantOutcome(t, "the call", err, string(domain.CodeNotFound))
	if n := value[int](s, `SELECT COUNT(*) FROM idempotency WHERE answer LIKE '%canarytitle%'`); n != 0 {
		t.Error("the text of a deleted call is kept")
	}
	if n := value[int](s, `SELECT COUNT(*) FROM posts`); n != 0 {
		t.Error("the repeated call made another")
	}
}

// TestIdempotency_DeletedAgentIsErasedFromResponses: the other side's first answer shows the name and
// level of the one that goes.
func TestIdempotency_DeletedAgentIsErasedFromResponses(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	asker, gone := s.reachable("asker"), s.reachable("harbour-pilot")
	s.update(gone, func(a *domain.Settings) { a.Name = "canaryname" })
	once := func(operation string) domain.IdempotencyKey {
		return domain.NewIdempotencyKey(operation, onceKey, "body")
	}
	acts := map[string]func() error{
		"a request": func() error { return errOf3(s.SendRequest(ctx, asker, gone.Handle, plainDraft, once("sendRequest"))) },
		"a collaboration": func() error {
			return errOf3(s.RecordCollab(ctx, asker, domain.CollabDraft{Partner: gone.Handle, Summary: "s"}, once("recordCollab")))
		},
	}
	for _, act := range acts {
		s.ok(act())
	}
	s.ok(s.DeleteAgent(ctx, gone))
	for name, act := range acts {
		wantOutcome(t, name, act(), string(domain.CodeNotFound))
	}
	if n := value[int](s, `SELECT COUNT(*) FROM idempotency WHERE answer LIKE '%canaryname%'`); n != 0 {
		t.Errorf("%d answers name it", n)
	}
}
