// Package linkcheck fetches a page that an agent names as its own and looks for
// the agent's public address on it. It knows nothing of the directory: who may
// ask for a check, and how often, is for the caller to say.
//
// # Two walls
//
// The address of the page comes from a stranger, and so do its name's DNS answers
// and the redirects of its server. Each could lead the service to a machine that
// only the service can reach.
//
// The first wall (guard.go) stands before a connection. It refuses by scheme,
// port and name, resolves the name itself, refuses it if any one of the answers
// is no public address, and dials one of the very addresses it has looked at.
// Nothing resolves the name again, so a second, other answer comes too late.
// Every redirect meets this wall anew.
//
// The second wall stands in the dialer and sees nothing but the socket's address,
// a moment before the connection. It has a table of its own, from another hand
// (code.dny.dev/ssrf), so that a fault of one table opens nothing.
//
// # What is deliberately not done
//
//   - No proxy, whatever the environment says: it would resolve names by itself.
//   - No second try at another address of the same name, no connection that is
//     kept, no cookie, no compression, no script, no meta refresh, no robots.txt.
//   - No NAT64: where IPv4 is reached through 64:ff9b::/96 alone, pages on IPv4
//     are refused, since such an address can carry any private one. A network's
//     own prefix for NAT64 looks like any public address and is not recognised.
//   - No internationalised host names but in their ASCII form (xn--).
//   - No word of what the page or its server said leaves the package: a result is
//     one of a few fixed words, so that it cannot be used to read inner pages.
//   - A page of the directory itself proves nothing, and neither does a mention on
//     a page whose own address holds the wanted one: search results, copies in
//     archives and the like say back what they were asked.
//
// A mention shows that somebody could write on the page, no more. A rel="me" link
// shows that somebody could write its markup.
package linkcheck

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout  = 10 * time.Second
	maxRedirects    = 3
	maxAddressBytes = 2048
	maxHeaderBytes  = 16 << 10
	maxBodyBytes    = 512 << 10
)

// ErrBusy: Options.Allow refused a connection, and so nothing is known of the page.
var ErrBusy = errors.New("too many checks of that address")

// failure is why a page does not prove anything, in the words of the API.
type failure string

func (f failure) Error() string { return string(f) }

const (
	blocked     failure = "blocked"
	unreachable failure = "unreachable"
	httpError   failure = "http_error"
	tooLarge    failure = "too_large"
	timeout     failure = "timeout"
	notFound    failure = "not_found_on_page"
)

// Resolver is what the package needs of a net.Resolver.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Options are how a Checker reaches the outside. The zero value is ready for use.
type Options struct {
	Resolver  Resolver              // nil: the system's
	Dial      dialFunc              // for tests; nil: a dialer that is the second wall
	Allow     func(netip.Addr) bool // asked once for each connection, after the guard; false ends the check with ErrBusy; nil: always
	Loopback  bool                  // loopback addresses may be reached as well, on any port
	UserAgent string                // should say where the service is found; "callbook" when empty
	Timeout   time.Duration         // for a whole check; 10 s when 0
	Roots     *x509.CertPool        // nil: the system's
}

// Checker checks pages. It may be used by many goroutines at once.
type Checker struct {
	guard     guard
	dial      dialFunc
	allow     func(netip.Addr) bool
	roots     *x509.CertPool
	userAgent string
	timeout   time.Duration
}

// New makes a Checker.
func New(o Options) *Checker {
	return newChecker(o, 80, 443)
}

func newChecker(o Options, ports ...uint16) *Checker {
	c := &Checker{
		guard:     guard{resolver: o.Resolver, loopback: o.Loopback, ports: ports},
		dial:      o.Dial,
		allow:     o.Allow,
		roots:     o.Roots,
		userAgent: cmp.Or(o.UserAgent, "callbook"),
		timeout:   cmp.Or(o.Timeout, defaultTimeout),
	}
	if c.guard.resolver == nil {
		c.guard.resolver = rooted{net.DefaultResolver}
	}
	if c.dial == nil {
		c.dial = guardedDialer(o.Loopback, ports).DialContext
	}
	if c.allow == nil {
		c.allow = func(netip.Addr) bool { return true }
	}
	return c
}

