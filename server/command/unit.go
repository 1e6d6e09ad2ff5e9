package command

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
)

//go:embed callbook.service
var serviceUnit string

//go:embed callbook.socket
var socketUnit string

// unitCommand prints what systemd needs, so that the program is the only file to
// copy to a server.
type unitCommand struct {
	Socket bool `env:"-" help:"Print callbook.socket instead: systemd keeps the addresses open while the service restarts."`
}

// resolverFile names the name servers of the machine.
const resolverFile = "/etc/resolv.conf"

func (c unitCommand) Run(console *console) error {
	if c.Socket {
		_, err := fmt.Fprint(console.out, socketUnit)
		return err
	}
	resolver, err := os.ReadFile(resolverFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the name servers: %w", err)
	}
	_, err = fmt.Fprint(console.out, allowNameServers(serviceUnit, string(resolver)))
	return err
}

// allowNameServers lets the service reach the name servers that it would be kept from:
// those of most cloud machines have a private or link-local address.
func allowNameServers(unit, resolver string) string {
	const last = "IPAddressAllow=localhost\n"
	denied := deniedRanges(unit)
	allowed := ""
	for _, server := range nameServers(resolver) {
		line := fmt.Sprintf("IPAddressAllow=%s\n", server)
		in := func(denied netip.Prefix) bool { return denied.Contains(server) }
		if slices.ContainsFunc(denied, in) && !strings.Contains(allowed, line) {
			allowed += line
		}
	}
	if allowed == "" {
		return unit
	}
	return strings.Replace(unit, last, last+"# The name server that "+resolverFile+" named when this was printed.\n"+allowed, 1)
}

// nameServers are those that a resolv.conf names (resolv.conf(5)), without zones, which
// systemd's lists of addresses do not have.
func nameServers(resolver string) (servers []netip.Addr) {
	for line := range strings.Lines(resolver) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if server, err := netip.ParseAddr(words[1]); err == nil {
			servers = append(servers, server.Unmap().WithZone(""))
		}
	}
	return servers
}

// namedRanges are the names that the unit uses for addresses (systemd.resource-control(5)).
var namedRanges = map[string][]string{
	"link-local": {"169.254.0.0/16", "fe80::/64"},
	"multicast":  {"224.0.0.0/4", "ff00::/8"},
}

// deniedRanges are the addresses that a unit denies.
func deniedRanges(unit string) (denied []netip.Prefix) {
	_, list, _ := strings.Cut(unit, "\nIPAddressDeny=")
	list, _, _ = strings.Cut(list, "\n")
	for _, word := range strings.Fields(list) {
		ranges, named := namedRanges[word]
		if !named {
			ranges = []string{word}
		}
		for _, r := range ranges {
			denied = append(denied, netip.MustParsePrefix(r))
		}
	}
	return denied
}
