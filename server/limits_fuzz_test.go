package server

import (
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzForwardedFor reads X-Forwarded-For from a trusted proxy, as several headers where
// it has several lines: who calls is the last hop that is not trusted, whatever stands
// left of it, and left of a hop that is no address nobody is believed.
func FuzzForwardedFor(f *testing.F) {
	for _, seed := range []string{
		"", ",", " , ,", "198.51.100.7", "203.0.113.1, 198.51.100.7, 10.1.2.3", "10.0.0.2,10.0.0.1,127.0.0.1", "198.51.100.7, unknown, 10.0.0.1", "<script>,198.51.100.7",
		"198.51.100.7:99", "198.51.100.7:099999", "[2001:db8::1]:443", "[[::1]]", "]2001:db8::1[", "[198.51.100.7]:80", "::ffff:198.51.100.7", "::ffff:10.0.0.1", "::ffff:c633:6407%eth0", "[::ffff:198.51.100.7]:80",
		"fe80::1%eth0", "fe80::1%", "fe80::1%25a,b", "[fe80::1%a]:80", "fd00::1", "fd00::1%lo, 10.0.0.1", "198.51.100.007", "0x7f.1", "2130706433", "::", "0.0.0.0", "_hidden", `"198.51.100.7"`, "for=198.51.100.7",
		"198.51.100.7\n10.0.0.1", "198.51.100.7\n\n10.0.0.1", "\u00a0198.51.100.7\u3000", "198.51.100.7\x00", "１９８.51.100.7", "\xff", strings.Repeat("10.0.0.1,", 200), strings.Repeat(":", 99),
	} {
		f.Add(seed)
	}
	proxies, err := ParseTrustedProxies([]string{"127.0.0.1", "10.0.0.0/8", "fd00::/8"})
	if err != nil {
		f.Fatal(err)
	}
	from := func(peer string, headers ...string) netip.Addr {
		return ClientAddress(&http.Request{RemoteAddr: peer + ":80", Header: http.Header{"X-Forwarded-For": headers}}, proxies)
	}
	const peer, other, client = "127.0.0.1", "10.9.9.9", "203.0.113.9"
	f.Fuzz(func(t *testing.T, lines string) {
		headers := strings.Split(lines, "\n")
		got := from(peer, headers...)
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("%q: %s", headers, got)
		}
		for where, tt := range map[string]struct{ got, want netip.Addr }{
			"of a stranger":             {from(client, headers...), netip.MustParseAddr(client)},
			"with a client behind it":   {from(peer, append(slices.Clone(headers), client)...), netip.MustParseAddr(client)},
			"with a client at its end":  {from(peer, strings.Join(headers, ",")+", "+client), netip.MustParseAddr(client)},
			"behind a hop that is none": {from(peer, slices.Concat([]string{client + ", unknown"}, headers)...), got},
			"hop by hop":                {lastStranger(t, from, peer, other, headers), got},
		} {
			if tt.got != tt.want {
				t.Errorf("%q %s: %s, want %s", headers, where, tt.got, tt.want)
			}
		}
	})
}

// lastStranger finds the last hop that is not trusted by looking at each alone: one that
// is an address gives the same behind any proxy, and stands there.
func lastStranger(t *testing.T, from func(peer string, headers ...string) netip.Addr, peer, other string, headers []string) netip.Addr {
	hops := strings.Split(strings.Join(headers, ","), ",")
	found := netip.MustParseAddr(peer)
	for _, hop := range slices.Backward(hops) {
		addr := from(peer, hop)
		if addr != from(other, hop) {
			break
		}
		if !standsIn(addr, hop) {
			t.Errorf("%q: %s", hop, addr)
		}
		found = addr
		if b := addr.AsSlice(); !(addr.Is4() && b[0] == 10 || addr.Is6() && b[0] == 0xfd || addr.String() == peer) {
			break
		}
	}
	return found
}

var addressWord = regexp.MustCompile(`[0-9A-Fa-f:.]+`)

// standsIn tells whether a text holds an address, with a port or without.
func standsIn(addr netip.Addr, text string) bool {
	return slices.ContainsFunc(addressWord.FindAllString(text, -1), func(word string) bool {
		bare := word[:max(0, strings.LastIndexByte(word, ':'))]
		return net.ParseIP(word).Equal(addr.AsSlice()) || net.ParseIP(bare).Equal(addr.AsSlice())
	})
}
