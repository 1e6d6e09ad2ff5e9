package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// web is an internet in this process: every name has a public address, at which
// one server answers for all.
type web struct {
	testing.TB
	Options
	mux     *http.ServeMux
	answers map[string]string // addresses of names, other than the usual one

	mu      sync.Mutex
	dialled []string
}

func newWeb(t testing.TB) *web {
	w := &web{TB: t, mux: http.NewServeMux(), answers: map[string]string{}}
	plain := httptest.NewServer(w.mux)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(w.mux)
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	w.Options = Options{
		Resolver: resolverFunc(w.lookup),
		Roots:    x509.NewCertPool(),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dialled = append(w.dialled, address)
			to := plain
			if strings.HasSuffix(address, ":443") {
				to = secure
			}
			return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
		},
	}
	w.Roots.AddCert(secure.Certificate())
	return w
}

func (w *web) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	if answer, ok := w.answers[host]; ok {
		return []netip.Addr{netip.MustParseAddr(answer)}, nil
	}
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

// redirect makes one address lead to a location, which is sent as it stands.
func (w *web) redirect(at, location string) {
	w.mux.HandleFunc(at, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["Location"] = []string{location}
		rw.WriteHeader(http.StatusFound)
	})
}

// page makes one address an HTML page.
func (w *web) page(at, text string) { w.document(at, text, "text/html; charset=utf-8") }

func (w *web) document(at, text string, contentType ...string) {
	w.mux.HandleFunc(at, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["Content-Type"] = contentType
		io.WriteString(rw, text)
	})
}

