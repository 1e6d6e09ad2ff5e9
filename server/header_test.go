package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// manyFields returns n header fields with short names.
func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(fmt.Sprintf("%x:\r\n", i+0x100))
	}
	return b.String()
}

// TestHeader_FieldsAreLimited holds promise 1 of SECURITY.md.
func TestHeader_FieldsAreLimited(t *testing.T) {
	s := startRawServer(t)
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
		listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		front := Front{Listener: s.server.connections.Limit(listener)}
		if encrypt {
			front.TLS = &tls.Config{Certificates: []tls.Certificate{s.certificate()}}
		}
		h := s.server.newHTTPServer(front)
		go func() { _ = front.serve(h) }()
		t.Cleanup(func() { h.Close() })
		for _, size := range []int{21 << 10, 100 << 10, 1 << 20} {
			conn := testkit.Must(net.Dial("tcp", listener.Addr().String()))(t)
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
