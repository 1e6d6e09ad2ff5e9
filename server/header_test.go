package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
)

// manyFields returns n header fields with short names.
func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(fmt.Sprintf("%x:\r\n", i+0x100))
	}
	return b.String()
}

func TestAbuse01_HeaderFieldsAreLimited(t *testing.T) {
	s := serve(t)
	for n, want := range map[int]int{60: 200, 64: 200, 65: 431, 2500: 431} {
		for name, fields := range map[string]string{"names": manyFields(n), "values": strings.Repeat("a:\r\n", n)} {
			a := s.exchange("GET /healthz HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n")
			if len(a) != 1 || a[0].StatusCode != want || a[0].Close != (want == 431) {
				t.Errorf("%d %s: %+v", n, name, a)
			}
		}
	}
	site := newSite(t)
	site.send("GET", "/healthz", "", nil, slices.Repeat([]string{"A: b"}, 65)...).rejected(431, domain.CodeHeaderTooLarge)
}

// TestHTTP_LargeHeaderGetsItsResponseWhole: the connection ends without a reset, also if the client sends more than
// the server reads of a header.
func TestHTTP_LargeHeaderGetsItsResponseWhole(t *testing.T) {
	for _, encrypt := range []bool{false, true} {
		s := newSite(t)
		listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		front := Front{Listener: s.server.connections.Limit(listener, encrypt)}
		if encrypt {
			front.TLS = &tls.Config{Certificates: []tls.Certificate{s.certificate()}}
		}
		h := s.server.newHTTPServer(front)
		go func() { _ = front.serve(h) }()
		t.Cleanup(func() { h.Close() })
		for _, size := range []int{21 << 10, 100 << 10, 1 << 20} {
			conn := must(net.Dial("tcp", listener.Addr().String()))(t)
			defer conn.Close()
			if encrypt {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("a", size)+"\r\n\r\n"); err != nil {
				t.Errorf("encrypted %t, %d bytes: %v", encrypt, size, err)
			}
			if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 431 ") {
				t.Errorf("encrypted %t, %d bytes: %q, %v", encrypt, size, text, err)
			}
		}
	}
}

// heap returns the bytes of objects and stacks that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// TestAbuse01_HeadersThatArriveSlowlyTakeLittleMemory: a header of 17 KB with 3,400 names takes 20 times as much while its
// end is to come. One address opens all connections that it gets, directly and after a request in the same
// record of TLS, which is buffered at once.
func TestAbuse01_HeadersThatArriveSlowlyTakeLittleMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		first   string
		encrypt bool
	}{
		"plain":                   {"", false},
		"encrypted":               {"", true},
		"encrypted, after others": {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			self := s.certificate()
			listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			front := Front{Listener: listener}
			if tt.encrypt {
				front.TLS = &tls.Config{Certificates: []tls.Certificate{self}}
			}
			h := s.server.newHTTPServer(front)
			front.Listener = s.server.connections.Limit(renamed{listener, []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, tt.encrypt)
			go func() { _ = front.serve(h) }()
			t.Cleanup(func() { h.Close() })
			dialer, header := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 0, 0)}}, "GET / HTTP/1.1\r\nHost: x\r\n"+manyFields(3400)
			before, open := heap(), 0
			for range 160 {
				conn := must(dialer.Dial("tcp", listener.Addr().String()))(t)
				t.Cleanup(func() { conn.Close() })
				if tt.encrypt {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})
				}
				_ = conn.SetDeadline(time.Now().Add(slowRead)) //clock: of the connection
				_, err := io.WriteString(conn, tt.first+header[:14_000])
				if err == nil && tt.first != "" {
					_, err = http.ReadResponse(bufio.NewReader(conn), nil)
				}
				if err == nil {
					_, err = io.WriteString(conn, header[14_000:])
				}
				if err == nil {
					open++
				}
			}
			grown := (heap() - before) >> 20
			t.Logf("%d connections, %d MB", open, grown)
			if grown > 10 {
				t.Errorf("the headers of %d connections take %d MB", open, grown)
			}
		})
	}
}
