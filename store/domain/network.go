package domain

import "net/netip"

// networkBits are the lengths of the IPv6 networks that one customer of a provider may have.
var networkBits = [...]int{64, 56, 48}

// Networks returns the networks of a client, the smallest first: an IPv4 address by itself, or
// the /64, /56 and /48 of an IPv6 address. A limit of a shared resource counts the client in
// each of them. It returns none for an invalid address.
func Networks(addr netip.Addr) []netip.Prefix {
	addr = addr.Unmap().WithZone("")
	if !addr.IsValid() {
		return nil
	}
	if addr.Is4() {
		return []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}
	}
	networks := make([]netip.Prefix, len(networkBits))
	for i, bits := range networkBits {
		networks[i] = netip.PrefixFrom(addr, bits).Masked()
	}
	return networks
}

// Share is how much of a resource each network of a client may use: an IPv4 address or an IPv6
// /64, a /56, and a /48.
type Share [len(networkBits)]int
