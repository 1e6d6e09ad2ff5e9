package ratelimit

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"callbook/store/domain"
)

// taken returns the number of the clients, which take a unit one after the other, that get one.
func taken(p *Pool, clients ...string) (n int) {
	for _, client := range clients {
		addr, _ := netip.ParseAddr(client)
		if p.Acquire(domain.Networks(addr), 1) {
			n++
		}
	}
	return n
}

// addresses returns n addresses of a format with one number.
func addresses(n int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i+1))
	}
	return all
}

func TestPool_LimitsEachNetwork(t *testing.T) {
	for _, tt := range []struct {
		name    string
		clients []string
		want    int
	}{
		{"an IPv4 address", slices.Repeat([]string{"192.0.2.7"}, 9), 4},
		{"IPv4 addresses", addresses(9, "192.0.2.%d"), 9},
		{"a mapped address", append(slices.Repeat([]string{"192.0.2.7"}, 4), "::ffff:192.0.2.7"), 4},
		{"a /64", addresses(9, "2001:db8::%x"), 4},
		{"a /56", addresses(9, "2001:db8:0:%x::1"), 6},
		{"a /48", addresses(9, "2001:db8:0:%x00::1"), 8},
		{"several /48", addresses(9, "2001:db8:%x::1"), 9},
		{"clients without a network", make([]string, 9), 9},
	} {
		if got := taken(NewPool(100, domain.Share{4, 6, 8}, 2), tt.clients...); got != tt.want {
			t.Errorf("%s: %d units, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPool_ReservesAnEighthForNetworksWithLittleUse(t *testing.T) {
	p := NewPool(16, domain.Share{8, 8, 8}, 2)
	if got := taken(p, slices.Repeat([]string{"192.0.2.1", "192.0.2.2"}, 8)...); got != 14 {
		t.Errorf("greedy networks get %d units, want 14", got)
	}
	if got := taken(p, "192.0.2.3"); got != 1 {
		t.Error("another network gets none")
	}
	if got := taken(p, "", ""); got != 1 || p.Used() != 16 {
		t.Errorf("a client without a network gets %d, %d are used", got, p.Used())
	}
}

func TestPool_ReleaseMakesRoom(t *testing.T) {
	p := NewPool(100, domain.Share{4, 6, 8}, 2)
	networks := domain.Networks(netip.MustParseAddr("2001:db8::1"))
	if !p.Acquire(networks, 4) || p.Acquire(networks, 1) || p.Used() != 4 {
		t.Error("a share is not counted")
	}
	p.Release(networks, 4)
	if p.Used() != 0 || len(p.networks) != 0 || !p.Acquire(networks, 4) {
		t.Errorf("%d units are used, %v", p.Used(), p.networks)
	}
}

// TestPool_OneLargeUseTakesNoReserve: a network that has nothing yet acquires its whole share at once.
// It holds promise 1 of SECURITY.md.
func TestPool_OneLargeUseTakesNoReserve(t *testing.T) {
	p := NewPool(64, domain.Share{32, 32, 32}, 2)
	at := func(address string) []netip.Prefix { return domain.Networks(netip.MustParseAddr(address)) }
	if !p.Acquire(at("192.0.2.1"), 32) || !p.Acquire(at("192.0.2.2"), 20) {
		t.Fatal("there is no room outside of the reserve")
	}
	if p.Acquire(at("192.0.2.3"), 12) || p.Acquire(at("2001:db8::1"), 5) {
		t.Error("one large use gets the reserve")
	}
	if got := taken(p, addresses(6, "198.51.100.%d")...); got != 6 {
		t.Errorf("%d of 6 networks with little use get a unit", got)
	}
}
