package systemd

import (
	"cmp"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rules are the networks that a unit allows and denies.
type Rules struct{ allow, deny []netip.Prefix }

// Installed returns the name of the unit of the service, and the address rules in it and its drop-ins; an empty name if
// there is none.
func Installed(folders []string) (name string, rules Rules) {
	for _, folder := range folders {
		file := filepath.Join(folder, "callbook.service")
		if text, err := os.ReadFile(file); err == nil && name == "" {
			name = file
			rules.add(string(text))
		}
	}
	for _, folder := range folders {
		dropIns, _ := filepath.Glob(filepath.Join(folder, "callbook.service.d", "*.conf"))
		for _, file := range dropIns {
			text, _ := os.ReadFile(file)
			rules.add(string(text))
		}
	}
	return name, rules
}

// addressNames are the names of networks in a unit; see systemd.resource-control(5).
var addressNames = map[string]string{
	"any": "0.0.0.0/0 ::/0", "localhost": "127.0.0.0/8 ::1/128", "link-local": "169.254.0.0/16 fe80::/64", "multicast": "224.0.0.0/4 ff00::/8",
}

// add adds the rules of a unit or drop-in. An empty value removes those before it.
func (r *Rules) add(unit string) {
	for line := range strings.Lines(unit) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		list := map[string]*[]netip.Prefix{"IPAddressAllow": &r.allow, "IPAddressDeny": &r.deny}[strings.TrimSpace(key)]
		if list == nil {
			continue
		}
		if strings.TrimSpace(value) == "" {
			*list = nil
		}
		for _, word := range strings.Fields(value) {
			for _, network := range strings.Fields(cmp.Or(addressNames[word], word)) {
				if addr, err := netip.ParseAddr(network); err == nil {
					network = netip.PrefixFrom(addr, addr.BitLen()).String()
				}
				if prefix, err := netip.ParsePrefix(network); err == nil {
					*list = append(*list, prefix)
				}
			}
		}
	}
}

// Denies reports whether the unit denies an address. What it allows takes precedence.
func (r *Rules) Denies(addr netip.Addr) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	return slices.ContainsFunc(r.deny, contains) && !slices.ContainsFunc(r.allow, contains)
}
