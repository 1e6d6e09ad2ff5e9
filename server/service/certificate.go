package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"callbook/server"
	"callbook/server/outbound"
	"callbook/store/durable"
	"callbook/store/text"
)

// Certificates obtains the certificates of the site's names; autocert renews them.
type Certificates struct {
	names   []string // of the site; none without --domain
	folder  certificateFolder
	manager *autocert.Manager

	// plain responds to challenges over plain HTTP; nil without --http-addr.
	plain http.Handler

	// obtained has, by name, whether there is a certificate.
	obtained map[string]*atomic.Bool

	log zerolog.Logger
}

// CertificateOptions select the names and the authority of certificates.
type CertificateOptions struct {
	Names     []string // of the site; none without HTTPS
	Directory string   // URL of the ACME directory
	Plain     bool     // whether to respond to challenges over plain HTTP
	Database  string   // path of the database, beside which the certificates are stored
	UserAgent string
}

// privateTops are top-level names for which no public authority issues certificates (RFC 6761 and
// others).
var privateTops = []string{
	"localhost", "local", "internal", "test", "example", "invalid", "onion", "lan", "home",
}

// Check rejects names and URLs for which no certificate can be issued, given the base URL. Its
// errors name the flags of the program.
func (o CertificateOptions) Check(base string) error {
	var errs []error
	for i, name := range o.Names {
		errs = append(errs, o.checkName(name))
		if slices.Contains(o.Names[:i], name) {
			errs = append(errs, fmt.Errorf("--domain: %s is given twice", name))
		}
	}

	site, err := url.Parse(base)
	if err != nil || site.Scheme != "https" || !slices.Contains(o.Names, site.Hostname()) {
		errs = append(errs, fmt.Errorf(
			"--base-url: with --domain, it must be https:// and one of the names, such as https://%s",
			o.Names[0],
		))
	}

	authority, err := url.Parse(o.Directory)
	if err != nil || authority.Scheme != "https" || authority.Hostname() == "" ||
		authority.User != nil {
		errs = append(errs, errors.New(
			"--acme-directory: must be the https URL of a certificate authority",
		))
	}

	return errors.Join(errs...)
}

// checkName rejects a name that is no DNS name, or that the public authority cannot certify.
func (o CertificateOptions) checkName(name string) error {
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil || ascii != name || !text.IsHostName(name) {
		return fmt.Errorf(
			"--domain: %q is not a DNS name such as directory.example.org, without scheme, port and path",
			name,
		)
	}

	// Another authority may certify the names of its own network.
	top := name[strings.LastIndex(name, ".")+1:]
	if o.Directory == autocert.DefaultACMEDirectory && slices.Contains(privateTops, top) {
		return fmt.Errorf(
			"--domain: no public certificate authority certifies %s: use a registered name, or your own authority with --acme-directory",
			name,
		)
	}

	return nil
}

// NewCertificates returns the certificates of the names, and creates their folder. Start obtains
// them.
func NewCertificates(o CertificateOptions, log zerolog.Logger) (*Certificates, error) {
	all := &Certificates{names: o.Names, obtained: map[string]*atomic.Bool{}, log: log}
	if len(o.Names) == 0 {
		return all, nil
	}

	for _, name := range o.Names {
		all.obtained[name] = &atomic.Bool{}
	}

	all.folder = certificateFolder{autocert.DirCache(o.Folder()), log}
	if err := os.MkdirAll(o.Folder(), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of certificates: %w", err)
	}

	all.manager = &autocert.Manager{
		Prompt:     all.accept,
		Cache:      all.folder,
		HostPolicy: all.allow,
		Client: &acme.Client{
			DirectoryURL: o.Directory,
			UserAgent:    o.UserAgent,
			HTTPClient:   &http.Client{Timeout: time.Minute},
		},
	}
	if o.Plain {
		all.plain = all.manager.HTTPHandler(nil)
	}
	return all, nil
}

// accept implements autocert.Manager.Prompt. Setting --domain accepts the terms, as its help says.
func (c *Certificates) accept(terms string) bool {
	c.log.Info().Str("terms", terms).Msg("accepted the terms of the certificate authority")
	return true
}

var (
	errForeignName   = errors.New("not a name of this site")
	errNoCertificate = errors.New("there is no certificate yet")
)

// allow implements autocert.HostPolicy: it allows the names of the site.
func (c *Certificates) allow(_ context.Context, host string) error {
	// Challenges over plain HTTP have the port in the host if it is not 80, which
	// autocert.HostWhitelist would reject.
	if !slices.Contains(c.names, (&url.URL{Host: host}).Hostname()) {
		return errForeignName
	}
	return nil
}

// Front returns the site's own address.
func (c *Certificates) Front(s *server.Server) server.Front {
	if len(c.names) == 0 {
		return server.Front{}
	}
	config := c.manager.TLSConfig()
	config.MinVersion = tls.VersionTLS12
	config.GetCertificate = c.choose
	return server.Front{Handler: s.OneName(c.names), TLS: config}
}

// Redirect returns the address for plain http.
func (c *Certificates) Redirect(s *server.Server) server.Front {
	return server.Front{Handler: s.Redirect(c.plain)}
}

// choose implements tls.Config.GetCertificate for the names of the site.
func (c *Certificates) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	obtained := c.obtained[name]
	switch {
	case obtained == nil:
		// crypto/tls then sends the alert unrecognized_name.
		return nil, nil

	case slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}):
		// The handshake is a challenge of the authority.
		return c.manager.GetCertificate(hello)

	case !obtained.Load():
		// A handshake of a visitor never causes a request to the authority: a scanner would
		// exhaust its rate limits.
		return nil, errNoCertificate
	}

	return c.get(name)
}

