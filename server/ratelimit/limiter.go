// Package ratelimit counts the requests of clients in token buckets, one for each limit and
// client, and sets the RateLimit headers. It keeps a bounded number of buckets in memory.
package ratelimit

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
	Requests int
	Period   time.Duration
}

// Limits are the rate limits in memory; those by the day stand in store.Quotas. A class that
// is missing has none.
type Limits map[Class]Limit

// Class names a limit, as errors and the RateLimit header do.
type Class string

// What addresses and what agents have called is remembered of so many, in less than 20 MB.
// Those unseen for the longest time are forgotten first: who has many addresses cannot
// have an agent's forgotten.
const (
	maxAddresses = 24576
	maxAccounts  = 8192
)

// Limiter counts calls by class and subject.
type Limiter struct {
	limits    Limits
	latest    atomic.Int64 // the latest time seen, in nanoseconds
	addresses *lru.Cache[bucketKey, *rate.Limiter]
	accounts  *lru.Cache[bucketKey, *rate.Limiter]

	policies map[Class][]string // as the header tells them
}

// observe takes the time. When the clock went back, what was counted until then would
// shut callers out until it has caught up, and is forgotten. A call that has waited for
// long comes with an earlier time too.
func (l *Limiter) observe(now time.Time) time.Time {
	if latest := l.latest.Swap(now.UnixNano()); now.UnixNano() < latest-int64(time.Minute) {
		l.Reset()
	}
	return now
}

// Reset begins to count anew.
func (l *Limiter) Reset() {
	l.addresses.Purge()
	l.accounts.Purge()
}

// Len is how many counts are kept.
func (l *Limiter) Len() int { return l.addresses.Len() + l.accounts.Len() }

type bucketKey struct {
	class  Class
	client Client
}

// Client is whose calls are counted: an address or an agent.
type Client struct {
	Network netip.Addr
	Account int64
}

func NewLimiter(limits Limits) *Limiter {
	l := &Limiter{limits: limits, policies: map[Class][]string{}}
	l.addresses, _ = lru.New[bucketKey, *rate.Limiter](maxAddresses) // fails only for a size below 1
	l.accounts, _ = lru.New[bucketKey, *rate.Limiter](maxAccounts)
	for class, limit := range limits {
		l.policies[class] = []string{headerItem(class, "q", limit.Requests, "w", int(limit.Period.Seconds()))}
	}
	return l
}

// Allow counts one call. It refuses one past the limit; in either case it tells
// the caller in the headers how much is left.
func (l *Limiter) Allow(h http.Header, class Class, client Client, now time.Time) error {
	limit := l.limits[class]
	if limit.Requests == 0 {
		return nil
	}
	bucket, now := l.bucket(class, limit, client), l.observe(now)
	allowed := bucket.AllowN(now, 1)
	left := bucket.TokensAt(now)
	perSecond := float64(bucket.Limit())
	full := math.Ceil((float64(limit.Requests) - left) / perSecond)
	setHeaders(h, l.policies[class], headerItem(class, "r", max(0, int(left)), "t", int(full)))
	if allowed {
		return nil
	}
	wait := time.Duration(math.Ceil((1-left)/perSecond*1000)) * time.Millisecond
	return &store.Error{
		Code: store.CodeRateLimited, Topic: string(class), Limit: limit.Requests, RetryAt: now.Add(wait),
	}
}

func (l *Limiter) bucket(class Class, limit Limit, client Client) *rate.Limiter {
	buckets := l.addresses
	if client.Account != 0 {
		buckets = l.accounts
	}
	key := bucketKey{class, client}
	if bucket, ok := buckets.Get(key); ok {
		return bucket
	}
	bucket := rate.NewLimiter(rate.Limit(float64(limit.Requests)/limit.Period.Seconds()), limit.Requests)
	if earlier, ok, _ := buckets.PeekOrAdd(key, bucket); ok {
		return earlier
	}
	return bucket
}

// setHeaders adds to the headers of the IETF draft "RateLimit header fields for HTTP":
// the policy, and what is left of it until it is whole again.
func setHeaders(h http.Header, policy []string, state string) {
	if before := h["Ratelimit-Policy"]; before != nil {
		policy = []string{before[0] + ", " + policy[0]}
		state = h["Ratelimit"][0] + ", " + state
	}
	h["Ratelimit-Policy"], h["Ratelimit"] = policy, []string{state}
}

// headerItem is a class with two of its figures, as the headers write it.
func headerItem(class Class, name string, n int, other string, m int) string {
	b := append(make([]byte, 0, 48), '"')
	b = append(append(b, class...), `";`...)
	b = strconv.AppendInt(append(append(b, name...), '='), int64(n), 10)
	b = strconv.AppendInt(append(append(append(b, ';'), other...), '='), int64(m), 10)
	return string(b)
}
