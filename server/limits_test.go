package server

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/testkit"
)

func withLimits(l ratelimit.Limits) func(*siteOptions) {
	return func(o *siteOptions) { o.limits = l }
}

// behindProxy returns a site that believes the X-Forwarded-For of this machine.
func behindProxy(l ratelimit.Limits) func(*siteOptions) {
	return func(o *siteOptions) {
		o.limits = l
		o.trusted = middleware.TrustedProxies{netip.MustParsePrefix("127.0.0.1/32")}
	}
}

// limited fails the test unless the response is a whole 429 of this class.
func (r *result) limited(s *site, class string, limit ratelimit.Limit) {
	r.Helper()
	r.rejected(429, domain.CodeRateLimited)
	after, err := strconv.Atoi(r.Header.Get("Retry-After"))
	retryAt, errAt := time.Parse(time.RFC3339, r.text("error", "retry_at"))
	wait := retryAt.Sub(s.clock.Now())
	if err != nil || errAt != nil || wait <= 0 || wait > limit.Period || after != int((wait+time.Second-1)/time.Second) {
		r.Errorf("Retry-After %q, retry_at %q, now %s", r.Header.Get("Retry-After"), r.text("error", "retry_at"), s.clock.Now())
	}
	r.counted(class, limit, 0)
}

// counted fails the test unless the headers report this many remaining requests.
func (r *result) counted(class string, limit ratelimit.Limit, left int) {
	r.Helper()
	policy := fmt.Sprintf(`"%s";q=%d;w=%d`, class, limit.Requests, int(limit.Period.Seconds()))
	if got := r.Header.Get("RateLimit-Policy"); !slices.Contains(strings.Split(got, ", "), policy) {
		r.Errorf("RateLimit-Policy %q, want %q", got, policy)
	}
	if got, want := r.Header.Get("RateLimit"), fmt.Sprintf(`"%s";r=%d;t=`, class, left); !strings.Contains(got, want) {
		r.Errorf("RateLimit %q, want %q…", got, want)
	}
}

// limitCase is a class of requests and how to send one.
type limitCase struct {
	class  string
	limit  ratelimit.Limit
	limits ratelimit.Limits
	passed int // status of a call within the limit
	send   func(s *site, key, post string, n int) *result
}

func limitCases() []limitCase {
	minute, hour := ratelimit.Limit{Requests: 20, Period: time.Minute}, ratelimit.Limit{Requests: 10, Period: time.Hour}
	return []limitCase{
		{"reads", minute, ratelimit.Limits{limitReads: minute}, 200, func(s *site, _, _ string, n int) *result {
			return s.send([]string{"GET", "HEAD"}[n%2], "/api/agents/harbour-pilot", "", nil)
		}},
		{"registrations", hour, ratelimit.Limits{limitRegistrations: hour}, 201, func(s *site, _, _ string, n int) *result {
			return s.send("POST", "/api/agents", "", registrationOf(fmt.Sprintf("agent-%d", n)))
		}},
		{"reports", hour, ratelimit.Limits{limitReports: hour}, 202, func(s *site, _, post string, _ int) *result {
			return s.send("POST", "/api/posts/"+post+"/report", "", nil)
		}},
		{"failed_keys", hour, ratelimit.Limits{limitFailedKeys: hour}, 401, func(s *site, _, _ string, n int) *result {
			return s.send("GET", "/api/me", fmt.Sprintf("cq_%d", n), nil)
		}},
		{"calls", minute, ratelimit.Limits{limitCalls: minute}, 200, func(s *site, key, _ string, _ int) *result { return s.send("GET", "/api/me", key, nil) }},
		{"writes", minute, ratelimit.Limits{limitWrites: minute}, 200, func(s *site, key, _ string, _ int) *result {
			return s.send("PATCH", "/api/me", key, `{"tagline":"x"}`)
		}},
		{"recoveries", hour, ratelimit.Limits{limitRecoveries: hour}, 202, func(s *site, _, _ string, n int) *result {
			return s.send("POST", "/api/recover", "", fmt.Sprintf(`{"handle":"nobody-%d"}`, n))
		}},
		{"links", hour, ratelimit.Limits{limitLinks: hour}, 200, func(s *site, key, _ string, _ int) *result {
			return s.send("POST", "/api/me/links", key, `{"url":"https://harbour.example.org/about"}`)
		}},
		{"events", minute, ratelimit.Limits{limitEvents: minute}, 200, func(s *site, key, _ string, n int) *result {
			return s.send([]string{"GET", "HEAD"}[n%2], "/api/me/events", key, nil)
		}},
	}
}

// limitedSite has an agent and a call that were created before the limits applied.
func limitedSite(t *testing.T, l ratelimit.Limits) (s *site, key, post string) {
	s, key, post = newPopulatedSite(t)
	s.server.engine.Limiter = ratelimit.New(l, nil)
	return s, key, post
}

