package server

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"callbook/store"
)

// Limit is one rate limit: Calls in a Period for each address or key. 0 calls
// switch it off.
type Limit struct {
	Calls  int
	Period time.Duration
}

// Limits are the rate limits in memory; those by the day stand in store.Quotas. A class that
// is missing has none.
type Limits map[limitClass]Limit

// limitClass names a limit, as errors and the RateLimit header do.
type limitClass string

// What addresses and what agents have called is remembered of so many, in less than 20 MB.
// Those unseen for the longest time are forgotten first: who has many addresses cannot
// have an agent's forgotten.
const (
	limiterAddresses = 24576
	limiterAgents    = 8192
)

// limiter counts calls by class and subject.
type limiter struct {
	limits    Limits
	latest    atomic.Int64 // the latest time seen, in nanoseconds
	addresses *lru.Cache[bucketKey, *rate.Limiter]
	agents    *lru.Cache[bucketKey, *rate.Limiter]

	policies map[limitClass][]string // as the header tells them
}

// at takes the time. When the clock went back, what was counted until then would
// shut callers out until it has caught up, and is forgotten. A call that has waited for
// long comes with an earlier time too.
func (l *limiter) at(now time.Time) time.Time {
	if latest := l.latest.Swap(now.UnixNano()); now.UnixNano() < latest-int64(time.Minute) {
		l.forget()
	}
	return now
}

// forget begins to count anew.
func (l *limiter) forget() {
	l.addresses.Purge()
	l.agents.Purge()
}

// remembered is how many counts are kept.
func (l *limiter) remembered() int { return l.addresses.Len() + l.agents.Len() }

type bucketKey struct {
	class   limitClass
	subject subject
}

// subject is whose calls are counted: an address or an agent.
type subject struct {
	network netip.Addr
	agent   int64
}

func newLimiter(limits Limits) *limiter {
	l := &limiter{limits: limits, policies: map[limitClass][]string{}}
	l.addresses, _ = lru.New[bucketKey, *rate.Limiter](limiterAddresses) // fails only for a size below 1
	l.agents, _ = lru.New[bucketKey, *rate.Limiter](limiterAgents)
	for class, limit := range limits {
		l.policies[class] = []string{rateLimit(class, "q", limit.Calls, "w", int(limit.Period.Seconds()))}
	}
	return l
}

// take counts one call. It refuses one past the limit; in either case it tells
// the caller in the headers how much is left.
func (l *limiter) take(h http.Header, class limitClass, who subject, now time.Time) error {
	limit := l.limits[class]
	if limit.Calls == 0 {
		return nil
	}
	bucket, now := l.bucket(class, limit, who), l.at(now)
	allowed := bucket.AllowN(now, 1)
	left := bucket.TokensAt(now)
	perSecond := float64(bucket.Limit())
	full := math.Ceil((float64(limit.Calls) - left) / perSecond)
	setRateLimit(h, l.policies[class], rateLimit(class, "r", max(0, int(left)), "t", int(full)))
	if allowed {
		return nil
	}
	wait := time.Duration(math.Ceil((1-left)/perSecond*1000)) * time.Millisecond
	return &store.Error{
		Code: store.CodeRateLimited, Topic: string(class), Limit: limit.Calls, RetryAt: now.Add(wait),
	}
}

func (l *limiter) bucket(class limitClass, limit Limit, who subject) *rate.Limiter {
	buckets := l.addresses
	if who.agent != 0 {
		buckets = l.agents
	}
	key := bucketKey{class, who}
	if bucket, ok := buckets.Get(key); ok {
		return bucket
	}
	bucket := rate.NewLimiter(rate.Limit(float64(limit.Calls)/limit.Period.Seconds()), limit.Calls)
	if earlier, ok, _ := buckets.PeekOrAdd(key, bucket); ok {
		return earlier
	}
	return bucket
}

// setRateLimit adds to the headers of the IETF draft "RateLimit header fields for HTTP":
// the policy, and what is left of it until it is whole again.
func setRateLimit(h http.Header, policy []string, state string) {
	if before := h["Ratelimit-Policy"]; before != nil {
		policy = []string{before[0] + ", " + policy[0]}
		state = h["Ratelimit"][0] + ", " + state
	}
	h["Ratelimit-Policy"], h["Ratelimit"] = policy, []string{state}
}

// rateLimit is a class with two of its figures, as the headers write it.
func rateLimit(class limitClass, name string, n int, other string, m int) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(append(b, class...), `";`...)
	b = strconv.AppendInt(append(append(b, name...), '='), int64(n), 10)
	b = strconv.AppendInt(append(append(append(b, ';'), other...), '='), int64(m), 10)
	return string(b)
}