// expect checks a page, and fails the test unless it came to this after so many
// connections.
func (w *web) expect(page string, want domain.LinkCheck, dials int) {
	w.Helper()
	w.dialled = nil
	got, err := NewLinkChecker(w.Options).Check(context.Background(), page, wanted)
	if err != nil {
		w.Errorf("%.120s: %v", page, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%.120s: (-want +got)\n%s", page, diff)
	}
	if len(w.dialled) != dials {
		w.Errorf("%.120s: dialled %v, want %d", page, w.dialled, dials)
	}
}

func verified(kind, proof string) domain.LinkCheck {
	return domain.LinkCheck{Kind: kind, Verified: true, Proof: proof}
}

func failed(why failure) domain.LinkCheck {
	return domain.LinkCheck{Kind: "website", Failure: string(why)}
}

const (
	proves   = `<a rel="me" href="` + wanted + `">me</a>`
	mentions = `<p>` + wanted + `</p>`
)

func TestCheck_Proofs(t *testing.T) {
	w := newWeb(t)
	w.page("/me", proves)
	w.page("/mention", mentions)
	w.page("/nothing", "<p>nothing</p>")
	w.document("/text", proves, "text/plain")
	w.document("/untyped", proves)
	w.expect("https://page.example.com/me", verified("website", "rel_me"), 1)
	w.expect("http://page.example.com/me#top", verified("website", "rel_me"), 1)
	w.expect("http://page.example.com/mention", verified("website", "mention"), 1)
	w.expect("http://page.example.com/text", verified("website", "mention"), 1)
	w.expect("http://page.example.com/untyped", verified("website", "rel_me"), 1)
	w.expect("http://page.example.com/nothing", failed(notFound), 1)
	w.expect("http://GitHub.com/me", verified("github", "rel_me"), 1)
	w.expect("http://GitHub.com/nothing", domain.LinkCheck{Kind: "github", Failure: "not_found_on_page"}, 1)
	w.expect("http://page.example.com/mention?"+url.QueryEscape(wanted), failed(notFound), 1)
	w.redirect("/hop", "/mention")
	w.expect("http://page.example.com/hop?"+url.QueryEscape(wanted), failed(notFound), 2)
	w.expect("http://page.example.com/me?"+url.QueryEscape(wanted), verified("website", "rel_me"), 1)
}

func TestCheck_Redirects(t *testing.T) {
	w := newWeb(t)
	w.answers["www.inner-address-from.example.com"] = "10.0.0.1"
	w.answers["www.inner-protocol-relative-from.example.com"] = "10.0.0.1"
	w.page("/me", proves)
	w.page("/mention", mentions)
	tests := []struct {
		name, location string
		want           domain.LinkCheck
		dials          int
	}{
		{"relative", "me", verified("website", "rel_me"), 2},
		{"absolute path", "/me", verified("website", "rel_me"), 2},
		{"protocol-relative", "//protocol-relative-from.example.com/me", verified("website", "rel_me"), 2},
		{"reflecting", "/mention?" + wanted, failed(notFound), 2},
		{"loopback", "http://127.0.0.1/me", failed(blocked), 1},
		{"loopback, IPv6", "http://[::1]/me", failed(blocked), 1},
		{"localhost", "http://localhost/me", failed(blocked), 1},
		{"public literal", "http://93.184.216.34/me", failed(blocked), 1},
		{"inner address", "http://www.inner-address-from.example.com/me", failed(blocked), 1},
		{"inner, protocol-relative", "//www.inner-protocol-relative-from.example.com/me", failed(blocked), 1},
		{"one label", "http://intranet/me", failed(blocked), 1},
		{"other port", "http://page.example.com:22/me", failed(blocked), 1},
		{"user info", "http://user:password@page.example.com/me", failed(blocked), 1},
		{"user info that looks like a host", "http://page.example.com@inner.example.com/", failed(blocked), 1},
		{"file", "file:///etc/passwd", failed(blocked), 1},
		{"gopher", "gopher://page.example.com:80/_GET", failed(blocked), 1},
		{"javascript", "javascript:location='/me'", failed(blocked), 1},
		{"data", "data:text/html," + proves, failed(blocked), 1},
		{"ftp", "ftp://page.example.com/me", failed(blocked), 1},
		{"opaque", "http:page.example.com/me", failed(blocked), 1},
		{"the directory", wanted, failed(blocked), 1},
		{"the directory, otherwise written", "http://CALLBOOK.example.org:080/calls", failed(blocked), 1},
		{"no address", "http://[::1", failed(unreachable), 1},
		{"control characters", "http://page.example.com/\x01me", failed(unreachable), 1},
		{"long", "/" + strings.Repeat("a", 10_000), failed(blocked), 1},
		{"longer than headers may be", "/" + strings.Repeat("a", 20_000), failed(unreachable), 1},
		{"empty", "", failed(httpError), 1},
		{"itself", "/hop", failed(httpError), 4},
	}
	for _, test := range tests {
		host := strings.NewReplacer(" ", "-", ",", "", ".", "").Replace(strings.ToLower(test.name)) + "-from.example.com"
		w.redirect(host+"/hop", test.location)
		w.expect("http://"+host+"/hop", test.want, test.dials)
	}
}

func TestCheck_BlockedHosts(t *testing.T) {
	w := newWeb(t)
	w.Blocked = func(host string) bool { return strings.HasSuffix(host, "spam.example.com") }
	w.page("/me", proves)
	w.redirect("/there", "https://spam.example.com/me")
	w.redirect("www.from.example.com/there", "http://from.example.com/there")
	w.expect("https://spam.example.com/me", failed(blocked), 0)
	w.expect("https://a.spam.example.com/me", failed(blocked), 0)
	w.expect("https://page.example.com/there", failed(blocked), 1)
	w.expect("http://www.from.example.com/there", failed(blocked), 2)
	w.expect("https://page.example.com/me", verified("website", "rel_me"), 1)
	_, err := NewTransport(w.Options).DialContext(context.Background(), "tcp", "spam.example.com:443")
	if !errors.Is(err, blocked) {
		t.Errorf("a wake-up: %v", err)
	}
}

// TestLinkCheck_ProofIsOfTheGivenHost: an open redirect of a known host must not give a link under its
// address, whatever the page that it leads to says, nor show anything about that page.
// It holds promise 13 of SECURITY.md.
func TestLinkCheck_ProofIsOfTheGivenHost(t *testing.T) {
	w := newWeb(t)
	w.answers["inner.example.com"] = "10.0.0.1"
	w.page("/me", proves)
	w.page("/mention", mentions)
	for name, tt := range map[string]struct {
		page, location string
		want           domain.LinkCheck
	}{
		"another host":                {"http://known.example.com", "http://mine.example.com/me", failed(notFound)},
		"another host within":         {"http://known.example.com", "http://inner.example.com/me", failed(notFound)},
		"to another host of a kind":   {"http://github.com", "http://mine.example.com/me", domain.LinkCheck{Kind: "github", Failure: "not_found_on_page"}},
		"another host of a kind":      {"http://known.example.com", "http://github.com/me", failed(notFound)},
		"a host below":                {"http://known.example.com", "http://mine.known.example.com/me", failed(notFound)},
		"the host above":              {"http://known.example.com", "http://example.com/me", failed(notFound)},
		"a name that begins with www": {"http://known.example.com", "http://www2.known.example.com/me", failed(notFound)},
		"with www":                    {"http://known.example.com", "http://www.known.example.com/me", verified("website", "rel_me")},
		"without www":                 {"http://www.known.example.com", "http://known.example.com/me", verified("website", "rel_me")},
		"https":                       {"http://known.example.com", "https://known.example.com/me", verified("website", "rel_me")},
		"https with www":              {"http://example.com", "https://www.example.com/mention", verified("website", "mention")},
		"in capitals":                 {"http://Known.example.com", "http://KNOWN.example.com/me", verified("website", "rel_me")},
	} {
		at := "/" + strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-")
		w.redirect(at, tt.location)
		dials := map[bool]int{true: 2, false: 1}[tt.want.Verified] // nothing is asked of another host
		w.expect(tt.page+at, tt.want, dials)
	}
}

func TestCheck_RedirectStatuses(t *testing.T) {
	w := newWeb(t)
	w.page("/me", proves)
	expect := func(want domain.LinkCheck, dials int, statuses ...int) {
		for _, status := range statuses {
			at := fmt.Sprintf("/status/%d", status)
			w.mux.HandleFunc(at, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Location", "/me")
				rw.WriteHeader(status)
			})
			w.expect("http://page.example.com"+at, want, dials)
		}
	}
	expect(failed(notFound), 1, 200)
	expect(failed(httpError), 1, 201, 204, 206, 300, 304, 305, 400, 401, 404, 429, 500, 503)
	expect(verified("website", "rel_me"), 2, 301, 302, 303, 307, 308)
}

