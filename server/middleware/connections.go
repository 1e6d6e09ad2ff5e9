package middleware

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Open connections are limited, in all and of each network: each holds memory before it has sent
// anything. Reverse proxies and this machine itself, which connect for many clients, count only
// in all.
const (
	maxConnections    = 4096
	littleConnections = 4 // a network that has fewer may use the reserve
	crowded           = maxConnections / 4 * 3
	crowdedIdle       = 5 * time.Second // an idle connection may be closed after this time when there are more than crowded
)

var connectionsOfNetwork = domain.Share{256, 384, 512}

// Connections limits the open connections of listeners. It closes those over the limits as soon as
// it has accepted them, and idle ones when there are many.
type Connections struct {
	pool    *ratelimit.Pool
	headers *ratelimit.Pool            // bytes of memory for headers that have not arrived yet
	exempt  func(addr netip.Addr) bool // from the limits of networks
	crowded int

	mu   sync.Mutex
	open map[*connection]struct{}
}

// NewConnections returns a limit without any open connection. Trusted proxies and this machine
// are limited only in all.
func NewConnections(trusted TrustedProxies) *Connections {
	return &Connections{
		pool:    ratelimit.NewPool(maxConnections, connectionsOfNetwork, littleConnections),
		headers: ratelimit.NewPool(maxHeaders, domain.Share{maxHeadersOfNetwork, maxHeadersOfNetwork, maxHeadersOfNetwork}, littleMemory),
		exempt:  trusted.speaksForMany, crowded: crowded, open: map[*connection]struct{}{},
	}
}

// speaksForMany reports whether connections of a peer are those of many clients.
func (t TrustedProxies) speaksForMany(peer netip.Addr) bool {
	return peer.IsLoopback() || t.contain(peer)
}

// Limit returns a listener that closes connections over the limits. All listeners share them. Connections of one
// that is encrypted carry TLS.
func (c *Connections) Limit(l net.Listener, encrypted bool) net.Listener {
	return &limitedListener{l, c, encrypted}
}

// Open returns the number of open connections.
func (c *Connections) Open() int { return c.pool.Used() }

type limitedListener struct {
	net.Listener
	connections *Connections
	encrypted   bool
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if limited := l.connections.add(conn, l.encrypted); limited != nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = limitUnsent(tcp) // without it the system only holds more
			}
			return limited, nil
		}
		_ = conn.Close()
	}
}

// connection is an open connection. It counts until it is closed.
type connection struct {
	net.Conn
	networks  []netip.Prefix
	idleSince atomic.Int64 // in nanoseconds; 0 while it has a request
	release   func()
	encrypted bool
	header    header
}

func (c *connection) Close() error {
	c.header.set(c.networks, false)
	c.header.shrink(c.networks)
	c.release()
	return c.Conn.Close()
}

// A rejected request is read to this extent before its connection is closed.
const (
	maxDrain     = 4 << 20
	drainTimeout = 500 * time.Millisecond
)

// CloseWrite closes the writing side, and reads what the client still sends. http.Server calls it after a
// response to a request that it has not read whole, such as one with too large a header: without it, the
// system would reset the connection, and the client could lose the response.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.Conn.SetReadDeadline(time.Now().Add(drainTimeout)) //clock: of the connection
	_, err := io.CopyN(io.Discard, c.Conn, maxDrain)
	return err
}

// add counts a new connection. It returns nil over the limits.
func (c *Connections) add(conn net.Conn, encrypted bool) *connection {
	added := &connection{Conn: conn, encrypted: encrypted, header: header{pool: c.headers}}
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if addr := at.Addr().Unmap(); err == nil && !c.exempt(addr) {
		added.networks = domain.Networks(addr)
	}
	if !c.pool.Acquire(added.networks, 1) {
		return nil
	}
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

// Track is the ConnState hook of http.Server: it records which connections are idle.
func (c *Connections) Track(conn net.Conn, state http.ConnState) {
	if encrypted, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = encrypted.NetConn()
	}
	tracked, ok := conn.(*connection)
	switch {
	case !ok:
	case state == http.StateIdle:
		tracked.idleSince.Store(time.Now().UnixNano()) //clock: of the connection
	default:
		tracked.idleSince.Store(0)
	}
}

// CloseIdle closes idle connections until there are no more than crowded: those of the network
// with the most connections first, the longest idle first. It is to be called periodically.
func (c *Connections) CloseIdle(now time.Time) {
	excess := c.Open() - c.crowded
	if excess <= 0 {
		return
	}
	idle, used := c.idle(now), map[netip.Prefix]int{}
	for network := range idle {
		used[network] = c.pool.UsedBy(network)
	}
	for ; excess > 0 && len(idle) > 0; excess-- {
		var greediest netip.Prefix
		for network := range idle {
			if !greediest.IsValid() || used[network] > used[greediest] {
				greediest = network
			}
		}
		_ = idle[greediest][0].Close()
		used[greediest]--
		if idle[greediest] = idle[greediest][1:]; len(idle[greediest]) == 0 {
			delete(idle, greediest)
		}
	}
}

// idle returns the connections that have been idle for long by their widest network, the longest
// idle first.
func (c *Connections) idle(now time.Time) map[netip.Prefix][]*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := map[netip.Prefix][]*connection{}
	before := now.Add(-crowdedIdle).UnixNano()
	for conn := range c.open {
		if since := conn.idleSince.Load(); since > 0 && since <= before && len(conn.networks) > 0 {
			network := conn.networks[len(conn.networks)-1]
			idle[network] = append(idle[network], conn)
		}
	}
	for _, conns := range idle {
		slices.SortFunc(conns, func(a, b *connection) int { return cmp.Compare(a.idleSince.Load(), b.idleSince.Load()) })
	}
	return idle
}
