package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"golang.org/x/net/idna"

	"callbook/server"
)

// httpsFlags have the site speak https by itself.
type httpsFlags struct {
	Domain        []string `help:"Name of the site, such as directory.example.org: callbook gets and renews its certificate, and speaks https. Further names, such as www.directory.example.org, lead to the first. This accepts the terms of the certificate authority." placeholder:"NAME"`
	ACMEEmail     string   `name:"acme-email" help:"With --domain: where the certificate authority may write to you." placeholder:"ADDRESS"`
	ACMEDirectory string   `name:"acme-directory" default:"https://acme-v02.api.letsencrypt.org/directory" help:"With --domain: the certificate authority." placeholder:"URL"`
	HTTPAddr      string   `name:"http-addr" help:"With --domain: address where plain http is led to https, and the certificate authority answered; off for none. Default: :80." placeholder:"ADDR"`
}

// AfterApply is called by kong once the flags are read: some defaults depend on others.
func (c *serveCommand) AfterApply() error {
	if len(c.Domain) == 0 {
		c.Addr = cmp.Or(c.Addr, "127.0.0.1:8080")
		return nil
	}
	for i, name := range c.Domain {
		if ascii, err := domainName.ToASCII(name); err == nil {
			c.Domain[i] = ascii
		}
	}
	c.Addr = cmp.Or(c.Addr, ":443")
	c.HTTPAddr = cmp.Or(c.HTTPAddr, ":80")
	c.BaseURL = cmp.Or(c.BaseURL, "https://"+c.Domain[0])
	return nil
}

// domainName makes a name of any script what certificates and the DNS call it.
var domainName = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(true), idna.VerifyDNSLength(true))

// privateTops are the top-level names that no public authority certifies (RFC 6761 and
// others).
var privateTops = []string{"localhost", "local", "internal", "test", "example", "invalid", "onion", "lan", "home"}

// check refuses what no certificate can be for, given the site's address.
func (f httpsFlags) check(base string) error {
	if len(f.Domain) == 0 {
		if f.ACMEEmail != "" || f.HTTPAddr != "" || f.ACMEDirectory != autocert.DefaultACMEDirectory {
			return errors.New("--acme-email, --acme-directory and --http-addr go with --domain: give that too, or leave them out")
		}
		return nil
	}
	var errs []error
	for i, name := range f.Domain {
		errs = append(errs, f.checkName(name))
		if slices.Contains(f.Domain[:i], name) {
			errs = append(errs, fmt.Errorf("--domain: %s is given twice", name))
		}
	}
	if u, err := url.Parse(base); err != nil || u.Scheme != "https" || !slices.Contains(f.Domain, u.Hostname()) {
		errs = append(errs, fmt.Errorf("--base-url: with --domain it begins with https:// and one of its names, as in https://%s", f.Domain[0]))
	}
	if u, err := url.Parse(f.ACMEDirectory); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		errs = append(errs, errors.New("--acme-directory: give the https address that the certificate authority names"))
	}
	if at, err := mail.ParseAddress(f.ACMEEmail); f.ACMEEmail != "" && (err != nil || at.Address != f.ACMEEmail) {
		errs = append(errs, errors.New("--acme-email: give one plain address such as admin@example.org"))
	}
	return errors.Join(errs...)
}

func (f httpsFlags) checkName(name string) error {
	_, notNumber := netip.ParseAddr(name)
	ascii, err := domainName.ToASCII(name)
	dot := strings.LastIndex(name, ".")
	switch {
	case err != nil || ascii != name || dot < 0 || notNumber == nil:
		return fmt.Errorf("--domain: %q is no DNS name: give one such as directory.example.org, without scheme, port and path", name)
	case f.ACMEDirectory == autocert.DefaultACMEDirectory && slices.Contains(privateTops, name[dot+1:]):
		return fmt.Errorf("--domain: no certificate authority of the public net certifies %s: give a registered name, or name your own authority with --acme-directory", name)
	}
	return nil
}

// certificates are those of the site's names; without names there are none.
type certificates struct {
	names      []string
	manager    *autocert.Manager
	authority  *authority
	challenges http.Handler            // nil: nobody can ask by plain http
	held       map[string]*atomic.Bool // by name: there is a certificate
	log        zerolog.Logger
}

func (c *serveCommand) certificates(log zerolog.Logger) (*certificates, error) {
	all := &certificates{names: c.Domain, held: map[string]*atomic.Bool{}, log: log}
	if len(c.Domain) == 0 {
		return all, nil
	}
	folder := certificateFolder{c.certificateFolder(), log}
	if err := folder.open(); err != nil {
		return nil, err
	}
	all.authority = &authority{said: map[string]string{}}
	all.manager = &autocert.Manager{
		Prompt: all.accept,
		Cache:  folder,
		HostPolicy: func(_ context.Context, host string) error {
			if !slices.Contains(all.names, (&url.URL{Host: host}).Hostname()) { // the port is there at odd ones
				return errNotOurs
			}
			return nil
		},
		Client: &acme.Client{
			DirectoryURL: c.ACMEDirectory, UserAgent: "callbook/" + version(),
			HTTPClient: &http.Client{Transport: all.authority, Timeout: time.Minute},
		},
		Email: c.ACMEEmail,
	}
	if c.HTTPAddr != off {
		all.challenges = all.manager.HTTPHandler(nil)
	}
	for _, name := range c.Domain {
		all.held[name] = &atomic.Bool{}
	}
	return all, nil
}

const off = "off"

var (
	errNotOurs = errors.New("not a name of this site")
	errNoneYet = errors.New("there is no certificate yet")
)

