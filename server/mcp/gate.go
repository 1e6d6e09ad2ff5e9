package mcp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Gate allows requests that use a name of this site. A foreign page in a browser must not reach a
// server on the user's machine or network, by its own name (DNS rebinding) or as a foreign origin.
type Gate struct {
	base       *url.URL
	origins    []string // whose pages may read responses, as ParseOrigin returns them
	protection *http.CrossOriginProtection
}

// NewGate returns the gate of a site. Pages of origins, as ParseOrigin returns them, may
// call it and read its responses.
func NewGate(base string, origins []string) (*Gate, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}

	g := &Gate{base: u, origins: origins, protection: http.NewCrossOriginProtection()}
	// The site's own origin: a proxy may forward another Host.
	for _, origin := range append([]string{originOf(u)}, origins...) {
		if err := g.protection.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("MCP origin: %w", err)
		}
	}

	return g, nil
}

// ParseOrigin parses an origin, and returns it as browsers write it.
func ParseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		!strings.EqualFold(text, u.Scheme+"://"+u.Host) || strings.ContainsAny(text, "*,") {
		return "", errors.New(
			"MCP origin: give scheme, host and port alone, such as https://app.example.org",
		)
	}
	return originOf(u), nil
}

// originOf returns a URL's origin, without the port where it is the scheme's own.
func originOf(u *url.URL) string {
	return strings.ToLower(u.Scheme + "://" + withoutPort(u.Host, u.Scheme))
}

func withoutPort(host, scheme string) string {
	return strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
}

// Allows reports whether a request uses a name of this site, and comes from no page or from one of
// an allowed origin.
func (g *Gate) Allows(r *http.Request) bool {
	return g.IsOwnHost(r) && g.protection.Check(r) == nil
}

// IsOwnHost reports whether the Host is the site's, the address that the connection uses, or, over
// loopback, a name of this machine, which a proxy on it may send. None of these depends on
// somebody else's DNS.
func (g *Gate) IsOwnHost(r *http.Request) bool {
	if strings.EqualFold(
		withoutPort(r.Host, g.base.Scheme),
		withoutPort(g.base.Host, g.base.Scheme),
	) {
		return true
	}

	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	u, err := url.Parse("//" + r.Host)
	if !ok || err != nil || u.Host != r.Host {
		return false
	}

	local := at.AddrPort().Addr().Unmap().WithZone("")
	addr, _ := netip.ParseAddr(u.Hostname()) // the zero Addr if it is a name
	addr = addr.Unmap().WithZone("")

	return addr == local ||
		local.IsLoopback() && (addr.IsLoopback() || strings.EqualFold(u.Hostname(), "localhost"))
}

// Share lets a page of a configured origin read the response. Other pages cannot, and none can
// send credentials.
func (g *Gate) Share(h http.Header, r *http.Request) (shared bool) {
	h.Add("Vary", "Origin")
	i := slices.Index(g.origins, r.Header.Get("Origin"))
	if i < 0 || !g.IsOwnHost(r) {
		return false
	}

	h.Set("Access-Control-Allow-Origin", g.origins[i])
	// The protocol's own headers are the caller's alone: there is no session.
	h.Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After, X-Request-Id")
	return true
}

// Preflight responds to OPTIONS.
func (g *Gate) Preflight(w http.ResponseWriter, r *http.Request) {
	if h := w.Header(); g.Share(h, r) {
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		h.Set(
			"Access-Control-Allow-Headers",
			"Accept, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, X-Request-Id",
		)
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
}