func TestCheck_RejectsRedirectToHTTP(t *testing.T) {
	w := newWeb(t)
	w.redirect("/down", "http://page.example.com/me")
	w.redirect("/up", "https://page.example.com/down")
	w.expect("https://page.example.com/down", failed(blocked), 1)
	w.expect("http://page.example.com/up", failed(blocked), 2)
}

func TestCheck_RequestHeaders(t *testing.T) {
	w := newWeb(t)
	w.UserAgent = "Callbook link check (+https://callbook.example.org)"
	var seen []*http.Request
	w.mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		http.SetCookie(rw, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(rw, r, "https://WWW.example.com/two?a=b", http.StatusFound)
	})
	w.mux.HandleFunc("www.example.com/", func(rw http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		io.WriteString(rw, proves)
	})
	w.expect("https://example.com/one#me", verified("website", "rel_me"), 2)
	want := http.Header{
		"User-Agent":      {w.UserAgent},
		"Accept":          {"text/html"},
		"Accept-Encoding": {"identity"},
		"Connection":      {"close"},
	}
	for i, uri := range []string{"/one", "/two?a=b"} {
		if len(seen) <= i || seen[i].Method != "GET" || seen[i].Proto != "HTTP/1.1" || seen[i].RequestURI != uri {
			t.Fatalf("request %d: %+v", i, seen)
		}
		if diff := cmp.Diff(want, seen[i].Header); diff != "" {
			t.Errorf("request %d: (-want +got)\n%s", i, diff)
		}
	}
	host, state := seen[1].Host, seen[1].TLS
	if host != "www.example.com" || state.ServerName != host || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("host %s, server name %s, protocol %s", host, state.ServerName, state.NegotiatedProtocol)
	}
}

func TestCheck_IgnoresProxyVariables(t *testing.T) {
	if NewLinkChecker(Options{}).transport.Proxy != nil {
		t.Error("a proxy would resolve names by itself")
	}
}

func TestCheck_Certificates(t *testing.T) {
	w := newWeb(t)
	w.page("/me", proves)
	w.expect("https://page.example.com/me", verified("website", "rel_me"), 1)
	w.expect("https://page.example.net/me", failed(unreachable), 1) // the certificate is for example.com
	w.Roots = x509.NewCertPool()
	w.expect("https://page.example.com/me", failed(unreachable), 1)
}

