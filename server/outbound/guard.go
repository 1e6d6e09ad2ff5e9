package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	defaultTimeout = 10 * time.Second
	maxHeaderBytes = 16 << 10
)

// Resolver is the part of net.Resolver that the package uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Options configures the requests to other servers. The zero value is ready for use.
type Options struct {
	// Resolver resolves names; nil means the system's.
	Resolver Resolver
	// Dial opens connections, for tests; nil means a dialer that checks each socket's address.
	Dial dialFunc
	// Blocked reports whether a host must not be requested; nil blocks none.
	Blocked func(host string) bool
	// Loopback allows loopback addresses as well, on any port.
	Loopback bool
	// UserAgent should say where the service is found; empty means "callbook".
	UserAgent string
	// Timeout limits a whole check; 0 means 10 seconds.
	Timeout time.Duration
	// Roots are the certificate authorities; nil means the system's.
	Roots *x509.CertPool
}

// guard connects only to the socket addresses that requests to other servers may reach.
type guard struct {
	Options // with defaults
	public  *ssrf.Guardian
}

func newGuard(o Options) guard {
	g := guard{o, ssrf.New(ssrf.WithDeniedV4Prefixes(azureHost))}
	g.UserAgent = cmp.Or(o.UserAgent, "callbook")
	g.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if g.Resolver == nil {
		g.Resolver = net.DefaultResolver
	}

	if g.Dial == nil {
		g.Dial = (&net.Dialer{Control: g.control}).DialContext
	}

	return g
}

// NewTransport returns a transport that connects only to addresses that a check may connect to.
func NewTransport(o Options) *http.Transport { return newGuard(o).newTransport() }

func (g guard) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // it would resolve names by itself
		DialContext:            g.dialContext,
		TLSClientConfig:        &tls.Config{RootCAs: g.Roots, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:    g.Timeout,
		DisableKeepAlives:      true, // a new connection is a new check, and is never retried
		DisableCompression:     true, // limits apply to the bytes sent
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// dialContext implements http.Transport.DialContext: it connects to a checked address of the host.
func (g guard) dialContext(ctx context.Context, network, hostPort string) (net.Conn, error) {
	// The transport dials on after the request has ended, so the dial has its own limit.
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()

	addr, err := g.resolve(ctx, hostPort)
	if err != nil {
		return nil, err
	}

	return g.Dial(ctx, network, addr.String())
}

// noRedirect implements http.Client.CheckRedirect: it returns the redirect as the response.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// azureHost serves metadata and settings to the virtual machines of that provider. Elsewhere it is
// an ordinary public address that serves no pages.
var azureHost = netip.MustParsePrefix("168.63.129.16/32")

// check returns blocked unless the address may be dialled: a public unicast one on port 80 or 443.
func (g guard) check(at netip.AddrPort) error {
	addr := at.Addr()

	// An IPv4 address inside an IPv6 one (mapped, NAT64, 6to4, Teredo, ISATAP) can be a private one.
	// ssrf rejects all of these but ISATAP and the zero Addr.
	switch {
	case g.Loopback && addr.IsLoopback() && addr.Zone() == "":
		return nil

	case !addr.IsValid() || isISATAP(addr) || g.public.SafeAddrPort(at) != nil:
		return blocked
	}

	return nil
}

// blocks reports whether no request may go to a host, whatever its addresses.
func (g guard) blocks(host string) bool { return g.Blocked != nil && g.Blocked(host) }

// isISATAP reports whether the lower half of addr is that of a tunnel (RFC 5214), whose last 32 bits
// are an IPv4 address of a site's inner network.
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	return addr.Is6() && b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// control implements net.Dialer.Control. It checks the address of the socket just before it is
// connected.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return blocked
	}
	return g.check(at)
}

// resolve returns the one address to dial for a host and port. The name is not resolved again, so
// that a second, different response of its DNS server has no effect.
func (g guard) resolve(ctx context.Context, hostPort string) (netip.AddrPort, error) {
	host, service, _ := net.SplitHostPort(hostPort) // as the transport joined them
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || g.blocks(host) {
		return netip.AddrPort{}, blocked
	}

	addrs, err := g.lookup(ctx, host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if len(addrs) == 0 {
		return netip.AddrPort{}, unreachable
	}

	// One blocked address blocks the host: a private one beside public ones is an attack or a
	// mistake.
	for _, addr := range addrs {
		// The system's resolver writes IPv4 addresses as mapped ones.
		if err := g.check(netip.AddrPortFrom(addr.Unmap(), uint16(port))); err != nil {
			return netip.AddrPort{}, err
		}
	}

	return netip.AddrPortFrom(addrs[0].Unmap(), uint16(port)), nil
}

// lookup returns the addresses of a host.
func (g guard) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}

	// RFC 6761 reserves these names for this machine, whatever a DNS server responds.
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}

	return g.Resolver.LookupNetIP(ctx, "ip", host)
}
