// Package text validates and normalizes texts that come from outside: pure functions
// without state.
package text

import (
	"net/netip"
	"strings"
)

// Limits of RFC 1035 for host names, in bytes.
const (
	maxHostBytes  = 253
	maxLabelBytes = 63
)

// IsHostName reports whether s is an ASCII host name of two labels or more. The last one
// must begin with a letter: all top-level domains do, and so no spelling of an IPv4
// address (127.1, 0x7f.0x1) is a name.
func IsHostName(s string) bool {
	dot := strings.LastIndexByte(s, '.')
	if len(s) > maxHostBytes || dot < 0 || dot == len(s)-1 || !isLetter(s[dot+1]) {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isLabel(s string) bool {
	if s == "" || len(s) > maxLabelBytes || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && !isLetter(c) && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// IsLoopback reports whether a host, without port and brackets, names this machine by
// itself: localhost, a name below it, or a loopback address. It resolves nothing.
func IsLoopback(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
