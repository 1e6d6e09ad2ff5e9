// Package text validates and normalizes texts that come from outside: pure functions
// without state.
package text

import (
	"net/netip"
	"regexp"
	"strings"
)

// maxHostBytes is the limit of RFC 1035 for host names.
const maxHostBytes = 253

// hostName matches labels of at most 63 bytes (RFC 1035). The last one must begin with a letter:
// all top-level domains do, and so no spelling of an IPv4 address (127.1, 0x7f.0x1) is a name.
var hostName = regexp.MustCompile(
	strings.ReplaceAll(
		`^([A-Za-z0-9]REST\.)+[A-Za-z]REST$`,
		"REST",
		`([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`,
	),
)

// IsHostName reports whether s is an ASCII host name of two labels or more.
func IsHostName(s string) bool { return len(s) <= maxHostBytes && hostName.MatchString(s) }

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
