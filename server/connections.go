package server

import (
	"net"
	"net/netip"
	"sync"
)

// How many connections of a listener are open at once, in all and from one network:
// each holds memory before it has said anything. Reverse proxies and this machine
// itself, which speak for many, count only in all.
const (
	maxConnections          = 4096
	maxConnectionsOfNetwork = 256
)

// door is a listener that closes at once the connections that are too many.
type door struct {
	net.Listener
	trusted TrustedProxies
	welcome func(*visitor) net.Conn // what http.Server gets
	most    int
	ofOne   int

	mu   sync.Mutex
	open int
	of   map[netip.Addr]int
}

func newDoor(l net.Listener, trusted TrustedProxies, welcome func(*visitor) net.Conn) *door {
	return &door{Listener: l, trusted: trusted, welcome: welcome, most: maxConnections, ofOne: maxConnectionsOfNetwork, of: map[netip.Addr]int{}}
}

func (c *door) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := c.origin(conn)
		if c.enter(from) {
			return c.welcome(&visitor{Conn: conn, leave: sync.OnceFunc(func() { c.exit(from) })}), nil
		}
		_ = conn.Close()
	}
}

// origin is the network that a connection counts for; the zero value for those that
// speak for many.
func (c *door) origin(conn net.Conn) (from netip.Addr) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if addr := at.Addr().Unmap(); err == nil && !addr.IsLoopback() && !c.trusted.hold(addr) {
		from = network(addr)
	}
	return from
}

func (c *door) enter(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most || from.IsValid() && c.of[from] >= c.ofOne {
		return false
	}
	c.open++
	c.of[from]++
	return true
}

func (c *door) exit(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.of[from]--; c.of[from] == 0 {
		delete(c.of, from)
	}
}

// visitor is a connection that makes room when it ends.
type visitor struct {
	net.Conn
	leave func()
}

func (v *visitor) Close() error {
	v.leave()
	return v.Conn.Close()
}
