package middleware

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
)

func TestClientAddress_TrustsOnlyProxies(t *testing.T) {
	proxies, err := ParseTrustedProxies([]string{"127.0.0.1", "10.0.0.0/8", "fd00::/8", "::1", "fe80::9", "::ffff:172.16.0.0/108", "::ffff:192.0.2.9"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, peer string
		forwarded  []string
		trusted    TrustedProxies
		want       string
	}{
		{"peer", "192.0.2.1:80", nil, nil, "192.0.2.1"},
		{"IPv6 peer", "[2001:db8:1:2:3::4]:80", nil, nil, "2001:db8:1:2::"},
		{"IPv6 peer with a zone", "[fe80::1%eth0]:80", nil, nil, "fe80::"},
		{"mapped peer", "[::ffff:192.0.2.1]:80", nil, nil, "192.0.2.1"},
		{"header without a proxy", "192.0.2.1:80", []string{"198.51.100.7"}, nil, "192.0.2.1"},
		{"header from an untrusted peer", "192.0.2.1:80", []string{"198.51.100.7"}, proxies, "192.0.2.1"},
		{"no exemption for loopback", "127.0.0.1:80", []string{"198.51.100.7"}, nil, "127.0.0.1"},
		{"trusted proxy", "127.0.0.1:80", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		{"mapped trusted proxy", "[::ffff:127.0.0.1]:80", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		{"trusted proxy with a zone", "[fe80::9%eth0]:80", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		{"proxy of a network given as mapped", "172.16.9.9:80", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		{"proxy given as mapped", "192.0.2.9:80", []string{"198.51.100.7"}, proxies, "198.51.100.7"},
		{"right-most untrusted hop", "127.0.0.1:80", []string{"203.0.113.1, 198.51.100.7, 10.1.2.3"}, proxies, "198.51.100.7"},
		{"several headers", "127.0.0.1:80", []string{"203.0.113.1", "198.51.100.7", "10.1.2.3"}, proxies, "198.51.100.7"},
		{"mapped hop", "127.0.0.1:80", []string{"::ffff:198.51.100.7"}, proxies, "198.51.100.7"},
		{"mapped trusted hop", "127.0.0.1:80", []string{"198.51.100.7, ::ffff:10.0.0.1"}, proxies, "198.51.100.7"},
		{"IPv6 hop", "[::1]:80", []string{"2001:db8:1:2:ffff::1"}, proxies, "2001:db8:1:2::"},
		{"IPv6 hop with a zone", "[::1]:80", []string{"fe80::1%eth0"}, proxies, "fe80::"},
		{"only trusted hops", "127.0.0.1:80", []string{"10.0.0.2, 10.0.0.1"}, proxies, "10.0.0.2"},
		{"no header", "127.0.0.1:80", nil, proxies, "127.0.0.1"},
		{"empty header", "127.0.0.1:80", []string{""}, proxies, "127.0.0.1"},
		{"nonsense on the right", "127.0.0.1:80", []string{"198.51.100.7, unknown"}, proxies, "127.0.0.1"},
		{"nonsense on the left", "127.0.0.1:80", []string{"<script>, 198.51.100.7"}, proxies, "198.51.100.7"},
		{"nonsense before a trusted hop", "127.0.0.1:80", []string{"nonsense, 10.0.0.9"}, proxies, "10.0.0.9"},
		{"a Unix socket", "@", []string{"203.0.113.1, 198.51.100.7"}, nil, "198.51.100.7"},
		{"a Unix socket without a header", "", nil, nil, "127.0.0.1"},
		{"a hop with a port", "127.0.0.1:80", []string{"198.51.100.7:99"}, proxies, "198.51.100.7"},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/api", nil)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-For"] = tt.forwarded
		if got := domain.SmallestNetwork(ClientAddress(r, tt.trusted)).Addr().String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for _, text := range []string{"", "localhost", "10.0.0.0/33", "10.0.0", "*", "fe80::1%eth0", "::ffff:0.0.0.0/90"} {
		if _, err := ParseTrustedProxies([]string{text}); err == nil {
			t.Errorf("%q is taken as a proxy", text)
		}
	}
}

// FuzzClientAddress reads X-Forwarded-For from a trusted proxy, as several headers where
// it has several lines: who calls is the last hop that is not trusted, whatever stands
// left of it, and left of a hop that is no address no client is believed.
func FuzzClientAddress(f *testing.F) {
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
	const peer, client = "127.0.0.1", "203.0.113.9"
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
		} {
			if tt.got != tt.want {
				t.Errorf("%q %s: %s, want %s", headers, where, tt.got, tt.want)
			}
		}
	})
}
