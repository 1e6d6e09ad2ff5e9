package ratelimit

import (
	"errors"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

const (
	reads    Class = "reads"
	requests Class = "requests"
)

// memoryOfHeap returns the bytes that live on the heap.
func memoryOfHeap() int64 {
	runtime.GC()
	runtime.GC() // what the first has freed with its finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLimiter_AllowsAtRetryAt(t *testing.T) {
	for calls := 1; calls <= 1000; calls += 1 + calls/10 {
		for _, period := range []time.Duration{time.Minute, time.Hour} {
			now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
			l := New(Limits{reads: Limit{calls, period}}, nil)
			allow := func(at time.Time) error { return l.Allow(http.Header{}, reads, Client{}, at) }
			for range calls {
				if err := allow(now); err != nil {
					t.Fatalf("%d in %s: %v", calls, period, err)
				}
			}
			var rejected *domain.Error
			if !errors.As(allow(now), &rejected) || allow(rejected.RetryAt) != nil {
				t.Errorf("%d in %s: one more passes, or is rejected at retry_at", calls, period)
			}
		}
	}
}

func TestLimiter_IsBounded(t *testing.T) {
	distinct := proof.Rounds(100_000, 1_000_000, 10_000_000)
	before := memoryOfHeap()
	l := New(Limits{reads: Limit{1, time.Minute}, requests: Limit{1, 24 * time.Hour}}, nil)
	call := func(agent int) error {
		return l.Allow(http.Header{}, requests, Client{Account: int64(agent + 1)}, time.Now())
	}
	for agent := range maxAccounts {
		if err := call(agent); err != nil {
			t.Fatalf("a new agent is limited: %v", err)
		}
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := i; n < distinct; n += 4 {
				addr := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
				if err := l.Allow(http.Header{}, reads, Client{Network: domain.SmallestNetwork(addr)}, time.Now()); err != nil {
					t.Errorf("a new address is limited: %v", err)
				}
			}
		})
	}
	all.Wait()
	for _, address := range addresses(2*maxWithin, "2001:db8:0:%x::1") {
		if err := l.Allow(http.Header{}, reads, Client{Network: domain.SmallestNetwork(netip.MustParseAddr(address))}, time.Now()); err != nil {
			t.Fatalf("a new /64 is limited: %v", err)
		}
	}
	if n, want := l.Len(), maxCustomers+maxWithin+maxAccounts; n != want {
		t.Errorf("%d buckets are kept, want %d", n, want)
	}
	for agent := range maxAccounts {
		if call(agent) == nil {
			t.Fatal("many addresses have an agent's calls forgotten")
		}
	}
	megabytes := int((memoryOfHeap() - before + 1<<20 - 1) >> 20) // rounded up; the keys alone take 3
	if megabytes < 5 || megabytes > 20 {
		t.Errorf("%d addresses take %d MB", distinct, megabytes)
	}
	runtime.KeepAlive(l)
	proof.Figure(t, "limiter keys", distinct)
	proof.Figure(t, "MB of limits", megabytes)
}

// TestLimiter_LateRequestResetsNothing: it comes with the time at which it began.
func TestLimiter_LateRequestResetsNothing(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	l := New(Limits{reads: Limit{1, time.Hour}}, nil)
	take := func(agent int64, after time.Duration) error {
		return l.Allow(http.Header{}, reads, Client{Account: agent}, now.Add(after))
	}
	if take(1, 0) != nil || take(2, 20*time.Second) != nil || take(3, 0) != nil {
		t.Error("a first call is refused")
	}
	if take(1, 21*time.Second) == nil {
		t.Error("the limit is forgotten")
	}
	if take(4, -2*time.Minute) != nil || take(1, -2*time.Minute) != nil {
		t.Error("a clock that went back shuts callers out")
	}
}

// TestLimiter_NetworksOfACustomerResetNoLimit: a /48 has more of them than there are buckets.
func TestLimiter_NetworksOfACustomerResetNoLimit(t *testing.T) {
	l := New(Limits{reads: Limit{1, time.Minute}, requests: Limit{1, time.Hour}}, nil)
	allow := func(class Class, address string) error {
		return l.AllowAddress(http.Header{}, class, netip.MustParseAddr(address), OfAddress, time.Unix(0, 0))
	}
	for _, address := range addresses(9, "2001:db8:0:%x00::1") {
		_ = allow(requests, address)
	}
	for _, address := range addresses(2*(maxCustomers+maxWithin), "2001:db8:0:%x::2") {
		_ = allow(reads, address)
	}
	if allow(requests, "2001:db8:0:ff00::1") == nil {
		t.Error("the limit of the /48 is forgotten")
	}
}

func TestLimiter_CountsEachNetworkOfAnAddress(t *testing.T) {
	for _, tt := range []struct {
		format string
		share  domain.Share
		want   int
	}{
		{"2001:db8::%x", OfAddress, 3},
		{"2001:db8:0:%x::1", OfAddress, 6},
		{"2001:db8:0:%x00::1", OfAddress, 12},
		{"2001:db8:%x::1", OfAddress, 99},
		{"192.0.2.%d", OfAddress, 99},
		{"2001:db8:0:%x00::1", OfNetwork, 3},
	} {
		l, passed := New(Limits{reads: Limit{3, time.Minute}}, nil), 0
		for _, address := range addresses(99, tt.format) {
			if l.AllowAddress(http.Header{}, reads, netip.MustParseAddr(address), tt.share, time.Unix(0, 0)) == nil {
				passed++
			}
		}
		if passed != tt.want {
			t.Errorf("%s, %v: %d requests pass, want %d", tt.format, tt.share, passed, tt.want)
		}
	}
	l := New(Limits{reads: Limit{1, time.Minute}}, nil)
	if l.AllowAddress(http.Header{}, reads, netip.Addr{}, OfAddress, time.Unix(0, 0)) != nil || l.AllowAddress(http.Header{}, reads, netip.Addr{}, OfAddress, time.Unix(0, 0)) == nil {
		t.Error("clients without an address are not counted together")
	}
}
