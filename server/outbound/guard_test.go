package outbound

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"code.dny.dev/ssrf"

	"callbook/store/domain"
	"callbook/testdata/proof"
)

// specialBlocks are IANA's special-purpose registries, with what was withdrawn and
// what the address architecture itself reserves.
var specialBlocks = map[string]string{
	"this host or network, loopback": "0.0.0.0/8 127.0.0.0/8 ::/128 ::1/128",
	"private":                        "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
	"shared, RFC 6598":               "100.64.0.0/10",
	"link or site local":             "169.254.0.0/16 fe80::/10 fec0::/10",
	"metadata of a cloud":            "169.254.169.254/32 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 fd00:ec2::254/128 fd20:ce::254/128",
	"protocol assignments":           "192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/31 2001::/23 2001:1::1/128 2001:1::2/128 2001:1::3/128",
	"documentation":                  "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
	"AS112, AMT":                     "192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 2001:3::/32 2001:4:112::/48 2620:4f:8000::/48",
	"benchmarks":                     "198.18.0.0/15 2001:2::/48",
	"multicast, broadcast":           "224.0.0.0/4 255.255.255.255/32 ff00::/8",
	"transition":                     "192.88.99.0/24 ::/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 2001::/32 2002::/16",
	"identifiers":                    "2001:10::/28 2001:20::/28 2001:30::/28 5f00::/16",
	"discard, dummy":                 "100::/64 100:0:0:1::/64",
	"reserved":                       "240.0.0.0/4 200::/7 400::/6 1000::/4 4000::/3 8000::/3 e000::/4 fe00::/9",
}

// transitions are the ways of an IPv4 address into an IPv6 one.
var transitions = []struct {
	name  string
	embed func(v4 [4]byte) netip.Addr
}{
	{"mapped", at("::ffff:0:0", 12)},
	{"v4-compatible", at("::", 12)},
	{"v4-translated", at("::ffff:0:0:0", 12)},
	{"NAT64", at("64:ff9b::", 12)},
	{"local NAT64 /96", at("64:ff9b:1::", 12)},
	{"local NAT64 /48", func(v4 [4]byte) netip.Addr {
		b := netip.MustParseAddr("64:ff9b:1::").As16()
		b[6], b[7], b[9], b[10] = v4[0], v4[1], v4[2], v4[3] // octet 8 stays empty
		return netip.AddrFrom16(b)
	}},
	{"6to4", at("2002::", 2)},
	{"Teredo server", at("2001::", 4)},
	{"Teredo client", func(v4 [4]byte) netip.Addr {
		for i := range v4 {
			v4[i] = ^v4[i]
		}
		return at("2001::", 12)(v4)
	}},
	{"ISATAP link local", at("fe80::5efe:0:0", 12)},
	{"ISATAP", at("2606:4700::5efe:0:0", 12)},
	{"ISATAP of a public address", at("2606:4700::200:5efe:0:0", 12)},
}

// at embeds an address at an octet of a prefix.
func at(prefix string, octet int) func([4]byte) netip.Addr {
	return func(v4 [4]byte) netip.Addr {
		b := netip.MustParseAddr(prefix).As16()
		copy(b[octet:], v4[:])
		return netip.AddrFrom16(b)
	}
}

type hostileAddr struct {
	addr   netip.Addr
	reason string
}

// hostileAddrs are the first, middle and last address of each block, and inner
// addresses in each transition form.
func hostileAddrs(t testing.TB) (all []hostileAddr) {
	for reason, blocks := range specialBlocks {
		for block := range strings.FieldsSeq(blocks) {
			p := netip.MustParsePrefix(block)
			if p != p.Masked() {
				t.Fatalf("%s is no block", p)
			}
			addrs := []netip.Addr{p.Addr(), inBlock(p, 0x80), inBlock(p, 0xFF)}
			for _, addr := range slices.Compact(addrs) {
				all = append(all, hostileAddr{addr, reason})
			}
		}
	}
	for _, inner := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0"} {
		for _, way := range transitions {
			all = append(all, hostileAddr{way.embed(netip.MustParseAddr(inner).As4()), way.name + " " + inner})
		}
	}
	for _, zoned := range []string{"fe80::1%eth0", "::1%lo", "2606:4700::1111%eth0", "2606:4700::1111%1"} {
		all = append(all, hostileAddr{netip.MustParseAddr(zoned), "zone"})
	}
	return append(all, hostileAddr{netip.Addr{}, "no address"})
}

