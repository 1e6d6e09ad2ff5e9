//go:build unix

package systemtest

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// HTTPS without a reverse proxy: first with saved certificates or none, then with a certificate authority.

// testDomain is the name of the sites in these tests.
const testDomain = "directory.example.org"

// closedAddress is an address on which no process listens.
const closedAddress = "127.0.0.1:1"

// authorityDirectory returns the directory of a certificate authority at an address, and the folder of its certificates.
func authorityDirectory(addr string) (directory, folder string) {
	return "https://" + addr + "/directory", filepath.Join("certificates", strings.ReplaceAll(addr, ":", "_"))
}

// unreachableAuthority returns the directory of a certificate authority that cannot be reached, and the folder of its
// certificates.
func unreachableAuthority() (directory, folder string) { return authorityDirectory(closedAddress) }

// silentAuthority returns an authority that accepts connections, counts them and sends nothing.
func silentAuthority(t testing.TB) (directory, folder string, calls *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	calls = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			t.Cleanup(func() { conn.Close() })
		}
	}()
	directory, folder = authorityDirectory(listener.Addr().String())
	return directory, folder, calls
}

// newSelfSignedCert returns a self-signed certificate with its key, as PEM.
func newSelfSignedCert(t testing.TB, begin, end time.Time, names ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	draft := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"Harbour Trust"}, CommonName: "H1"},
		NotBefore: begin, NotAfter: end, IsCA: true, BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			draft.IPAddresses = append(draft.IPAddresses, ip)
		} else {
			draft.DNSNames = append(draft.DNSNames, name)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, draft, draft, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
}

// siteSockets are the listening sockets of a site, passed to its process: the port is known before it starts, and cannot
// be taken.
type siteSockets struct {
	addr, plain, figures string
	files                []*os.File
}

func newSockets(t testing.TB) *siteSockets {
	t.Helper()
	s := &siteSockets{}
	for _, at := range []*string{&s.addr, &s.figures, &s.plain} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close(); file.Close() })
		*at = listener.Addr().String()
		s.files = append(s.files, file)
	}
	return s
}

// serve runs the program on the sockets, after some lines of shell.
func (s *siteSockets) serve(t testing.TB, lines string, args ...string) *process {
	t.Helper()
	files := s.files
	if slices.Contains(args, "--http-addr=off") { // the program rejects a socket that it does not serve
		files = files[:2]
	}
	p := spawnByShell(t, fmt.Sprintf("export LISTEN_FDS=%d LISTEN_PID=$$\n", len(files))+lines, files, append([]string{
		"serve", "--addr", s.addr, "--metrics-addr", s.figures, "--log-level=debug", "--log=json",
	}, args...)...)
	p.waitLog("callbook is serving", 1)
	return p
}

// httpsClient returns a client that connects to one address for every name, and follows no redirects.
func httpsClient(t testing.TB, at string, trusted *x509.CertPool) *http.Client {
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trusted},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, at)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Timeout: patience, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tlsHandshake performs a TLS handshake for a name.
func tlsHandshake(at string, config *tls.Config) (tls.ConnectionState, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", at, config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), nil
}

