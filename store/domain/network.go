package domain

import (
	"fmt"
	"net/netip"
)

// networkBits are the lengths of the IPv6 networks that one customer of a provider may have.
var networkBits = [...]int{64, 56, 48}

// Networks returns the networks of a client, the smallest first: an IPv4 address by itself, or
// the /64, /56 and /48 of an IPv6 address. A limit of a shared resource counts the client in
// each of them. It returns none for an invalid address.
func Networks(addr netip.Addr) []netip.Prefix {
	smallest := SmallestNetwork(addr)
	if !smallest.IsValid() {
		return nil
	}

	networks := []netip.Prefix{smallest}
	if smallest.Addr().Is6() {
		for _, bits := range networkBits[1:] {
			networks = append(networks, netip.PrefixFrom(smallest.Addr(), bits).Masked())
		}
	}

	return networks
}

// IsWithinCustomer reports whether one of Networks is a part of the last of them.
func IsWithinCustomer(network netip.Prefix) bool {
	return network.Addr().Is6() && network.Bits() > networkBits[len(networkBits)-1]
}

// SmallestNetwork returns the first of Networks, which one person usually has, or the zero Prefix.
func SmallestNetwork(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("") // one client may be written in several ways
	bits := addr.BitLen()
	if addr.Is6() {
		bits = networkBits[0]
	}

	network, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}

	return network
}

// Origin returns the name of the network that a client registers from, of which the pseudonym is
// stored: the widest one, since a home line has many small ones. It returns the empty string for
// an invalid address.
func Origin(client netip.Addr) string {
	networks := Networks(client)
	if len(networks) == 0 {
		return ""
	}
	return "registration\x00" + networks[len(networks)-1].String()
}

// Share is how much of a resource each network of a client may use: an IPv4 address or an IPv6
// /64, a /56, and a /48.
type Share [len(networkBits)]int

// mappedBits is the length of the prefix of all IPv4 addresses that are written as IPv6.
const mappedBits = 96

// ParseNetwork parses an address without a zone, or a network such as 10.0.0.0/8. An IPv4 network
// that is written as IPv6 becomes one of IPv4, as addresses of clients are compared.
func ParseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	addr, addrErr := netip.ParseAddr(text)
	if addrErr == nil && addr.Zone() == "" {
		network, err = addr.Prefix(addr.BitLen())
	}
	if err == nil && network.Addr().Is4In6() {
		// A network that holds other addresses as well has a negative length, and is an error.
		network, err = network.Addr().Unmap().Prefix(network.Bits() - mappedBits)
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("parse a network: %w", err)
	}

	return network.Masked(), nil
}