// inBlock fills the host bits: 0xFF gives the last address, 0x80 the middle one.
func inBlock(p netip.Prefix, fill byte) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		if fill == 0xFF || bit == p.Bits() {
			b[bit/8] |= 0x80 >> (bit % 8)
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// publicAddrs are ordinary ones, and the neighbours of special blocks.
var publicAddrs = []string{
	"8.8.8.8", "1.1.1.1", "93.184.216.34", "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
	"126.255.255.255", "128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
	"191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
	"198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
	"2000::", "2001:200::", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::1", "2001:ffff::1", "2003::1", "2606:4700::1111",
	"2620:4f:7fff::1", "2620:4f:8001::1", "2a00:1450::1", "3ffe:ffff::1", "3fff:1000::1", "2606:4700::5eff:7f00:1",
}

// dialCounter is a network of which every address is dead.
type dialCounter struct{ dialled []string }

func (d *dialCounter) dial(_ context.Context, _, address string) (net.Conn, error) {
	d.dialled = append(d.dialled, address)
	return nil, errors.New("nobody there")
}

// resolverFunc answers every name.
type resolverFunc func(ctx context.Context, host string) ([]netip.Addr, error)

func (f resolverFunc) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}

func answers(addrs ...netip.Addr) Resolver {
	return resolverFunc(func(context.Context, string) ([]netip.Addr, error) { return addrs, nil })
}

const wanted = "https://callbook.example.org/agents/foo"

// expectFailure checks a page and fails the test unless the check failed so.
func expectFailure(t testing.TB, c *LinkChecker, page string, want failure) {
	t.Helper()
	got, err := c.Check(t.Context(), page, wanted)
	if err != nil || got.Verified || got.Proof != "" || got.Failure != string(want) {
		t.Errorf("%.120s: %+v, %v, want %s", page, got, err, want)
	}
}

func TestGuard_NeverDialsInternalAddress(t *testing.T) {
	all := hostileAddrs(t)
	if len(all) < 200 {
		t.Fatalf("only %d addresses", len(all))
	}
	public4, public6 := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:4700::1111")
	for _, hostile := range all {
		for _, set := range [][]netip.Addr{{hostile.addr}, {public4, hostile.addr}, {public6, public4, hostile.addr, public4}, {hostile.addr, public6}} {
			d := &dialCounter{}
			c := NewLinkChecker(Options{Resolver: answers(set...), Dial: d.dial})
			expectFailure(t, c, "https://page.example.com/", blocked)
			expectFailure(t, c, "http://page.example.com/", blocked)
			if len(d.dialled) != 0 {
				t.Errorf("%s (%s) in %v: dialled %v", hostile.addr, hostile.reason, set, d.dialled)
			}
		}
	}
	proof.Figure(t, "addresses", len(all))
}

func TestGuard_LoopbackAllowsNoOtherAddress(t *testing.T) {
	for _, hostile := range hostileAddrs(t) {
		d := &dialCounter{}
		c := NewLinkChecker(Options{Resolver: answers(hostile.addr), Dial: d.dial, Loopback: true})
		want := blocked
		if hostile.addr.IsLoopback() && hostile.addr.Zone() == "" {
			want = unreachable
		}
		expectFailure(t, c, "http://page.example.com/", want)
		if (len(d.dialled) != 0) != (want == unreachable) {
			t.Errorf("%s (%s): dialled %v", hostile.addr, hostile.reason, d.dialled)
		}
	}
}

