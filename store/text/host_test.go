package text

import (
	"strings"
	"testing"
)

func TestIsHostName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, want := range map[string]bool{
		"example.org": true, "a.b-c.Example.ORG": true, "xn--6orv52d.example.org": true, "4.example.org": true, long + ".org": true,
		"": false, "localhost": false, "example.org.": false, ".org": false, "a..org": false, "-a.org": false, "a-.org": false,
		"a_b.org": false, "*.example.org": false, "港口.example.org": false, "example.org:443": false, "example.o/g": false,
		"203.0.113.5": false, "127.1": false, "0x7f.0x1": false, "::1": false, long + "a.org": false,
		strings.Repeat(long+".", 4) + "org": false,
	} {
		if got := IsHostName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "localhost.": true, "callbook.localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example.org": false, "notlocalhost": false, "127.1": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "127.example.org": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
