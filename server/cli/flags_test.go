package cli

import (
	"maps"
	"testing"

	"github.com/alecthomas/kong"

	"callbook/server"
	"callbook/store/domain"
)

// TestFlags_DefaultsAreThoseOfThePackages compares the numbers in the tags of the flags.
func TestFlags_DefaultsAreThoseOfThePackages(t *testing.T) {
	var c commands
	parser, err := kong.New(&c)
	if err == nil {
		_, err = parser.Parse(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	limits, quotas := c.Serve.limits()
	for name, same := range map[string]bool{
		"rate limits": maps.Equal(limits, server.DefaultLimits), "quotas": quotas == domain.DefaultQuotas,
		"mails": *c.Serve.caps() == domain.DefaultMailCaps, "agents of an owner": c.Serve.OwnerAgents == domain.DefaultOwnerAgents,
	} {
		if !same {
			t.Errorf("other %s", name)
		}
	}
}
