package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

//go:embed callbook.service
var serviceUnit string

//go:embed callbook.socket
var socketUnit string

// unitCommand prints the units of systemd. They are a part of the program, so that it is the only file
// to copy to a server.
type unitCommand struct {
	Socket bool `env:"-" help:"Print callbook.socket instead: systemd keeps the addresses open while the service restarts."`
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

// allowNameServers adds the name servers of resolv.conf to the addresses that the service may reach.
func allowNameServers(unit, resolver string) string {
	// The name servers of many cloud machines have a private or link-local address, which the unit
	// denies. To allow a public one changes nothing.
	const last = "IPAddressAllow=localhost\n"
	allowed := ""
	for line := range strings.Lines(resolver) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}

		if server, err := netip.ParseAddr(words[1]); err == nil && !server.IsLoopback() {
			// Systemd takes no zones.
			allowed += fmt.Sprintf("IPAddressAllow=%s\n", server.Unmap().WithZone(""))
		}
	}

	if allowed == "" {
		return unit
	}

	comment := "# The name servers of " + resolvConf + " when this was printed.\n"
	return strings.Replace(unit, last, last+comment+allowed, 1)
}