func TestGuard_DialsPublicAddressOnce(t *testing.T) {
	for _, public := range publicAddrs {
		addr := netip.MustParseAddr(public)
		for _, form := range []netip.Addr{addr, netip.AddrFrom16(addr.As16())} { // the system's resolver returns mapped ones
			d := &dialCounter{}
			c := NewLinkChecker(Options{Resolver: answers(form, netip.MustParseAddr("1.1.1.1")), Dial: d.dial})
			expectFailure(t, c, "https://page.example.com/", unreachable)
			if want := netip.AddrPortFrom(addr, 443).String(); len(d.dialled) != 1 || d.dialled[0] != want {
				t.Errorf("dialled %v, want %s", d.dialled, want)
			}
		}
	}
}

// TestGuard_ChecksTheDialledAddress is about the address of the socket itself,
// whatever was resolved before.
func TestGuard_ChecksTheDialledAddress(t *testing.T) {
	control := newGuard(Options{}).control
	for _, hostile := range hostileAddrs(t) {
		if err := control("tcp", netip.AddrPortFrom(hostile.addr, 443).String(), nil); !errors.Is(err, blocked) {
			t.Errorf("%s (%s) passes: %v", hostile.addr, hostile.reason, err)
		}
	}
	for _, public := range publicAddrs {
		for port, want := range map[uint16]error{80: nil, 443: nil, 0: blocked, 22: blocked, 8080: blocked} {
			if err := control("tcp", netip.AddrPortFrom(netip.MustParseAddr(public), port).String(), nil); err != want {
				t.Errorf("%s, port %d: %v", public, port, err)
			}
		}
	}
}

// TestGuard_DialerChecksEachSocket allows any port, so that only the address can block the connection.
func TestGuard_DialerChecksEachSocket(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "::ffff:0.0.0.0"} {
		c := NewLinkChecker(Options{Resolver: answers(netip.MustParseAddr(address))})
		*c.guard.public = *ssrf.New(ssrf.WithAnyPort())
		if conn, err := c.Dial(t.Context(), "tcp", net.JoinHostPort(address, "1")); !errors.Is(err, blocked) {
			t.Errorf("the dialer, %s: %v, %v", address, conn, err)
		}
		for _, host := range []string{address, "page.example.com"} {
			if conn, err := c.dialContext(t.Context(), "tcp", net.JoinHostPort(host, "1")); !errors.Is(err, blocked) {
				t.Errorf("%s by %s: %v, %v", address, host, conn, err)
			}
		}
	}
}

