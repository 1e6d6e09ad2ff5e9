package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// renamed is a listener whose connections come from other addresses: that of 127.1.a.b is addresses[a<<8|b].
type renamed struct {
	net.Listener
	addresses []netip.Addr
}

func (r renamed) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	at := from.Addr().Unmap().As4()
	return renamedConn{conn, net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.addresses[int(at[2])<<8|int(at[3])], from.Port()))}, nil
}

type renamedConn struct {
	net.Conn
	from net.Addr
}

func (c renamedConn) RemoteAddr() net.Addr { return c.from }

type idlers struct {
	testing.TB
	server *Server
	at     string
}

func newIdlers(t testing.TB, addresses ...string) *idlers {
	t.Helper()
	s := newSite(t)
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := renamed{Listener: listener}
	for _, address := range addresses {
		l.addresses = append(l.addresses, netip.MustParseAddr(address))
	}
	stop := s.serve(l)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return &idlers{TB: t, server: s.server, at: listener.Addr().String()}
}

// visit sends a request of the n-th client over a new connection, which stays open. It returns nil
// if the connection was closed instead.
func (c *idlers) visit(n int) net.Conn {
	c.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}, Timeout: slowRead}
	conn := testkit.Must(dialer.Dial("tcp", c.at))(c)
	c.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(slowRead)) //clock: of the connection
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if a, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || a.StatusCode != http.StatusOK {
		conn.Close()
		return nil
	}
	return conn
}

// fill opens up to n connections for the n-th client.
func (c *idlers) fill(client, n int) (open int) {
	for range n {
		if c.visit(client) == nil {
			return open
		}
		open++
	}
	return open
}

// TestConnections_IdleNetworksTurnNoVisitorAway: first sixteen /64s of one home line, then eight
// other networks hold every connection that they get. Each visit of another one succeeds.
// It holds promise 2 of SECURITY.md.
func TestConnections_IdleNetworksTurnNoVisitorAway(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of connections")
	}
	var addresses []string
	for i := range 16 {
		addresses = append(addresses, netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, byte(i), 15: 1}).String())
	}
	for i := range 8 {
		addresses = append(addresses, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String())
	}
	visitor := len(addresses)
	c := newIdlers(t, append(addresses, "198.51.100.1")...)
	home := 0
	for i := range 16 {
		home += c.fill(i, 300)
	}
	equal(t, 384, home, "connections of a home line")
	for i := 16; i < visitor; i++ {
		if n := c.fill(i, 300); n > 256 {
			t.Errorf("an address has %d connections", n)
		}
	}
	all, turnedAway, visits := c.server.connections.Open(), 0, 200
	for range visits {
		if conn := c.visit(visitor); conn == nil {
			turnedAway++
		} else {
			conn.Close()
		}
	}
	if all <= 1536 || all > 2048 || turnedAway > 0 {
		t.Errorf("%d connections are open, %d of %d visits fail", all, turnedAway, visits)
	}
	proof.Figure(t, "of a home line", home)
	proof.Figure(t, "of all", all)
	proof.Figure(t, "visits", visits)
	proof.Figure(t, "turned away", turnedAway)
	if !proof.Asked() {
		return
	}
	within := time.After(8 * time.Second)
	for poll := time.NewTicker(100 * time.Millisecond); c.server.connections.Open() > 1536; {
		select {
		case <-poll.C:
		case <-within:
			t.Fatalf("%d connections stay open", c.server.connections.Open())
		}
	}
	proof.Figure(t, "after idling", c.server.connections.Open())
}
