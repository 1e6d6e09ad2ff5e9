package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// rawServer is a site behind the program's own HTTP server: timeouts, limits of headers, graceful stop.
type rawServer struct {
	testing.TB
	address string
	path    string
	stop    context.CancelFunc
	ended   chan error
	store   *store.Store
	server  *Server
}

func startRawServer(t testing.TB) *rawServer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.db")
	st := testkit.Must(store.Open(t.Context(), store.Options{Path: path, Quotas: domain.Quotas{}}))(t)
	s := testkit.Must(New(st, Options{BaseURL: "http://callbook.example.org", Log: zerolog.Nop()}))(t)
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	served := &rawServer{TB: t, address: listener.Addr().String(), path: path, stop: stop, ended: make(chan error, 1), store: st, server: s}
	var once sync.Once
	served.stop = func() { once.Do(stop) }
	go func() { served.ended <- errors.Join(s.Serve(ctx, Front{Listener: listener}), st.Close()) }()
	t.Cleanup(func() {
		served.stop()
		select {
		case err, open := <-served.ended:
			if open && err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(2 * shutdownTimeout):
			t.Error("the server does not stop")
		}
	})
	return served
}

// dial opens a connection that no test waits on for long.
func (s *rawServer) dial() *net.TCPConn {
	s.Helper()
	conn := testkit.Must(net.Dial("tcp", s.address))(s)
	s.Cleanup(func() { conn.Close() })
	testkit.NoError(s, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn.(*net.TCPConn)
}

// exchange sends bytes, closes its side, and reads all responses.
func (s *rawServer) exchange(raw string) []*http.Response {
	s.Helper()
	conn := s.dial()
	go func() { // the server may response and close before it has read all
		_, _ = io.WriteString(conn, raw)
		_ = conn.CloseWrite()
	}()
	var responses []*http.Response
	for r := bufio.NewReader(conn); ; {
		a, err := http.ReadResponse(r, nil)
		if err != nil {
			return responses
		}
		body, _ := io.ReadAll(a.Body)
		a.Body = io.NopCloser(strings.NewReader(string(body)))
		responses = append(responses, a)
	}
}

// register returns a request that registers an agent, with these lines among its headers.
func register(handle string, headers ...string) string {
	body := fmt.Sprintf(`{"handle":"%s","name":"A","owner":"B","mailbox":"a@example.org","description_en":"D","accept_rules":true}`, handle)
	lines := append([]string{"POST /api/agents HTTP/1.1", "Host: callbook.example.org", fmt.Sprintf("Content-Length: %d", len(body))}, headers...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

func TestHTTP_AmbiguousRequestsHaveOneReading(t *testing.T) {
	s := startRawServer(t)
	const host = "Host: callbook.example.org\r\n"
	const smuggled = "GET /api/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	tests := []struct {
		name, raw string
		want      string // statuses of the responses
	}{
		{"two plain requests", "GET /api HTTP/1.1\r\n" + host + "\r\nGET /healthz HTTP/1.1\r\n" + host + "\r\n", "200 200"},
		{"two lengths that differ", "POST /api/agents HTTP/1.1\r\n" + host + "Content-Length: 2\r\nContent-Length: 44\r\n\r\n{}" + smuggled, "400"},
		{"a list of lengths", "POST /api/agents HTTP/1.1\r\n" + host + "Content-Length: 2, 44\r\n\r\n{}" + smuggled, "400"},
		{"a negative length", "POST /api/agents HTTP/1.1\r\n" + host + "Content-Length: -2\r\n\r\n{}", "400"},
		{"a length with a sign", "POST /api/agents HTTP/1.1\r\n" + host + "Content-Length: +2\r\n\r\n{}", "400"},
		{"an unknown transfer coding", "POST /api/agents HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n{}" + smuggled, "501"},
		{"two transfer codings", "POST /api/agents HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled, "501"},
		{"bad chunk size", "POST /api/agents HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n" + smuggled, "400"},
		{"chunk with a bare line feed", "POST /api/agents HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n" + smuggled, "400"},
		{"folded header", "GET /api HTTP/1.1\r\n" + host + "X-Folded: a\r\n b\r\n\r\n", "200"},
		{"header name with a space", "GET /api HTTP/1.1\r\n" + host + "X-Space : a\r\n\r\n", "400"},
		{"header without a name", "GET /api HTTP/1.1\r\n" + host + ": a\r\n\r\n", "400"},
		{"bare carriage return", "GET /api HTTP/1.1\r\n" + host + "X-A: a\rb\r\n\r\n", "400"},
		{"NUL in a header", "GET /api HTTP/1.1\r\n" + host + "X-A: a\x00b\r\n\r\n", "400"},
		{"two hosts", "GET /api HTTP/1.1\r\n" + host + "Host: elsewhere.example.org\r\n\r\n", "400"},
		{"no host", "GET /api HTTP/1.1\r\n\r\n", "400"},
		{"malformed host", "GET /api HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
		{"absolute form", "GET http://elsewhere.example.org/api HTTP/1.1\r\n" + host + "\r\n", "200"},
		{"absolute form of a missing page", "GET http://elsewhere.example.org/nowhere HTTP/1.1\r\n" + host + "\r\n", "404"},
		{"space in the path", "GET /api /x HTTP/1.1\r\n" + host + "\r\n", "400"},
		{"bad escape in the path", "GET /api/agents/%zz HTTP/1.1\r\n" + host + "\r\n", "400"},
		{"connect", "CONNECT callbook.example.org:443 HTTP/1.1\r\n" + host + "\r\n", "404"},
		{"old protocol", "GET /api HTTP/0.9\r\n" + host + "\r\n", "505"},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "405"},
		{"not HTTP", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", "400"},
		{"body that ends early", "POST /api/agents HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\n{\"handle\":", "400"},
		{"chunks that end early", "POST /api/agents HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + chunk(`{"handle":`), "400"},
		{"body of a GET", "GET /api HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n{}GET /healthz HTTP/1.1\r\n" + host + "\r\n", "200 200"},
		{"bare line feeds", "GET /api HTTP/1.1\nHost: callbook.example.org\n\nGET /healthz HTTP/1.1\nHost: callbook.example.org\n\n", "200 200"},
		{"a length before chunks, which alone count", "POST /api/agents HTTP/1.1\r\n" + host + "Content-Length: 52\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}") + "0\r\n\r\n" + smuggled, "422 404"},
		{"a length after chunks, which alone count", "POST /api/agents HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk("{}") + "0\r\n\r\n" + smuggled, "422 404"},
		{"expectation that is none", "POST /api/agents HTTP/1.1\r\n" + host + "Expect: miracles\r\nContent-Length: 2\r\n\r\n{}", "417"},
	}
	for _, tt := range tests {
		var got []string
		for _, a := range s.exchange(tt.raw) {
			got = append(got, fmt.Sprint(a.StatusCode))
		}
		equal(t, tt.want, strings.Join(got, " "), "%s", tt.name)
	}
	proof.Figure(t, "raw requests", len(tests))
}

func TestHTTP_HeadersAreBounded(t *testing.T) {
	s := startRawServer(t)
	const start = "GET /api HTTP/1.1\r\nHost: callbook.example.org\r\n"
	tests := map[string]string{
		"one long header": start + "X-Long: " + strings.Repeat("a", 24<<10) + "\r\n\r\n",
		"many headers":    start + strings.Repeat("X-Many: 0123456789\r\n", 2000) + "\r\n",
		"a long path":     "GET /" + strings.Repeat("a", 24<<10) + " HTTP/1.1\r\nHost: callbook.example.org\r\n\r\n",
	}
	for name, raw := range tests {
		responses := s.exchange(raw)
		if len(responses) != 1 || responses[0].StatusCode != 431 || !responses[0].Close {
			t.Errorf("%s: %+v", name, responses)
		}
	}
	if a := s.exchange(start + "X-Long: " + strings.Repeat("a", 12<<10) + "\r\n\r\n"); len(a) != 1 || a[0].StatusCode != 200 {
		t.Errorf("12 KiB of headers: %+v", a)
	}
	proof.Figure(t, "raw requests", len(tests)+1)
}

func TestHTTP_BodiesAreBounded(t *testing.T) {
	s := startRawServer(t)
	const start = "POST /api/agents HTTP/1.1\r\nHost: callbook.example.org\r\n"
	blank := strings.Repeat(" ", 32<<10)
	endless := start + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk(blank), 64)
	tests := map[string]string{
		"chunks over the limit":  start + "Transfer-Encoding: chunked\r\n\r\n" + chunk(blank) + chunk(blank) + chunk("{}") + "0\r\n\r\n",
		"chunks without an end":  endless,
		"a length over it":       start + fmt.Sprintf("Content-Length: %d\r\n\r\n", api.MaxBody+1) + strings.Repeat(" ", api.MaxBody+1),
		"a length far beyond it": start + "Content-Length: 10000000000\r\n\r\n{}",
	}
	for name, raw := range tests {
		conn := s.dial()
		go func() { _, _ = io.WriteString(conn, raw) }()
		a, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(a.Body)
		if a.StatusCode != 413 || !a.Close || !strings.Contains(string(body), `"body_too_large"`) {
			t.Errorf("%s: %d, close %v, %s", name, a.StatusCode, a.Close, body)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", name)
		}
	}
	full := `{}` + strings.Repeat(" ", api.MaxBody-2)
	a := s.exchange(start + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(full)) + full)
	if len(a) != 1 || a[0].StatusCode != 422 {
		t.Errorf("a body of exactly 64 KiB: %+v", a)
	}
	proof.Figure(t, "raw requests", len(tests)+1)
}

func TestHTTP_IncompleteHeadersTimeOut(t *testing.T) {
	s := newSite(t)
	h := s.server.newHTTPServer(Front{})
	if got, want := [...]time.Duration{h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout}, [...]time.Duration{middleware.HeaderTimeout, readTimeout, writeTimeout, middleware.IdleTimeout}; got != want {
		t.Errorf("header, call, answer and pause may take %v, want %v", got, want)
	}
	h.ReadHeaderTimeout = 100 * time.Millisecond
	server := httptest.NewUnstartedServer(nil)
	server.Config = h
	server.Start()
	defer server.Close()
	here := &rawServer{TB: t, address: server.Listener.Addr().String()}
	testkit.Together(10, func(i int) error {
		conn := here.dial()
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "GET /api HTTP/1.1\r\nHost: callbook")
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection stays open")
		}
		return nil
	})
}

// begin sends a request without its body, and returns once its handler reads the body.
func (s *rawServer) begin(request string) (conn *net.TCPConn, r *bufio.Reader, body string) {
	s.Helper()
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	conn = s.dial()
	testkit.Must(io.WriteString(conn, head+"\r\nExpect: 100-continue\r\n\r\n"))(s)
	r = bufio.NewReader(conn)
	line, err := r.ReadString('\n') // the handler waits for the body
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		s.Fatalf("%q, %v", line, err)
	}
	_, _ = r.ReadString('\n')
	return conn, r, body
}

