package middleware

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// queue is a listener that accepts given connections.
type queue struct {
	net.Listener
	conns []net.Conn
}

func (q *queue) Accept() (conn net.Conn, err error) {
	if len(q.conns) == 0 {
		return nil, net.ErrClosed
	}
	conn, q.conns = q.conns[0], q.conns[1:]
	return conn, nil
}

func (*queue) Close() error { return nil }

// from returns a listener that accepts connections from the addresses.
func from(addresses ...string) net.Listener {
	q := &queue{}
	for _, address := range addresses {
		q.conns = append(q.conns, &caller{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))})
	}
	return q
}

// caller is a connection that tells where it comes from, and whether it was closed.
type caller struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (c *caller) RemoteAddr() net.Addr { return c.addr }

func (c *caller) Close() error {
	c.closed = true
	return nil
}

func (*caller) Read([]byte) (int, error) { return 0, io.EOF }

// accepted returns the connections that a listener accepts of those from the addresses.
func accepted(c *Connections, addresses ...string) (open []net.Conn) {
	l := c.Limit(from(addresses...))
	for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
		open = append(open, conn)
	}
	return open
}

// many returns the address n times; %x in it is the number of the connection.
func many(n int, address string) (all []string) {
	for i := range n {
		all = append(all, strings.Replace(address, "%x", strconv.FormatInt(int64(i), 16), 1))
	}
	return all
}

// TestConnections_LimitsANetwork holds promise 2 of SECURITY.md.
func TestConnections_LimitsANetwork(t *testing.T) {
	trusted, err := ParseTrustedProxies([]string{"10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		from []string
		want int
	}{
		{"one IPv4 address", many(1000, "192.0.2.1:1"), 256},
		{"an address in two forms", append(many(200, "192.0.2.1:1"), many(200, "[::ffff:192.0.2.1]:2")...), 256},
		{"a /64", many(1000, "[2001:db8::%x]:1"), 256},
		{"a /56", many(250, "[2001:db8:0:%x::1]:1"), 250},
		{"a /56 with many of each", slices.Concat(many(200, "[2001:db8::1]:1"), many(200, "[2001:db8:0:1::1]:1")), 384},
		{"a /48", many(1000, "[2001:db8:0:%x00::1]:1")[:256], 256},
		{"a /48 with many of each", slices.Concat(many(256, "[2001:db8::1]:1"), many(256, "[2001:db8:0:100::1]:1"), many(256, "[2001:db8:0:200::1]:1")), 512},
		{"a proxy", many(5000, "10.0.0.1:1"), 2048},
		{"this machine", many(5000, "127.0.0.1:1"), 2048},
	} {
		c := NewConnections(trusted)
		open := accepted(c, tt.from...)
		if len(open) != tt.want || c.Open() != tt.want {
			t.Errorf("%s: %d are accepted, %d are open, want %d", tt.name, len(open), c.Open(), tt.want)
		}
		for _, conn := range open {
			_, _ = conn.Close(), conn.Close() // closing twice makes room once
		}
		if c.Open() != 0 || len(c.open) != 0 {
			t.Errorf("%s: %d are counted after their end", tt.name, c.Open())
		}
		if len(accepted(c, tt.from[0])) != 1 {
			t.Errorf("%s: none is accepted afterwards", tt.name)
		}
	}
}

// TestConnections_ClosesIdleOnesWhenThereAreMany holds promise 2 of SECURITY.md.
func TestConnections_ClosesIdleOnesWhenThereAreMany(t *testing.T) {
	c := NewConnections(nil)
	var open []net.Conn
	for client := range 7 {
		open = append(open, accepted(c, many(256, fmt.Sprintf("192.0.2.%d:1", client))...)...)
	}
	now := time.Now()
	for _, conn := range open {
		c.Track(conn, http.StateActive)
		c.Track(conn, http.StateIdle)
		conn.(*connection).idleSince.Store(now.Add(-crowdedIdle).UnixNano())
	}
	c.Track(open[0], http.StateActive)
	open[1].(*connection).idleSince.Store(now.Add(-crowdedIdle + time.Second).UnixNano())

	c.CloseIdle(now)
	if c.Open() != 2 || isClosed(open[0]) || isClosed(open[1]) {
		t.Errorf("%d connections are open, want the one with a request and the one that became idle just now", c.Open())
	}
	c.CloseIdle(now.Add(2 * time.Second))
	if c.Open() != 2 {
		t.Errorf("%d connections are open when there are few", c.Open())
	}
}

func isClosed(conn net.Conn) bool { return conn.(*connection).Conn.(*caller).closed }
