package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
)

const policyNow = domain.Time(1_795_000_000_000)

// admitted is an approach that every policy but one at level 2 admits, and no
// rule is near.
func admitted() (domain.ContactPolicy, domain.ContactAttempt) {
	return domain.DefaultPolicy, domain.ContactAttempt{Now: policyNow, Level: 1, OfferingGiven: true, OfferingKnown: true, Daily: 2}
}

// policyRules are the rules in the contract's order, each with how it is violated
// alone and what it refuses with. Some exclude each other: of two that one number
// decides, the later must leave it to the earlier.
var policyRules = []struct {
	name    string
	violate func(*domain.ContactPolicy, *domain.ContactAttempt)
	want    domain.Error
}{
	{"oneself", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.Self = true }, domain.Error{Code: domain.CodeSelfRequest}},
	{"level 0", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.Level = 0 }, domain.Error{Code: domain.CodeTrustTooLow, Topic: "verify"}},
	{"below min_level", func(p *domain.ContactPolicy, a *domain.ContactAttempt) { p.MinLevel, a.Level = 2, min(a.Level, 1) },
		domain.Error{Code: domain.CodeTrustTooLow, Topic: "min_level", Limit: 2}},
	{"not accepting", func(p *domain.ContactPolicy, _ *domain.ContactAttempt) { p.Accepting = false }, domain.Error{Code: domain.CodeNotAccepting}},
	{"blocked", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.Blocked = true }, domain.Error{Code: domain.CodeNotAccepting}},
	{"no offering", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) {
		a.OfferingGiven, a.OfferingKnown = false, false
	},
		*domain.Invalid(domain.FieldError{Field: "offering_id", Code: domain.FaultRequired, Topic: "offering"})},
	{"another's offering", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.OfferingKnown = false },
		*domain.Invalid(domain.FieldError{Field: "offering_id", Code: domain.FaultUnknownID, Topic: "theirs"})},
	{"one is open", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.Open = true }, domain.Error{Code: domain.CodeDuplicate, Topic: "request"}},
	{"declined lately", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.DeclinedAt = ago(29 * domain.Day) },
		domain.Error{Code: domain.CodeCooldown, Topic: "request", RetryAt: policyNow.Add(domain.Day).Time()}},
	{"the sender's limit", func(_ *domain.ContactPolicy, a *domain.ContactAttempt) {
		a.Sent = []domain.Time{*ago(time.Hour), *ago(2 * time.Hour)}
	},
		domain.Error{Code: domain.CodeSenderLimitReached, Topic: "request", Limit: 2, RetryAt: policyNow.Add(22 * time.Hour).Time()}},
	{"the weekly cap", func(p *domain.ContactPolicy, a *domain.ContactAttempt) {
		p.WeeklyCap, a.Received = 3, []domain.Time{*ago(0), *ago(domain.Day), *ago(2 * domain.Day)}
	}, domain.Error{Code: domain.CodeWeeklyCapReached, Limit: 3, RetryAt: policyNow.Add(5 * domain.Day).Time()}},
}

func ago(d time.Duration) *domain.Time {
	at := policyNow.Add(-d)
	return &at
}

func TestPolicy_EachRule(t *testing.T) {
	if refusal := func() *domain.Error { p, a := admitted(); return p.Allow(a) }(); refusal != nil {
		t.Fatalf("with nothing violated: %+v", refusal)
	}
	for _, rule := range policyRules {
		p, a := admitted()
		rule.violate(&p, &a)
		if diff := cmp.Diff(&rule.want, p.Allow(a)); diff != "" {
			t.Errorf("%s (-want +got): %s", rule.name, diff)
		}
	}
}

// TestPolicy_OrderOfRules violates each two rules at once, in both orders.
func TestPolicy_OrderOfRules(t *testing.T) {
	for i, first := range policyRules {
		for _, second := range policyRules[i+1:] {
			for _, violate := range []func(*domain.ContactPolicy, *domain.ContactAttempt){
				func(p *domain.ContactPolicy, a *domain.ContactAttempt) { first.violate(p, a); second.violate(p, a) },
				func(p *domain.ContactPolicy, a *domain.ContactAttempt) { second.violate(p, a); first.violate(p, a) },
			} {
				p, a := admitted()
				violate(&p, &a)
				if diff := cmp.Diff(&first.want, p.Allow(a)); diff != "" {
					t.Errorf("%s and %s (-want +got): %s", first.name, second.name, diff)
				}
			}
		}
	}
}

