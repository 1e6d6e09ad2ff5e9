package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"callbook/server/middleware"
	"callbook/store/backup"
	"callbook/store/domain"
)

// TestNotice_SocketWithoutTheHeader: a proxy in front of a Unix socket that does not send the address of the client.
func TestNotice_SocketWithoutTheHeader(t *testing.T) {
	s := newSite(t)
	for header, want := range map[string]int{"203.0.113.7": 0, "": 1} {
		r := httptest.NewRequest(http.MethodGet, "/api", nil)
		if r.RemoteAddr = "@"; header != "" {
			r.Header.Set("X-Forwarded-For", header)
		}
		logged := len(s.log.String())
		s.server.ServeHTTP(httptest.NewRecorder(), r)
		s.server.ServeHTTP(httptest.NewRecorder(), r)
		if log := s.log.String()[logged:]; strings.Count(log, "the Unix socket has no X-Forwarded-For") != want || strings.Contains(log, proxyNotice) {
			t.Errorf("with the header %q: %s", header, log)
		}
	}
}

const proxyNotice = "whose X-Forwarded-For header is not trusted"

func TestAbuse20_AMissingTrustedProxyIsReported(t *testing.T) {
	for _, tt := range []struct {
		name, peer, header string
		trusted            string
		want               int
	}{
		{"a proxy on this machine", "127.0.0.1:4000", "203.0.113.7", "", 1},
		{"an IPv6 proxy in a private network", "[fd00::1]:4000", "203.0.113.7", "", 1},
		{"a client of the Internet that sends the header", "203.0.113.9:4000", "203.0.113.7", "", 0},
		{"no header", "127.0.0.1:4000", "", "", 0},
		{"a trusted proxy", "127.0.0.1:4000", "203.0.113.7", "127.0.0.1/32", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, func(o *siteOptions) {
				if tt.trusted != "" {
					o.trusted = middleware.TrustedProxies{netip.MustParsePrefix(tt.trusted)}
				}
			})
			visit := func() {
				r := httptest.NewRequest(http.MethodGet, "/api", nil)
				r.RemoteAddr = tt.peer
				if tt.header != "" {
					r.Header.Set("X-Forwarded-For", tt.header)
				}
				s.server.ServeHTTP(httptest.NewRecorder(), r)
			}
			notices := func(want int) {
				t.Helper()
				equal(t, want, strings.Count(s.log.String(), proxyNotice), "lines in the log")
			}
			visit()
			visit()
			notices(tt.want)
			s.agent("harbour-pilot") // a write after the one in the background
			contents, err := backup.Verify(t.Context(), s.path, true)
			if err != nil || (contents.UntrustedProxyAt > 0) != (tt.want > 0) {
				t.Errorf("the database has the time %v, %v", contents.UntrustedProxyAt, err)
			}
			s.clock.Advance(domain.Day)
			visit()
			notices(2 * tt.want)
		})
	}
}
