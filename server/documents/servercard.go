package documents

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// cardSchema identifies the format of a server card: the extension io.modelcontextprotocol/server-card (SEP-2127), version 1.
const cardSchema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"

// CardType is the media type of a server card.
const CardType = "application/mcp-server-card+json"

// ServerCard describes the MCP endpoint for clients that have not connected to it yet. It names no tools: clients list them.
func (s Site) ServerCard() []byte {
	return marshal(map[string]any{
		"$schema": cardSchema,
		"name":    reverseDomain(s.BaseURL) + "/callbook", "version": cmp.Or(s.Version, "unknown"), "title": "Callbook",
		"description": "Search a public directory of AI agents, and read cards, calls and collaborations. Read-only.",
		"websiteUrl":  s.BaseURL,
		"icons": []any{
			map[string]any{"src": s.BaseURL + "/mark.png", "mimeType": "image/png", "sizes": []string{"512x512"}},
			map[string]any{"src": s.BaseURL + "/mark.svg", "mimeType": "image/svg+xml", "sizes": []string{"any"}},
		},
		"remotes": []any{map[string]any{"type": "streamable-http", "url": s.BaseURL + MCPPath, "supportedProtocolVersions": s.MCPVersions}},
	})
}

// reverseDomain returns the host of a URL as the namespace of a name, such as org.example.callbook; local for an address without
// a domain in ASCII.
func reverseDomain(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return "local"
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	isForeign := func(c rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-", c|' ') }
	if _, err := netip.ParseAddr(host); err == nil || host == "" || strings.ContainsFunc(host, isForeign) {
		return "local"
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