// TestHTTPS_ServesSavedCertificates checks that saved certificates are served without a request to the authority,
// that the second name redirects to the first, and that handshakes for other names fail.
func TestHTTPS_ServesSavedCertificates(t *testing.T) {
	t.Parallel()
	folder, other := t.TempDir(), "www."+testDomain
	directory, certs, calls := silentAuthority(t)
	begin := time.Now().Add(-time.Hour)
	trusted := x509.NewCertPool()
	for _, name := range []string{testDomain, other} {
		made := newSelfSignedCert(t, begin, begin.Add(90*24*time.Hour), name)
		trusted.AppendCertsFromPEM(made)
		writeFile(t, filepath.Join(folder, certs, name), made)
	}
	s := newSockets(t)
	p := s.serve(t, "", "--domain", testDomain, "--domain", other, "--acme-directory", directory, "--http-addr", s.plain, "--db", filepath.Join(folder, "callbook.db"))
	at, client := s.addr, httpsClient(t, s.addr, trusted)
	for _, name := range []string{testDomain, other} {
		waitFor(t, name+" is served", func() bool {
			_, err := tlsHandshake(at, &tls.Config{ServerName: name, RootCAs: trusted})
			return err == nil
		})
	}

	a, text := fetch(t, client, "GET", "https://"+testDomain+"/api")
	if a.StatusCode != 200 || a.ProtoMajor != 2 || a.Header.Get("Strict-Transport-Security") == "" || !strings.Contains(text, `"https://`+testDomain+`/openapi.json"`) {
		t.Errorf("the site: %d by HTTP/%d, %v: %s", a.StatusCode, a.ProtoMajor, a.Header, text)
	}
	for _, call := range []string{"GET /agents?q=%E6%BD%AE", "POST /api/agents", "OPTIONS /api"} {
		method, path, _ := strings.Cut(call, " ")
		a, text := fetch(t, client, method, "https://"+other+path, "Authorization: Bearer x")
		if to := a.Header.Get("Location"); a.StatusCode != 308 || to != "https://"+testDomain+path || a.Header.Get("Strict-Transport-Security") == "" || text != "" {
			t.Errorf("%s by the further name: %d, to %q", call, a.StatusCode, to)
		}
	}
	for name, config := range map[string]*tls.Config{
		"another name":     {ServerName: "elsewhere.example.org"},
		"a name below":     {ServerName: "a." + testDomain},
		"no name":          {InsecureSkipVerify: true},
		"old TLS":          {ServerName: testDomain, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"no such protocol": {ServerName: testDomain, NextProtos: []string{"acme-tls/1"}},
		"an RSA client":    {ServerName: testDomain, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}},
	} {
		if _, err := tlsHandshake(at, config); err == nil || errors.As(err, new(*tls.CertificateVerificationError)) {
			t.Errorf("%s: the handshake ends with %v", name, err)
		}
	}
	if state, err := tlsHandshake(at, &tls.Config{ServerName: strings.ToUpper(testDomain), RootCAs: trusted}); err != nil || state.Version != tls.VersionTLS13 {
		t.Errorf("in capitals: %v, version %x", err, state.Version)
	}
	_, text = fetch(t, http.DefaultClient, "GET", "http://"+s.figures+"/metrics")
	for _, name := range []string{testDomain, other} {
		if line := fmt.Sprintf("callbook_certificate_expires_seconds{domain=%q} %d\n", name, begin.Add(90*24*time.Hour).Unix()); !strings.Contains(text, line) {
			t.Errorf("no %s in %s", line, text)
		}
	}
	client.CloseIdleConnections() // shutdown would wait for them
	p.stopCleanly()
	log := p.err.String()
	if strings.Contains(log, `"level":"error"`) || calls.Load() > 0 {
		t.Errorf("the authority is asked %d times, or something else is wrong: %s", calls.Load(), log)
	}
	noise := regexp.MustCompile(`{"level":"debug"[^}]*TLS handshake error from a caller: `).FindAllString(log, -1)
	if len(noise) < 5 || len(noise) != strings.Count(log, "handshake error") {
		t.Errorf("%d lines of noise, as they should be: %s", len(noise), log)
	}
}