// TestCheck_URLs checks which URLs cause a connection, and to which address.
func TestCheck_URLs(t *testing.T) {
	label := strings.Repeat("a", 63)
	tests := map[string][]string{ // by the address that is dialled; empty: none
		"93.184.216.34:80": {
			"http://page.example.com", "http://page.example.com:80/", "https://page.example.com:80/", "HTTP://PAGE.Example.COM/",
			"http://xn--mnchen-3ya.example.com/", "http://a.xn--p1ai/", "http://" + label + ".com/",
		},
		"93.184.216.34:443": {"https://page.example.com/", "HTTPS://page.example.com/", "http://page.example.com:443/"},
		"": {
			// Ports.
			"http://page.example.com:0/", "http://page.example.com:22/", "http://page.example.com:8080/", "https://page.example.com:8443/",
			"http://page.example.com:65616/", "http://page.example.com:-80/", "http://page.example.com:80x/", "http://page.example.com:080/",
			// User info.
			"http://user@page.example.com/", "http://user:password@page.example.com/", "http://@page.example.com/",
			// Schemes, and what has none.
			"ftp://page.example.com/", "file:///etc/passwd", "file://page.example.com/etc/passwd", "gopher://page.example.com:80/_", "javascript:alert(1)",
			"data:text/html," + wanted, "ws://page.example.com/", "unix:///run/docker.sock", "https:page.example.com/", "https:///page.example.com/",
			"//page.example.com/", "page.example.com", "/page", "", "http:///",
			// Too long, broken, and the directory itself.
			"http://page.example.com/" + strings.Repeat("a", maxAddressBytes), "http://page.example.com/\r\nHost: inner", wanted, "http://CALLBOOK.example.org:443/",
			// Addresses in any form.
			"http://93.184.216.34/", "http://[2606:4700::1111]/", "http://10.0.0.1/", "http://0.0.0.0/", "http://[::]/", "http://[::1%25lo]/", "http://127.0.0.1./",
			"http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://0x7f.0x0.0x0.0x1/", "http://017700000001/", "http://0177.0.0.1/", "http://127.1/",
			"http://127.000.000.001/", "http://1.2.3.4.5/", "http://１２７.0.0.1/", "http://①②⑦.0.0.1/", "http://127。0。0。1/", "http://%31%32%37.0.0.1/",
			// Names.
			"http://intranet/", "http://notlocalhost/", "http://com/", "http://page.example.com./", "http://localhost./", "http://pagé.example.com/",
			"http://page_1.example.com/", "http://-page.example.com/", "http://page-.example.com/", "http://page..example.com/", "http://.example.com/",
			"http://page.example.com%00/", "http://" + label + "a.com/", "http://" + strings.Repeat(label+".", 4) + "com/",
			"http://page.example.com,127.0.0.1/", `http://page.example.com\@127.0.0.1/`,
		},
	}
	local := map[string][]string{ // and these with Loopback
		"127.0.0.1:80":   {"http://localhost/", "http://LOCALHOST/", "http://agent.localhost/", "http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"},
		"127.255.0.9:22": {"http://127.255.0.9:22/"},
		"[::1]:8080":     {"http://[::1]:8080/"},
	}
	check := func(o Options, page, dialled string) {
		d := &dialCounter{}
		o.Resolver, o.Dial = answers(netip.MustParseAddr("93.184.216.34")), d.dial
		want := unreachable
		if dialled == "" {
			want = blocked
		}
		expectFailure(t, NewLinkChecker(o), page, want)
		if got := strings.Join(d.dialled, " "); got != dialled {
			t.Errorf("%.80s, loopback %v: dialled %q, want %q", page, o.Loopback, got, dialled)
		}
	}
	for dialled, pages := range tests {
		for _, page := range pages {
			check(Options{}, page, dialled)
			check(Options{Loopback: true}, page, dialled)
		}
	}
	for dialled, pages := range local {
		for _, page := range pages {
			check(Options{}, page, "")
			check(Options{Loopback: true}, page, dialled)
		}
	}
}

func TestCheck_OtherPortIsNotTheDirectory(t *testing.T) {
	d := &dialCounter{}
	c := NewLinkChecker(Options{Dial: d.dial, Loopback: true})
	for page, want := range map[string]failure{"http://127.0.0.1:8080/x": blocked, "http://127.0.0.1:8081/x": unreachable} {
		got, err := c.Check(t.Context(), page, "http://127.0.0.1:8080/agents/foo")
		if err != nil || got.Failure != string(want) {
			t.Errorf("%s: %+v, %v, want %s", page, got, err, want)
		}
	}
}

// turningName is a name with an outer address for some look-ups, and with others
// from then on. At the outer address a server answers /2 by a redirect to /1, that by
// one to /0, and /0 by a page that proves.
type turningName struct {
	outer   int          // look-ups until it turns
	inner   []netip.Addr // what is answered from then on
	lookups int
	dialled []string
}

// LookupNetIP counts the look-ups, and answers.
func (n *turningName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if n.lookups++; n.lookups > n.outer {
		return n.inner, nil
	}
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

// dial connects with the server, whatever the address: a guard that lets an inner
// one pass then finds the proof.
func (n *turningName) dial(_ context.Context, _, address string) (net.Conn, error) {
	n.dialled = append(n.dialled, address)
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		request, err := http.ReadRequest(bufio.NewReader(server))
		if err != nil {
			return // the other side's test tells
		}
		if left, _ := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/")); left > 0 {
			fmt.Fprintf(server, "HTTP/1.1 302 Found\r\nLocation: /%d\r\n\r\n", left-1)
			return
		}
		fmt.Fprintf(server, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n%s", wanted)
	}()
	return client, nil
}

