package middleware

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Connections limits the open connections of listeners, in all and of each network: each holds
// memory before it has sent anything. It closes those over the limits as soon as it has accepted
// them, and idle ones when there are many. Reverse proxies and this machine itself, which connect
// for many clients, are limited only in all.
type Connections struct {
	pool    *ratelimit.Pool
	trusted TrustedProxies

	mu   sync.Mutex
	open map[*connection]struct{}
}

// NewConnections returns a limit without any open connection.
func NewConnections(trusted TrustedProxies) *Connections {
	return &Connections{
		pool:    ratelimit.NewPool(maxConnections, connectionsOfNetwork, littleConnections),
		trusted: trusted,
		open:    map[*connection]struct{}{},
	}
}

// speaksForMany reports whether connections of a peer are those of many clients.
func (t TrustedProxies) speaksForMany(peer netip.Addr) bool {
	return peer.IsLoopback() || t.contain(peer)
}

// Limit returns a listener that closes connections over the limits. All listeners share them.
func (c *Connections) Limit(l net.Listener) net.Listener {
	return &limitedListener{l, c}
}

// Open returns the number of open connections.
func (c *Connections) Open() int { return c.pool.Used() }

// limitedListener is a listener of Connections.
type limitedListener struct {
	net.Listener
	connections *Connections
}

// Accept returns the next connection within the limits.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		limited := l.connections.add(conn)
		if limited == nil {
			_ = conn.Close()
			continue
		}

		if tcp, ok := conn.(*net.TCPConn); ok {
			// After an error, the system only holds more in its buffer.
			_ = limitUnsent(tcp)
		}

		return limited, nil
	}
}

// add counts a new connection. It returns nil over the limits.
func (c *Connections) add(conn net.Conn) *connection {
	added := &connection{Conn: conn}
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if addr := peer.Addr().Unmap(); err == nil && !c.trusted.speaksForMany(addr) {
		added.networks = domain.Networks(addr)
	}

	if !c.pool.Acquire(added.networks, 1) {
		return nil
	}

	// Once: http.Server closes a connection several times.
	added.release = sync.OnceFunc(func() {
		c.mu.Lock()
		delete(c.open, added)
		c.mu.Unlock()
		c.pool.Release(added.networks, 1)
	})

	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[added] = struct{}{}
	return added
}

// connection is an open connection. It counts until it is closed.
type connection struct {
	net.Conn
	networks  []netip.Prefix // none of a peer that speaks for many
	idleSince atomic.Int64   // in nanoseconds; 0 while it has a request
	release   func()
}

// Close closes the connection, and ends its counting.
func (c *connection) Close() error {
	c.release()
	return c.Conn.Close()
}

// Limits of what is read of a rejected request before its connection is closed.
const (
	maxDrain     = 4 << 20 // bytes
	drainTimeout = 500 * time.Millisecond
)

// CloseWrite closes the writing side, and reads what the client still sends. http.Server calls it
// after a response to a request that it has not read whole, such as one with too large a header.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}

	// To close a connection with unread bytes resets it, and the client could lose the response.
	_ = c.Conn.SetReadDeadline(time.Now().Add(drainTimeout)) //clock: of the connection
	_, err := io.CopyN(io.Discard, c.Conn, maxDrain)
	return err
}

// Track is the ConnState hook of http.Server: it records which connections are idle.
func (c *Connections) Track(conn net.Conn, state http.ConnState) {
	if encrypted, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = encrypted.NetConn()
	}

	tracked, ok := conn.(*connection)
	if !ok {
		return
	}

	since := int64(0)
	if state == http.StateIdle {
		since = time.Now().UnixNano() //clock: of the connection
	}
	tracked.idleSince.Store(since)
}

// CloseIdle closes the connections that have been idle for long if there are more than crowded,
// but not those of a peer that speaks for many. It is to be called periodically.
func (c *Connections) CloseIdle(now time.Time) {
	if c.Open() <= crowded {
		return
	}

	// Closed without the mutex, which release locks.
	for _, conn := range c.idle(now.Add(-crowdedIdle)) {
		_ = conn.Close()
	}
}

// idle returns the connections that have been idle since a time.
func (c *Connections) idle(before time.Time) (idle []*connection) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for conn := range c.open {
		since := conn.idleSince.Load()
		if since > 0 && since <= before.UnixNano() && len(conn.networks) > 0 {
			idle = append(idle, conn)
		}
	}

	return idle
}