func (c *certificates) accept(terms string) bool {
	c.log.Info().Str("terms", terms).Msg("the terms of the certificate authority are accepted")
	return true
}

// front is the site's own address.
func (c *certificates) front(s *server.Server) server.Front {
	if len(c.names) == 0 {
		return server.Front{}
	}
	return server.Front{Handler: s.OneName(c.names), TLS: &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: c.choose,
		NextProtos:     []string{"h2", "http/1.1", acme.ALPNProto},
	}}
}

// redirect is the address for plain http.
func (c *certificates) redirect(s *server.Server) server.Front {
	return server.Front{Handler: s.Redirect(c.challenges)}
}

// choose answers a handshake with a certificate that is there. What visitors do never
// reaches the certificate authority: a scanner would use its limits up.
func (c *certificates) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	held := c.held[name]
	switch {
	case held == nil:
		return nil, nil // the caller hears: unrecognized_name
	case slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}):
		return c.manager.GetCertificate(hello)
	case !held.Load():
		return nil, errNoneYet
	}
	return c.get(name)
}

// get returns a name's certificate; the authority is asked where there is none. It is
// always of one kind: for a client that knows no ECDSA, autocert would ask for a second.
func (c *certificates) get(name string) (*tls.Certificate, error) {
	return c.manager.GetCertificate(&tls.ClientHelloInfo{
		ServerName: name, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	})
}

// keep gets a certificate for each name, and looks after it until ctx ends.
func (c *certificates) keep(ctx context.Context, s *server.Server) {
	for _, name := range c.names {
		s.ShowCertificate(name, func() time.Time { return c.ends(name) })
		cert, err := kept(c.manager.Cache.(certificateFolder).path, name)
		if err == nil && time.Now().Before(cert.NotAfter) && cert.VerifyHostname(name) == nil {
			c.held[name].Store(true) // nobody is refused at a restart
		}
		go c.keepOne(ctx, name)
	}
}

func (c *certificates) ends(name string) (end time.Time) {
	if !c.held[name].Load() {
		return end
	}
	cert, err := c.get(name)
	if err != nil {
		return end
	}
	return cert.Leaf.NotAfter
}

// pauses are how long after a failure the next try comes. A try costs up to two of the
// five failed validations that Let's Encrypt allows a name an hour. autocert forgets a
// failure after a minute.
var pauses = []time.Duration{65 * time.Second, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}

func pauseAfter(err error, failures int) time.Duration {
	pause := pauses[min(failures, len(pauses)-1)]
	wait, limited := acme.RateLimit(err)
	switch {
	case limited:
		return max(pause, min(wait, 48*time.Hour))
	case unreached(err):
		return min(pause, 5*time.Minute) // it counted nothing
	}
	return pause
}

// unreached tells whether the authority was not reached at all.
func unreached(err error) bool {
	var failure *url.Error
	return errors.As(err, &failure)
}

func (c *certificates) keepOne(ctx context.Context, name string) {
	var end time.Time // of the certificate as last seen
	for failures := 0; ; {
		var pause time.Duration
		if !c.held[name].Load() {
			c.authority.forget(name) // a later renewal is autocert's, and may have said something
		}
		if cert, err := c.get(name); err == nil {
			pause = c.look(name, cert.Leaf, end)
			end, failures = cert.Leaf.NotAfter, 0
		} else {
			pause = pauseAfter(err, failures)
			failures++
			c.tell(name, err, pause)
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// look sees how a name's certificate stands, and says when to look again. autocert
// renews in the last third of its time, or 30 days, and does not say how that goes.
func (c *certificates) look(name string, cert *x509.Certificate, before time.Time) (pause time.Duration) {
	c.held[name].Store(true)
	if !cert.NotAfter.Equal(before) {
		c.log.Info().Str("domain", name).Str("issuer", issuer(cert)).Time("until", cert.NotAfter).Msg("https has its certificate")
	}
	life := cert.NotAfter.Sub(cert.NotBefore)
	pause = min(24*time.Hour, life/10)
	if time.Until(cert.NotAfter) > life/4 {
		return pause
	}
	if !before.IsZero() { // a start has it renewed at once
		c.log.Error().Str("domain", name).Time("until", cert.NotAfter).Str("reason", c.authority.reason(name, nil)).
			Msg("the certificate should have been renewed by now: " + reachability)
	}
	return min(time.Hour, pause)
}

const reachability = "the name must lead to this machine, and port 443 or 80 of it be open to the internet"

// tell tells why there is no certificate, and what to do.
func (c *certificates) tell(name string, err error, pause time.Duration) {
	next := reachability
	if _, limited := acme.RateLimit(err); limited {
		next = "the authority's limit is reached, and only waiting helps"
	} else if unreached(err) {
		next = "the authority itself cannot be reached: see this machine's name server and firewall"
	}
	c.log.Error().Str("domain", name).Str("reason", c.authority.reason(name, err)).Str("again_in", pause.String()).
		Msg("https has no certificate yet: " + next)
}

func issuer(cert *x509.Certificate) string {
	return strings.TrimSpace(strings.Join(cert.Issuer.Organization, ", ") + " " + cert.Issuer.CommonName)
}

// trustAuthorities has TLS know the certificates of authorities where the system has
// none, as in an empty container: without them neither links nor the mail server can
// be reached. It comes before the first connection, and takes 2 ms for 160 KB.
var trustAuthorities = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil: // one that this version of Go refuses
		case root.Constraint != nil:
			pool.AddCertWithConstraint(certificate, root.Constraint)
		default:
			pool.AddCert(certificate)
		}
	}
	x509.SetFallbackRoots(pool)
})