// Result is what a check found.
type Result struct {
	Kind    string // what KindOf says of the last host on the way
	Status  string // verified or failed
	Proof   string // rel_me or mention; empty if failed
	Failure string // blocked, unreachable, http_error, too_large, timeout, not_found_on_page; empty if verified
}

// Check fetches page and looks on it for the address wanted. Whatever the page
// and its server do is a Result; the error is ErrBusy, or that of a ctx which
// ended first. A check takes no longer than Options.Timeout, DNS included, reads
// at most 512 KiB of a page, and follows at most 3 redirects.
func (c *Checker) Check(ctx context.Context, page, wanted string) (Result, error) {
	run, end := within(ctx, c.timeout)
	defer end()
	host, proof, err := c.follow(run, page, wanted)
	if err == nil {
		return Result{Kind: KindOf(host), Status: "verified", Proof: proof}, nil
	}
	why := failureOf(err)
	switch cause := context.Cause(run); {
	case errors.Is(err, ErrBusy):
		return Result{}, fmt.Errorf("check link: %w", ErrBusy)
	case cause == timeout:
		why = timeout
	case cause != nil:
		return Result{}, fmt.Errorf("check link: %w", cause)
	}
	return Result{Kind: KindOf(host), Status: "failed", Failure: string(why)}, nil
}

// within returns a context that ends when ctx does, or after d because of timeout.
// It shows no deadline: a socket that knows one can fail a moment before the
// context says whose deadline it was.
func within(ctx context.Context, d time.Duration) (context.Context, func()) {
	run, end := context.WithCancelCause(context.WithoutCancel(ctx))
	timer := time.AfterFunc(d, func() { end(timeout) })
	stop := context.AfterFunc(ctx, func() { end(ctx.Err()) })
	return run, func() { timer.Stop(); stop(); end(nil) }
}

// follow goes from page to where its redirects end. It returns the last host on the
// way, also with an error, and the proof found there.
func (c *Checker) follow(ctx context.Context, page, wanted string) (host, proof string, err error) {
	t, err := newTarget(wanted)
	if err != nil {
		return "", "", err
	}
	from, reflected := &url.URL{}, false
	for range maxRedirects + 1 {
		at, err := parseHop(from, page, t)
		if err != nil {
			return from.Hostname(), "", err
		}
		reflected = reflected || t.reflectedBy(at)
		proof, page, err = c.visit(ctx, at, t)
		switch {
		case err != nil:
			return at.Hostname(), "", err
		case proof == proofMention && reflected:
			return at.Hostname(), "", notFound
		case proof != "":
			return at.Hostname(), proof, nil
		}
		from = at
	}
	return from.Hostname(), "", httpError
}

// parseHop returns where ref leads from the address from, which is empty at first.
func parseHop(from *url.URL, ref string, t target) (*url.URL, error) {
	at, err := from.Parse(ref)
	switch {
	case err != nil || len(ref) > maxAddressBytes,
		at.Scheme != "https" && at.Scheme != "http",
		at.Scheme == "http" && from.Scheme == "https",
		at.User != nil,
		siteOf(at) == t.site:
		return nil, blocked
	}
	at.Host = strings.ToLower(at.Host)
	at.Fragment = ""
	return at, nil
}

// visit asks for one address: either it returns a proof, or the location that the
// answer redirects to.
func (c *Checker) visit(ctx context.Context, at *url.URL, t target) (proof, location string, err error) {
	socket, err := c.connect(ctx, at)
	if err != nil {
		return "", "", err
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	conn, err := c.secure(ctx, socket, at)
	if err != nil {
		return "", "", err
	}
	resp, err := c.get(conn, at) // its body stays open, for Close would read it to the end
	if err != nil {
		return "", "", err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		proof, err = read(resp, at, t)
		return proof, "", err
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if location := resp.Header.Get("Location"); location != "" {
			return "", location, nil
		}
	}
	return "", "", httpError
}

// connect makes the one connection to an address.
func (c *Checker) connect(ctx context.Context, at *url.URL) (net.Conn, error) {
	addr, err := c.guard.resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	if !c.allow(addr.Addr()) {
		return nil, ErrBusy
	}
	socket, err := c.dial(ctx, "tcp", addr.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, unreachable) // last: the second wall's blocked counts first
	}
	return socket, nil
}

