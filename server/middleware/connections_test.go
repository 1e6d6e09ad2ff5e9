package middleware

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
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
	l := c.Limit(from(addresses...), false)
	for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
		open = append(open, conn)
	}
	return open
}

// TestAbuse01_BuffersOfConnectionsAreLimited: a large record of TLS makes the buffers of its connection grow, as long
// as that is open. Small records, and connections without TLS, do not count.
func TestAbuse01_BuffersOfConnectionsAreLimited(t *testing.T) {
	const fits = 128
	for name, tt := range map[string]struct {
		encrypted bool
		size      int
		limited   bool
	}{"large records": {true, 16 << 10, true}, "small records": {true, 4 << 10, false}, "plain": {false, 16 << 10, false}} {
		c := NewConnections(nil)
		l := c.Limit(from(append(many(fits+1, "192.0.2.1:1"), "192.0.2.2:1")...), tt.encrypted)
		var open []net.Conn
		for i := range fits + 2 {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
			_, err = conn.Read(make([]byte, tt.size))
			_, again := conn.Read(make([]byte, tt.size))
			if rejected := errors.Is(err, ErrBusy); rejected != errors.Is(again, ErrBusy) || rejected != (tt.limited && i == fits) {
				t.Errorf("%s: connection %d: %v, %v", name, i, err, again)
			}
		}
		for _, conn := range open {
			conn.Close()
			conn.Close()
		}
		if used := c.headers.Used(); used != 0 {
			t.Errorf("%s: %d bytes are counted in the end", name, used)
		}
	}
}

// TestAbuse01_BodyDoesNotCountAsTheNextHeader: four clients of a network send a large body, and then a header in two parts.
func TestAbuse01_BodyDoesNotCountAsTheNextHeader(t *testing.T) {
	c, networks := NewConnections(nil), domain.Networks(netip.MustParseAddr("192.0.2.1"))
	for client := range 4 {
		h := header{pool: c.headers}
		h.set(networks, true)
		h.size = 500
		h.set(networks, false)
		h.size += 60_000 // the body
		h.set(networks, true)
		h.size += 500
		if !h.acquire(networks) {
			t.Errorf("client %d is cut off with %d bytes counted", client, c.headers.Used())
		}
	}
}

// many returns the address n times; %x in it is the number of the connection.
func many(n int, address string) (all []string) {
	for i := range n {
		all = append(all, strings.Replace(address, "%x", strconv.FormatInt(int64(i), 16), 1))
	}
	return all
}

func TestAbuse02_ConnectionsOfANetworkAreLimited(t *testing.T) {
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
		{"a proxy", many(5000, "10.0.0.1:1"), 4096},
		{"this machine", many(5000, "127.0.0.1:1"), 4096},
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

func TestAbuse02_IdleConnectionsCloseWhenThereAreMany(t *testing.T) {
	c := NewConnections(nil)
	c.crowded = 6
	greedy, modest := accepted(c, many(6, "[2001:db8:0:%x::1]:1")...), accepted(c, many(4, "192.0.2.1:1")...)
	now := time.Now()
	for i, conn := range slices.Concat(greedy[1:], modest) { // the first one has a request
		c.Track(conn, http.StateActive)
		c.Track(conn, http.StateIdle)
		conn.(*connection).idleSince.Store(now.Add(-time.Minute - time.Duration(i)*time.Second).UnixNano())
	}
	c.Track(greedy[0], http.StateActive)
	late := greedy[5].(*connection)
	late.idleSince.Store(now.Add(-crowdedIdle + time.Second).UnixNano())
	c.CloseIdle(now)
	if open := len(greedy) - closed(greedy); open != 3 || closed(modest) != 1 || c.Open() != 6 {
		t.Errorf("%d of the greedy network and %d of the other are open, want 3 and 3", open, len(modest)-closed(modest))
	}
	if isClosed(greedy[0]) || isClosed(greedy[5]) || !isClosed(greedy[4]) {
		t.Error("a connection with a request, or one that became idle just now, is closed")
	}
	accepted(c, "198.51.100.1:1")
	c.CloseIdle(now.Add(2 * time.Second))
	if c.Open() != 6 {
		t.Errorf("%d are open", c.Open())
	}
}

func isClosed(conn net.Conn) bool { return conn.(*connection).Conn.(*caller).closed }

func closed(conns []net.Conn) (n int) {
	for _, conn := range conns {
		if isClosed(conn) {
			n++
		}
	}
	return n
}
