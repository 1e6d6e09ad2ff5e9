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

// Gate lets in calls that come by a name of this site. A page elsewhere that a
// browser shows must not reach a server on its reader's machine or network, by its
// own name (DNS rebinding) or as a foreign origin.
type Gate struct {
	base    *url.URL
	origins []string // that may read, as ParseOrigin returns them
}

// NewGate makes a gate for a site; origins may read from pages of their own.
func NewGate(base string, origins []string) (*Gate, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	g := &Gate{base: u}
	for _, text := range origins {
		origin, err := ParseOrigin(text)
		if err != nil {
			return nil, err
		}
		g.origins = append(g.origins, origin)
	}
	return g, nil
}

// ParseOrigin reads an origin, and returns it as browsers write it.
func ParseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		!strings.EqualFold(text, u.Scheme+"://"+u.Host) || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '*' }) {
		return "", errors.New("MCP origin: give scheme, host and port alone, such as https://app.example.org")
	}
	if _, ok := splitHost(u.Host); !ok {
		return "", errors.New("MCP origin: the port is not right; give an origin such as https://app.example.org:8443")
	}
	return originOf(u), nil
}

// originOf is a URL's origin, without the port where it is the scheme's own.
func originOf(u *url.URL) string {
	return strings.ToLower(u.Scheme + "://" + withoutPort(u.Host, u.Scheme))
}

func withoutPort(host, scheme string) string {
	return strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
}

// Admits tells whether a call comes by a name of this site, and from nowhere or
// from an origin that may call.
func (g *Gate) Admits(r *http.Request) bool {
	own := strings.EqualFold(withoutPort(r.Host, g.base.Scheme), withoutPort(g.base.Host, g.base.Scheme))
	local := throughLoopback(r)
	if !own && !local && !byOwnAddress(r) {
		return false
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	return len(origins) == 1 && (origins[0] == originOf(g.base) || slices.Contains(g.origins, origins[0]) || local && isLoopbackOrigin(origins[0]))
}

// throughLoopback tells of a call that names this machine and came over its
// loopback: from a program on it, or from a proxy that names the server so.
func throughLoopback(r *http.Request) bool {
	name, ok := splitHost(r.Host)
	return ok && isLoopback(name) && localAddress(r).IsLoopback()
}

// byOwnAddress tells of a call by the very address that it came in at. No DNS name
// was looked up for it, so none can have been turned elsewhere.
func byOwnAddress(r *http.Request) bool {
	name, ok := splitHost(r.Host)
	if !ok {
		return false
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().WithZone("") == localAddress(r)
}

// localAddress is where the connection came in; the zero address if that is unknown.
func localAddress(r *http.Request) netip.Addr {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return at.AddrPort().Addr().Unmap().WithZone("")
}

// splitHost takes the port off a Host, and the brackets off an IPv6 address.
func splitHost(host string) (string, bool) {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name, port = host[:i], host[i+1:]
		if port == "" {
			return "", false
		}
	}
	bracketed := strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]")
	if bracketed {
		name = name[1 : len(name)-1]
	}
	notDigit := func(c rune) bool { return c < '0' || c > '9' }
	return name, name != "" && !strings.ContainsAny(name, "[]") && bracketed == strings.Contains(name, ":") &&
		len(port) <= 5 && !strings.ContainsFunc(port, notDigit)
}

func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && addr.IsLoopback()
}

func isLoopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || origin != originOf(u) || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	name, ok := splitHost(u.Host)
	return ok && isLoopback(name)
}

// Share lets a page of a configured origin read the answer. No other may, and none
// with credentials.
func (g *Gate) Share(h http.Header, r *http.Request) (shared bool) {
	h.Add("Vary", "Origin")
	i := slices.Index(g.origins, r.Header.Get("Origin"))
	if i < 0 || !g.Admits(r) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", g.origins[i])
	// The protocol's own headers are the caller's alone: there is no session.
	h.Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After, X-Request-Id")
	return true
}

// Preflight answers OPTIONS.
func (g *Gate) Preflight(w http.ResponseWriter, r *http.Request) {
	if h := w.Header(); g.Share(h, r) {
		h.Set("Access-Control-Allow-Methods", http.MethodPost)
		h.Set("Access-Control-Allow-Headers", "Accept, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, X-Request-Id")
		h.Set("Access-Control-Max-Age", "86400")
	}
	w.WriteHeader(http.StatusNoContent)
}
