package cli

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"callbook/server"
	"callbook/server/service"
)

// checkRules returns the errors of settings that are out of range, and of those that need or
// exclude each other.
func (c *serveCommand) checkRules() error {
	socket := (service.Endpoint{Flag: service.SiteFlag, Addr: c.Addr}).Socket() != ""
	cache := time.Duration(c.SharedCache)
	otherAuthority := c.ACMEDirectory != autocert.DefaultACMEDirectory

	var errs []error
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{
			c.DB == "",
			"--db: the name of the file is empty",
		},
		{
			c.DB != "" && c.BackupDir != "" && c.schedule(c.DB).Owns(c.DB),
			"--db: this is one of the backups in --backup-dir, and would be deleted like them: " +
				"restore it to another path with callbook restore",
		},
		{
			socket && len(c.Domain) > 0,
			"--addr: a socket serves no HTTPS: leave out --domain, " +
				"and let the reverse proxy in front serve it",
		},
		{
			socket && c.BaseURL == "",
			"--base-url: with a socket as --addr, give the URL at which the reverse proxy serves the site, " +
				"such as https://directory.example.org",
		},
		{
			len(c.Domain) == 0 && (c.HTTPAddr != "" || otherAuthority),
			"--acme-directory and --http-addr need --domain",
		},
		{
			// Cache-Control counts seconds.
			cache < 0 || cache > time.Minute || cache%time.Second != 0,
			"--shared-cache must be whole seconds up to 1m, such as 5s, or 0s",
		},
		{
			cache > 0 && c.Private,
			"--shared-cache and --private exclude each other: " +
				"a cache in front would not check the Host of requests",
		},
		{
			time.Duration(c.BackupEvery) < time.Minute || c.BackupKeep < 1 || c.BackupKeep > 1000,
			"--backup-every must be at least 1m, --backup-keep from 1 to 1000",
		},
		{
			c.MaxSize > 0 && c.MaxSize < minMaxSize || c.MaxSize > maxMaxSize,
			fmt.Sprintf(
				"--max-size must be from %d MB to %d TB, auto, or 0 for no limit",
				int64(minMaxSize/1e6),
				int64(maxMaxSize/1e12),
			),
		},
		{
			c.CacheSize == autoSize,
			"--cache-size must be a size such as 128MB, or 0",
		},
	} {
		if rule.broken {
			errs = append(errs, errors.New(rule.text))
		}
	}

	// Check does not call the handlers, which need the certificates.
	for _, e := range c.endpoints(nil) {
		errs = append(errs, e.Check())
	}

	if err := server.CheckBaseURL(c.BaseURL); c.BaseURL != "" && err != nil {
		errs = append(errs, fmt.Errorf("--base-url: %w", err))
	}

	if len(c.Domain) > 0 {
		errs = append(errs, c.certificates().Check(c.BaseURL))
	}

	return errors.Join(errs...)
}