func TestPolicy_Boundaries(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(*domain.ContactPolicy, *domain.ContactAttempt)
		want string
	}{
		"level 1 where 1 is asked":         {func(p *domain.ContactPolicy, a *domain.ContactAttempt) { p.MinLevel, a.Level = 1, 1 }, ""},
		"level 2 where 1 is asked":         {func(p *domain.ContactPolicy, a *domain.ContactAttempt) { p.MinLevel, a.Level = 1, 2 }, ""},
		"level 2 where 2 is asked":         {func(p *domain.ContactPolicy, a *domain.ContactAttempt) { p.MinLevel, a.Level = 2, 2 }, ""},
		"an offering that is not required": {func(p *domain.ContactPolicy, a *domain.ContactAttempt) { p.RequireOffering = false }, ""},
		"no offering where none is required": {func(p *domain.ContactPolicy, a *domain.ContactAttempt) {
			p.RequireOffering, a.OfferingGiven, a.OfferingKnown = false, false, false
		}, ""},
		"another's offering where none is required": {func(p *domain.ContactPolicy, a *domain.ContactAttempt) {
			p.RequireOffering, a.OfferingKnown = false, false
		},
			"validation_failed"},
		"declined 30 days ago": {func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.DeclinedAt = ago(30 * domain.Day) }, ""},
		"declined a millisecond later": {func(_ *domain.ContactPolicy, a *domain.ContactAttempt) {
			a.DeclinedAt = ago(30*domain.Day - time.Millisecond)
		}, "cooldown"},
		"declined now":    {func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.DeclinedAt = ago(0) }, "cooldown"},
		"one sent of two": {func(_ *domain.ContactPolicy, a *domain.ContactAttempt) { a.Sent = []domain.Time{policyNow} }, ""},
		"no limit": {func(_ *domain.ContactPolicy, a *domain.ContactAttempt) {
			a.Daily, a.Sent = 0, []domain.Time{policyNow, policyNow}
		}, ""},
		"one received less than the cap": {func(p *domain.ContactPolicy, a *domain.ContactAttempt) {
			p.WeeklyCap, a.Received = 2, []domain.Time{policyNow}
		}, ""},
		"one received where the cap is one": {func(p *domain.ContactPolicy, a *domain.ContactAttempt) {
			p.WeeklyCap, a.Received = 1, []domain.Time{policyNow}
		}, "weekly_cap_reached"},
		"the owner's receipt changes nothing": {func(p *domain.ContactPolicy, _ *domain.ContactAttempt) { p.RequireOwnerReceipt = true }, ""},
	} {
		p, a := admitted()
		tt.set(&p, &a)
		got := ""
		if refusal := p.Allow(a); refusal != nil {
			got = string(refusal.Code)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The refusal says when the oldest of those that count no longer does.
func TestPolicy_RetryAt(t *testing.T) {
	for limit := 1; limit <= 50; limit++ {
		var times []domain.Time
		for i := range limit {
			times = append(times, *ago(time.Duration(i+1) * time.Minute))
		}
		p, a := admitted()
		p.WeeklyCap, a.Received = limit, times
		if refusal := p.Allow(a); refusal == nil || !refusal.RetryAt.Equal(times[limit-1].Add(7*domain.Day).Time()) {
			t.Errorf("a cap of %d: %+v", limit, refusal)
		}
		p, a = admitted()
		a.Daily, a.Sent = limit, times
		if refusal := p.Allow(a); refusal == nil || !refusal.RetryAt.Equal(times[limit-1].Add(domain.Day).Time()) || refusal.Limit != limit {
			t.Errorf("a limit of %d: %+v", limit, refusal)
		}
	}
}
