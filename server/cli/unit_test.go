package cli

import (
	"strings"
	"testing"
)

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
