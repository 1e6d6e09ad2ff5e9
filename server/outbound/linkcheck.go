package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"callbook/store/domain"
	"callbook/store/text"
)

const (
	defaultTimeout  = 10 * time.Second
	maxRedirects    = 3
	maxAddressBytes = 2048
	maxHeaderBytes  = 16 << 10
	maxBodyBytes    = 512 << 10
)

// failure is the reason why a page proves nothing, as a code of the API.
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

// Resolver is the part of net.Resolver that the package uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Options configures a LinkChecker and the transport of other requests. The zero value is ready
// for use.
type Options struct {
	// Resolver resolves names; nil means the system's.
	Resolver Resolver
	// Dial opens connections, for tests; nil means a dialer that checks each socket's address.
	Dial dialFunc
	// Blocked reports whether a host must not be requested; nil blocks none.
	Blocked func(host string) bool
	// Loopback allows loopback addresses as well, on any port.
	Loopback bool
	// UserAgent should say where the service is found; empty means "callbook".
	UserAgent string
	// Timeout limits a whole check; 0 means 10 seconds.
	Timeout time.Duration
	// Roots are the certificate authorities; nil means the system's.
	Roots *x509.CertPool
}

// LinkChecker checks pages. It may be used by many goroutines at once.
type LinkChecker struct {
	guard
	transport *http.Transport
}

// NewLinkChecker returns a checker.
func NewLinkChecker(o Options) *LinkChecker {
	g := newGuard(o)
	return &LinkChecker{g, g.newTransport()}
}

// NewTransport returns a transport that connects only to addresses that a check may connect to.
func NewTransport(o Options) *http.Transport { return newGuard(o).newTransport() }

func (g guard) newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // it would resolve names by itself
		DialContext:            g.dialContext,
		TLSClientConfig:        &tls.Config{RootCAs: g.Roots, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:    g.Timeout,
		DisableKeepAlives:      true, // a new connection is a new check, and is never retried
		DisableCompression:     true, // limits apply to the bytes sent
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// dialContext implements http.Transport.DialContext: it connects to a checked address of the host.
func (g guard) dialContext(ctx context.Context, network, hostPort string) (net.Conn, error) {
	// The transport dials on after the request has ended, so the dial has its own limit.
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()

	addr, err := g.resolve(ctx, hostPort)
	if err != nil {
		return nil, err
	}

	return g.Dial(ctx, network, addr.String())
}

// Check fetches page and searches it for the address wanted. Whatever the page and its server do is
// a LinkCheck; the only error is that of ctx if it ended first. A check takes no longer than
// Options.Timeout, DNS included, reads at most 512 KiB of a page, and follows at most 3 redirects.
func (c *LinkChecker) Check(ctx context.Context, page, wanted string) (domain.LinkCheck, error) {
	run, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	v := &visit{guard: c.guard, at: &url.URL{}}
	proof, err := c.fetch(run, v, page, wanted)
	switch {
	case err == nil:
		return domain.LinkCheck{Kind: LinkKind(v.given), Verified: true, Proof: proof}, nil

	case ctx.Err() != nil:
		return domain.LinkCheck{}, fmt.Errorf("check link: %w", ctx.Err())
	}

	return domain.LinkCheck{Kind: LinkKind(v.given), Failure: string(failureOf(err))}, nil
}

// fetch requests the page, follows its redirects, and returns the proof found.
func (c *LinkChecker) fetch(
	ctx context.Context,
	v *visit,
	page, wanted string,
) (proof string, err error) {
	if v.target, err = newTarget(wanted); err != nil {
		return "", err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return "", blocked
	}

	// enter puts the host into lower case.
	err = v.enter(req.URL)
	v.given = req.URL.Hostname()
	if err != nil {
		return "", err
	}

	req.Header = http.Header{
		"User-Agent":      {c.UserAgent},
		"Accept":          {"text/html"},
		"Accept-Encoding": {"identity"},
	}

	client := http.Client{Transport: c.transport, CheckRedirect: v.checkRedirect}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()

	return v.read(resp)
}

// visit is the state of one check.
type visit struct {
	target target
	guard  guard
	given  string   // host of the page, before redirects
	at     *url.URL // last URL that was allowed

	// reflected reports whether a URL on the way contains the wanted address.
	reflected bool
}

// checkRedirect implements http.Client.CheckRedirect.
func (v *visit) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return httpError
	}

	req.Header.Del("Referer")
	if err := v.enter(req.URL); err != nil {
		return err
	}
	if strings.TrimPrefix(v.at.Hostname(), "www.") != strings.TrimPrefix(v.given, "www.") {
		// The page of another host proves nothing: any open redirect of the given host leads there.
		return notFound
	}

	return nil
}

// enter returns blocked unless a URL may be requested.
func (v *visit) enter(u *url.URL) error {
	u.Host = strings.ToLower(u.Host)
	_, ok := text.ParseLinkURL(u.Scheme+"://"+u.Host+"/", v.guard.Loopback)
	if !ok || u.Opaque != "" || u.User != nil || len(u.String()) > maxAddressBytes ||
		u.Scheme == "http" &&
			v.at.Scheme == "https" || siteOf(u) == v.target.site || v.guard.blocks(u.Hostname()) {
		return blocked
	}

	v.at, v.reflected = u, v.reflected || v.target.reflectedBy(u)
	return nil
}

// read searches a whole page for the proof. A page that is truncated or too long proves nothing,
// wherever in it the address is.
func (v *visit) read(resp *http.Response) (string, error) {
	coding := strings.Join(resp.Header.Values("Content-Encoding"), ",")
	switch {
	case resp.StatusCode != http.StatusOK, coding != "" && !strings.EqualFold(coding, "identity"):
		return "", httpError

	case resp.ContentLength > maxBodyBytes:
		return "", tooLarge
	}

	// Without a length, too, a page that is too long fails.
	page, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxBodyBytes))
	if err != nil {
		return "", err
	}

	// A page whose address holds the wanted one may only repeat it, as results of a search do.
	proof := v.target.proofIn(page, v.at, isHTML(resp.Header.Get("Content-Type")))
	if proof == "" || proof == proofMention && v.reflected {
		return "", notFound
	}

	return proof, nil
}

func isHTML(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType) // a bad parameter leaves the type readable
	return contentType == "" || media == "text/html" || media == "application/xhtml+xml"
}

// failureOf returns the code of the API for an error of the resolver, the socket, TLS or HTTP.
func failureOf(err error) failure {
	if why, ok := errors.AsType[failure](err); ok {
		return why
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}

	// A url.Error is a net.Error itself, whatever it wraps.
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}

	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		return timeout
	}

	return unreachable
}

// kinds maps hosts to kinds other than website.
var kinds = map[string]string{
	"github.com": "github", "gist.github.com": "github",
	"gitlab.com":     "gitlab",
	"codeberg.org":   "codeberg",
	"huggingface.co": "huggingface", "hf.co": "huggingface",
	"xiaohongshu.com": "xiaohongshu", "xhslink.com": "xiaohongshu",
	"mstdn.social": "mastodon", "fosstodon.org": "mastodon", "hachyderm.io": "mastodon",
}

// LinkKind returns the kind of a host: github, gitlab, codeberg, huggingface, mastodon,
// xiaohongshu, or website for any other. The host has no port.
func LinkKind(host string) string {
	host = strings.TrimPrefix(strings.ToLower(host), "www.")
	if strings.HasPrefix(host, "mastodon.") {
		return "mastodon"
	}
	return cmp.Or(kinds[host], "website")
}