// TestCertificate_LogsOverdueRenewal checks the log and the alert.
func TestCertificate_LogsOverdueRenewal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	directory, certs := unreachableAuthority()
	begin := time.Now().Add(-28 * time.Second) // the second check, after a tenth of the lifetime, is in its last quarter
	writeFile(t, filepath.Join(folder, certs, testDomain), newSelfSignedCert(t, begin, begin.Add(40*time.Second), testDomain))
	url, alerts := alertReceiver(t)
	p := start(t, "serve", "--domain", testDomain, "--acme-directory", directory, "--addr=127.0.0.1:0", "--http-addr=off", "--alert-url", url, "--db", filepath.Join(folder, "callbook.db"))
	if a := receive(t, alerts); !strings.Contains(string(a.body), ": no valid certificate") {
		t.Errorf("the alert: %s", a.body)
	}
	waitFor(t, "it is logged", func() bool { return strings.Contains(p.err.String(), "renewal of the certificate is overdue") })
	p.stop()
	if line := firstLine(p.err.String(), "renewal of the certificate is overdue"); !strings.Contains(line, "ERR") || !strings.Contains(line, "the name must point to this machine") {
		t.Errorf("the log: %s", line)
	}
}

func TestAuthority_DelaysNeitherVisitorsNorShutdown(t *testing.T) {
	t.Parallel()
	directory, _, calls := silentAuthority(t)
	p := start(t, "serve", "--domain", testDomain, "--acme-directory", directory, "--addr=127.0.0.1:0", "--http-addr=off", "--db", newDB(t))
	waitFor(t, "the authority is asked", func() bool { return calls.Load() > 0 })
	for range 3 {
		if _, err := tlsHandshake(strings.TrimPrefix(p.base, "http://"), &tls.Config{ServerName: testDomain}); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("the handshake ends with %v", err)
		}
	}
	if status := p.stop(); status != 0 || calls.Load() != 1 {
		t.Errorf("status %d, %d calls", status, calls.Load())
	}
}

// rawRequest sends the text of a request, and returns the response.
func rawRequest(t testing.TB, at, text string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	a, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return a, readBody(t, a)
}