// In a bubble, time passes only while everybody waits: the ten seconds are exact.
func TestCheck_TimeLimitAndContext(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	silent := func(says string) dialFunc {
		return func(context.Context, string, string) (net.Conn, error) {
			conn, server := net.Pipe()
			go func() {
				readRequest(server)
				io.WriteString(server, says)
				io.Copy(io.Discard, server)
			}()
			return conn, nil
		}
	}
	public := answers(netip.MustParseAddr("93.184.216.34"))
	for _, stage := range []struct {
		name, scheme string
		o            Options
	}{
		{"resolver", "http", Options{Resolver: resolverFunc(func(ctx context.Context, _ string) ([]netip.Addr, error) { return nil, hang(ctx) })}},
		{"dial", "https", Options{Resolver: public, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, hang(ctx) }}},
		{"handshake", "https", Options{Resolver: public, Dial: silent("")}},
		{"server", "http", Options{Resolver: public, Dial: silent("")}},
		{"server's body", "http", Options{Resolver: public, Dial: silent("HTTP/1.1 200 OK\r\n\r\n" + proves)}},
	} {
		for _, end := range []struct {
			name             string
			deadline, cancel time.Duration // of the context
			after            time.Duration
			want             domain.LinkCheck
			err              error
		}{
			{"timeout", time.Hour, time.Hour, 10 * time.Second, failed(timeout), nil},
			{"deadline", 3 * time.Second, time.Hour, 3 * time.Second, domain.LinkCheck{}, context.DeadlineExceeded},
			{"cancelled", time.Hour, time.Second, time.Second, domain.LinkCheck{}, context.Canceled},
		} {
			t.Run(stage.name+", "+end.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now() //clock: the bubble's
					ctx, cancel := context.WithTimeout(context.Background(), end.deadline)
					defer cancel()
					time.AfterFunc(end.cancel, cancel)
					got, err := NewLinkChecker(stage.o).Check(ctx, stage.scheme+"://page.example.com/", wanted)
					if took := time.Since(start); got != end.want || !errors.Is(err, end.err) || took != end.after {
						t.Errorf("%+v, %v after %s", got, err, took)
					}
					time.Sleep(defaultTimeout) // in the bubble's time: a dial that nobody waits for ends by itself
				})
			})
		}
	}
}

// serve answers each connection to a listener of its own with f, which ends at the
// latest when the other side hangs up.
func serve(t testing.TB, f func(net.Conn)) string {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer conn.Close(); f(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// readRequest reads up to the end of the headers, so that closing sends no reset.
func readRequest(conn net.Conn) {
	for buffer := make([]byte, 4096); ; {
		n, err := conn.Read(buffer)
		if err != nil || bytes.HasSuffix(buffer[:n], []byte("\r\n\r\n")) {
			return
		}
	}
}

// send answers with a text and hangs up.
func send(texts ...string) func(net.Conn) {
	return func(conn net.Conn) {
		readRequest(conn)
		for _, text := range texts {
			io.WriteString(conn, text)
		}
	}
}

// flood sends texts and then the last one for as long as somebody reads.
func flood(texts ...string) func(net.Conn) {
	return func(conn net.Conn) {
		send(texts...)(conn)
		last := []byte(texts[len(texts)-1]) // once: what a write allocates is counted
		for {
			if _, err := conn.Write(last); err != nil {
				return
			}
		}
	}
}

// drip sends a byte at a time of a text without end.
func drip(text string) func(net.Conn) {
	return func(conn net.Conn) {
		readRequest(conn)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte{text[min(i, len(text)-1)]}); err != nil {
				return
			}
			<-tick.C
		}
	}
}

func hangUp(conn net.Conn) { io.Copy(io.Discard, conn) }

// reset breaks the connection.
func reset(conn net.Conn) {
	readRequest(conn)
	conn.(*net.TCPConn).SetLinger(0)
}

// halfClose says that it is done, but waits for the other side.
func halfClose(text string) func(net.Conn) {
	return func(conn net.Conn) {
		send(text)(conn)
		conn.(*net.TCPConn).CloseWrite()
		hangUp(conn)
	}
}

const (
	head    = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	htmlTop = head + "Connection: close\r\n\r\n"
)

var full = strings.Repeat(" ", maxBodyBytes-len(proves)) + proves

func bomb(t testing.TB) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	testkit.Must(z.Write(make([]byte, 16<<20)))(t)
	z.Close()
	return b.String()
}