// TestHTTP_LateBodyIsAuthorizedAgain: the key of a request ends before its body arrives.
func TestHTTP_LateBodyIsAuthorizedAgain(t *testing.T) {
	for ends, c := range map[string]struct {
		end         func(*store.Store, domain.Caller) error
		want, calls int
	}{
		"nothing": {func(*store.Store, domain.Caller) error { return nil }, 201, 1},
		"another key": {func(s *store.Store, c domain.Caller) error {
			_, _, err := s.RotateKey(context.Background(), c)
			return err
		}, 401, 0},
		"a suspension": {func(s *store.Store, c domain.Caller) error {
			return s.Suspend(context.Background(), c.Handle, "spam", time.Time{})
		}, 403, 0},
		"deletion": {func(s *store.Store, c domain.Caller) error { return s.DeleteAgent(context.Background(), c) }, 401, 0},
	} {
		t.Run(ends, func(t *testing.T) {
			s := startRawServer(t)
			registered, _, err := s.store.Register(t.Context(), domain.Registration{
				Handle: "harbour-pilot", Name: "A", Owner: "B", Mailbox: "a@example.org", AcceptRules: true,
				Profile: domain.Profile{DescriptionEN: "D"},
			}, domain.IdempotencyKey{})
			testkit.NoError(t, err)
			caller := testkit.Must(s.store.Authenticate(t.Context(), registered.Key))(t)
			const call = `{"kind":"seeking","title":"Tides","body":"Of the month"}`
			conn, r, body := s.begin(fmt.Sprintf("POST /api/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", registered.Key, len(call), call))
			testkit.NoError(t, c.end(s.store, caller))
			testkit.Must(io.WriteString(conn, body))(t)
			a, err := http.ReadResponse(r, nil)
			if err != nil || a.StatusCode != c.want {
				t.Errorf("%+v, %v, want %d", a, err, c.want)
			}
			equal(t, c.calls, rows(t, s.path, "posts"), "calls that are stored")
		})
	}
}