// TestHTTPS_RedirectsPlainHTTP checks all kinds of requests. The authority is unreachable meanwhile: the log reports
// so, with the remedy.
func TestHTTPS_RedirectsPlainHTTP(t *testing.T) {
	t.Parallel()
	directory, _ := unreachableAuthority()
	s := newSockets(t)
	plain := s.plain
	p := s.serve(t, "", "--domain", testDomain, "--acme-directory", directory, "--http-addr", plain, "--db", newDB(t))
	const forbidden = "POST /api/me/rotate-key"
	for _, tt := range []struct{ name, request, want string }{ // want is the Location, or a part of the body
		{"the home page", "GET / HTTP/1.1\r\nHost: " + testDomain + "\r\n\r\n", "https://" + testDomain + "/"},
		{"path and query", "GET /agents/a%2Fb?q=%E6%BD%AE&x=1 HTTP/1.1\r\nHost: " + testDomain + "\r\n\r\n", "https://" + testDomain + "/agents/a%2Fb?q=%E6%BD%AE&x=1"},
		{"HEAD", "HEAD /api HTTP/1.1\r\nHost: " + testDomain + "\r\n\r\n", "https://" + testDomain + "/api"},
		{"HTTP/1.0", "GET /api HTTP/1.0\r\n\r\n", "https://" + testDomain + "/api"},
		{"another host", "GET /api HTTP/1.1\r\nHost: elsewhere.example.org\r\n\r\n", "https://" + testDomain + "/api"},
		{"this address", "GET /api HTTP/1.1\r\nHost: " + plain + "\r\n\r\n", "https://" + testDomain + "/api"},
		{"a whole URL", "GET http://elsewhere.example.org/api HTTP/1.1\r\nHost: elsewhere.example.org\r\n\r\n", "https://" + testDomain + "/api"},
		{"a URL without a path", "GET http://elsewhere.example.org?q=1 HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "/?q=1"},
		{"two slashes", "GET //elsewhere.example.org/x HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "//elsewhere.example.org/x"},
		{"backslash", "GET /\\elsewhere.example.org HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "/%5Celsewhere.example.org"},
		{"no path at all", "GET x:@elsewhere.example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "/"},
		{"an asterisk", "GET * HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "/"},
		{"encoded line breaks", "GET /%0d%0aSet-Cookie:%20a=b?%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "/%0d%0aSet-Cookie:%20a=b?%0d%0aX:%20y"},
		{"bytes of no script", "GET /\xff?\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", "https://" + testDomain + "/%FF?%ff%fe"},
		{"POST", "POST /api/agents HTTP/1.1\r\nHost: " + testDomain + "\r\nContent-Length: 2\r\n\r\n{}", forbidden},
		{"DELETE", "DELETE /api/me?confirm=a HTTP/1.1\r\nHost: x\r\n\r\n", forbidden},
		{"OPTIONS", "OPTIONS /api HTTP/1.1\r\nHost: x\r\n\r\n", forbidden},
		{"a method of its own", "BREW / HTTP/1.1\r\nHost: x\r\n\r\n", forbidden},
		{"GET with a key", "GET /api/me HTTP/1.1\r\nHost: x\r\nauthorization: Bearer cq_secret\r\n\r\n", forbidden},
		{"GET with an empty key", "GET /api/me HTTP/1.1\r\nHost: x\r\nAuthorization:\r\n\r\n", forbidden},
		{"a challenge with a key", "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: " + testDomain + "\r\nAuthorization: x\r\n\r\n", forbidden},
		{"no such challenge", "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: " + testDomain + "\r\n\r\n", "not_found"},
		{"a file for a challenge", "GET /.well-known/acme-challenge/..%2f..%2f..%2fcallbook.db HTTP/1.1\r\nHost: " + testDomain + "\r\n\r\n", "not_found"},
		{"a challenge for another", "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: elsewhere.example.org\r\n\r\n", "not_found"},
	} {
		a, body := rawRequest(t, plain, tt.request)
		if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("X-Request-Id") == "" || a.Header.Get("Set-Cookie") != "" || a.Header.Get("Strict-Transport-Security") != "" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", tt.name, a.Header)
		}
		to := a.Header.Get("Location")
		if strings.HasPrefix(tt.want, "https:") {
			if a.StatusCode != 301 || to != tt.want || body != "" {
				t.Errorf("%s: %d to %q, want %q", tt.name, a.StatusCode, to, tt.want)
			}
			continue
		}
		status := map[string]int{forbidden: 403, "not_found": 404}[tt.want]
		if a.StatusCode != status || to != "" || !strings.Contains(body, `"message_zh":"`) || !strings.Contains(body, tt.want) || strings.Contains(body, "secret") {
			t.Errorf("%s: %d to %q, %s", tt.name, a.StatusCode, to, body)
		}
	}
	_, text := fetch(t, http.DefaultClient, "GET", "http://"+s.figures+"/metrics")
	for _, line := range []string{
		`callbook_http_requests_total{method="GET",route="redirect",status="3xx"} 13`, `callbook_http_requests_total{method="HEAD",route="redirect",status="3xx"} 1`,
		`callbook_http_requests_total{method="GET",route="redirect",status="4xx"} 6`, `callbook_http_requests_total{method="OTHER",route="redirect",status="4xx"} 1`,
		`callbook_certificate_expires_seconds{domain="` + testDomain + `"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in %s", line, text)
		}
	}
	if _, err := tlsHandshake(s.addr, &tls.Config{ServerName: testDomain}); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("without a certificate the handshake ends with %v", err)
	}
	p.waitLog("https has no certificate yet", 1)
	p.stopCleanly()
	log := p.err.String()
	if line := firstLine(log, "https has no certificate yet"); !strings.Contains(line, "connection refused") || !strings.Contains(line, "this machine must reach the authority") || !strings.Contains(line, `"again_in":"1m5s"`) || !strings.Contains(line, testDomain) {
		t.Errorf("the log does not say what is wrong: %q", line)
	}
	const requests, unknown = 24, 3 // requests to unknown paths are logged once a second for a network
	if n := strings.Count(log, `"request_id"`); n > requests || n < requests-unknown+1 || strings.Contains(log, "secret") || !strings.Contains(log, `"code":"forbidden"`) {
		t.Errorf("%d calls are logged: %s", n, log)
	}
}

// TestHTTPS_ReadsSettings checks the defaults that depend on --domain.
func TestHTTPS_ReadsSettings(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	for _, tt := range []struct {
		name string
		args []string
		want []string // among the settings
	}{
		{"as ever", nil, []string{"ADDR=127.0.0.1:8080", "BASE_URL=", "HTTP_ADDR="}},
		{"a domain", []string{"--domain=A.example.org"}, []string{"ADDR=:443", "HTTP_ADDR=:80", "BASE_URL=https://a.example.org", "DOMAIN=a.example.org"}},
		{"of another script", []string{"--domain=港口.example.org"}, []string{"BASE_URL=https://xn--6orv52d.example.org"}},
		{"two", []string{"--domain=a.example.org,www.a.example.org", "--base-url=https://www.a.example.org"}, []string{"BASE_URL=https://www.a.example.org"}},
		{"own addresses", []string{"--domain=a.example.org", "--addr=127.0.0.1:0", "--http-addr=off"}, []string{"ADDR=127.0.0.1:0", "HTTP_ADDR=off"}},
		{"an authority of one's own", []string{"--domain=callbook.internal", "--acme-directory=https://ca.internal/dir"}, []string{"BASE_URL=https://callbook.internal"}},
	} {
		_, printed := runCommandMerged(append([]string{"check", "--db", db}, tt.args...)...)
		for _, want := range tt.want {
			if !strings.Contains(printed, "CALLBOOK_"+want+"\n") || strings.Contains(printed, "ERROR https") {
				t.Errorf("%s: no %s in %s", tt.name, want, printed)
			}
		}
	}
}

func TestCheck_ReportsCertificates(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Now()
	for _, tt := range []struct {
		name string
		file []byte
		mode os.FileMode
		want string
	}{
		{"none", nil, 0o700, "note https " + testDomain + " has no certificate yet"},
		{"good", newSelfSignedCert(t, now.Add(-60*day), now.Add(30*day), testDomain), 0o700, "ok https " + testDomain + " has a certificate by Harbour Trust H1, valid until " + now.Add(30*day).UTC().Format(time.DateOnly)},
		{"late", newSelfSignedCert(t, now.Add(-81*day), now.Add(9*day), testDomain), 0o700, "ERROR https the certificate of " + testDomain + " expires on"},
		{"short-lived", newSelfSignedCert(t, now.Add(-4*day), now.Add(2*day), testDomain), 0o700, "ok https"},
		{"short-lived and late", newSelfSignedCert(t, now.Add(-5*day), now.Add(day), testDomain), 0o700, "ERROR https the certificate of " + testDomain + " expires on"},
		{"ended", newSelfSignedCert(t, now.Add(-91*day), now.Add(-day), testDomain), 0o700, "ERROR https the certificate of " + testDomain + " expires on"},
		{"of another name", newSelfSignedCert(t, now.Add(-day), now.Add(89*day), "elsewhere.example.org"), 0o700, "is for elsewhere.example.org"},
		{"no certificate", []byte("nonsense"), 0o700, "note https"},
		{"open to others", newSelfSignedCert(t, now.Add(-day), now.Add(89*day), testDomain), 0o755, "chmod 700"},
	} {
		folder := t.TempDir()
		certs := filepath.Join(folder, "certificates", "acme-v02.api.letsencrypt.org")
		if tt.file != nil {
			writeFile(t, filepath.Join(certs, testDomain), tt.file)
			if err := os.Chmod(certs, tt.mode); err != nil {
				t.Fatal(err)
			}
		}
		status, printed := runCommandMerged("check", "--domain", testDomain, "--addr=127.0.0.1:0", "--http-addr=127.0.0.1:0", "--db", filepath.Join(folder, "callbook.db"))
		wrong := strings.HasPrefix(tt.want, "ERROR") || strings.HasPrefix(tt.want, "is for") || strings.HasPrefix(tt.want, "chmod")
		if (status == 1) != wrong || !strings.Contains(strings.Join(strings.Fields(printed), " "), tt.want) {
			t.Errorf("%s: %d, want %q:\n%s", tt.name, status, tt.want, printed)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	status, printed := runCommandMerged("check", "--domain", testDomain, "--addr=127.0.0.1:0", "--http-addr", taken.Addr().String(), "--db", newDB(t))
	if status != 1 || !strings.Contains(printed, "give another --http-addr") {
		t.Errorf("plain HTTP on an address in use: %d, %s", status, printed)
	}
}

// TestCertificate_FilesArePrivate checks the alert that there is no certificate, and permissions under a permissive umask.
func TestCertificate_FilesArePrivate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	directory, certs := unreachableAuthority()
	url, alerts := alertReceiver(t)
	p := spawnByShell(t, "umask 0", nil, "serve", "--domain", testDomain, "--acme-directory", directory, "--addr=127.0.0.1:0", "--http-addr=off", "--alert-url", url, "--db", filepath.Join(folder, "callbook.db"))
	p.waitLog("https has no certificate yet", 1) // the account's key is made by then
	if a := receive(t, alerts); !strings.Contains(string(a.body), ": no valid certificate") {
		t.Errorf("the alert: %s", a.body)
	}
	p.stopCleanly()
	modes := fmt.Sprint(fileModes(t, filepath.Join(folder, "certificates")))
	if want := fmt.Sprint([]string{"certificates drwx------", filepath.Base(certs) + " drwx------", "acme_account+key -rw-------"}); modes != want {
		t.Errorf("%s, want %s", modes, want)
	}
}

func fileModes(t testing.TB, folder string) (modes []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		modes = append(modes, entry.Name()+" "+info.Mode().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modes
}

// acmeServer is Pebble, the certificate authority for tests by Let's Encrypt.
type acmeServer struct {
	out       *output
	directory string
	file      string         // holds the certificate of its own addresses
	trusted   *x509.CertPool // what it issues
}

func portOf(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n
}

// newACMEServer starts an authority that validates a site at these addresses and issues certificates with a lifetime
// in seconds.
func newACMEServer(t testing.TB, tlsAddr, plainAddr string, seconds int) *acmeServer {
	t.Helper()
	program := os.Getenv("PEBBLE")
	if program == "" {
		t.Skip("needs a certificate authority: set PEBBLE to the program github.com/letsencrypt/pebble/v2/cmd/pebble, as bash .ci/run https does")
	}
	folder, listen, manage := t.TempDir(), freeAddress(t), freeAddress(t)
	c := &acmeServer{directory: "https://" + listen + "/dir", file: filepath.Join(folder, "own.pem"), trusted: x509.NewCertPool()}
	own := newSelfSignedCert(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "127.0.0.1")
	writeFile(t, c.file, own)
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"tlsPort": portOf(tlsAddr), "httpPort": portOf(plainAddr), "keyAlgorithm": "ecdsa",
		"profiles":      map[string]any{"default": map[string]any{"description": "default", "validityPeriod": seconds}},
		"listenAddress": listen, "managementListenAddress": manage, "certificate": c.file, "privateKey": c.file,
	}})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "pebble.json"), text)
	command := exec.Command(program, "-config", filepath.Join(folder, "pebble.json"), "-dnsserver", newDNSServer(t))
	command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	c.out = startBeside(t, listen, command)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(own)
	waitFor(t, "the authority shows its root", func() bool {
		_, err := tlsHandshake(manage, &tls.Config{RootCAs: pool})
		return err == nil
	})
	_, root := fetch(t, httpsClient(t, manage, pool), "GET", "https://"+manage+"/roots/0")
	if !c.trusted.AppendCertsFromPEM([]byte(root)) {
		t.Fatalf("the authority's root: %s", root)
	}
	return c
}

// newDNSServer starts a name server that resolves every name to this machine.
func newDNSServer(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveDNS(conn)
		}
	}()
	return listener.Addr().String()
}

// serveDNS responds to the first question of a connection.
func serveDNS(conn net.Conn) {
	defer conn.Close()
	var length uint16
	if binary.Read(conn, binary.BigEndian, &length) != nil {
		return
	}
	question := make([]byte, length)
	var m dnsmessage.Message
	if _, err := io.ReadFull(conn, question); err != nil || m.Unpack(question) != nil || len(m.Questions) != 1 {
		return
	}
	q := m.Questions[0]
	m = dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	if q.Type == dnsmessage.TypeA {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	}
	if packed, err := m.AppendPack(make([]byte, 2, 512)); err == nil {
		binary.BigEndian.PutUint16(packed, uint16(len(packed)-2))
		_, _ = conn.Write(packed)
	}
}

// orders returns how many certificates were requested from the authority.
func (c *acmeServer) orders() int { return strings.Count(c.out.String(), "Added order") }

// startSite starts a site that gets its certificates from the authority.
func (c *acmeServer) startSite(t testing.TB, s *siteSockets, db string, args ...string) *process {
	t.Helper()
	return s.serve(t, "export SSL_CERT_FILE="+c.file, append([]string{"--acme-directory", c.directory, "--db", db}, args...)...)
}

const ninetyDays = 90 * 24 * 60 * 60

// TestAuthority_IssuesByTLSChallenge obtains certificates for two names, and checks that a second start still has
// them.
func TestAuthority_IssuesByTLSChallenge(t *testing.T) {
	t.Parallel()
	s, db, other := newSockets(t), newDB(t), "www."+testDomain
	c := newACMEServer(t, s.addr, s.plain, ninetyDays)
	began := time.Now()
	p := c.startSite(t, s, db, "--domain", testDomain, "--domain", other, "--http-addr", s.plain)
	p.waitLog("https has a certificate", 2)
	t.Logf("two certificates after %v", time.Since(began).Round(time.Millisecond))
	client := httpsClient(t, s.addr, c.trusted)
	for _, name := range []string{testDomain, other} {
		a, text := fetch(t, client, "GET", "https://"+name+"/healthz")
		if want := map[string]int{testDomain: 200, other: 308}[name]; a.StatusCode != want || a.ProtoMajor != 2 || a.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s: %d by HTTP/%d, %v: %s", name, a.StatusCode, a.ProtoMajor, a.Header, text)
		}
	}
	if a, _ := rawRequest(t, s.plain, "GET /agents HTTP/1.1\r\nHost: "+other+"\r\n\r\n"); a.StatusCode != 301 || a.Header.Get("Location") != "https://"+testDomain+"/agents" {
		t.Errorf("plain http: %d, %v", a.StatusCode, a.Header)
	}
	if _, err := tlsHandshake(s.addr, &tls.Config{ServerName: "elsewhere." + testDomain, RootCAs: c.trusted}); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("another name: %v", err)
	}
	status, printed := runCommandMerged("check", "--domain", testDomain, "--domain", other, "--acme-directory", c.directory, "--db", db)
	if status != 0 || strings.Count(printed, "has a certificate by Pebble Intermediate CA") != 2 {
		t.Errorf("check: %d, %s", status, printed)
	}
	if asked := c.orders(); asked != 2 || strings.Contains(c.out.String(), "Attempting to validate w/ HTTP") {
		t.Errorf("%d orders, or by plain http: %s", asked, c.out)
	}
	client.CloseIdleConnections()
	p.stopCleanly()
	for _, mode := range fileModes(t, filepath.Join(filepath.Dir(db), "certificates")) {
		if !strings.HasSuffix(mode, " drwx------") && !strings.HasSuffix(mode, " -rw-------") {
			t.Error(mode)
		}
	}

	p = c.startSite(t, s, db, "--domain", testDomain, "--domain", other, "--http-addr", s.plain)
	p.waitLog("https has a certificate", 2)
	if state, err := tlsHandshake(s.addr, &tls.Config{ServerName: testDomain, RootCAs: c.trusted}); err != nil || state.PeerCertificates[0].DNSNames[0] != testDomain {
		t.Errorf("after the second start: %v", err)
	}
	p.stopCleanly()
	if asked := c.orders(); asked != 2 {
		t.Errorf("the second start asked anew: %d orders", asked)
	}
}

// TestAuthority_IssuesByHTTPChallenge covers an authority that cannot reach the port for TLS.
func TestAuthority_IssuesByHTTPChallenge(t *testing.T) {
	t.Parallel()
	s := newSockets(t)
	c := newACMEServer(t, closedAddress, s.plain, ninetyDays)
	p := c.startSite(t, s, newDB(t), "--domain", testDomain, "--http-addr", s.plain)
	p.waitLog("https has a certificate", 1)
	if a, _ := fetch(t, httpsClient(t, s.addr, c.trusted), "GET", "https://"+testDomain+"/healthz"); a.StatusCode != 200 {
		t.Errorf("the site: %d", a.StatusCode)
	}
	if !strings.Contains(c.out.String(), "Attempting to validate w/ HTTP") {
		t.Errorf("not by plain http: %s", c.out)
	}
}

// TestAuthority_RenewsWithoutVisitors checks renewal in the last third of the lifetime.
func TestAuthority_RenewsWithoutVisitors(t *testing.T) {
	t.Parallel()
	s := newSockets(t)
	c := newACMEServer(t, s.addr, s.plain, 6)
	p := c.startSite(t, s, newDB(t), "--domain", testDomain, "--http-addr=off")
	p.waitLog("https has a certificate", 2)
	state, err := tlsHandshake(s.addr, &tls.Config{ServerName: testDomain, RootCAs: c.trusted})
	if err != nil {
		t.Fatal(err)
	}
	line := firstLine(p.err.String(), "https has a certificate")
	if end := state.PeerCertificates[0].NotAfter; strings.Contains(line, end.Format(time.RFC3339)[:19]) {
		t.Errorf("still the first certificate, until %v: %s", end, line)
	}
	p.stopCleanly()
}

// TestAuthority_LogsFailedValidation checks that one log line has the error and the remedy, the site stays up, and
// visitors cause no request to the authority.
func TestAuthority_LogsFailedValidation(t *testing.T) {
	t.Parallel()
	s := newSockets(t)
	c := newACMEServer(t, closedAddress, closedAddress, ninetyDays)
	p := c.startSite(t, s, newDB(t), "--domain", testDomain, "--http-addr", s.plain)
	p.waitLog("https has no certificate yet", 1)
	asked := c.orders()
	for range 3 {
		if _, err := tlsHandshake(s.addr, &tls.Config{ServerName: testDomain, RootCAs: c.trusted}); err == nil {
			t.Error("a handshake without a certificate succeeds")
		}
	}
	if a, _ := rawRequest(t, s.plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); a.StatusCode != 301 {
		t.Errorf("plain http: %d", a.StatusCode)
	}
	p.stopCleanly()
	var entry struct{ Level, Domain, Error, Message string }
	if err := json.Unmarshal([]byte(firstLine(p.err.String(), "https has no certificate yet")), &entry); err != nil {
		t.Fatal(err)
	}
	if entry.Level != "error" || !strings.Contains(entry.Error, "no viable challenge type found") || entry.Domain != testDomain || !strings.Contains(entry.Message, "the name must point to this machine") {
		t.Errorf("the log: %+v", entry)
	}
	if now := c.orders(); asked == 0 || now != asked {
		t.Errorf("%d orders, and %d after visitors", asked, now)
	}
}
