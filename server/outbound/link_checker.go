package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"callbook/store/domain"
	"callbook/store/text"
)

const (
	maxRedirects    = 3
	maxAddressBytes = 2048
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

// LinkChecker checks pages. It may be used by many goroutines at once.
type LinkChecker struct {
	guard
	transport *http.Transport
}

// NewLinkChecker returns a checker with the options.
func NewLinkChecker(o Options) *LinkChecker {
	g := newGuard(o)
	return &LinkChecker{g, g.newTransport()}
}

// Check fetches page and searches it for the address wanted. Whatever the page and its server do is
// a LinkCheck; the only error is that of ctx if it ended first. A check takes no longer than
// Options.Timeout, DNS included, reads at most 512 KiB of a page, and follows at most 3 redirects.
func (c *LinkChecker) Check(ctx context.Context, page, wanted string) (domain.LinkCheck, error) {
	run, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	v := &visit{guard: c.guard, at: &url.URL{}}
	proof, err := c.fetch(run, v, page, wanted)
	if err != nil && ctx.Err() != nil {
		return domain.LinkCheck{}, fmt.Errorf("check link: %w", ctx.Err())
	}

	result := domain.LinkCheck{Kind: LinkKind(v.given)}
	if err != nil {
		result.Failure = string(failureOf(err))
		return result, nil
	}

	result.Verified = true
	result.Proof = proof
	return result, nil
}

// fetch requests the page, follows its redirects, and returns the proof found.
func (c *LinkChecker) fetch(
	ctx context.Context,
	v *visit,
	page, wanted string,
) (proof string, err error) {
	v.target, err = newTarget(wanted)
	if err != nil {
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

// enter records the next URL on the way. It returns blocked if that may not be requested.
func (v *visit) enter(u *url.URL) error {
	u.Host = strings.ToLower(u.Host)
	if !v.allows(u) {
		return blocked
	}

	v.at = u
	v.reflected = v.reflected || v.target.reflectedBy(u)
	return nil
}

// allows reports whether a URL may be requested. Its host is in lower case.
func (v *visit) allows(u *url.URL) bool {
	// The guard looks up the host as it stands, so it must be in its ASCII form already.
	address := u.Scheme + "://" + u.Host + "/"
	canonical, ok := text.ParseLinkURL(address, v.guard.Loopback)
	if !ok || canonical != address || u.Opaque != "" || u.User != nil || len(u.String()) > maxAddressBytes {
		return false
	}

	// On the way from https to http, anybody in between could replace the page.
	if u.Scheme == "http" && v.at.Scheme == "https" {
		return false
	}

	// A page of the directory itself proves nothing.
	return siteOf(u) != v.target.site && !v.guard.blocks(u.Hostname())
}

// read searches a whole page for the proof. A page that is truncated or too long proves nothing,
// wherever in it the address is.
func (v *visit) read(resp *http.Response) (string, error) {
	// The request accepts the coding identity alone.
	coding := strings.Join(resp.Header.Values("Content-Encoding"), ",")
	encoded := coding != "" && !strings.EqualFold(coding, "identity")
	if resp.StatusCode != http.StatusOK || encoded {
		return "", httpError
	}

	if resp.ContentLength > maxBodyBytes {
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
