package mcp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// callTo is a call as it comes in: the Host that it names, the local address of
// its connection, and its Origin headers, "-" for none.
func callTo(host, local, origins string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Host = host
	if local != "" {
		at := net.Addr(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(local)))
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
	}
	if origins != "-" {
		r.Header["Origin"] = strings.Split(origins, "|")
	}
	return r
}

func newGate(t *testing.T, base string, origins ...string) *Gate {
	t.Helper()
	for i, text := range origins {
		origin, err := ParseOrigin(text)
		if err != nil {
			t.Fatal(err)
		}
		origins[i] = origin
	}
	g, err := NewGate(base, origins)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGate_AllowsOwnNames(t *testing.T) {
	const public, loopback, lan = "https://directory.example.org", "127.0.0.1:8080", "192.168.1.7:8080"
	tests := []struct {
		name, base, host, local string
		allows                  bool
	}{
		{"the public name", public, "directory.example.org", lan, true},
		{"the public name in capitals", public, "Directory.Example.ORG", lan, true},
		{"the public name with its port", public, "directory.example.org:443", lan, true},
		{"the public name through a proxy on this host", public, "directory.example.org", loopback, true},
		{"a proxy on this host that rewrites the name", public, "127.0.0.1:8080", loopback, true},
		{"a proxy on this host that says localhost", public, "localhost:8080", loopback, true},
		{"a proxy elsewhere that rewrites the name", public, "192.168.1.7:8080", lan, true},
		{"the other scheme's port", public, "directory.example.org:80", lan, false},
		{"another port", public, "directory.example.org:8443", lan, false},
		{"a name below it", public, "x.directory.example.org", lan, false},
		{"a name that begins so", public, "directory.example.org.evil.example", lan, false},
		{"a name that ends so", public, "evil-directory.example.org", lan, false},
		{"a dot behind it", public, "directory.example.org.", lan, false},
		{"no name", public, "", loopback, false},

		{"localhost", "http://127.0.0.1:8080", "localhost:8080", loopback, true},
		{"any loopback address", "http://127.0.0.1:8080", "127.8.9.1:1", "127.8.9.1:8080", true},
		{"IPv6 loopback", "http://[::1]:8080", "[::1]:8080", "[::1]:8080", true},
		{"IPv6 loopback, no port", "http://127.0.0.1:8080", "[::1]", "[::1]:8080", true},
		{"IPv4 in IPv6", "http://127.0.0.1:8080", "127.0.0.1", "[::ffff:127.0.0.1]:8080", true},
		{"rebinding", "http://127.0.0.1:8080", "evil.example", loopback, false},
		{"rebinding with the port", "http://127.0.0.1:8080", "evil.example:8080", loopback, false},
		{"rebinding in the network", "http://localhost:8080", "evil.example:8080", lan, false},
		{"localhost from the network", "http://192.168.1.7:8080", "localhost:8080", lan, false},
		{"a loopback address from the network", "http://192.168.1.7:8080", "127.0.0.1:8080", lan, false},
		{"a name that looks local", "http://127.0.0.1:8080", "localhost.evil.example", loopback, false},
		{"a name that looks like an address", "http://127.0.0.1:8080", "127.0.0.1.evil.example", loopback, false},
		{"a name below localhost", "http://127.0.0.1:8080", "evil.localhost", loopback, false},
		{"a user name", "http://127.0.0.1:8080", "localhost@evil.example", loopback, false},
		{"no brackets", "http://[::1]:8080", "::1", "[::1]:8080", false},

		{"the address in the network", "http://localhost:8080", "192.168.1.7:8080", lan, true},
		{"an IPv6 address in the network", "http://localhost:8080", "[2001:db8::7]:8080", "[2001:db8::7]:8080", true},
		{"a link-local address", "http://localhost:8080", "[fe80::7]:8080", "[fe80::7%lo]:8080", true},
		{"another address in the network", "http://localhost:8080", "192.168.1.8:8080", lan, false},
		{"an address in the network, by loopback", "http://localhost:8080", "192.168.1.7:8080", loopback, false},
		{"a connection of unknown address", "http://127.0.0.1:8080", "localhost", "", false},
		{"the base URL itself, of unknown address", "http://127.0.0.1:8080", "127.0.0.1:8080", "", true},
	}
	for _, tt := range tests {
		if got := newGate(t, tt.base).Allows(callTo(tt.host, tt.local, "-")); got != tt.allows {
			t.Errorf("%s: Host %q at %s of %s: %v", tt.name, tt.host, tt.local, tt.base, got)
		}
	}
}

func TestGate_AllowsConfiguredOrigins(t *testing.T) {
	const loopback, lan = "127.0.0.1:8080", "192.168.1.7:8080"
	public := newGate(t, "https://directory.example.org", "https://app.example.org", "http://Dev.Example.org:3000", "https://other.example.org:443")
	tests := []struct {
		name, host, local, origin string
		allows, shared            bool
	}{
		{"none", "directory.example.org", lan, "-", true, false},
		{"the site's own", "directory.example.org", lan, "https://directory.example.org", true, false},
		{"the site's own, other scheme", "directory.example.org", lan, "http://directory.example.org", true, false},
		{"the site's own, other port", "directory.example.org", lan, "https://directory.example.org:8443", false, false},
		{"one that is configured", "directory.example.org", lan, "https://app.example.org", true, true},
		{"one with a port", "directory.example.org", lan, "http://dev.example.org:3000", true, true},
		{"one without its port", "directory.example.org", lan, "http://dev.example.org", false, false},
		{"one configured with the usual port", "directory.example.org", lan, "https://other.example.org", true, true},
		{"one below it", "directory.example.org", lan, "https://x.app.example.org", false, false},
		{"configured, for a foreign host", "evil.example", lan, "https://app.example.org", false, false},
		{"null", "directory.example.org", lan, "null", false, false},
		{"null, by loopback", "localhost:8080", loopback, "null", false, false},
		{"a foreign one", "directory.example.org", lan, "https://evil.example", false, false},
		{"a local page, by loopback", "localhost:8080", loopback, "http://localhost:3000", false, false},
		{"a local page, by the public name", "directory.example.org", loopback, "http://localhost:3000", false, false},
		{"a page that looks local", "localhost:8080", loopback, "http://localhost.evil.example", false, false},
	}
	for _, tt := range tests {
		r := callTo(tt.host, tt.local, tt.origin)
		if got := public.Allows(r); got != tt.allows {
			t.Errorf("%s: %q for %s at %s: %v", tt.name, tt.origin, tt.host, tt.local, got)
		}
		r.Method = http.MethodOptions
		w := httptest.NewRecorder()
		public.Preflight(w, r)
		want := http.Header{"Vary": {"Origin"}}
		if tt.shared { // neither credentials nor Authorization
			want.Set("Access-Control-Allow-Origin", tt.origin)
			want.Set("Access-Control-Allow-Methods", "POST")
			want.Set("Access-Control-Allow-Headers", "Accept, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, X-Request-Id")
			want.Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After, X-Request-Id")
			want.Set("Access-Control-Max-Age", "86400")
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusNoContent {
			t.Errorf("%s: preflight %d (-want +got):\n%s", tt.name, w.Code, diff)
		}
	}
}

func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"https://app.example.org": "https://app.example.org", "https://App.Example.org:443": "https://app.example.org",
		"http://localhost:3000": "http://localhost:3000", "http://example.org:80": "http://example.org", "http://[::1]:3000": "http://[::1]:3000",
		"https://app.example.org/": "", "https://app.example.org/x": "", "https://app.example.org?x": "", "https://app.example.org#x": "",
		"https://user@app.example.org": "", "app.example.org": "", "//app.example.org": "", "ftp://app.example.org": "", "null": "", "*": "", "": "",
		"https://*.example.org": "", "https://": "", "https://:443": "", "https://app.example.org:x": "", "https://app .example.org": "",
		"https://app.example.org,https://b.example.org": "",
	} {
		got, err := ParseOrigin(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "such as https://app.example.org") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewGate("http://localhost", []string{"https://app.example.org", "nonsense"}); err == nil {
		t.Error("a gate with a wrong origin")
	}
}