// TestLimits_AllowTheirNumberUntilRetryAt: of each class of requests, also when they come at once.
func TestLimits_AllowTheirNumberUntilRetryAt(t *testing.T) {
	t.Parallel()
	for _, tt := range limitCases() {
		t.Run(tt.class, func(t *testing.T) {
			s, key, post := limitedSite(t, tt.limits)
			var passed, limited atomic.Int32
			testkit.Together(2*tt.limit.Requests, func(i int) error {
				switch a := tt.send(s, key, post, i); a.Status {
				case tt.passed:
					passed.Add(1)
				case 429:
					limited.Add(1)
				default:
					t.Errorf("status %d: %s", a.Status, a.Body)
				}
				return nil
			})
			if n := int32(tt.limit.Requests); passed.Load() != n || limited.Load() != n {
				t.Errorf("%d pass and %d are limited, want %d", passed.Load(), limited.Load(), n)
			}
			retryAt := testkit.Must(time.Parse(time.RFC3339, tt.send(s, key, post, 1000).text("error", "retry_at")))(t)
			s.clock.Advance(retryAt.Sub(s.clock.Now()) - time.Millisecond)
			tt.send(s, key, post, 1002).limited(s, tt.class, tt.limit)
			s.clock.Advance(time.Millisecond)
			tt.send(s, key, post, 1004).status(tt.passed).counted(tt.class, tt.limit, 0)
		})
	}
}

func TestLimits_CountEachKey(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	other := s.agent("other-agent")
	calls, writes := ratelimit.Limit{Requests: 4, Period: time.Minute}, ratelimit.Limit{Requests: 2, Period: time.Minute}
	s.server.engine.Limiter = ratelimit.New(ratelimit.Limits{limitCalls: calls, limitWrites: writes}, nil)
	a := s.send("POST", "/api/me/rotate-key", key, nil).status(200)
	a.counted("calls", calls, 3)
	a.counted("writes", writes, 1)
	key = a.text("api_key") // a new key is no new allowance
	s.send("PATCH", "/api/me", key, "{}").status(200)
	s.send("PATCH", "/api/me", key, "{}").limited(s, "writes", writes)
	s.send("GET", "/api/me", key, nil).status(200).counted("calls", calls, 0)
	s.send("GET", "/api/me", key, nil).limited(s, "calls", calls)
	s.send("PATCH", "/api/me", other, "{}").status(200)
}

// Codes and guesses count together, so that no client guesses for many handles.
func TestLimits_RecoveryCodesAndGuessesCountTogether(t *testing.T) {
	limit := ratelimit.Limit{Requests: 4, Period: time.Hour}
	s, _, _ := limitedSite(t, ratelimit.Limits{limitRecoveries: limit})
	for range limit.Requests / 2 {
		s.send("POST", "/api/recover", "", `{"handle":"harbour-pilot"}`).status(202)
		s.send("POST", "/api/recover/confirm", "", `{"handle":"tide-gauge","code":"0000-0000"}`).status(410)
	}
	s.send("POST", "/api/recover/confirm", "", `{"handle":"harbour-pilot","code":"0000-0000"}`).limited(s, "recoveries", limit)
	s.send("POST", "/api/recover", "", `{"handle":"tide-gauge"}`).limited(s, "recoveries", limit)
}

func TestLimits_IgnoreForgedAddresses(t *testing.T) {
	limit := ratelimit.Limit{Requests: 5, Period: time.Minute}
	for name, tt := range map[string]struct {
		option func(*siteOptions)
		format string
	}{
		"no trusted proxy": {withLimits(ratelimit.Limits{limitReads: limit}), "203.0.113.%[1]d, 2001:db8:%[2]x::1"},
		"behind a proxy":   {behindProxy(ratelimit.Limits{limitReads: limit}), "203.0.113.%[1]d, 2001:db8:%[2]x::1, 198.51.100.7"},
	} {
		s := newSite(t, tt.option)
		passed := 0
		for i := range 100 {
			header := "X-Forwarded-For: " + fmt.Sprintf(tt.format, i%256, i)
			if s.sendRaw("GET", "/api", header, "Forwarded: for=192.0.2.1", "X-Real-IP: 192.0.2.1").Status == 200 {
				passed++
			}
		}
		equal(t, limit.Requests, passed, "%s: forged addresses that pass, of 100", name)
	}
}