// expect checks a page from which so many redirects lead to the proof. It fails the
// test unless that ended as wanted, after so many look-ups and so many dials of the
// outer address in all, and none of another.
func (n *turningName) expect(t testing.TB, c *LinkChecker, redirects int, want domain.LinkCheck, lookups, dials int) {
	t.Helper()
	got, err := c.Check(t.Context(), "http://page.example.com/"+strconv.Itoa(redirects), wanted)
	if err != nil || got != want {
		t.Errorf("turns to %v after %d look-ups, %d redirects: %+v, %v, want %+v", n.inner, n.outer, redirects, got, err, want)
	}
	if n.lookups != lookups || len(n.dialled) != dials {
		t.Errorf("turns to %v after %d look-ups, %d redirects: %d names were looked up, want %d, and %v dialled, want %d", n.inner, n.outer, redirects, n.lookups, lookups, n.dialled, dials)
	}
	for _, address := range n.dialled {
		if address != "93.184.216.34:80" {
			t.Errorf("turns to %v after %d look-ups, %d redirects: dialled %s", n.inner, n.outer, redirects, address)
		}
	}
}

// TestGuard_DNSRebindingReachesNoInternalAddress has a name turn to an inner address, or to
// an outer and an inner one, between two checks and between two visits of one check. As there is one look-up for each visit, one more between looking and
// dialling would meet the inner address, too.
func TestGuard_DNSRebindingReachesNoInternalAddress(t *testing.T) {
	outer := netip.MustParseAddr("1.1.1.1")
	proved, refused := verified("website", "mention"), failed(blocked)
	met := 0 // tries in which an inner address was answered
	for _, hostile := range hostileAddrs(t) {
		if !hostile.addr.IsValid() {
			continue // it is no address
		}
		for _, inner := range [][]netip.Addr{{hostile.addr}, {outer, hostile.addr}} {
			for visits := 1; visits <= maxRedirects+1; visits++ {
				between := &turningName{outer: visits, inner: inner}
				c := NewLinkChecker(Options{Resolver: between, Dial: between.dial})
				between.expect(t, c, visits-1, proved, visits, visits)
				between.expect(t, c, visits-1, refused, visits+1, visits)
				if between.lookups > between.outer {
					met++
				}
			}
			for visits := 1; visits <= maxRedirects; visits++ {
				within := &turningName{outer: visits, inner: inner}
				within.expect(t, NewLinkChecker(Options{Resolver: within, Dial: within.dial}), visits, refused, visits+1, visits)
				if within.lookups > within.outer {
					met++
				}
			}
			secure, nobody := &turningName{outer: 1, inner: inner}, &dialCounter{}
			c := NewLinkChecker(Options{Resolver: secure, Dial: nobody.dial})
			expectFailure(t, c, "https://page.example.com/", unreachable)
			expectFailure(t, c, "https://page.example.com/", blocked)
			if secure.lookups != 2 || !slices.Equal(nobody.dialled, []string{"93.184.216.34:443"}) {
				t.Errorf("https turns to %v: %d names were looked up, and %v dialled", inner, secure.lookups, nobody.dialled)
			}
			if secure.lookups > secure.outer {
				met++
			}
		}
	}
	if met < 1000 {
		t.Errorf("only %d tries met an inner address", met)
	}
	proof.Figure(t, "rebindings", met)
}

func TestCheck_FailedLookups(t *testing.T) {
	for name, test := range map[string]struct {
		addrs []netip.Addr
		err   error
		want  failure
	}{
		"no answer":   {nil, nil, unreachable},
		"no name":     {nil, &net.DNSError{Err: "no such host", IsNotFound: true}, unreachable},
		"odd error":   {nil, errors.New("broken"), unreachable},
		"slow server": {nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}, timeout},
	} {
		resolver := resolverFunc(func(context.Context, string) ([]netip.Addr, error) { return test.addrs, test.err })
		expectFailure(t, NewLinkChecker(Options{Resolver: resolver}), "https://page.example.com/?"+url.QueryEscape(name), test.want)
	}
}
