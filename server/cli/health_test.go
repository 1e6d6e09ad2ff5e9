package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"callbook/testdata/testkit"
)

// listenOn serves a handler at a new address of this kind, and returns the address for --addr.
func listenOn(t *testing.T, network string, handler http.HandlerFunc) string {
	t.Helper()
	s, prefix := httptest.NewUnstartedServer(handler), ""
	if network == "unix" {
		l, err := net.Listen(network, filepath.Join(t.TempDir(), "s"))
		testkit.NoError(t, err)
		_ = s.Listener.Close()
		s.Listener, prefix = l, "unix:"
	}
	if network == "tls" {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return prefix + s.Listener.Addr().String()
}

// TestHealth_ReportsWhetherTheServiceResponds: at the address and the name of its settings.
func TestHealth_ReportsWhetherTheServiceResponds(t *testing.T) {
	const domain = "directory.example.org"
	respond := func(want string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Host != want || r.URL.Path != "/healthz" || (r.TLS != nil) != (want == domain) {
				w.WriteHeader(http.StatusNotFound)
			}
		}
	}
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	moved := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }
	for name, tt := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"works":              {[]string{"--addr", listenOn(t, "tcp", respond("localhost"))}, 0, ""},
		"works on a socket":  {[]string{"--addr", listenOn(t, "unix", respond("localhost"))}, 0, ""},
		"works over HTTPS":   {[]string{"--domain", domain, "--addr", listenOn(t, "tls", respond(domain))}, 0, ""},
		"does not work":      {[]string{"--addr", listenOn(t, "tcp", broken)}, statusFailed, "responds with status 503"},
		"is something else":  {[]string{"--addr", listenOn(t, "tcp", moved)}, statusFailed, "responds with status 302"},
		"is not there":       {[]string{"--addr", "127.0.0.1:1"}, statusFailed, "there is no response from 127.0.0.1:1"},
		"has no certificate": {[]string{"--domain", domain, "--addr", listenOn(t, "tcp", respond(domain))}, statusFailed, "there is no response"},
	} {
		status, out, errors := helped(t, append([]string{"health"}, tt.args...)...)
		if status != tt.status || out != "" || !strings.Contains(errors, tt.want) || (errors != "") != (tt.want != "") {
			t.Errorf("%s: status %d, %s%s", name, status, out, errors)
		}
	}
}
