package systemtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"callbook/testdata/proof"
)

// The service with slow clients.

// The timeout of the server for headers, and some time for a busy machine.
const (
	headerTimeout = 5 * time.Second
	allowance     = 5 * time.Second
)

// slowConn is a connection that sends or reads as little as possible.
type slowConn struct {
	net.Conn
	at, atOnce, byteByByte string // its address, and the bytes that it sends
	opened                 time.Time
	unsent                 string // the bytes that are still to be sent
}

// open opens the connection, again if the server has closed it, and sends the part of its request that is sent at
// once.
func (s *slowConn) open() error {
	if s.Conn != nil {
		_ = s.Close()
	}
	conn, err := net.DialTimeout("tcp", s.at, patience)
	if err != nil {
		return err
	}
	s.Conn, s.opened, s.unsent = conn, time.Now(), s.byteByByte
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(conn, s.atOnce)
	return err
}

// waitClosed waits until the server closes the connection, and returns how long it was open.
func (s *slowConn) waitClosed() (time.Duration, error) {
	_, err := io.Copy(io.Discard, s.Conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, err
	}
	return time.Since(s.opened), nil // by FIN or by RST
}

// TestSlowSockets_DoNotDelayOthers opens a thousand slow connections (a third stall in their headers, a third in
// their bodies, a third do not read the response) and measures other requests meanwhile. They come through a proxy,
// whose sockets are limited in total only, from eight addresses.
func TestSlowSockets_DoNotDelayOthers(t *testing.T) {
	p := spawn(t, newDB(t), "--trusted-proxy=127.0.0.1")
	agent := p.registerAgent("tide-reader", "tide@example.org")
	others, _ := p.descriptors()
	sockets, calls := proof.Rounds(50, 1000, 1000), proof.Rounds(100, 2000, 2000)
	body := registrationJSON("never-there", "never@example.org") + strings.Repeat(" ", 1000)
	var inHeaders, all []*slowConn
	for i := range sockets * 8 / 5 { // a third is closed at once if there is no memory for a response, and opened again
		s := &slowConn{at: strings.TrimPrefix(p.base, "http://")}
		from := fmt.Sprintf("Host: x\r\nX-Forwarded-For: 192.0.2.%d\r\n", i%8)
		switch i % 3 {
		case 0:
			s.atOnce, s.byteByByte = "GET /api HTTP/1.1\r\n"+from+"X-Slow: ", strings.Repeat("a", 1000)
			inHeaders = append(inHeaders, s)
		case 1:
			s.atOnce, s.byteByByte = fmt.Sprintf("POST /api/agents HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n", from, len(body)), body
		case 2:
			many := strings.Repeat("GET /openapi.json HTTP/1.1\r\n"+from+"\r\n", 40)
			s.atOnce, s.byteByByte = many, many
		}
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		all = append(all, s)
	}
	var talk sync.WaitGroup
	stop := make(chan struct{})
	hush := sync.OnceFunc(func() { close(stop); talk.Wait() })
	defer hush()
	talk.Go(func() { sendSlowly(t, all, stop) })
	slow := func() int { // as the service sees them
		n, _ := p.descriptors()
		return n - others
	}
	waitFor(t, "the sockets are open", func() bool { return slow() >= sockets })
	fewest, took := slow(), make([]time.Duration, calls)
	for i := range took {
		begun := time.Now()
		p.sendTypical(i, agent)
		took[i] = time.Since(begun)
		if i%(calls/20) == 0 || i == calls-1 {
			fewest = min(fewest, slow())
		}
	}
	hush()
	slices.Sort(took)
	p95 := took[calls*95/100]
	if fewest < sockets {
		t.Errorf("in the meantime only %d slow sockets are open", fewest)
	}
	proof.Figure(t, "slow sockets", fewest)
	proof.Figure(t, "p95 ms", int(p95.Round(time.Millisecond).Milliseconds()))
	if !proof.Asked() {
		return
	}
	var last time.Time
	for _, s := range inHeaders {
		open, err := s.waitClosed()
		if err != nil || open < headerTimeout-time.Second {
			t.Fatalf("a socket in its headers is open for %s, %v", open, err)
		}
		if s.opened.After(last) {
			last = s.opened
		}
	}
	if open := time.Since(last); open > headerTimeout+allowance && took[calls-1] < time.Second {
		t.Errorf("the last socket in its headers is closed after %s", open)
	}
}

// sendSlowly sends one byte on each connection in turn until stop is closed, and reopens those that the server has
// closed.
func sendSlowly(t testing.TB, sockets []*slowConn, stop <-chan struct{}) {
	pace := time.NewTicker(250 * time.Millisecond)
	defer pace.Stop()
	for {
		for _, s := range sockets {
			if len(s.unsent) == 0 {
				continue
			}
			_, err := io.WriteString(s, s.unsent[:1])
			s.unsent = s.unsent[1:]
			if err != nil {
				err = s.open()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
		select {
		case <-pace.C:
		case <-stop:
			return
		}
	}
}

// sendTypical sends one of the requests that agents send.
func (p *process) sendTypical(i int, a agent) {
	p.Helper()
	path := []string{"/api/agents", "/api/agents/tide-reader", "/api/agents?q=tide", "/api/me", "/", "/api/posts"}[i%6]
	if i%6 == 5 {
		p.object("POST", path, fmt.Sprintf(`{"kind":"announce","title":"T","body":"B %d"}`, i), a.auth)
		return
	}
	if status, text := p.call("GET", path, "", a.auth); status != 200 {
		p.Errorf("%s: %d %s", path, status, text)
	}
}