// get returns a name's certificate, which autocert requests if there is none.
func (c *Certificates) get(name string) (*tls.Certificate, error) {
	// Not the hello of the client: for one that does not support ECDSA, autocert would request a
	// second certificate.
	return c.manager.GetCertificate(&tls.ClientHelloInfo{
		ServerName:   name,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
}

// Start obtains a certificate for each name in the background, and checks their renewal until ctx
// ends.
func (c *Certificates) Start(ctx context.Context, s *server.Server, alerts *outbound.AlertWorker) {
	for _, name := range c.names {
		// A saved certificate is served at once, before the first goroutine has inspected it.
		cert, err := SavedCertificate(string(c.folder.DirCache), name)
		c.obtained[name].Store(
			err == nil && time.Now().Before(cert.NotAfter) && cert.VerifyHostname(name) == nil,
		)

		s.ShowCertificate(name, func() time.Time { return c.expiry(name) })
		go c.inspectUntilDone(ctx, name, alerts)
	}
}

// expiry returns when a name's certificate expires; the zero time without one.
func (c *Certificates) expiry(name string) time.Time {
	if !c.obtained[name].Load() {
		return time.Time{}
	}

	cert, err := c.get(name)
	if err != nil {
		return time.Time{}
	}

	return cert.Leaf.NotAfter
}

// inspectUntilDone obtains the certificate of a name, and inspects it again and again until ctx
// ends.
func (c *Certificates) inspectUntilDone(
	ctx context.Context,
	name string,
	alerts *outbound.AlertWorker,
) {
	var known *x509.Certificate
	failures := 0
	for {
		var pause time.Duration
		cert, err := c.get(name)
		if err == nil {
			failures = 0
			pause = c.inspect(name, cert.Leaf, known, alerts)
			known = cert.Leaf
		} else {
			failures++
			pause = retryAfter(err, failures)
			alerts.Raise(outbound.CertificateAlert, 1)
			c.log.Error().Err(err).Str("domain", name).Str("again_in", pause.String()).
				Msg("https has no certificate yet: " + remedy)
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// retryAfter returns the pause after a number of failures in a row.
func retryAfter(err error, failures int) time.Duration {
	if wait, limited := acme.RateLimit(err); limited {
		return min(max(wait, time.Hour), 48*time.Hour)
	}

	// autocert returns the same error again for a minute.
	if failures == 1 {
		return 65 * time.Second
	}

	// An attempt costs up to two of the five failed validations that Let's Encrypt allows a name an
	// hour, but none if the authority is not reached.
	if _, unreached := errors.AsType[*url.Error](err); unreached {
		return 5 * time.Minute
	}

	return time.Hour << min(failures-2, 3)
}

// remedy follows what the log says of a missing certificate.
const remedy = "the name must point to this machine, port 443 or 80 must be open to the internet, " +
	"and this machine must reach the authority; see HTTPS has no certificate in the manual"

// inspect logs a new certificate, and one whose renewal is overdue, and returns the pause before
// the next inspection. known is the certificate of the last one; nil at the first.
func (c *Certificates) inspect(
	name string,
	cert, known *x509.Certificate,
	alerts *outbound.AlertWorker,
) (pause time.Duration) {
	c.obtained[name].Store(true)
	if !cert.Equal(known) {
		c.log.Info().
			Str("domain", name).
			Str("issuer", CertificateIssuer(cert)).
			Time("until", cert.NotAfter).
			Msg("https has a certificate")
	}

	lifetime := cert.NotAfter.Sub(cert.NotBefore)
	pause = min(24*time.Hour, lifetime/10)

	// autocert renews 30 days before the end, or when a third of the lifetime is left if that is
	// later, and reports no failure of it.
	if time.Until(cert.NotAfter) > lifetime/4 {
		return pause
	}

	// At the first inspection after a start, autocert is still renewing it.
	if known != nil {
		alerts.Raise(outbound.CertificateAlert, 1)
		c.log.Error().Str("domain", name).Time("until", cert.NotAfter).
			Msg("the renewal of the certificate is overdue: " + remedy)
	}

	return min(time.Hour, pause)
}

// CertificateIssuer returns the name of the authority that issued a certificate.
func CertificateIssuer(cert *x509.Certificate) string {
	organization := strings.Join(cert.Issuer.Organization, ", ")
	return strings.TrimSpace(organization + " " + cert.Issuer.CommonName)
}

// Folder returns the folder, beside the database, for the certificates of the authority.
func (o CertificateOptions) Folder() string {
	// Each authority has its own: certificates of a staging authority must not be served once it
	// is replaced.
	u, _ := url.Parse(o.Directory) // valid by Check
	authority := strings.ReplaceAll(u.Host, ":", "_")
	return filepath.Join(filepath.Dir(o.Database), "certificates", authority)
}

// certificateFolder is autocert's cache of certificates and keys with durable writes.
type certificateFolder struct {
	autocert.DirCache
	log zerolog.Logger
}

// Put implements autocert.Cache.
func (f certificateFolder) Put(_ context.Context, name string, data []byte) error {
	// autocert itself does not sync: after a power cut, an empty account key would prevent every
	// further certificate.
	err := durable.WriteFile(filepath.Join(string(f.DirCache), filepath.Base(name)), data)
	if err != nil {
		// autocert ignores the error, and requests the same certificate again after a restart.
		f.log.Error().
			Err(err).
			Msg("cannot store a certificate or its key: check the free space and the permissions")
	}

	return err
}

// SavedCertificate reads the certificate of a name from a folder.
func SavedCertificate(folder, name string) (*x509.Certificate, error) {
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data) // autocert stores both in one file
	return pair.Leaf, err
}
