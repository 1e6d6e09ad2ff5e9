package documents

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// CardType is the media type of a server card.
const CardType = "application/mcp-server-card+json"

// ServerCard describes the MCP endpoint for clients that have not connected to it yet. It names no
// tools: clients list them. Its format is the extension io.modelcontextprotocol/server-card
// (SEP-2127), version 1.
func (s Site) ServerCard() string { return s.render("server-card.json") }

// Namespace returns the host of the site as the namespace of a name, such as org.example.callbook;
// local for an address without a domain in ASCII.
func (s Site) Namespace() string {
	u, err := url.Parse(s.BaseURL)
	if err != nil {
		return "local"
	}

	host := strings.TrimSuffix(u.Hostname(), ".")
	isForeign := func(c rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-", c|' ') }
	if _, err := netip.ParseAddr(host); err == nil || host == "" ||
		strings.ContainsFunc(host, isForeign) {
		return "local"
	}

	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
