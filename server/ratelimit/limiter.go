// Package ratelimit counts the requests of clients in token buckets, one for each limit and
// client, and sets the RateLimit headers. It keeps a bounded number of buckets in memory. A Pool
// limits what clients use at the same time, such as connections.
package ratelimit

import (
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"callbook/store/domain"
)

// Limit is one rate limit: the number of requests in a period for each client. 0 requests switch
// it off.
type Limit struct {
	Requests int
	Period   time.Duration
}

// Limits are the rate limits in memory by class; a missing class has no limit. The quotas of a
// day are in package store.
type Limits map[Class]Limit

// Class names a limit in errors and in the RateLimit headers. A class with a part after a colon has
// the limit and the name of the one before the colon, and is counted apart from it.
type Class string

// Base returns the class without the part after the colon.
func (c Class) Base() Class {
	name, _, _ := strings.Cut(string(c), ":")
	return Class(name)
}

// Limits of the number of buckets, which take less than 20 MB. The least recently used ones are
// dropped first. The networks of customers, those within them, and accounts have buckets of their
// own, so that a client with many networks cannot reset the limits of an account, nor its own.
const (
	maxCustomers = 16384 // IPv4 addresses and /48s
	maxWithin    = 8192  // /64s and /56s
	maxAccounts  = 8192
)

// Limiter counts requests by class and client. It is safe for concurrent use.
type Limiter struct {
	limits    Limits
	exempt    func(netip.Addr) bool
	latest    atomic.Int64 // the latest time seen, in nanoseconds
	customers *lru.Cache[bucketKey, *rate.Limiter]
	within    *lru.Cache[bucketKey, *rate.Limiter]
	accounts  *lru.Cache[bucketKey, *rate.Limiter]
}

// observe records the latest time. It resets all buckets if the clock was set back.
func (l *Limiter) observe(now time.Time) time.Time {
	// The buckets would reject clients until the clock has caught up. Less than a minute may be a
	// request that has waited.
	if latest := l.latest.Swap(now.UnixNano()); now.UnixNano() < latest-int64(time.Minute) {
		l.Reset()
	}
	return now
}

// Reset removes all buckets.
func (l *Limiter) Reset() {
	l.customers.Purge()
	l.within.Purge()
	l.accounts.Purge()
}

// Len returns the number of buckets.
func (l *Limiter) Len() int { return l.customers.Len() + l.within.Len() + l.accounts.Len() }

// bucketKey identifies a bucket.
type bucketKey struct {
	class  Class
	client Client
}

// Client is the client that requests are counted for: a network or an account.
type Client struct {
	Network netip.Prefix
	Account int64
}

// New returns a limiter without any counted request. AllowAddress does not count the clients that
// exempt reports; nil exempts none.
func New(limits Limits, exempt func(netip.Addr) bool) *Limiter {
	l := &Limiter{limits: limits, exempt: exempt}
	// Fails only for a size below 1.
	l.customers, _ = lru.New[bucketKey, *rate.Limiter](maxCustomers)
	l.within, _ = lru.New[bucketKey, *rate.Limiter](maxWithin)
	l.accounts, _ = lru.New[bucketKey, *rate.Limiter](maxAccounts)
	return l
}

// OfAddress and OfNetwork are what the wider networks of a client have of a limit: that of an
// address is for one customer of a provider, who may have many.
var (
	OfAddress = domain.Share{1, 2, 4}
	OfNetwork = domain.Share{1, 1, 1}
)

// AllowAddress counts one request at a time against the limit of each network of a client. The
// RateLimit headers report the smallest network. Clients that are exempt have none.
func (l *Limiter) AllowAddress(
	h http.Header,
	class Class,
	addr netip.Addr,
	share domain.Share,
	now time.Time,
) error {
	if l.exempt != nil && l.exempt(addr) {
		return nil
	}

	networks := domain.Networks(addr)
	if networks == nil {
		// All clients without an address count together.
		networks = []netip.Prefix{{}}
	}

	for level, network := range networks {
		if err := l.allow(h, class, Client{Network: network}, share[level], now); err != nil {
			return err
		}

		// The limits of the wider networks are not those of this client.
		h = http.Header{}
	}

	return nil
}

// Allow counts one request at a time. It returns an error for a request over the limit, and sets
// the RateLimit headers in either case.
func (l *Limiter) Allow(h http.Header, class Class, client Client, now time.Time) error {
	return l.allow(h, class, client, 1, now)
}

// allow counts one request against a multiple of the limit of a class.
func (l *Limiter) allow(h http.Header, class Class, client Client, times int, now time.Time) error {
	name := class.Base()
	limit := l.limits[name]

	// The class has no limit, or the operator has switched it off.
	if limit.Requests == 0 {
		return nil
	}

	// The policy is the documented one, without the multiple of a wider network.
	policy := headerItem(name, "q", limit.Requests, "w", int(limit.Period.Seconds()))
	limit.Requests *= times
	bucket := l.bucket(class, limit, client)
	now = l.observe(now)
	allowed := bucket.AllowN(now, 1)
	left := bucket.TokensAt(now)
	perSecond := float64(bucket.Limit())
	full := math.Ceil((float64(limit.Requests) - left) / perSecond)
	setHeaders(h, policy, headerItem(name, "r", max(0, int(left)), "t", int(full)))

	if allowed {
		return nil
	}

	wait := time.Duration(math.Ceil((1-left)/perSecond*1000)) * time.Millisecond
	return &domain.Error{
		Code:    domain.CodeRateLimited,
		Topic:   string(name),
		Limit:   limit.Requests,
		RetryAt: now.Add(wait),
	}
}

// bucket returns the bucket of a client, which is full if it is new.
func (l *Limiter) bucket(class Class, limit Limit, client Client) *rate.Limiter {
	buckets := l.customers
	switch {
	case client.Account != 0:
		buckets = l.accounts

	case domain.IsWithinCustomer(client.Network):
		buckets = l.within
	}

	key := bucketKey{class, client}
	if bucket, ok := buckets.Get(key); ok {
		return bucket
	}

	perSecond := rate.Limit(float64(limit.Requests) / limit.Period.Seconds())
	bucket := rate.NewLimiter(perSecond, limit.Requests)

	// Another request of the client may have added one meanwhile.
	if earlier, ok, _ := buckets.PeekOrAdd(key, bucket); ok {
		return earlier
	}

	return bucket
}

// setHeaders adds a limit to the headers of the IETF draft "RateLimit header fields for HTTP":
// the policy, the remaining requests, and the seconds until the limit is full again.
func setHeaders(h http.Header, policy, state string) {
	if before := h.Get("Ratelimit-Policy"); before != "" {
		policy = before + ", " + policy
		state = h.Get("Ratelimit") + ", " + state
	}

	h["Ratelimit-Policy"] = []string{policy}
	h["Ratelimit"] = []string{state}
}

// headerItem formats a class with two of its figures for the headers.
func headerItem(class Class, name string, n int, other string, m int) string {
	first := name + "=" + strconv.Itoa(n)
	second := other + "=" + strconv.Itoa(m)
	return `"` + string(class) + `";` + first + ";" + second
}
