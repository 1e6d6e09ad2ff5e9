package middleware

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"callbook/store/domain"
)

// TrustedProxies are the networks whose X-Forwarded-For header is trusted.
type TrustedProxies []netip.Prefix

// ParseTrustedProxies parses addresses and networks such as 127.0.0.1 or 10.0.0.0/8.
func ParseTrustedProxies(texts []string) (TrustedProxies, error) {
	var proxies TrustedProxies
	for _, text := range texts {
		network, err := domain.ParseNetwork(text)
		if err != nil {
			return nil, errors.New("--trusted-proxy: give an address such as 127.0.0.1, " +
				"without a zone, or a network such as 10.0.0.0/8")
		}

		proxies = append(proxies, network)
	}

	return proxies, nil
}

// contain reports whether an address is trusted, whatever its zone.
func (t TrustedProxies) contain(addr netip.Addr) bool {
	addr = addr.WithZone("")
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ClientAddress returns the address of the client. X-Forwarded-For counts only if the peer is a
// trusted proxy; then the last untrusted address in it is the client.
func ClientAddress(r *http.Request, trusted TrustedProxies) netip.Addr {
	// The peer of a Unix socket has no address. It is a proxy on this machine that may use the
	// socket, and trusted.
	addr := thisMachine
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		addr = peer.Addr().Unmap()
		if !trusted.contain(addr) {
			return addr
		}
	}

	// Each proxy appends the address of its own client. What is before the entries of trusted
	// proxies was sent by the client itself.
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := parseHop(strings.TrimSpace(hops[i]))
		if err != nil {
			return addr // entries before an invalid one are not to be trusted
		}

		addr = hop.Unmap().WithZone("")
		if !trusted.contain(addr) {
			return addr
		}
	}

	return addr
}

// thisMachine is the address of clients without one.
var thisMachine = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// parseHop parses an address in X-Forwarded-For: some proxies add the port.
func parseHop(text string) (netip.Addr, error) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr(), nil
	}
	return netip.ParseAddr(strings.Trim(text, "[]"))
}
