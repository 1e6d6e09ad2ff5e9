package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

// flood sends a request many times over one connection, and returns the bytes sent and the statuses of the responses.
func (s *site) flood(request string, times int) (sent int, statuses map[int]int) {
	s.Helper()
	return s.floodAt(s.url, request, times)
}

func (s *site) floodAt(url, request string, times int) (sent int, statuses map[int]int) {
	s.Helper()
	conn := testkit.Must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(s)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute)) //clock: of the connection
	go func() { _, _ = io.WriteString(conn, strings.Repeat(request, times)) }()
	statuses = map[int]int{}
	method, _, _ := strings.Cut(request, " ")
	for r := bufio.NewReader(conn); sent < times*len(request); sent += len(request) {
		a, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			s.Fatalf("response %d to %.40q: %v", sent/len(request), request, err)
		}
		testkit.Must(io.Copy(io.Discard, a.Body))(s)
		statuses[a.StatusCode]++
	}
	return sent, statuses
}

// floods are requests that anybody can send without end.
var floods = map[string]string{
	"unknown path":         "GET /x HTTP/1.1\r\nHost: x\r\n\r\n",
	"long path":            "GET /" + strings.Repeat("a/", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	"encoded slash":        "GET /api%2Fagents HTTP/1.1\r\nHost: x\r\n\r\n",
	"unknown record":       "GET /api/agents/nobody HTTP/1.1\r\nHost: x\r\n\r\n",
	"unknown method":       "BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
	"long method":          strings.Repeat("A", 10_000) + " / HTTP/1.1\r\nHost: x\r\n\r\n",
	"method not allowed":   "PUT /api HTTP/1.1\r\nHost: x\r\n\r\n",
	"OPTIONS":              "OPTIONS /api HTTP/1.1\r\nHost: x\r\n\r\n",
	"OPTIONS of no path":   "OPTIONS /x HTTP/1.1\r\nHost: x\r\n\r\n",
	"health":               "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
	"bad query":            "GET /api/agents?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
	"no key":               "GET /api/me HTTP/1.1\r\nHost: x\r\n\r\n",
	"empty registration":   "POST /api/agents HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	"foreign host at /mcp": "POST /mcp HTTP/1.1\r\nHost: elsewhere.example.org\r\nContent-Length: 0\r\n\r\n",
	"no report":            "POST /calls/x/report HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	"page of no agent":     "GET /agents/nobody HTTP/1.1\r\nHost: x\r\n\r\n",
	"owner's page":         "GET /owner/x HTTP/1.1\r\nHost: x\r\n\r\n",
	"long request id":      "GET /x HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + strings.Repeat("a", 64) + "\r\n\r\n",
}

// plainFloods are those of plain HTTP beside a site that terminates TLS itself.
var plainFloods = map[string]string{
	"redirect":  "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"plain key": "GET /api/me HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\n\r\n",
	"challenge": "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: x\r\n\r\n",
}

// serveAlso serves a handler at an address of its own.
func serveAlso(t *testing.T, h http.Handler) (url string) {
	also := httptest.NewServer(h)
	t.Cleanup(also.Close)
	return also.URL
}

// TestFlood_IsLimitedAndLoggedInLessThanItSends: the clock stands still, so a flood is
// what comes in a moment.
// It holds promise 11 of SECURITY.md.
func TestFlood_IsLimitedAndLoggedInLessThanItSends(t *testing.T) {
	t.Parallel()
	times := proof.Rounds(1000, 10_000, 50_000)
	flood := func(name, request string, at func(s *site) string) {
		s := newSite(t, withLimits(DefaultLimits))
		n := times
		if len(request) > 1000 {
			n = times / 10
		}
		sent, statuses := s.floodAt(at(s), request, n)
		if statuses[http.StatusTooManyRequests] < n-DefaultLimits[limitReads].Requests {
			t.Errorf("%s: %v", name, statuses)
		}
		logged := len(s.log.String())
		if proof.Asked() || statuses[http.StatusTooManyRequests]+statuses[http.StatusNotFound]+statuses[http.StatusMethodNotAllowed] == n {
			if logged > sent {
				t.Errorf("%s: %d bytes are sent, %d logged", name, sent, logged)
			}
			proof.Figure(t, "log percent", (100*logged+sent-1)/sent)
		}
		proof.Figure(t, "requests", n)
	}
	for name, request := range floods {
		flood(name, request, func(s *site) string { return s.url })
	}
	for name, request := range plainFloods {
		flood(name, request, func(s *site) string { return serveAlso(t, s.server.Redirect(http.NotFoundHandler())) })
	}
	flood("other name", "GET / HTTP/1.1\r\nHost: other.example.org\r\n\r\n", func(s *site) string {
		return serveAlso(t, s.server.OneName([]string{"other.example.org"}))
	})
	proof.Figure(t, "floods", len(floods)+len(plainFloods)+1)
}

// TestLog_CountsRequestsLeftOut holds promise 11 of SECURITY.md.
func TestLog_CountsRequestsLeftOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, statuses := s.flood(floods["unknown path"], 50)
	if n := strings.Count(s.log.String(), `"status":404`); statuses[404] != 50 || n < 1 || n > 3 {
		t.Errorf("%v are logged in %d lines", statuses, n)
	}
	for !strings.Contains(s.log.String(), `"unlogged":`) { // a second later
		s.send("GET", "/x", "", nil).rejected(404, domain.CodeNotFound)
	}
}

// TestLog_BoundsPathAndMethod holds promise 11 of SECURITY.md.
func TestLog_BoundsPathAndMethod(t *testing.T) {
	s := newSite(t)
	s.flood(floods["long method"], 1)
	s.flood("GET /api?"+strings.Repeat("a", 9000)+" HTTP/1.1\r\nHost: x\r\n\r\n", 1)
	for i := range 3 { // of other networks
		s.sendRaw("GET", fmt.Sprintf("/api/agents/%s", strings.Repeat("潮", i+1)+strings.Repeat("/b", 3000)))
	}
	log := s.log.String()
	if !strings.Contains(log, `"method":"OTHER"`) || strings.Contains(log, "AAA") {
		t.Errorf("a method of its own: %s", log)
	}
	for line := range strings.Lines(log) {
		if len(line) > 500 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
}

// TestLog_BusyResponsesAreNoErrors: behind a proxy, a network has as many requests at once as it
// gets, and the next ones are rejected.
// It holds promise 11 of SECURITY.md.
func TestLog_BusyResponsesAreNoErrors(t *testing.T) {
	for name, limit := range map[string]func(*Server){
		"requests": func(s *Server) { s.observer.Requests = ratelimit.NewPool(0, domain.Share{}, 0) },
		"memory":   func(s *Server) { s.observer.Memory = ratelimit.NewPool(0, domain.Share{}, 0) },
	} {
		s := newSite(t, behindProxy(nil))
		limit(s.server)
		for range 50 {
			s.handle(requestFrom(http.MethodGet, "/openapi.json", nil, "127.0.0.1:1", "X-Forwarded-For: 192.0.2.1")).status(http.StatusServiceUnavailable)
		}
		log := s.log.String()
		if n := strings.Count(log, `"status":503`); n < 1 || n > 3 || strings.Contains(log, `"level":"error"`) {
			t.Errorf("%s: 50 responses are %d lines: %.300s", name, n, log)
		}
	}
}
