package linkcheck

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

	"callbook/testdata/proof"
)

// specialBlocks are IANA's special-purpose registries, with what was withdrawn and
// what the address architecture itself reserves, each with its reason.
var specialBlocks = []struct{ prefix, reason string }{
	{"0.0.0.0/8", "this network, RFC 791"},
	{"10.0.0.0/8", "private, RFC 1918"},
	{"100.64.0.0/10", "shared address space, RFC 6598"},
	{"127.0.0.0/8", "loopback, RFC 1122"},
	{"169.254.0.0/16", "link local, RFC 3927"},
	{"169.254.169.254/32", "metadata of most clouds"},
	{"100.100.100.200/32", "metadata of Alibaba"},
	{"168.63.129.16/32", "metadata of Azure"},
	{"192.0.0.192/32", "metadata of Oracle"},
	{"172.16.0.0/12", "private, RFC 1918"},
	{"192.0.0.0/24", "protocol assignments, RFC 6890"},
	{"192.0.0.0/29", "IPv4 service continuity, RFC 7335"},
	{"192.0.0.8/32", "dummy address, RFC 7600"},
	{"192.0.0.9/32", "port control anycast, RFC 7723"},
	{"192.0.0.10/32", "TURN anycast, RFC 8155"},
	{"192.0.0.170/31", "NAT64 discovery, RFC 7050"},
	{"192.0.2.0/24", "documentation, RFC 5737"},
	{"192.31.196.0/24", "AS112, RFC 7535"},
	{"192.52.193.0/24", "AMT, RFC 7450"},
	{"192.88.99.0/24", "6to4 relay, RFC 7526"},
	{"192.168.0.0/16", "private, RFC 1918"},
	{"192.175.48.0/24", "AS112, RFC 7534"},
	{"198.18.0.0/15", "benchmarks, RFC 2544"},
	{"198.51.100.0/24", "documentation, RFC 5737"},
	{"203.0.113.0/24", "documentation, RFC 5737"},
	{"224.0.0.0/4", "multicast, RFC 1112"},
	{"240.0.0.0/4", "reserved, RFC 1112"},
	{"255.255.255.255/32", "broadcast, RFC 919"},
	{"::/128", "unspecified, RFC 4291"},
	{"::1/128", "loopback, RFC 4291"},
	{"::/96", "v4-compatible, RFC 4291"},
	{"::ffff:0:0:0/96", "v4-translated, RFC 2765"},
	{"64:ff9b::/96", "NAT64, RFC 6052"},
	{"64:ff9b:1::/48", "local NAT64, RFC 8215"},
	{"100::/64", "discard, RFC 6666"},
	{"100:0:0:1::/64", "dummy prefix, RFC 9780"},
	{"200::/7", "NSAP, RFC 4048"},
	{"400::/6", "reserved, RFC 4291"},
	{"1000::/4", "reserved, RFC 4291"},
	{"2001::/23", "protocol assignments, RFC 2928"},
	{"2001::/32", "Teredo, RFC 4380"},
	{"2001:1::1/128", "port control anycast, RFC 7723"},
	{"2001:1::2/128", "TURN anycast, RFC 8155"},
	{"2001:1::3/128", "DNS-SD anycast, RFC 9665"},
	{"2001:2::/48", "benchmarks, RFC 5180"},
	{"2001:3::/32", "AMT, RFC 7450"},
	{"2001:4:112::/48", "AS112, RFC 7535"},
	{"2001:10::/28", "ORCHID, RFC 4843"},
	{"2001:20::/28", "ORCHIDv2, RFC 7343"},
	{"2001:30::/28", "drone identifiers, RFC 9374"},
	{"2001:db8::/32", "documentation, RFC 3849"},
	{"2002::/16", "6to4, RFC 3056"},
	{"2620:4f:8000::/48", "AS112, RFC 7534"},
	{"3fff::/20", "documentation, RFC 9637"},
	{"4000::/3", "reserved, RFC 4291"},
	{"5f00::/16", "segment routing, RFC 9602"},
	{"8000::/3", "reserved, RFC 4291"},
	{"e000::/4", "reserved, RFC 4291"},
	{"fc00::/7", "unique local, RFC 4193"},
	{"fd00:ec2::254/128", "metadata of AWS"},
	{"fd20:ce::254/128", "metadata of Google"},
	{"fe00::/9", "reserved, RFC 4291"},
	{"fe80::/10", "link local, RFC 4291"},
	{"fec0::/10", "site local, RFC 3879"},
	{"ff00::/8", "multicast, RFC 4291"},
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
func hostileAddrs(t testing.TB) []hostileAddr {
	var all []hostileAddr
	for _, block := range specialBlocks {
		p := netip.MustParsePrefix(block.prefix)
		if p != p.Masked() {
			t.Fatalf("%s is no block", p)
		}
		seen := map[netip.Addr]bool{}
		for _, addr := range []netip.Addr{p.Addr(), inBlock(p, 0x80), inBlock(p, 0xFF)} {
			if !seen[addr] {
				seen[addr] = true
				all = append(all, hostileAddr{addr, block.reason})
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
type resolverFunc func(host string) ([]netip.Addr, error)

func (f resolverFunc) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return f(host)
}

func answers(addrs ...netip.Addr) Resolver {
	return resolverFunc(func(string) ([]netip.Addr, error) { return addrs, nil })
}

const wanted = "https://callbook.example.org/agents/foo"

// expectFailure checks a page and fails the test unless the check failed so.
func expectFailure(t testing.TB, c *Checker, page string, want failure) {
	t.Helper()
	got, err := c.Check(t.Context(), page, wanted)
	if err != nil || got.Status != "failed" || got.Proof != "" || got.Failure != string(want) {
		t.Errorf("%.120s: %+v, %v, want %s", page, got, err, want)
	}
}

func TestHostileAddressIsNeverDialled(t *testing.T) {
	all := hostileAddrs(t)
	if len(all) < 200 {
		t.Fatalf("only %d addresses", len(all))
	}
	public4, public6 := netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:4700::1111")
	for _, hostile := range all {
		for _, set := range [][]netip.Addr{{hostile.addr}, {public4, hostile.addr}, {public6, public4, hostile.addr, public4}, {hostile.addr, public6}} {
			d := &dialCounter{}
			c := New(Options{Resolver: answers(set...), Dial: d.dial})
			expectFailure(t, c, "https://page.example.com/", blocked)
			expectFailure(t, c, "http://page.example.com/", blocked)
			if len(d.dialled) != 0 {
				t.Errorf("%s (%s) in %v: dialled %v", hostile.addr, hostile.reason, set, d.dialled)
			}
		}
	}
	proof.Figure(t, "addresses", len(all))
}

func TestHostileAddressWithLoopbackAllowed(t *testing.T) {
	for _, hostile := range hostileAddrs(t) {
		d := &dialCounter{}
		c := New(Options{Resolver: answers(hostile.addr), Dial: d.dial, Loopback: true})
		want := blocked
		if isLoopback(hostile.addr) {
			want = unreachable
		}
		expectFailure(t, c, "http://page.example.com:8080/", want)
		if (len(d.dialled) != 0) != (want == unreachable) {
			t.Errorf("%s (%s): dialled %v", hostile.addr, hostile.reason, d.dialled)
		}
	}
}

func TestAddressLiteralIsNeverDialled(t *testing.T) {
	all := hostileAddrs(t)
	for _, public := range publicAddrs {
		all = append(all, hostileAddr{netip.MustParseAddr(public), "public"})
	}
	for _, literal := range all {
		if !literal.addr.IsValid() {
			continue
		}
		host := literal.addr.String()
		if literal.addr.Is6() {
			host = "[" + strings.ReplaceAll(host, "%", "%25") + "]"
		}
		d := &dialCounter{}
		c := New(Options{Resolver: answers(netip.MustParseAddr("93.184.216.34")), Dial: d.dial})
		expectFailure(t, c, "http://"+host+"/", blocked)
		if len(d.dialled) != 0 {
			t.Errorf("%s (%s): dialled %v", host, literal.reason, d.dialled)
		}
	}
}

func TestPublicAddressIsDialledOnce(t *testing.T) {
	for _, public := range publicAddrs {
		addr := netip.MustParseAddr(public)
		d := &dialCounter{}
		c := New(Options{Resolver: answers(addr, netip.MustParseAddr("1.1.1.1")), Dial: d.dial})
		expectFailure(t, c, "https://page.example.com/", unreachable)
		if want := netip.AddrPortFrom(addr, 443).String(); len(d.dialled) != 1 || d.dialled[0] != want {
			t.Errorf("dialled %v, want %s", d.dialled, want)
		}
	}
}

// The system's resolver writes A records so.
func TestMappedAnswerIsDialledAsIPv4(t *testing.T) {
	d := &dialCounter{}
	c := New(Options{Resolver: answers(netip.MustParseAddr("::ffff:93.184.216.34")), Dial: d.dial})
	expectFailure(t, c, "http://page.example.com/", unreachable)
	if len(d.dialled) != 1 || d.dialled[0] != "93.184.216.34:80" {
		t.Errorf("dialled %v", d.dialled)
	}
}

// Each wall has its own table; only where the second one's is known to be blind
// may they differ.
func TestBothWallsRefuseTheSame(t *testing.T) {
	control := guardedDialer(false, []uint16{80, 443}).Control
	for _, hostile := range hostileAddrs(t) {
		if hostile.addr.IsValid() && isPublic(hostile.addr) {
			t.Errorf("first wall: %s (%s) passes", hostile.addr, hostile.reason)
		}
		if !hostile.addr.IsValid() {
			continue // it has no text
		}
		err := control(family(hostile.addr), netip.AddrPortFrom(hostile.addr, 443).String(), nil)
		blind := strings.HasPrefix(hostile.reason, "ISATAP") && strings.HasPrefix(hostile.addr.String(), "2606:")
		if !blind && !(errors.Is(err, blocked) && errors.Is(err, ssrf.ErrProhibitedIP)) {
			t.Errorf("second wall: %s (%s) passes", hostile.addr, hostile.reason)
		}
	}
	for _, p := range append(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes...) {
		if isPublic(p.Addr()) || isPublic(inBlock(p, 0xFF)) {
			t.Errorf("first wall: %s passes", p)
		}
	}
	for _, p := range notPublic {
		if err := ssrf.New(ssrf.WithDeniedV4Prefixes(azureHost)).SafeAddr(p.Addr()); err == nil {
			t.Errorf("second wall: %s passes", p)
		}
	}
	for _, public := range publicAddrs {
		addr := netip.MustParseAddr(public)
		if err := control(family(addr), netip.AddrPortFrom(addr, 443).String(), nil); err != nil || !isPublic(addr) {
			t.Errorf("%s is refused: %v", public, err)
		}
	}
}

// family is the network as a dialer's Control is told it.
func family(addr netip.Addr) string {
	if addr.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// loopbackForms are what leads back to this machine, and the address to bind.
var loopbackForms = []struct{ bind, dial string }{
	{"127.0.0.1", "127.0.0.1"},
	{"127.0.0.2", "127.0.0.2"},
	{"127.255.255.254", "127.255.255.254"},
	{"::1", "::1"},
	{"::ffff:127.0.0.1", "::ffff:127.0.0.1"},
	{"0.0.0.0", "0.0.0.0"},
	{"0.0.0.0", "127.1.2.3"},
	{"::", "::"},
	{"::", "::ffff:0.0.0.0"},
}

// TestListenersOnLoopbackSeeNothing lets the port of each listener pass, so that
// nothing but the address can be what stops a check, at either wall.
func TestListenersOnLoopbackSeeNothing(t *testing.T) {
	for _, form := range loopbackForms {
		t.Run(form.bind+" by "+form.dial, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(form.bind, "0"))
			if err != nil {
				t.Skip("this system cannot bind it")
			}
			defer l.Close()
			port := uint16(l.Addr().(*net.TCPAddr).Port)
			addr := netip.MustParseAddr(form.dial)
			c := newChecker(Options{Resolver: answers(addr)}, port)
			expectFailure(t, c, fmt.Sprintf("http://page.example.com:%d/", port), blocked)
			expectFailure(t, c, "http://"+netip.AddrPortFrom(addr, port).String()+"/", blocked)
			conn, err := c.dial(t.Context(), "tcp", netip.AddrPortFrom(addr, port).String())
			if !errors.Is(err, blocked) || !errors.Is(err, ssrf.ErrProhibitedIP) {
				t.Errorf("second wall: %v, %v", conn, err)
			}
			c.guard.loopback = true // the first wall's door is open
			expectFailure(t, c, "http://"+netip.AddrPortFrom(addr.Unmap(), port).String()+"/", blocked)
			expectOnly(t, l)
		})
	}
}

// expectOnly makes a connection and fails the test if another one was there before.
func expectOnly(t testing.TB, l net.Listener) {
	t.Helper()
	own, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("the listener saw a connection")
	}
}

func TestHosts(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct {
		host     string
		ordinary failure // unreachable: it was dialled
		loopback failure
	}{
		{"page.example.com", unreachable, unreachable},
		{"PAGE.Example.COM", unreachable, unreachable},
		{"xn--mnchen-3ya.example.com", unreachable, unreachable},
		{"a.xn--p1ai", unreachable, unreachable},
		{long + ".com", unreachable, unreachable},
		{"localhost", blocked, unreachable},
		{"LOCALHOST", blocked, unreachable},
		{"agent.localhost", blocked, unreachable},
		{"127.0.0.1", blocked, unreachable},
		{"127.255.0.9", blocked, unreachable},
		{"[::1]", blocked, unreachable},
		{"[::ffff:127.0.0.1]", blocked, unreachable},
		{"[::1%25lo]", blocked, blocked},
		{"0.0.0.0", blocked, blocked},
		{"[::]", blocked, blocked},
		{"93.184.216.34", blocked, blocked},
		{"10.0.0.1", blocked, blocked},
		{"", blocked, blocked},
		{"intranet", blocked, blocked},
		{"notlocalhost", blocked, blocked},
		{"com", blocked, blocked},
		{"printer.local", blocked, blocked},
		{"metadata.google.internal", blocked, blocked},
		{"router.home.arpa", blocked, blocked},
		{"1.0.0.127.in-addr.arpa", blocked, blocked},
		{"hidden.onion", blocked, blocked},
		{"a.test", blocked, blocked},
		{"a.invalid", blocked, blocked},
		{"nas.lan", blocked, blocked},
		{"db.corp", blocked, blocked},
		{"localhost.localdomain", blocked, blocked},
		{"page.example.com.", blocked, blocked},
		{"localhost.", blocked, blocked},
		{"127.0.0.1.", blocked, blocked},
		{"2130706433", blocked, blocked},
		{"0x7f000001", blocked, blocked},
		{"0x7f.1", blocked, blocked},
		{"0x7f.0x0.0x0.0x1", blocked, blocked},
		{"017700000001", blocked, blocked},
		{"0177.0.0.1", blocked, blocked},
		{"127.1", blocked, blocked},
		{"127.0.1", blocked, blocked},
		{"127.000.000.001", blocked, blocked},
		{"1.2.3.4.5", blocked, blocked},
		{"１２７.0.0.1", blocked, blocked},
		{"①②⑦.0.0.1", blocked, blocked},
		{"127。0。0。1", blocked, blocked},
		{"pagé.example.com", blocked, blocked},
		{"page_1.example.com", blocked, blocked},
		{"-page.example.com", blocked, blocked},
		{"page-.example.com", blocked, blocked},
		{"page..example.com", blocked, blocked},
		{".example.com", blocked, blocked},
		{"page.example.com%00", blocked, blocked},
		{"%31%32%37.0.0.1", blocked, blocked},
		{long + "a.com", blocked, blocked},
		{strings.Repeat(long+".", 4) + "com", blocked, blocked},
		{"page.example.com,127.0.0.1", blocked, blocked},
		{`page.example.com\@127.0.0.1`, blocked, blocked},
	}
	for _, test := range tests {
		for loopback, want := range map[bool]failure{false: test.ordinary, true: test.loopback} {
			d := &dialCounter{}
			c := New(Options{Resolver: answers(netip.MustParseAddr("93.184.216.34")), Dial: d.dial, Loopback: loopback})
			expectFailure(t, c, "http://"+test.host+"/", want)
			if (len(d.dialled) == 1) != (want == unreachable) {
				t.Errorf("%s, loopback %v: dialled %v", test.host, loopback, d.dialled)
			}
		}
	}
}

func TestSchemesPortsAndUserInfo(t *testing.T) {
	tests := []struct {
		page   string
		dialed string // empty: blocked
	}{
		{"http://page.example.com", "93.184.216.34:80"},
		{"HTTPS://page.example.com/", "93.184.216.34:443"},
		{"http://page.example.com:80/", "93.184.216.34:80"},
		{"http://page.example.com:443/", "93.184.216.34:443"},
		{"https://page.example.com:80/", "93.184.216.34:80"},
		{"https://page.example.com:0443/", "93.184.216.34:443"},
		{"https://page.example.com:/", "93.184.216.34:443"},
		{"http://page.example.com:0/", ""},
		{"http://page.example.com:22/", ""},
		{"http://page.example.com:25/", ""},
		{"http://page.example.com:8080/", ""},
		{"https://page.example.com:8443/", ""},
		{"http://page.example.com:6379/", ""},
		{"http://page.example.com:65616/", ""}, // 80 in 16 bits
		{"http://page.example.com:-80/", ""},
		{"http://page.example.com:80x/", ""},
		{"http://user@page.example.com/", ""},
		{"http://user:password@page.example.com/", ""},
		{"http://@page.example.com/", ""},
		{"ftp://page.example.com/", ""},
		{"file:///etc/passwd", ""},
		{"file://page.example.com/etc/passwd", ""},
		{"gopher://page.example.com:80/_", ""},
		{"javascript:alert(1)", ""},
		{"data:text/html," + wanted, ""},
		{"ws://page.example.com/", ""},
		{"unix:///run/docker.sock", ""},
		{"https:page.example.com/", ""},
		{"https:///page.example.com/", ""},
		{"//page.example.com/", ""},
		{"page.example.com", ""},
		{"/page", ""},
		{"", ""},
		{"http://page.example.com/\r\nHost: inner", ""},
		{"http://page.example.com/" + strings.Repeat("a", maxAddressBytes), ""},
		{wanted, ""},
		{"http://CALLBOOK.example.org:0443/", ""},
	}
	for _, test := range tests {
		d := &dialCounter{}
		c := New(Options{Resolver: answers(netip.MustParseAddr("93.184.216.34")), Dial: d.dial})
		want := unreachable
		if test.dialed == "" {
			want = blocked
		}
		expectFailure(t, c, test.page, want)
		if got := strings.Join(d.dialled, " "); got != test.dialed {
			t.Errorf("%.80s: dialled %q, want %q", test.page, got, test.dialed)
		}
	}
}

func TestAnotherPortOfThisHostIsNotTheDirectory(t *testing.T) {
	d := &dialCounter{}
	c := New(Options{Dial: d.dial, Loopback: true})
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
func (n *turningName) expect(t testing.TB, c *Checker, redirects int, want Result, lookups, dials int) {
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

// TestRebindingNeverReachesAnInnerAddress has a name turn to an inner address, or to
// an outer and an inner one in either order, between two checks and between two visits
// of one check. As there is one look-up for each visit, one more between looking and
// dialling would meet the inner address, too.
func TestRebindingNeverReachesAnInnerAddress(t *testing.T) {
	outer := netip.MustParseAddr("1.1.1.1")
	proved, refused := verified("website", "mention"), failed(blocked)
	met := 0 // tries in which an inner address was answered
	for _, hostile := range hostileAddrs(t) {
		if !hostile.addr.IsValid() {
			continue // it is no address
		}
		for _, inner := range [][]netip.Addr{{hostile.addr}, {outer, hostile.addr}, {hostile.addr, outer}} {
			for visits := 1; visits <= maxRedirects+1; visits++ {
				between := &turningName{outer: visits, inner: inner}
				c := New(Options{Resolver: between, Dial: between.dial})
				between.expect(t, c, visits-1, proved, visits, visits)
				between.expect(t, c, visits-1, refused, visits+1, visits)
				if between.lookups > between.outer {
					met++
				}
			}
			for visits := 1; visits <= maxRedirects; visits++ {
				within := &turningName{outer: visits, inner: inner}
				within.expect(t, New(Options{Resolver: within, Dial: within.dial}), visits, refused, visits+1, visits)
				if within.lookups > within.outer {
					met++
				}
			}
			secure, nobody := &turningName{outer: 1, inner: inner}, &dialCounter{}
			c := New(Options{Resolver: secure, Dial: nobody.dial})
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

func TestLookupsThatFail(t *testing.T) {
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
		t.Run(name, func(t *testing.T) {
			resolver := resolverFunc(func(string) ([]netip.Addr, error) { return test.addrs, test.err })
			expectFailure(t, New(Options{Resolver: resolver}), "https://page.example.com/", test.want)
		})
	}
}

// The search list of this machine must not make an inner name of a public one.
func TestSystemResolverIsAskedForTheNameAsItStands(t *testing.T) {
	asked := make(chan string, 1)
	system := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		select {
		case asked <- "":
		default:
		}
		return nil, errors.New("no server")
	}}
	_, err := rooted{system}.LookupNetIP(t.Context(), "ip", "page.example.com")
	dnsError, ok := errors.AsType[*net.DNSError](err)
	if !ok || dnsError.Name != "page.example.com." || len(asked) != 1 {
		t.Errorf("asked for %v", err)
	}
	if c := New(Options{}); c.guard.resolver != (rooted{net.DefaultResolver}) {
		t.Errorf("the resolver is %v", c.guard.resolver)
	}
}

// What a hostile resolver does with its slice later must not matter.
func TestAnswersAreCopied(t *testing.T) {
	given := []netip.Addr{netip.MustParseAddr("::ffff:93.184.216.34")}
	g := guard{resolver: answers(given...), ports: []uint16{443}}
	if _, err := g.resolve(t.Context(), &url.URL{Scheme: "https", Host: "page.example.com"}); err != nil {
		t.Fatal(err)
	}
	if !given[0].Is4In6() {
		t.Error("the resolver's own answer was changed")
	}
}
