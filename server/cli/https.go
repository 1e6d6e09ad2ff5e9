package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/crypto/acme/autocert"
	_ "golang.org/x/crypto/x509roots/fallback" // certificates of authorities for systems without any, such as an empty container
	"golang.org/x/net/idna"

	"callbook/store/text"
)

// httpsFlags configure HTTPS.
type httpsFlags struct {
	Domain        []string `help:"Names of the site, such as directory.example.org. Callbook obtains and renews their certificates, and serves HTTPS. Further names, such as www.directory.example.org, redirect to the first. This accepts the terms of the certificate authority." placeholder:"NAME"`
	ACMEEmail     string   `name:"acme-email" help:"With --domain: your mail address for the certificate authority." placeholder:"ADDRESS"`
	ACMEDirectory string   `name:"acme-directory" default:"https://acme-v02.api.letsencrypt.org/directory" help:"With --domain: ACME directory of the certificate authority." placeholder:"URL"`
	HTTPAddr      string   `name:"http-addr" help:"With --domain: address of the listener that redirects HTTP to HTTPS and answers the certificate authority, or off. Default: :80." placeholder:"ADDR"`
}

// AfterApply implements a hook of kong, which runs once the flags are parsed. It sets defaults that depend on other
// flags.
func (c *serveCommand) AfterApply(k *kong.Context) error {
	if err := c.mailFlags.resolve(k); err != nil {
		return err
	}
	if len(c.Domain) == 0 {
		c.Addr = cmp.Or(c.Addr, "127.0.0.1:8080")
		return nil
	}
	for i, name := range c.Domain {
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			c.Domain[i] = ascii
		}
	}
	c.Addr = cmp.Or(c.Addr, ":443")
	c.HTTPAddr = cmp.Or(c.HTTPAddr, ":80")
	c.BaseURL = cmp.Or(c.BaseURL, "https://"+c.Domain[0])
	return nil
}

// privateTops are top-level names for which no public authority issues certificates (RFC 6761 and others).
var privateTops = []string{"localhost", "local", "internal", "test", "example", "invalid", "onion", "lan", "home"}

// check rejects names and URLs for which no certificate can be issued, given the base URL.
func (f httpsFlags) check(base string) error {
	if len(f.Domain) == 0 {
		if f.ACMEEmail != "" || f.HTTPAddr != "" || f.ACMEDirectory != autocert.DefaultACMEDirectory {
			return errors.New("--acme-email, --acme-directory and --http-addr need --domain")
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
		errs = append(errs, fmt.Errorf("--base-url: with --domain, it must be https:// and one of the names, such as https://%s", f.Domain[0]))
	}
	if u, err := url.Parse(f.ACMEDirectory); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		errs = append(errs, errors.New("--acme-directory: must be the https URL of a certificate authority"))
	}
	if at, err := mail.ParseAddress(f.ACMEEmail); f.ACMEEmail != "" && (err != nil || at.Address != f.ACMEEmail) {
		errs = append(errs, errors.New("--acme-email: must be a plain address such as admin@example.org"))
	}
	return errors.Join(errs...)
}

func (f httpsFlags) checkName(name string) error {
	ascii, err := idna.Lookup.ToASCII(name)
	switch {
	case err != nil || ascii != name || !text.IsHostName(name):
		return fmt.Errorf("--domain: %q is not a DNS name such as directory.example.org, without scheme, port and path", name)
	case f.ACMEDirectory == autocert.DefaultACMEDirectory && slices.Contains(privateTops, name[strings.LastIndex(name, ".")+1:]):
		return fmt.Errorf("--domain: no public certificate authority certifies %s: use a registered name, or your own authority with --acme-directory", name)
	}
	return nil
}

const off = "off"