// secure shakes hands if the address is one of https.
func (c *Checker) secure(ctx context.Context, socket net.Conn, at *url.URL) (net.Conn, error) {
	if at.Scheme == "http" {
		return socket, nil
	}
	conn := tls.Client(socket, &tls.Config{ServerName: at.Hostname(), RootCAs: c.roots, NextProtos: []string{"http/1.1"}})
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", unreachable, err)
	}
	return conn, nil
}

// get sends the request and reads the headers of the answer. An http.Transport
// has nothing that one request over one connection needs, and would write into
// the log what a server says unasked.
func (c *Checker) get(conn net.Conn, at *url.URL) (*http.Response, error) {
	req := &http.Request{Method: http.MethodGet, URL: at, Close: true, Header: http.Header{
		"User-Agent":      {c.userAgent},
		"Accept":          {"text/html"},
		"Accept-Encoding": {"identity"},
	}}
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	limited := &io.LimitedReader{R: conn, N: maxHeaderBytes}
	for answer := bufio.NewReader(limited); ; {
		resp, err := http.ReadResponse(answer, req)
		switch {
		case err != nil && limited.N == 0:
			return nil, httpError
		case err != nil:
			return nil, fmt.Errorf("read headers: %w", err)
		case resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols:
			limited.N = math.MaxInt64 // the body has a limit of its own
			return resp, nil
		}
	}
}

// read looks for the proof in a whole page: one that is cut short or goes on for
// too long proves nothing, wherever on it the address stands.
func read(resp *http.Response, at *url.URL, t target) (string, error) {
	if coding := strings.Join(resp.Header.Values("Content-Encoding"), ","); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", httpError
	}
	if resp.ContentLength > maxBodyBytes {
		return "", tooLarge
	}
	body := http.MaxBytesReader(nil, resp.Body, maxBodyBytes)
	if isHTML(resp.Header.Get("Content-Type")) {
		return t.proofInHTML(at, body)
	}
	return t.proofInText(body)
}

func isHTML(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType) // a bad parameter leaves the type readable
	return contentType == "" || media == "text/html" || media == "application/xhtml+xml"
}

// failureOf sorts the errors of resolver, socket and HTTP into the API's words.
func failureOf(err error) failure {
	network, isNetwork := errors.AsType[net.Error](err)
	if isNetwork && network.Timeout() {
		return timeout
	}
	if why, ok := errors.AsType[failure](err); ok {
		return why
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	if isNetwork || errors.Is(err, io.ErrUnexpectedEOF) {
		return unreachable
	}
	return httpError
}

// kinds are the hosts that are more than a website to a reader.
var kinds = map[string]string{
	"github.com": "github", "gist.github.com": "github",
	"gitlab.com":     "gitlab",
	"codeberg.org":   "codeberg",
	"huggingface.co": "huggingface", "hf.co": "huggingface",
	"xiaohongshu.com": "xiaohongshu", "xhslink.com": "xiaohongshu",
	"mstdn.social": "mastodon", "fosstodon.org": "mastodon", "hachyderm.io": "mastodon",
}

// KindOf names the kind of a host: github, gitlab, codeberg, huggingface, mastodon,
// xiaohongshu, or website for any other. The host has no port.
func KindOf(host string) string {
	host = strings.TrimPrefix(strings.ToLower(host), "www.")
	if strings.HasPrefix(host, "mastodon.") {
		return "mastodon"
	}
	return cmp.Or(kinds[host], "website")
}
