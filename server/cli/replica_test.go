package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"callbook/server"
)

func TestReplicaFlags_AreChecked(t *testing.T) {
	const primary = "--primary=https://directory.example.org"
	for name, tt := range map[string]struct {
		args []string
		want string // part of the error
		is   server.Replica
	}{
		"none":                         {nil, "", server.Replica{}},
		"no primary":                   {[]string{"--read-only"}, "set --primary", server.Replica{}},
		"not read-only":                {[]string{primary}, "--primary needs --read-only", server.Replica{}},
		"read-only":                    {[]string{"--read-only", primary}, "", server.Replica{Primary: "https://directory.example.org", MaxLag: 5 * time.Minute}},
		"with a limit":                 {[]string{"--read-only", primary, "--max-lag=90s"}, "", server.Replica{Primary: "https://directory.example.org", MaxLag: 90 * time.Second}},
		"no URL":                       {[]string{"--read-only", "--primary=directory"}, "--primary: ", server.Replica{}},
		"no time":                      {[]string{"--read-only", primary, "--max-lag=0s"}, "--max-lag: ", server.Replica{}},
		"ignored: the operator's page": {[]string{"--read-only", primary, "--operator-addr=127.0.0.1:8081"}, "", server.Replica{Primary: "https://directory.example.org", MaxLag: 5 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseServe(t, "", tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			p, err := c.plan(zerolog.Nop())
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if err == nil && (p.server.Replica != tt.is || p.store.ReadOnly != (tt.is.Primary != "")) {
				t.Errorf("%+v, read-only: %t", p.server.Replica, p.store.ReadOnly)
			}
			if tt.is.Primary == "" {
				return
			}
			if n := len(c.endpoints(nil)); n != 1 {
				t.Errorf("%d listeners", n)
			}
			if bytes := c.maxBytes(zerolog.Nop()); bytes != 0 {
				t.Errorf("a limit of %d bytes", bytes)
			}
		})
	}
}