func TestIndex_ShowsLimits(t *testing.T) {
	s := newSite(t, withLimits(DefaultLimits), func(o *siteOptions) {
		o.quotas, o.mails = domain.DefaultQuotas, domain.DefaultMailCaps
	})
	a := s.send("GET", "/api", "", nil).status(200)
	for _, want := range []struct {
		group, class string
		calls        float64
	}{
		{"per_address", "reads", 600}, {"per_address", "registrations", 10}, {"per_address", "reports", 30}, {"per_address", "failed_keys", 10},
		{"per_key", "calls", 120}, {"per_key", "writes", 30}, {"per_key", "posts", 10}, {"per_key", "replies", 50},
		{"per_address", "recoveries", 30}, {"per_address", "mails", 5}, {"per_key", "links", 20}, {"per_key", "events", 30}, {"per_key", "mails", 5},
		{"per_key", "posts_unverified", 3}, {"per_key", "replies_unverified", 10}, {"per_address", "network_writes", 120},
		{"per_address", "network_posts", 100}, {"per_address", "network_replies", 300},
		{"per_address", "network_collabs", 100}, {"per_address", "network_reports", 50},
		{"per_key", "requests_first_week", 2}, {"per_key", "requests", 5},
	} {
		equal(t, want.calls, a.value("limits", want.group, want.class, "calls"), "%s", want.class)
	}
	a.counted("reads", DefaultLimits[limitReads], 599)
}

// TestLimits_NetworkWritesWithManyKeys holds promise 10 of SECURITY.md.
func TestLimits_NetworkWritesWithManyKeys(t *testing.T) {
	limit := ratelimit.Limit{Requests: 6, Period: time.Minute}
	s := newSite(t, behindProxy(nil))
	keys := make([]string, limit.Requests+1)
	for i := range keys {
		keys[i] = s.agent(fmt.Sprintf("agent-%d", i))
	}
	s.server.engine.Limiter = ratelimit.New(ratelimit.Limits{limitNetworkWrites: limit}, nil)
	from := func(i int) string { return fmt.Sprintf("X-Forwarded-For: 2001:db8:1:%x::1", i<<8) } // of one /48
	const elsewhere = "X-Forwarded-For: 2001:db8:2::1"
	for i := range limit.Requests {
		s.send("PATCH", "/api/me", keys[i], `{"tagline":"x"}`, from(i)).status(200)
	}
	last := keys[limit.Requests]
	a := s.send("PATCH", "/api/me", last, `{"tagline":"x"}`, from(0)).rejected(429, domain.CodeRateLimited)
	equal(t, "10", a.Header.Get("Retry-After"), "Retry-After")
	s.send("DELETE", "/api/me?confirm=agent-0", keys[0], nil, from(1)).status(429)
	s.send("GET", "/api/me", last, nil, from(0)).status(200)            // reads are not counted
	s.send("PATCH", "/api/me", "cq_wrong", `{}`, elsewhere).status(401) // nor wrong keys
	s.send("PATCH", "/api/me", last, `{"tagline":"x"}`, elsewhere).status(200).counted("network_writes", limit, 5)
	s.clock.Advance(10 * time.Second)
	s.send("PATCH", "/api/me", last, `{"tagline":"x"}`, from(0)).status(200)
}

// One greedy key leaves the others of its network what it is denied itself.
// It holds promise 10 of SECURITY.md.
func TestLimits_WritesOverTheKeysLimitDoNotCountForTheNetwork(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	other := s.agent("other-agent")
	s.server.engine.Limiter = ratelimit.New(ratelimit.Limits{
		limitWrites: {Requests: 2, Period: time.Minute}, limitNetworkWrites: {Requests: 3, Period: time.Minute},
	}, nil)
	for i := range 10 {
		s.send("PATCH", "/api/me", key, `{}`).status(map[bool]int{true: 200, false: 429}[i < 2])
	}
	s.send("PATCH", "/api/me", other, `{}`).status(200)
	s.send("PATCH", "/api/me", other, `{}`).limited(s, "network_writes", ratelimit.Limit{Requests: 3, Period: time.Minute})
}

// TestIdempotency_KeyOfARegistrationIsOfOneNetwork holds promise 18 of SECURITY.md.
func TestIdempotency_KeyOfARegistrationIsOfOneNetwork(t *testing.T) {
	s := newSite(t, behindProxy(nil))
	register := func(address string) *result {
		return s.send("POST", "/api/agents", "", registrationOf("harbour-pilot"), "Idempotency-Key: 0123456789abcdef", "X-Forwarded-For: "+address)
	}
	register("198.51.100.7").status(201)
	register("198.51.100.8").rejected(409, domain.CodeHandleTaken)
	if a := register("198.51.100.7").status(201); a.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("the network's own repetition is not replayed")
	}
}

