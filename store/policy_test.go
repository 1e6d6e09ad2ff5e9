package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const policyNow = Time(1_795_000_000_000)

// admitted is an approach that every policy but one at level 2 admits, and no
// rule is near.
func admitted() (ContactPolicy, approach) {
	return defaultPolicy, approach{now: policyNow, level: 1, offeringGiven: true, offeringKnown: true, daily: 2}
}

// policyRules are the rules in the contract's order, each with how it is violated
// alone and what it refuses with. Some exclude each other: of two that one number
// decides, the later must leave it to the earlier.
var policyRules = []struct {
	name    string
	violate func(*ContactPolicy, *approach)
	want    Error
}{
	{"oneself", func(_ *ContactPolicy, a *approach) { a.self = true }, Error{Code: CodeSelfRequest}},
	{"level 0", func(_ *ContactPolicy, a *approach) { a.level = 0 }, Error{Code: CodeTrustTooLow, Topic: "verify"}},
	{"below min_level", func(p *ContactPolicy, a *approach) { p.MinLevel, a.level = 2, min(a.level, 1) },
		Error{Code: CodeTrustTooLow, Topic: "min_level", Limit: 2}},
	{"not accepting", func(p *ContactPolicy, _ *approach) { p.Accepting = false }, Error{Code: CodeNotAccepting}},
	{"blocked", func(_ *ContactPolicy, a *approach) { a.blocked = true }, Error{Code: CodeNotAccepting}},
	{"no offering", func(_ *ContactPolicy, a *approach) { a.offeringGiven, a.offeringKnown = false, false },
		*invalid(Fault{"offering_id", FaultRequired, "offering"})},
	{"another's offering", func(_ *ContactPolicy, a *approach) { a.offeringKnown = false },
		*invalid(Fault{"offering_id", FaultUnknownID, "theirs"})},
	{"one is open", func(_ *ContactPolicy, a *approach) { a.open = true }, Error{Code: CodeDuplicate, Topic: "request"}},
	{"declined lately", func(_ *ContactPolicy, a *approach) { a.declinedAt = ago(29 * Day) },
		Error{Code: CodeCooldown, Topic: "request", RetryAt: policyNow.add(Day).Time()}},
	{"the sender's limit", func(_ *ContactPolicy, a *approach) { a.sent = []Time{*ago(time.Hour), *ago(2 * time.Hour)} },
		Error{Code: CodeSenderLimitReached, Topic: "request", Limit: 2, RetryAt: policyNow.add(22 * time.Hour).Time()}},
	{"the weekly cap", func(p *ContactPolicy, a *approach) {
		p.WeeklyCap, a.received = 3, []Time{*ago(0), *ago(Day), *ago(2 * Day)}
	}, Error{Code: CodeWeeklyCapReached, Limit: 3, RetryAt: policyNow.add(5 * Day).Time()}},
}

func ago(d time.Duration) *Time {
	at := policyNow.add(-d)
	return &at
}

func TestEachRuleOfAPolicy(t *testing.T) {
	if refusal := func() *Error { p, a := admitted(); return p.admits(a) }(); refusal != nil {
		t.Fatalf("with nothing violated: %+v", refusal)
	}
	for _, rule := range policyRules {
		p, a := admitted()
		rule.violate(&p, &a)
		if diff := cmp.Diff(&rule.want, p.admits(a)); diff != "" {
			t.Errorf("%s (-want +got): %s", rule.name, diff)
		}
	}
}

// TestOrderOfTheRules violates each two rules at once, in both orders.
func TestOrderOfTheRules(t *testing.T) {
	for i, first := range policyRules {
		for _, second := range policyRules[i+1:] {
			for _, violate := range []func(*ContactPolicy, *approach){
				func(p *ContactPolicy, a *approach) { first.violate(p, a); second.violate(p, a) },
				func(p *ContactPolicy, a *approach) { second.violate(p, a); first.violate(p, a) },
			} {
				p, a := admitted()
				violate(&p, &a)
				if diff := cmp.Diff(&first.want, p.admits(a)); diff != "" {
					t.Errorf("%s and %s (-want +got): %s", first.name, second.name, diff)
				}
			}
		}
	}
}

func TestEdgesOfAPolicy(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(*ContactPolicy, *approach)
		want string
	}{
		"level 1 where 1 is asked":         {func(p *ContactPolicy, a *approach) { p.MinLevel, a.level = 1, 1 }, ""},
		"level 2 where 1 is asked":         {func(p *ContactPolicy, a *approach) { p.MinLevel, a.level = 1, 2 }, ""},
		"level 2 where 2 is asked":         {func(p *ContactPolicy, a *approach) { p.MinLevel, a.level = 2, 2 }, ""},
		"an offering that is not required": {func(p *ContactPolicy, a *approach) { p.RequireOffering = false }, ""},
		"no offering where none is required": {func(p *ContactPolicy, a *approach) {
			p.RequireOffering, a.offeringGiven, a.offeringKnown = false, false, false
		}, ""},
		"another's offering where none is required": {func(p *ContactPolicy, a *approach) { p.RequireOffering, a.offeringKnown = false, false },
			"validation_failed"},
		"declined 30 days ago":                {func(_ *ContactPolicy, a *approach) { a.declinedAt = ago(30 * Day) }, ""},
		"declined a millisecond later":        {func(_ *ContactPolicy, a *approach) { a.declinedAt = ago(30*Day - time.Millisecond) }, "cooldown"},
		"declined now":                        {func(_ *ContactPolicy, a *approach) { a.declinedAt = ago(0) }, "cooldown"},
		"one sent of two":                     {func(_ *ContactPolicy, a *approach) { a.sent = []Time{policyNow} }, ""},
		"no limit":                            {func(_ *ContactPolicy, a *approach) { a.daily, a.sent = 0, []Time{policyNow, policyNow} }, ""},
		"one received less than the cap":      {func(p *ContactPolicy, a *approach) { p.WeeklyCap, a.received = 2, []Time{policyNow} }, ""},
		"one received where the cap is one":   {func(p *ContactPolicy, a *approach) { p.WeeklyCap, a.received = 1, []Time{policyNow} }, "weekly_cap_reached"},
		"the owner's receipt changes nothing": {func(p *ContactPolicy, _ *approach) { p.RequireOwnerReceipt = true }, ""},
	} {
		p, a := admitted()
		tt.set(&p, &a)
		got := ""
		if refusal := p.admits(a); refusal != nil {
			got = string(refusal.Code)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The refusal says when the oldest of those that count no longer does.
func TestWhenALimitIsFreeAgain(t *testing.T) {
	for limit := 1; limit <= 50; limit++ {
		var times []Time
		for i := range limit {
			times = append(times, *ago(time.Duration(i+1) * time.Minute))
		}
		p, a := admitted()
		p.WeeklyCap, a.received = limit, times
		if refusal := p.admits(a); refusal == nil || !refusal.RetryAt.Equal(times[limit-1].add(7*Day).Time()) {
			t.Errorf("a cap of %d: %+v", limit, refusal)
		}
		p, a = admitted()
		a.daily, a.sent = limit, times
		if refusal := p.admits(a); refusal == nil || !refusal.RetryAt.Equal(times[limit-1].add(Day).Time()) || refusal.Limit != limit {
			t.Errorf("a limit of %d: %+v", limit, refusal)
		}
	}
}
