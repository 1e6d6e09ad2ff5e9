package middleware

import (
	"net"
	"net/netip"
	"sync"
)

// Open connections of a listener are limited, in all and from one network: each holds
// memory before it has sent anything. Reverse proxies and this machine itself, which
// connect for many clients, count only in all.
const (
	maxConnections          = 4096
	maxConnectionsOfNetwork = 256
)

// limitedListener closes excess connections as soon as it has accepted them.
type limitedListener struct {
	net.Listener
	trusted       TrustedProxies
	max           int
	maxPerNetwork int

	mu        sync.Mutex
	open      int
	byNetwork map[netip.Addr]int
}

// LimitConnections returns a listener that closes connections over the limits. Trusted proxies
// and this machine count only in all.
func LimitConnections(l net.Listener, trusted TrustedProxies) *limitedListener {
	return &limitedListener{
		Listener: l, trusted: trusted,
		max: maxConnections, maxPerNetwork: maxConnectionsOfNetwork, byNetwork: map[netip.Addr]int{},
	}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := l.networkOf(conn)
		if l.add(from) {
			return &limitedConn{conn, sync.OnceFunc(func() { l.remove(from) })}, nil
		}
		_ = conn.Close()
	}
}

// networkOf returns the network that a connection counts for, and the zero value for a
// peer that connects for many clients.
func (l *limitedListener) networkOf(conn net.Conn) (from netip.Addr) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if addr := at.Addr().Unmap(); err == nil && !addr.IsLoopback() && !l.trusted.contain(addr) {
		from = Network(addr)
	}
	return from
}

func (l *limitedListener) add(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.max || from.IsValid() && l.byNetwork[from] >= l.maxPerNetwork {
		return false
	}
	l.open++
	l.byNetwork[from]++
	return true
}

func (l *limitedListener) remove(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.byNetwork[from]--; l.byNetwork[from] == 0 {
		delete(l.byNetwork, from)
	}
}

// limitedConn releases its place among the open connections when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
