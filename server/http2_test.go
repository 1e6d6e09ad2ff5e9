package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/testkit"
)

func (s *site) certificate() tls.Certificate {
	self := httptest.NewUnstartedServer(nil)
	self.StartTLS()
	defer self.Close()
	return self.TLS.Certificates[0]
}

// encrypted serves a site over TLS and HTTP/2, and returns its address.
func (s *site) encrypted() string {
	s.Helper()
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(s)
	h := s.server.newHTTPServer(Front{TLS: &tls.Config{Certificates: []tls.Certificate{s.certificate()}}})
	go func() { _ = h.ServeTLS(s.server.connections.Limit(listener), "", "") }()
	s.Cleanup(func() { h.Close() })
	return listener.Addr().String()
}

// TestHTTP2_UploadBeforeSettings: a client sends a body before it knows the settings of the server.
// It holds promise 1 of SECURITY.md.
func TestHTTP2_UploadBeforeSettings(t *testing.T) {
	s := newSite(t)
	at, body := s.encrypted(), bytes.Repeat([]byte(" "), api.MaxBody)
	for i := range 20 {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		a, err := (&http.Client{Transport: transport}).Post("https://"+at+"/api/agents", api.JSONType, bytes.NewReader(body))
		if err != nil {
			t.Fatalf("upload %d: %v", i, err)
		}
		if a.StatusCode != http.StatusBadRequest || !strings.HasPrefix(a.Proto, "HTTP/2") {
			t.Errorf("upload %d: %s %d", i, a.Proto, a.StatusCode)
		}
		a.Body.Close()
		transport.CloseIdleConnections()
	}
	used, deadline := s.server.observer.Memory.Used(), time.Now().Add(10*time.Second)
	for used != 0 && time.Now().Before(deadline) { // a client has the response before its handler has ended
		runtime.Gosched()
		used = s.server.observer.Memory.Used()
	}
	equal(t, 0, used, "bytes that are counted in the end")
}

// streams is an HTTP/2 client that sends frames of its own. Its window for responses is 0.
type streams struct {
	*http2.Framer
	testing.TB
	headers *bytes.Buffer
	encoder *hpack.Encoder
}

func (s *site) streams(at string) *streams {
	s.Helper()
	conn := testkit.Must(tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))(s)
	s.Cleanup(func() { conn.Close() })
	c := &streams{Framer: http2.NewFramer(conn, conn), TB: s, headers: &bytes.Buffer{}}
	c.encoder = hpack.NewEncoder(c.headers)
	testkit.Must(io.WriteString(conn, http2.ClientPreface))(s)
	testkit.NoError(s, c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	return c
}

// send begins a stream with these fields, from 192.0.2.1, with or without a body to come.
func (c *streams) send(id uint32, method, path string, hasBody bool) {
	c.Helper()
	c.headers.Reset()
	for _, field := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "x"}, {":path", path}, {"x-forwarded-for", "192.0.2.1"}} {
		testkit.NoError(c, c.encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	testkit.NoError(c, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers.Bytes(), EndStream: !hasBody, EndHeaders: true}))
}

// next returns the next header, end or reset of a stream.
func (c *streams) next() http2.Frame {
	c.Helper()
	for {
		f := testkit.Must(c.ReadFrame())(c)
		switch f := f.(type) {
		case *http2.HeadersFrame, *http2.RSTStreamFrame:
			return f
		case *http2.DataFrame:
			if f.StreamEnded() {
				return f
			}
		}
	}
}

// TestHTTP2_SmallResponsesCountUntilSent: a response that fits into the buffer of its stream holds
// memory as long as the client has no window for it.
// It holds promise 1 of SECURITY.md.
func TestHTTP2_SmallResponsesCountUntilSent(t *testing.T) {
	s := newSite(t, behindProxy(nil))
	s.server.observer.Requests = ratelimit.NewPool(100, domain.Share{2, 2, 2}, 100)
	c := s.streams(s.encrypted())
	for id := uint32(1); id <= 3; id += 2 {
		c.send(id, http.MethodGet, "/healthz", false)
		if _, ok := c.next().(*http2.HeadersFrame); !ok {
			t.Fatal("a response does not begin")
		}
	}
	c.send(5, http.MethodGet, "/healthz", false)
	if f, ok := c.next().(*http2.RSTStreamFrame); !ok || f.StreamID != 5 {
		t.Error("a network has more requests than its share, of which it takes no response")
	}
	for id := uint32(1); id <= 3; id += 2 {
		testkit.NoError(t, c.WriteWindowUpdate(id, 1000))
		if _, ok := c.next().(*http2.DataFrame); !ok {
			t.Error("a response does not end")
		}
	}
	if n, rejected := s.server.observer.Requests.Used(), s.server.observer.Metrics.TakeAbuse(); n != 0 || rejected != 1 {
		t.Errorf("%d requests are counted in the end, %d for the operator", n, rejected)
	}
	hasLines(t, s.metricsText(), `callbook_http_requests_total{method="GET",route="none",status="5xx"} 1`)
}

// TestHTTP2_UnreadBodiesAreLimited: a stream buffers a body that no handler reads.
// It holds promise 1 of SECURITY.md.
func TestHTTP2_UnreadBodiesAreLimited(t *testing.T) {
	s := newSite(t, behindProxy(nil))
	at := s.encrypted()
	const fits = memoryOfNetwork / api.MaxBody
	for i := range fits + 1 {
		c := s.streams(at)
		c.send(1, http.MethodPost, "/x", true)
		f := c.next()
		if _, reset := f.(*http2.RSTStreamFrame); reset != (i == fits) {
			t.Fatalf("body %d: %v", i, f)
		}
	}
	equal(t, memoryOfNetwork, s.server.observer.Memory.Used(), "bytes that are counted")
}
