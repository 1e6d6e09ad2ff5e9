package main

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

	"callbook/proof"
)

// The service under those who are slow.

// Bounds that the server publishes for those who send the head of a request, and some
// time for a busy machine.
const (
	headerTimeout = 5 * time.Second
	allowance     = 5 * time.Second
)

// sluggish is a socket that says or reads as little as it can.
type sluggish struct {
	net.Conn
	opened time.Time
	next   []byte // is sent byte by byte
}

// sluggishOn opens a socket and sends the part of its request that comes at once.
func sluggishOn(t testing.TB, at, atOnce, slowly string) *sluggish {
	t.Helper()
	conn, err := net.DialTimeout("tcp", at, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, atOnce); err != nil {
		t.Fatal(err)
	}
	return &sluggish{conn, time.Now(), []byte(slowly)}
}

// closed waits until the server closes the socket, and tells how long it was open.
func (s *sluggish) closed() (time.Duration, error) {
	_, err := io.Copy(io.Discard, s.Conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, err
	}
	return time.Since(s.opened), nil // by an end or by a reset
}

// TestSlowSockets: a thousand of them, a third in their headers, a third in their
// bodies, a third not reading their answers, do not hold back who calls in the
// meantime. (Sockets of one machine are bounded in all only, so that one address does.)
func TestSlowSockets(t *testing.T) {
	p := spawn(t, newDB(t))
	agent := p.agent("tide-reader", "tide@example.org")
	at := strings.TrimPrefix(p.base, "http://")
	sockets, calls := proof.Rounds(50, 1000, 1000), proof.Rounds(100, 2000, 2000)
	many := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 40)
	var inHeaders, talking []*sluggish
	for i := range sockets {
		switch i % 3 {
		case 0:
			inHeaders = append(inHeaders, sluggishOn(t, at, "GET /api HTTP/1.1\r\nHost: x\r\nX-Slow: ", strings.Repeat("a", 1000)))
		case 1:
			body := registrationFor("never-there", "never@example.org") + strings.Repeat(" ", 1000)
			talking = append(talking, sluggishOn(t, at, fmt.Sprintf("POST /api/agents HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(body)), body))
		case 2:
			sluggishOn(t, at, many, "")
		}
	}
	talking = append(talking, inHeaders...)
	stop := make(chan struct{})
	var talk sync.WaitGroup
	defer talk.Wait()
	defer close(stop)
	talk.Go(func() { speakSlowly(talking, stop) })
	took := make([]time.Duration, calls)
	for i := range took {
		begun := time.Now()
		p.callsAsUsual(i, agent)
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	p95 := took[calls*95/100]
	if p95 >= 200*time.Millisecond {
		t.Errorf("95 of 100 calls take up to %s", p95)
	}
	proof.Figure(t, "slow sockets", sockets)
	proof.Figure(t, "p95 ms", int(p95.Round(time.Millisecond).Milliseconds()))
	if !proof.Asked() {
		return
	}
	for _, s := range inHeaders {
		open, err := s.closed()
		if err != nil || open < headerTimeout-time.Second {
			t.Fatalf("a socket in its headers is open for %s, %v", open, err)
		}
	}
	if open := time.Since(inHeaders[len(inHeaders)-1].opened); open > headerTimeout+allowance && took[calls-1] < time.Second {
		t.Errorf("the last socket in its headers is closed after %s", open)
	}
}

// speakSlowly sends a byte of each socket after the other, for ever.
func speakSlowly(sockets []*sluggish, stop <-chan struct{}) {
	for pace := time.NewTicker(250 * time.Millisecond); ; {
		for _, s := range sockets {
			if len(s.next) > 0 {
				if _, err := s.Write(s.next[:1]); err != nil {
					s.next = nil // the server has closed it
					continue
				}
				s.next = s.next[1:]
			}
		}
		select {
		case <-pace.C:
		case <-stop:
			pace.Stop()
			return
		}
	}
}

// callsAsUsual makes one of the calls that an agent makes.
func (p *process) callsAsUsual(i int, a agent) {
	p.Helper()
	path := []string{"/api/agents", "/api/agents/tide-reader", "/api/agents?q=tide", "/api/me", "/", "/api/posts"}[i%6]
	if i%6 == 5 {
		p.object("POST", path, `{"kind":"announce","title":"T","body":"B"}`, a.auth)
		return
	}
	if status, text := p.call("GET", path, "", a.auth); status != 200 {
		p.Errorf("%s: %d %s", path, status, text)
	}
}