// TestCheck_HostileServers runs each server on a real listener. None may keep a goroutine, or make the check use
// more memory than the largest page.
func TestCheck_HostileServers(t *testing.T) {
	block := strings.Repeat("a", 1<<10)
	tests := []struct {
		name   string
		serve  func(net.Conn)
		want   domain.LinkCheck
		scheme string
	}{
		{"drips its headers", drip("HTTP/1.1 200 OK\r\nX: aaaa"), failed(timeout), "http"},
		{"drips its body", drip(htmlTop + proves), failed(timeout), "http"},
		{"stops within its body", func(c net.Conn) { send(head + "Content-Length: 500\r\n\r\n" + proves)(c); hangUp(c) }, failed(timeout), "http"},
		{"endless body", flood(htmlTop, proves, block), failed(tooLarge), "http"},
		{"endless chunks", flood(head+"Transfer-Encoding: chunked\r\n\r\n", "400\r\n"+block+"\r\n"), failed(tooLarge), "http"},
		{"largest page", send(htmlTop, full), verified("website", "rel_me"), "http"},
		{"one byte too many", send(htmlTop, full, " "), failed(tooLarge), "http"},
		{"announces more than it may", func(c net.Conn) { send(head + "Content-Length: 9223372036854775807\r\n\r\n")(c); hangUp(c) }, failed(tooLarge), "http"},
		{"open tags without end", flood(htmlTop, strings.Repeat("<b>", 1<<14)), failed(tooLarge), "http"},
		{"gzip bomb", send(head+"Content-Encoding: gzip\r\n\r\n", bomb(t)), failed(httpError), "http"},
		{"gzip as a transfer coding", send(head+"Transfer-Encoding: gzip, chunked\r\n\r\n", bomb(t)), failed(unreachable), "http"},
		{"two codings", send(head + "Content-Encoding: identity\r\nContent-Encoding: br\r\n\r\n" + proves), failed(httpError), "http"},
		{"a megabyte of headers", send(head, strings.Repeat("X: "+block+"\r\n", 1024), "\r\n", proves), failed(unreachable), "http"},
		{"one header without end", flood(head, "X: ", block), failed(unreachable), "http"},
		{"status line without end", flood("HTTP/1.1 200 ", block), failed(unreachable), "http"},
		{"early hints without end", flood("HTTP/1.1 103 Early Hints\r\nLink: " + block + "\r\n\r\n"), failed(unreachable), "http"},
		{"early hints first", send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + htmlTop + proves), verified("website", "rel_me"), "http"},
		{"large headers", send(head, strings.Repeat("X: "+block+"\r\n", 14), "\r\n"+full), verified("website", "rel_me"), "http"},
		{"shorter than announced", send(head + "Content-Length: 500\r\n\r\n" + proves), failed(unreachable), "http"},
		{"half closed after the page", halfClose(htmlTop + proves), verified("website", "rel_me"), "http"},
		{"closed at once", func(net.Conn) {}, failed(unreachable), "http"},
		{"reset", reset, failed(unreachable), "http"},
		{"switches protocols", func(c net.Conn) {
			send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + proves)(c)
			hangUp(c)
		}, failed(httpError), "http"},
		{"another protocol", send("SSH-2.0-OpenSSH_9.9\r\n"), failed(unreachable), "http"},
		{"HTTP on the port of HTTPS", func(c net.Conn) { io.WriteString(c, htmlTop+proves); hangUp(c) }, failed(unreachable), "https"},
		{"no certificate", func(c net.Conn) { tls.Server(c, &tls.Config{}).Handshake() }, failed(unreachable), "https"},
	}
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	base := runtime.NumGoroutine()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			address := serve(t, test.serve)
			o := Options{Loopback: true, Timeout: 20 * time.Second}
			if test.want == failed(timeout) {
				o.Timeout = 100 * time.Millisecond
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := NewLinkChecker(o).Check(t.Context(), test.scheme+"://"+address+"/", wanted)
			runtime.ReadMemStats(&after)
			if err != nil || got != test.want {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
			// All that was ever allocated, the server's part included: no peak was higher.
			if used := after.TotalAlloc - before.TotalAlloc; used > 6<<20 {
				t.Errorf("%d bytes were allocated", used)
			}
		})
		expectGoroutines(t, base)
	}
	if logged.Len() != 0 {
		t.Errorf("logged %q", logged.String())
	}
}

// expectGoroutines waits until no more are left than this.
func expectGoroutines(t testing.TB, base int) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	for runtime.NumGoroutine() > base {
		select {
		case <-deadline:
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), base, stacks[:runtime.Stack(stacks, true)])
		default:
			runtime.Gosched()
		}
	}
}

func TestCheck_ReachesLoopbackIfAllowed(t *testing.T) {
	_, port, _ := net.SplitHostPort(serve(t, send(htmlTop+proves)))
	for _, host := range []string{"127.0.0.1", "localhost", "LocalHost", "agent.localhost", "[::ffff:127.0.0.1]"} {
		got, err := NewLinkChecker(Options{Loopback: true}).Check(t.Context(), "http://"+host+":"+port+"/", wanted)
		if err != nil || got != verified("website", "rel_me") {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
		expectFailure(t, NewLinkChecker(Options{}), "http://"+host+":"+port+"/", blocked)
	}
}

func TestCheck_Concurrent(t *testing.T) {
	w := newWeb(t)
	w.page("/me", proves)
	c := NewLinkChecker(w.Options)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			scheme := []string{"http", "https"}[i%2]
			got, err := c.Check(t.Context(), scheme+"://page.example.com/me", wanted)
			if err != nil || got != verified("website", "rel_me") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
}
