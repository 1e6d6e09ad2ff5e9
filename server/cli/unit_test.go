package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck_ReportsAMailServerThatTheUnitDenies also by drop-ins, and says which line allows it.
func TestCheck_ReportsAMailServerThatTheUnitDenies(t *testing.T) {
	defer func(folders []string) { unitFolders = folders }(unitFolders)
	for name, tt := range map[string]struct {
		unit, dropIn, server, want string
	}{
		"no unit":                      {"", "", "10.1.2.3", ""},
		"a private address":            {serviceUnit, "", "10.1.2.3:25", "IPAddressAllow=10.1.2.3 "},
		"a private IPv6 address":       {serviceUnit, "", "[fd00::25]:25", "IPAddressAllow=fd00::25 "},
		"a link-local address":         {serviceUnit, "", "169.254.1.2", "IPAddressAllow=169.254.1.2 "},
		"this machine":                 {serviceUnit, "", "127.0.0.1", ""},
		"a public address":             {serviceUnit, "", "192.0.2.25", ""},
		"allowed by a drop-in":         {serviceUnit, "[Service]\nIPAddressAllow = 10.1.2.3 10.9.0.0/16\n", "10.1.2.3", ""},
		"denied by a drop-in":          {serviceUnit, "[Service]\nIPAddressDeny=any\n", "192.0.2.25", "IPAddressAllow=192.0.2.25 "},
		"no rules left by the drop-in": {serviceUnit, "[Service]\nIPAddressDeny=\n", "10.1.2.3", ""},
	} {
		folder := t.TempDir()
		unitFolders = []string{filepath.Join(folder, "none"), folder}
		if tt.unit != "" {
			dropIns := filepath.Join(folder, "callbook.service.d")
			noError(t, os.Mkdir(dropIns, 0o700))
			write(t, filepath.Join(folder, "callbook.service"), tt.unit, 0o600)
			write(t, filepath.Join(dropIns, "override.conf"), tt.dropIn, 0o600)
		}
		var out strings.Builder
		c, f := &checkCommand{}, &findings{out: &out}
		c.Mail = "smtp://" + tt.server
		c.checkMailAddress(t.Context(), f)
		if got := out.String(); (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestUnit_AllowsTheNameServers(t *testing.T) {
	const comment = "# The name servers of /etc/resolv.conf when this was printed.\n"
	for outcome, tt := range map[string]struct{ resolver, want string }{
		"none named":         {"", ""},
		"the machine itself": {"nameserver 127.0.0.53\nnameserver ::1\noptions edns0 trust-ad\n", ""},
		"no address":         {"nameserver\nnameserver example.org\nnameserver 10.0.0\n#nameserver 10.0.0.2\n; nameserver 10.0.0.3\n# nameserver 10.0.0.4\n", ""},
		"of a cloud":         {"search internal\nnameserver 169.254.169.253\n", comment + "IPAddressAllow=169.254.169.253\n"},
		"several":            {"nameserver\t10.0.0.2\nnameserver fd00::53", comment + "IPAddressAllow=10.0.0.2\nIPAddressAllow=fd00::53\n"},
		"with a zone":        {"nameserver fe80::1%eth0\n", comment + "IPAddressAllow=fe80::1\n"},
		"mapped":             {"nameserver ::ffff:10.0.0.2\n", comment + "IPAddressAllow=10.0.0.2\n"},
	} {
		const last = "\nIPAddressAllow=localhost\n"
		if got, want := allowNameServers(serviceUnit, tt.resolver), strings.Replace(serviceUnit, last, last+tt.want, 1); got != want {
			t.Errorf("%s:\n%s", outcome, got)
		}
	}
}
