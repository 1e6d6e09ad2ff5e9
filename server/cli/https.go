package cli

import (
	"cmp"

	"github.com/alecthomas/kong"
	"golang.org/x/net/idna"

	"callbook/server/service"
)

// httpsFlags configure HTTPS.
type httpsFlags struct {
	Domain        []string `help:"Names of the site, such as directory.example.org. Callbook obtains and renews their certificates, and serves HTTPS. Further names, such as www.directory.example.org, redirect to the first. This accepts the terms of the certificate authority." placeholder:"NAME"`
	ACMEDirectory string   `name:"acme-directory" default:"https://acme-v02.api.letsencrypt.org/directory" help:"With --domain: ACME directory of the certificate authority." placeholder:"URL"`
	HTTPAddr      string   `name:"http-addr" help:"With --domain: address of the listener that redirects HTTP to HTTPS and answers the certificate authority, or off. Default: :80." placeholder:"ADDR"`
}

// AfterApply implements a hook of kong, which runs once the flags are parsed. It sets defaults
// that depend on other flags.
func (c *serveCommand) AfterApply(k *kong.Context, file *configFile) error {
	// The table has no flags, and kong therefore no place for it.
	c.single = file.limits
	if err := c.mailFlags.resolve(k); err != nil {
		return err
	}

	c.limitFlags.resolve(c.BaseURL != "" || len(c.Domain) > 0)
	if len(c.Domain) == 0 {
		c.Addr = cmp.Or(c.Addr, "127.0.0.1:8080")
		return nil
	}

	for i, name := range c.Domain {
		// Check rejects a name that has no ASCII form.
		if ascii, err := idna.Lookup.ToASCII(name); err == nil {
			c.Domain[i] = ascii
		}
	}

	c.Addr = cmp.Or(c.Addr, ":443")
	c.HTTPAddr = cmp.Or(c.HTTPAddr, ":80")
	c.BaseURL = cmp.Or(c.BaseURL, "https://"+c.Domain[0])

	return nil
}

// certificates returns the options for the certificates.
func (c *serveCommand) certificates() service.CertificateOptions {
	return service.CertificateOptions{
		Names:     c.Domain,
		Directory: c.ACMEDirectory,
		Plain:     c.HTTPAddr != off,
		Database:  c.DB,
		UserAgent: "callbook/" + version(),
	}
}

// off is the value of settings that switch something off.
const off = "off"
