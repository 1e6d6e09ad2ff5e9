package command

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheUnitLetsTheNameServerThrough: what the unit forbids must not cut the machine off
// from the name server that it has.
func TestTheUnitLetsTheNameServerThrough(t *testing.T) {
	t.Parallel()
	for outcome, test := range map[string]struct {
		resolver string
		allowed  []string
	}{
		"none named":              {"", nil},
		"the machine itself":      {"nameserver 127.0.0.53\noptions edns0 trust-ad\n", nil},
		"public ones":             {"nameserver 9.9.9.9\nnameserver 2620:fe::fe\n", nil},
		"of a cloud":              {"search internal\nnameserver 169.254.169.253\n", []string{"169.254.169.253"}},
		"of a private network":    {"nameserver\t10.0.0.2\nnameserver 192.168.1.1", []string{"10.0.0.2", "192.168.1.1"}},
		"of a provider's network": {"nameserver 100.100.2.136", []string{"100.100.2.136"}},
		"a private one beside":    {"nameserver 1.1.1.1\nnameserver 172.31.0.2\n", []string{"172.31.0.2"}},
		"link-local with a zone":  {"nameserver fe80::1%eth0\n", []string{"fe80::1"}},
		"unique local":            {"nameserver fd00::53\n", []string{"fd00::53"}},
		"mapped":                  {"nameserver ::ffff:10.0.0.2\n", []string{"10.0.0.2"}},
		"named twice":             {"nameserver 10.0.0.2\nnameserver 10.0.0.2\n", []string{"10.0.0.2"}},
		"one that begins alike":   {"nameserver 10.0.0.1\nnameserver 10.0.0.12\n", []string{"10.0.0.1", "10.0.0.12"}},
		"commented out":           {"#nameserver 10.0.0.2\n; nameserver 10.0.0.3\n# nameserver 10.0.0.4\n", nil},
		"no address":              {"nameserver\nnameserver example.org\nnameserver 10.0.0\n", nil},
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			unit := allowNameServers(serviceUnit, test.resolver)
			var allowed, rest []string
			for line := range strings.Lines(unit) {
				name, ours := strings.CutPrefix(strings.TrimSpace(line), "IPAddressAllow=")
				switch {
				case ours && name != "localhost":
					allowed = append(allowed, name)
				case !strings.Contains(line, resolverFile+" named when"):
					rest = append(rest, line)
				}
			}
			if diff := cmp.Diff(test.allowed, allowed); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
			if strings.Join(rest, "") != serviceUnit {
				t.Errorf("the unit is changed beyond that:\n%s", unit)
			}
			_, after, _ := strings.Cut(unit, "\nIPAddressAllow=localhost\n")
			if len(allowed) > 0 && !strings.HasPrefix(after, "# ") {
				t.Errorf("nothing says whence the addresses are:\n%s", after)
			}
		})
	}
}
