package middleware

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
)

// queue is a listener whose connections come from given addresses.
type queue struct {
	net.Listener
	from []string
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

func (q *queue) Accept() (net.Conn, error) {
	if len(q.from) == 0 {
		return nil, net.ErrClosed
	}
	addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(q.from[0]))
	q.from = q.from[1:]
	return &caller{addr: addr}, nil
}

// TestListener_LimitsConnections: in all, and from one network, but for those who speak for
// many.
func TestListener_LimitsConnections(t *testing.T) {
	trusted, err := ParseTrustedProxies([]string{"10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		from []string
		want []int // of them are taken
	}{
		{"one address", []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1"}, []int{0, 1, 3}},
		{"one network", []string{"[2001:db8::1]:1", "[2001:db8::2]:2", "[2001:db8::3]:3", "[2001:db8:0:1::1]:1"}, []int{0, 1, 3}},
		{"an address in two forms", []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", "192.0.2.1:3"}, []int{0, 1}},
		{"a proxy", []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.1:4"}, []int{0, 1, 2, 3}},
		{"this machine", []string{"127.0.0.1:1", "[::1]:2", "127.0.0.1:3", "127.0.0.1:4"}, []int{0, 1, 2, 3}},
		{"too many in all", []string{"192.0.2.1:1", "192.0.2.2:1", "10.0.0.1:1", "192.0.2.3:1", "127.0.0.1:1", "192.0.2.4:1"}, []int{0, 1, 2, 3, 4}},
	} {
		q := &queue{from: slices.Clone(tt.from)}
		c := LimitConnections(q, trusted)
		c.max, c.maxPerNetwork = 5, 2
		var taken []net.Conn
		for conn, err := c.Accept(); err == nil; conn, err = c.Accept() {
			taken = append(taken, conn)
		}
		var got []int
		for i, from := range tt.from {
			if slices.ContainsFunc(taken, func(conn net.Conn) bool {
				return conn.RemoteAddr().String() == net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)).String()
			}) {
				got = append(got, i)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v are taken, want %v", tt.name, got, tt.want)
		}
		for _, conn := range taken {
			_, _ = conn.Close(), conn.Close() // closing twice makes room once
		}
		if c.open != 0 || len(c.byNetwork) != 0 {
			t.Errorf("%s: %d are counted after their end, %v", tt.name, c.open, c.byNetwork)
		}
		q.from = tt.from[:1]
		if _, err := c.Accept(); err != nil {
			t.Errorf("%s: nobody is taken afterwards: %v", tt.name, err)
		}
	}
}
