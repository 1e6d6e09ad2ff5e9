package domain

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestNetworks_OfAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":               "[192.0.2.7/32]",
		"::ffff:192.0.2.7":        "[192.0.2.7/32]",
		"2001:db8:1:2345:6:7:8:9": "[2001:db8:1:2345::/64 2001:db8:1:2300::/56 2001:db8:1::/48]",
		"fe80::1:2:3:4%eth0":      "[fe80::/64 fe80::/56 fe80::/48]",
		"2001:db8:ffff:ffff::1":   "[2001:db8:ffff:ffff::/64 2001:db8:ffff:ff00::/56 2001:db8:ffff::/48]",
	} {
		if got := fmt.Sprint(Networks(netip.MustParseAddr(address))); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := Networks(netip.Addr{}); got != nil {
		t.Errorf("no address: %v", got)
	}
}
