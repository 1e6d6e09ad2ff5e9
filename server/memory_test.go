package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"callbook/server/api"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// stalled is the ResponseWriter of a client that does not read: Write waits until it is released.
type stalled struct {
	*httptest.ResponseRecorder
	writing chan struct{} // closed by the first Write
	release chan struct{}
	once    sync.Once
}

func (s *stalled) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.writing) })
	<-s.release
	return s.ResponseRecorder.Write(b)
}

// stalledClients are clients that do not read.
type stalledClients struct {
	*site
	ctx     context.Context // of the requests
	release chan struct{}
	all     sync.WaitGroup
}

func newStalledClients(s *site) *stalledClients {
	return &stalledClients{site: s, ctx: context.Background(), release: make(chan struct{})}
}

func (c *stalledClients) get(path, address string, headers ...string) int {
	w := &stalled{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), release: c.release}
	c.all.Go(func() {
		c.server.ServeHTTP(w, requestFrom(http.MethodGet, path, nil, address, headers...).WithContext(c.ctx))
	})
	<-w.writing
	return w.Code
}

func (c *stalledClients) end() {
	close(c.release)
	c.all.Wait()
}

func requestFrom(method, path string, body io.Reader, address string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.RemoteAddr = address
	return addHeaders(r, headers)
}

const (
	memoryOfNetwork = 4 << 20
	allMemory       = 64 << 20
)

// TestResponseMemory_LimitsANetwork holds promise 1 of SECURITY.md.
func TestResponseMemory_LimitsANetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		option  func(*siteOptions)
		address string // %x is the number of the client
		header  string // likewise
		other   string // address of another client
	}{
		"an IPv4 address": {func(*siteOptions) {}, "192.0.2.1:%d", "", "192.0.2.2:1"},
		"behind a proxy":  {behindProxy(nil), "127.0.0.1:%d", "X-Forwarded-For: 2001:db8::%x", "192.0.2.2:1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tt.option)
			size := len(s.server.openAPI().Body)
			clients := newStalledClients(s)
			for i := range 4 * memoryOfNetwork / size {
				want := http.StatusOK
				if (i+1)*size > memoryOfNetwork {
					want = http.StatusServiceUnavailable
				}
				header := tt.header
				if header != "" {
					header = fmt.Sprintf(header, i+1)
				}
				if got := clients.get("/openapi.json", fmt.Sprintf(tt.address, i+1), header); got != want {
					t.Fatalf("client %d of %d bytes each: %d, want %d", i+1, size, got, want)
				}
			}
			equal(t, http.StatusOK, clients.get("/openapi.json", tt.other), "another network")
			clients.end()
			equal(t, 0, s.server.observer.Memory.Used(), "bytes that are counted in the end")
			s.send("GET", "/openapi.json", "", nil).status(200)
		})
	}
}

// TestResponseMemory_LimitsAllNetworks: many networks hold what they can. Others are served from the reserve.
// It holds promise 1 of SECURITY.md.
func TestResponseMemory_LimitsAllNetworks(t *testing.T) {
	s := newSite(t)
	clients := newStalledClients(s)
	for network := range 20 {
		for range 2 * memoryOfNetwork / len(s.server.openAPI().Body) {
			clients.get("/openapi.json", fmt.Sprintf("192.0.2.%d:1", network))
		}
	}
	if used := s.server.observer.Memory.Used(); used > allMemory || used < allMemory/8*7-memoryOfNetwork {
		t.Errorf("%d bytes are in flight", used)
	}
	equal(t, http.StatusOK, clients.get("/openapi.json", "198.51.100.1:1"), "another network")
	clients.end()
}

// TestResponseMemory_RejectedResponseIsAWholeError holds promise 1 of SECURITY.md.
func TestResponseMemory_RejectedResponseIsAWholeError(t *testing.T) {
	s := newSite(t)
	s.server.observer.Memory = ratelimit.NewPool(0, domain.Share{}, 0)
	for path, kind := range map[string]string{"/openapi.json": api.JSONType, "/docs/troubleshooting": "text/html; charset=utf-8"} {
		for _, encoding := range []string{"gzip", "identity"} {
			a := s.handle(requestFrom(http.MethodGet, path, nil, "192.0.2.1:1", "Accept-Encoding: "+encoding))
			h := a.Header
			if a.Status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" || h.Get("Etag") != "" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != kind {
				t.Errorf("%s: %d %v", path, a.Status, h)
			}
			if got := h.Get("Content-Length"); h.Get("Content-Encoding") == "" && got != fmt.Sprint(len(a.Body)) {
				t.Errorf("%s: %s bytes are announced, %d sent", path, got, len(a.Body))
			}
		}
	}
	// A client has to learn what its write has done.
	registration := registrationOf("harbour-pilot")
	registration["description_en"], registration["description_zh"] = strings.Repeat("潮", 600), strings.Repeat("汐", 600)
	a := s.handle(requestFrom(http.MethodPost, "/api/agents", bytes.NewReader(api.Marshal(registration)), "192.0.2.1:1"))
	if a.Status != http.StatusCreated || len(a.Body) <= 4<<10 {
		t.Errorf("a registration: %d %s", a.Status, a.Body)
	}
}

// arriving is a body that announces its first part, and ends when it is released.
type arriving struct {
	io.Reader
	arrived chan struct{}
	release chan struct{}
	once    sync.Once
}

func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		a.once.Do(func() { close(a.arrived) })
		<-a.release
	}
	return n, err
}

// TestRequestMemory_LimitsANetwork holds promise 1 of SECURITY.md.
func TestRequestMemory_LimitsANetwork(t *testing.T) {
	s := newSite(t)
	const size = 60_000
	release, statuses := make(chan struct{}), make(chan int, memoryOfNetwork)
	var all sync.WaitGroup
	const fits = memoryOfNetwork / api.MaxBody // a body of unknown length counts as the largest
	for range fits {
		body := &arriving{Reader: strings.NewReader(strings.Repeat(" ", size)), arrived: make(chan struct{}), release: release}
		all.Go(func() {
			statuses <- s.handle(requestFrom(http.MethodPost, "/api/agents", body, "192.0.2.1:1")).Status
		})
		<-body.arrived
	}
	for address, want := range map[string]int{"192.0.2.1:1": http.StatusServiceUnavailable, "192.0.2.2:1": http.StatusBadRequest} {
		a := s.handle(requestFrom(http.MethodPost, "/api/agents", strings.NewReader(strings.Repeat(" ", size)), address))
		if a.Status != want || (a.Header.Get("Retry-After") != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("%s: %d %s, want %d", address, a.Status, a.Body, want)
		}
	}
	close(release)
	all.Wait()
	for range fits {
		equal(t, http.StatusBadRequest, <-statuses, "a body within the limit")
	}
	equal(t, 0, s.server.observer.Memory.Used(), "bytes that are counted in the end")
}
