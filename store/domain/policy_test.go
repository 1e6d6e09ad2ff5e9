package domain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const policyNow = Time(1_795_000_000_000)

// admitted is an approach that every policy but one at level 2 admits, and no
// rule is near.
func admitted() (ContactPolicy, ContactAttempt) {
	return DefaultPolicy, ContactAttempt{Now: policyNow, Level: 1, OfferingGiven: true, OfferingKnown: true, Daily: 2}
}

// policyRules are the rules in the documented order, each with how it is violated
// alone and what it refuses with. Some exclude each other: of two that one number
// decides, the later must leave it to the earlier.
var policyRules = []struct {
	name    string
	violate func(*ContactPolicy, *ContactAttempt)
	want    Error
}{
	{"oneself", func(_ *ContactPolicy, a *ContactAttempt) { a.Self = true }, Error{Code: CodeSelfRequest}},
	{"level 0", func(_ *ContactPolicy, a *ContactAttempt) { a.Level = 0 }, Error{Code: CodeTrustTooLow, Topic: "verify"}},
	{"below min_level", func(p *ContactPolicy, a *ContactAttempt) { p.MinLevel, a.Level = 2, min(a.Level, 1) },
		Error{Code: CodeTrustTooLow, Topic: "min_level", Limit: 2}},
	{"not accepting", func(p *ContactPolicy, _ *ContactAttempt) { p.Accepting = false }, Error{Code: CodeNotAccepting}},
	{"blocked", func(_ *ContactPolicy, a *ContactAttempt) { a.Blocked = true }, Error{Code: CodeNotAccepting}},
	{"no offering", func(_ *ContactPolicy, a *ContactAttempt) {
		a.OfferingGiven, a.OfferingKnown = false, false
	},
		*Invalid(FieldError{Field: "offering_id", Code: FaultRequired, Topic: "offering"})},
	{"another's offering", func(_ *ContactPolicy, a *ContactAttempt) { a.OfferingKnown = false },
		*Invalid(FieldError{Field: "offering_id", Code: FaultUnknownID, Topic: "theirs"})},
	{"one is open", func(_ *ContactPolicy, a *ContactAttempt) { a.OpenUntil = after(time.Millisecond) }, Error{Code: CodeDuplicate, Topic: "request"}},
	{"declined lately", func(_ *ContactPolicy, a *ContactAttempt) { a.DeclinedAt = ago(29 * Day) },
		Error{Code: CodeCooldown, Topic: "request", RetryAt: policyNow.Add(Day).Time()}},
	{"the sender's limit", func(_ *ContactPolicy, a *ContactAttempt) {
		a.FullAt = ago(2 * time.Hour)
	},
		Error{Code: CodeSenderLimitReached, Topic: "request", Limit: 2, RetryAt: policyNow.Add(22 * time.Hour).Time()}},
	{"the weekly cap", func(p *ContactPolicy, a *ContactAttempt) {
		p.WeeklyCap, a.CappedAt = 3, ago(Day)
	}, Error{Code: CodeWeeklyCapReached, Limit: 3, RetryAt: policyNow.Add(6 * Day).Time()}},
}

func after(d time.Duration) *Time { return ago(-d) }

func ago(d time.Duration) *Time {
	at := policyNow.Add(-d)
	return &at
}

func TestPolicy_EachRule(t *testing.T) {
	if refusal := func() *Error { p, a := admitted(); return p.Allow(a) }(); refusal != nil {
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
			for _, violate := range []func(*ContactPolicy, *ContactAttempt){
				func(p *ContactPolicy, a *ContactAttempt) { first.violate(p, a); second.violate(p, a) },
				func(p *ContactPolicy, a *ContactAttempt) { second.violate(p, a); first.violate(p, a) },
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
		set  func(*ContactPolicy, *ContactAttempt)
		want string
	}{
		"level 1 where 1 is asked":         {func(p *ContactPolicy, a *ContactAttempt) { p.MinLevel, a.Level = 1, 1 }, ""},
		"level 2 where 1 is asked":         {func(p *ContactPolicy, a *ContactAttempt) { p.MinLevel, a.Level = 1, 2 }, ""},
		"level 2 where 2 is asked":         {func(p *ContactPolicy, a *ContactAttempt) { p.MinLevel, a.Level = 2, 2 }, ""},
		"an offering that is not required": {func(p *ContactPolicy, a *ContactAttempt) { p.RequireOffering = false }, ""},
		"no offering where none is required": {func(p *ContactPolicy, a *ContactAttempt) {
			p.RequireOffering, a.OfferingGiven, a.OfferingKnown = false, false, false
		}, ""},
		"another's offering where none is required": {func(p *ContactPolicy, a *ContactAttempt) {
			p.RequireOffering, a.OfferingKnown = false, false
		},
			"validation_failed"},
		"declined 30 days ago": {func(_ *ContactPolicy, a *ContactAttempt) { a.DeclinedAt = ago(30 * Day) }, ""},
		"declined a millisecond later": {func(_ *ContactPolicy, a *ContactAttempt) {
			a.DeclinedAt = ago(30*Day - time.Millisecond)
		}, "cooldown"},
		"declined now":                        {func(_ *ContactPolicy, a *ContactAttempt) { a.DeclinedAt = ago(0) }, "cooldown"},
		"one expires now":                     {func(_ *ContactPolicy, a *ContactAttempt) { a.OpenUntil = ago(0) }, ""},
		"the owner's receipt changes nothing": {func(p *ContactPolicy, _ *ContactAttempt) { p.RequireOwnerReceipt = true }, ""},
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