func TestShutdown_CompletesRunningRequests(t *testing.T) {
	s := startRawServer(t)
	idle := s.dial()
	testkit.Must(io.WriteString(idle, "GET /api HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	const running = 8
	var begun [running]struct {
		conn *net.TCPConn
		r    *bufio.Reader
		body string
	}
	for i := range begun {
		begun[i].conn, begun[i].r, begun[i].body = s.begin(register(fmt.Sprintf("agent-%d", i)))
	}
	s.stop()
	for { // until new connections are rejected
		conn, err := net.DialTimeout("tcp", s.address, time.Second)
		if err != nil {
			break
		}
		conn.Close()
	}
	select {
	case err := <-s.ended:
		t.Fatalf("it stopped while calls ran: %v", err)
	default:
	}
	for i, call := range begun {
		testkit.Must(io.WriteString(call.conn, call.body))(t)
		a, err := http.ReadResponse(call.r, nil)
		if err != nil || a.StatusCode != 201 {
			t.Fatalf("call %d: %v, %v", i, a, err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("stopping: %v", err)
	}
	close(s.ended)
	if info, err := os.Stat(s.path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("the write-ahead log still has %d bytes", info.Size())
	}
	equal(t, running, rows(t, s.path, "agents"), "registrations that are stored")
}

func TestShutdown_CutsOffEndlessRequests(t *testing.T) {
	t.Parallel()
	s := startRawServer(t)
	s.server.shutdown = 200 * time.Millisecond
	conn, _, _ := s.begin(register("harbour-pilot"))
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("stopping: %v", err)
	}
	close(s.ended)
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
	equal(t, 0, rows(t, s.path, "agents"), "agents of an unfinished call")
}

// TestHTTP_RejectsExpectedBodyAtOnce: the client waits for the permission to send its body, and must not wait for the
// rejection.
func TestHTTP_RejectsExpectedBodyAtOnce(t *testing.T) {
	conn := startRawServer(t).dial()
	testkit.Must(io.WriteString(conn, "POST /api/posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer cq_wrong\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"))(t)
	testkit.NoError(t, conn.SetReadDeadline(time.Now().Add(3*time.Second))) //clock: of the connection
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || a.StatusCode != http.StatusUnauthorized {
		t.Errorf("%+v, %v", a, err)
	}
}
