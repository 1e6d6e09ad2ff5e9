package cli

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed callbook.service
var serviceUnit string

//go:embed callbook.socket
var socketUnit string

// unitCommand prints the units of systemd, so that the program is the only file to copy to a server.
type unitCommand struct {
	Socket bool `env:"-" help:"Print callbook.socket instead: systemd keeps the addresses open while the service restarts."`
}

// unitFolders are where systemd finds units, the first that has one first.
var unitFolders = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// addressRules are the networks that a unit allows and denies.
type addressRules struct{ allow, deny []netip.Prefix }

// installedUnit returns the name of the unit of the service, and the address rules in it and its drop-ins; an empty name if
// there is none.
func installedUnit(folders []string) (name string, rules addressRules) {
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
func (r *addressRules) add(unit string) {
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

// denies reports whether the unit denies an address. What it allows takes precedence.
func (r *addressRules) denies(addr netip.Addr) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	return slices.ContainsFunc(r.deny, contains) && !slices.ContainsFunc(r.allow, contains)
}

const resolvConf = "/etc/resolv.conf"

// Run implements the command.
func (c unitCommand) Run(console *console) error {
	unit := socketUnit
	if !c.Socket {
		resolver, err := os.ReadFile(resolvConf)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the name servers: %w", err)
		}
		unit = allowNameServers(serviceUnit, string(resolver))
	}
	_, err := fmt.Fprint(console.out, unit)
	return err
}

// allowNameServers adds the name servers of resolv.conf to the addresses that the service may reach. Those of many
// cloud machines have a private or link-local address, which the unit denies; allowing a public one changes nothing.
func allowNameServers(unit, resolver string) string {
	const last = "IPAddressAllow=localhost\n"
	allowed := ""
	for line := range strings.Lines(resolver) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if server, err := netip.ParseAddr(words[1]); err == nil && !server.IsLoopback() {
			allowed += fmt.Sprintf("IPAddressAllow=%s\n", server.Unmap().WithZone("")) // systemd takes no zones
		}
	}
	if allowed == "" {
		return unit
	}
	return strings.Replace(unit, last, last+"# The name servers of "+resolvConf+" when this was printed.\n"+allowed, 1)
}
