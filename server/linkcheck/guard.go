package linkcheck

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard is the first wall: it says which socket address, if any, stands for a URL.
type guard struct {
	resolver Resolver
	loopback bool
	ports    []uint16 // other than on loopback
}

// rooted asks the system for a name as it stands. Without the dot at its end, the
// search list of the machine's network could make an inner name of it.
type rooted struct{ *net.Resolver }

func (r rooted) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return r.Resolver.LookupNetIP(ctx, network, host+".")
}

// resolve returns the one address to dial for a URL. Its error is blocked if any
// of the addresses is refused.
func (g guard) resolve(ctx context.Context, at *url.URL) (netip.AddrPort, error) {
	port, err := strconv.ParseUint(portOf(at), 10, 16)
	if err != nil {
		return netip.AddrPort{}, blocked
	}
	addrs, err := g.lookup(ctx, at.Hostname())
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i, addr := range addrs {
		// The system's resolver itself writes IPv4 answers as mapped ones.
		addrs[i] = addr.Unmap()
		if !g.permits(addrs[i], uint16(port)) {
			return netip.AddrPort{}, blocked
		}
	}
	return netip.AddrPortFrom(addrs[0], uint16(port)), nil
}

// lookup returns one address or more, which permits has yet to see. Of hosts that
// are no name in the public DNS it knows those of loopback alone.
func (g guard) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if isLoopback(addr) {
			return []netip.Addr{addr}, nil
		}
		return nil, blocked
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	if !isPublicName(host) {
		return nil, blocked
	}
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", unreachable, err)
	}
	if len(addrs) == 0 {
		return nil, unreachable
	}
	return slices.Clone(addrs), nil
}

func (g guard) permits(addr netip.Addr, port uint16) bool {
	if g.loopback && isLoopback(addr) {
		return true
	}
	return slices.Contains(g.ports, port) && isPublic(addr)
}

func isLoopback(addr netip.Addr) bool {
	return addr.IsLoopback() && addr.Zone() == ""
}

// guardedDialer is the second wall.
func guardedDialer(loopback bool, ports []uint16) *net.Dialer {
	wall := ssrf.New(ssrf.WithPorts(ports...), ssrf.WithDeniedV4Prefixes(azureHost))
	return &net.Dialer{Control: func(network, address string, conn syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err == nil && loopback && isLoopback(addr.Addr()) {
			return nil
		}
		if err := wall.Safe(network, address, conn); err != nil {
			return fmt.Errorf("%w: %w", blocked, err)
		}
		return nil
	}}
}

// publicName is an ASCII host name of two labels or more. All top-level domains
// begin with a letter, so no spelling of an IPv4 address (127.1, 0x7f.0x1) is one.
var publicName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+([a-z]([a-z0-9-]{0,61}[a-z0-9])?)$`)

// innerDomains are top-level domains that the public DNS does not have and private
// networks use: reserved by RFC 6761 and its followers, or never to be delegated.
var innerDomains = []string{
	"alt", "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local",
	"localdomain", "localhost", "mail", "onion", "private", "test",
}

func isPublicName(host string) bool {
	parts := publicName.FindStringSubmatch(host)
	return parts != nil && len(host) <= 253 && !slices.Contains(innerDomains, parts[3])
}

// azureHost answers a virtual machine of that provider with its metadata and
// settings. Outside of one it is an ordinary address that serves no pages.
var azureHost = netip.MustParsePrefix("168.63.129.16/32")

// globalUnicast is all that IANA hands out of IPv6. So loopback, mapped,
// v4-compatible, NAT64, discard, segment routing, local and multicast addresses
// are refused without being named.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// notPublic are the exceptions: IANA's special-purpose registries, with what was
// withdrawn, whether or not a part of a block may be reached globally.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // shared with the provider (CGNAT)
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link local, with most clouds' metadata
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.31.196.0/24"), // AS112
	netip.MustParsePrefix("192.52.193.0/24"), // multicast tunnels
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays, withdrawn
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("192.175.48.0/24"), // AS112
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/3"),     // multicast, reserved, broadcast
	azureHost,
	netip.MustParsePrefix("2001::/23"),         // protocol assignments: Teredo, benchmarks, ORCHID
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

// isPublic reports whether addr is a public unicast address: of IPv4, or of 2000::/3,
// without the exceptions. An IPv4 address written as IPv6 in any way is not, and
// neither is one with a zone, which no prefix contains.
func isPublic(addr netip.Addr) bool {
	if !addr.IsValid() || isISATAP(addr) {
		return false
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isISATAP reports whether the lower half of addr is that of a tunnel (RFC 5214),
// whose last 32 bits are the IPv4 address of a site's inner network.
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	return addr.Is6() && b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// portOf returns the port of a URL, also where it is not written, and in one way
// where it is (:0443).
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return strings.TrimLeft(u.Port(), "0")
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}
