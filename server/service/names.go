package service

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"

	"callbook/store/text"
)

// privateTops are top-level names for which no public authority issues certificates (RFC 6761 and
// others).
var privateTops = []string{
	"localhost",
	"local",
	"internal",
	"test",
	"example",
	"invalid",
	"onion",
	"lan",
	"home",
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

	if u, err := url.Parse(base); err != nil || u.Scheme != "https" ||
		!slices.Contains(o.Names, u.Hostname()) {
		errs = append(
			errs,
			fmt.Errorf(
				"--base-url: with --domain, it must be https:// and one of the names, such as https://%s",
				o.Names[0],
			),
		)
	}

	if u, err := url.Parse(o.Directory); err != nil || u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil {
		errs = append(
			errs,
			errors.New("--acme-directory: must be the https URL of a certificate authority"),
		)
	}

	return errors.Join(errs...)
}

func (o CertificateOptions) checkName(name string) error {
	ascii, err := idna.Lookup.ToASCII(name)
	switch {
	case err != nil || ascii != name || !text.IsHostName(name):
		return fmt.Errorf(
			"--domain: %q is not a DNS name such as directory.example.org, without scheme, port and path",
			name,
		)

	case o.Directory == autocert.DefaultACMEDirectory && slices.Contains(privateTops, name[strings.LastIndex(name, ".")+1:]):
		return fmt.Errorf(
			"--domain: no public certificate authority certifies %s: use a registered name, or your own authority with --acme-directory",
			name,
		)
	}

	return nil
}