// TestReports_EachKindHasTheLimit, and each reaches the operator's log.
// It holds promise 14 of SECURITY.md.
func TestReports_EachKindHasTheLimit(t *testing.T) {
	limit := ratelimit.Limit{Requests: 2, Period: time.Hour}
	s, _, post := limitedSite(t, ratelimit.Limits{limitReports: limit})
	for about, path := range map[string]string{
		"post": "/api/posts/" + post, "reply": "/api/replies/" + s.pathValues["/api/replies"], "agent": "/api/agents/harbour-pilot",
	} {
		for range limit.Requests {
			s.send("POST", path+"/report", "", nil).status(202)
		}
		s.send("POST", path+"/report", "", nil).limited(s, "reports", limit)
		if want := fmt.Sprintf(`"level":"warn","about":%q`, about); strings.Count(s.log.String(), want) != limit.Requests {
			t.Errorf("no line %s for each report: %s", want, s.log)
		}
	}
}

// TestLimits_CountWiderNetworks: the 256 networks of 64 bits of a home line share twice the limit.
// It holds promise 11 of SECURITY.md.
func TestLimits_CountWiderNetworks(t *testing.T) {
	s := newSite(t, behindProxy(ratelimit.Limits{limitReads: {Requests: 2, Period: time.Minute}}))
	for i := range 6 {
		want := map[bool]int{true: 200, false: 429}[i < 4]
		s.send("GET", "/api", "", nil, fmt.Sprintf("X-Forwarded-For: 2001:db8:0:%x::1", i)).status(want)
	}
}

// TestBlockedNetwork_ReadsAndLeaves: a client there may read, export and delete itself, and nothing else.
func TestBlockedNetwork_ReadsAndLeaves(t *testing.T) {
	s := newSite(t, behindProxy(nil))
	s.server.options.Contact = "mailto:ops@example.org"
	key := s.agent("harbour-pilot")
	s.changeBlocklist("block-network", "192.0.2.0/24")
	const blocked = "X-Forwarded-For: 192.0.2.7"
	for _, op := range s.server.engine.Operations {
		if op.ID == "listEvents" { // waits
			continue
		}
		var body any
		if !op.Reads() {
			body = map[string]any{}
		}
		a := s.send(op.Method, s.pathOf(op), map[bool]string{true: key}[op.Keyed], body, blocked)
		if op.Reads() || op.ID == "deleteMe" {
			if a.Status == 403 {
				t.Errorf("%s: %s", op.ID, a.Body)
			}
			continue
		}
		a.rejected(403, domain.CodeForbidden)
		if !strings.HasSuffix(a.text("error", "message_en"), ": ops@example.org") {
			t.Errorf("%s: %s", op.ID, a.Body)
		}
	}
	if s.server.observer.Metrics.TakeAbuse() == 0 {
		t.Error("the rejections do not count as abuse")
	}
	s.send("PATCH", "/api/me", key, `{}`, "X-Forwarded-For: 192.0.3.7").status(200)
	s.send("DELETE", "/api/me?confirm=harbour-pilot", key, nil, blocked).status(204)
	s.changeBlocklist("unblock-network", "192.0.2.0/24")
	s.send("POST", "/api/agents", "", registrationOf("other"), blocked).status(201)
}

// TestExemptNetwork_PassesLimitsOfAddresses, but not those of keys.
func TestExemptNetwork_PassesLimitsOfAddresses(t *testing.T) {
	one := ratelimit.Limit{Requests: 1, Period: time.Minute}
	s := newSite(t, behindProxy(ratelimit.Limits{limitReads: one, limitRegistrations: one, limitNetworkWrites: one, limitFailedKeys: one, limitWrites: {Requests: 2, Period: time.Minute}}))
	s.changeBlocklist("exempt-network", "192.0.2.0/24")
	const exempt = "X-Forwarded-For: 192.0.2.7"
	var key string
	for i := range 3 {
		s.send("GET", "/api/agents", "", nil, exempt).status(200)
		s.send("GET", "/agents", "", nil, exempt).status(200)
		s.send("GET", "/api/me", "cq_wrong", nil, exempt).status(401)
		key = s.send("POST", "/api/agents", "", registrationOf(fmt.Sprintf("agent-%d", i)), exempt).status(201).text("api_key")
	}
	for range 2 {
		s.send("PATCH", "/api/me", key, `{}`, exempt).status(200)
	}
	s.send("PATCH", "/api/me", key, `{}`, exempt).limited(s, "writes", ratelimit.Limit{Requests: 2, Period: time.Minute})
	s.send("GET", "/agents", "", nil, "X-Forwarded-For: 198.51.100.7").status(200)
	s.send("GET", "/agents", "", nil, "X-Forwarded-For: 198.51.100.7").status(429)
	s.changeBlocklist("unexempt-network", "192.0.2.0/24")
	s.send("GET", "/agents", "", nil, exempt).status(200)
	s.send("GET", "/agents", "", nil, exempt).status(429)
}
