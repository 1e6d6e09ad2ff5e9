package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"callbook/server/mail"
	"callbook/server/outbound"
	"callbook/server/service"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/durable"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// checkCommand takes the settings of callbook serve, and checks whether it would work with them.
type checkCommand struct {
	serveCommand `embed:""`
	TestAlert    bool `help:"Send a test alert to --alert-url."`
	JSON         bool `name:"json" env:"-" help:"Print one JSON object: the settings, the findings, and the number of problems."`
}

// Run implements the command.
func (c *checkCommand) Run(ctx context.Context, console *console, k *kong.Context) error {
	f := &findings{out: console.out, json: c.JSON, Settings: map[string]string{}}
	c.printSettings(f, k)

	p, err := c.plan(zerolog.Nop())
	if err != nil {
		// As text, the error itself is printed after the findings.
		if c.JSON {
			f.problem("settings", "%v", err)
		}
		return errors.Join(f.end(), err)
	}

	served := c.checkDatabase(ctx, console, f)
	c.checkDisk(f)
	c.checkMail(ctx, f)
	c.checkMailPools(ctx, f)
	c.checkAlerts(ctx, f, p.alerts)

	// Its own listener would be in the way.
	if served {
		f.ok("address", "not checked: the server is running")
	} else {
		c.checkAddresses(f)
	}

	c.checkCertificates(f)
	c.checkBackups(f, served)
	c.checkSettings(f)

	if err := f.end(); err != nil {
		return err
	}
	if f.Problems > 0 {
		return fmt.Errorf(
			"found problems (%d): each line marked ERROR says how to fix one",
			f.Problems,
		)
	}

	return nil
}

// checkRunning returns the findings about a running service, for the operator's page: those that
// need neither the network nor the whole database.
func (c *serveCommand) checkRunning(ctx context.Context, st *store.Store) string {
	var out strings.Builder
	f := &findings{out: &out}
	check := &checkCommand{serveCommand: *c}
	check.checkDisk(f)
	f.mailPools(ctx, st)
	check.checkCertificates(f)
	check.checkBackups(f, true)
	check.checkSettings(f)

	return out.String()
}

// printSettings prints every setting in force, as its variable and without passwords, and every
// limit.
func (c *checkCommand) printSettings(f *findings, k *kong.Context) {
	for _, flag := range k.Flags() {
		value := fmt.Sprint(k.FlagValue(flag))

		// Lists are printed as a variable has them. The others may contain passwords and tokens.
		switch flag.Name {
		case "domain", "trusted-proxy", "mcp-origin":
			value = strings.Join(k.FlagValue(flag).([]string), ",")
		case "mail":
			value = mail.Describe(value)
		case "mail-file":
			value = c.MailFile // empty if --mail takes precedence
			if isMailSetting(value) {
				value = mail.Describe(value)
			}
		case "alert-url":
			value, _ = outbound.Origin(value)
		}

		if len(flag.Envs) > 0 {
			f.setting(flag.Envs[0], value)
		}
	}

	numbers := c.numbers()
	for _, limit := range domain.Limits {
		f.setting("limits."+limit.Key(), strconv.Itoa(numbers[limit.Name]))
	}

	if !f.json {
		fmt.Fprintln(f.out)
	}
}

// checkDatabase checks the whole file, and returns whether a process serves it.
func (c *checkCommand) checkDatabase(
	ctx context.Context,
	console *console,
	f *findings,
) (served bool) {
	lock, err := c.lock()
	switch {
	case err == nil:
		defer lock.ReleaseUnused()

	case errors.Is(err, sqlitedb.ErrLocked):
		served = true
		// The rest of the error is for a command that needs the file alone.
		running, _, _ := strings.Cut(err.Error(), ": ")
		f.ok("process", "%s", running)

	default:
		f.problem("database", "%v", err)
		return false
	}

	if !sqlitedb.Exists(c.DB) {
		f.note("database", "there is no database yet: callbook serve creates %s", c.DB)
		return served
	}

	ctx, end := console.showProgress(ctx)
	contents, err := store.VerifyFile(ctx, c.DB, served)
	end()
	if err != nil {
		f.problem("database", "%v", c.withNextStep(err))
		return served
	}

	c.checkFile(f, served, contents)
	return served
}

// checkFile checks the permissions of the database, and reports its contents.
func (c *checkCommand) checkFile(f *findings, served bool, contents store.BackupContents) {
	file := sqlitedb.FileOf(c.DB)
	denied := errors.Join(sqlitedb.MayWrite(file), sqlitedb.MayWrite(filepath.Dir(file)))
	if errors.Is(denied, syscall.EROFS) {
		f.problem("database", "%v", sqlitedb.ErrFull)
		return
	}

	// A service that runs may be that of another user, who may write.
	if denied != nil && !served {
		f.problem(
			"database",
			"this user cannot write to it: run the check as the user of the service, "+
				"or make that user the owner of the file, its folder and the files beside it (%v)",
			denied,
		)
		return
	}

	f.ok("database", "%s, schema %d", formatContents(contents), contents.Schema)
	if durable.OpenToOthers(file) {
		f.problem("database", "other users of this machine can open it: chmod 600 %s*", file)
	}

	at := contents.UntrustedProxyAt.Time()
	if len(c.TrustedProxy) == 0 && time.Since(at) < proxyNoticeAge {
		f.problem(
			"proxy",
			"requests come through a proxy that is not trusted, the last one recorded at %s: "+
				"all visitors count as one address; set --trusted-proxy to the address of the proxy",
			at.Format(time.RFC3339),
		)
	}
}

// proxyNoticeAge is how long check reports a request through a proxy that is not trusted. The
// service records one a day.
const proxyNoticeAge = 48 * time.Hour

// checkDisk checks the type of the file system and its free space.
func (c *checkCommand) checkDisk(f *findings) {
	folder := filepath.Dir(sqlitedb.FileOf(c.DB))
	d, err := sqlitedb.DiskOf(folder)
	switch {
	case err != nil:
		f.problem("disk", "cannot read its state: %v: mount the disk, or correct --db", err)

	case d.Network != "" && !c.NetworkDisk:
		f.problem("disk", "%v (%s)", sqlitedb.ErrNetworkDisk, d.Network)

	case d.Free < d.Least():
		f.problem(
			"disk",
			"%d MiB are free, at least %d MiB are needed: free some space",
			d.Free>>20,
			d.Least()>>20,
		)

	default:
		f.ok("disk", "%d MiB are free", d.Free>>20)
	}
}

// checkMail checks that the mail server accepts the settings.
func (c *checkCommand) checkMail(ctx context.Context, f *findings) {
	sink, err := c.openMail(zerolog.Nop())
	if sink == nil && err == nil {
		return // off, which checkSettings reports
	}

	if err == nil {
		err = mail.Check(ctx, sink)
	}
	if err != nil {
		f.problem(
			"mail",
			"%v: correct --mail or the mail server; until then mails wait and expire",
			err,
		)
		return
	}
	f.ok("mail", "ready to send mails")
}

// checkMailPools reports the pools of mails that the site has spent within the last day.
func (c *checkCommand) checkMailPools(ctx context.Context, f *findings) {
	if !sqlitedb.Exists(c.DB) {
		return
	}

	st, err := store.Open(ctx, store.Options{Path: c.DB, Beside: true, Mails: c.mailCaps()})
	if err != nil {
		return // the check of the database reports it
	}
	defer st.Close()

	f.mailPools(ctx, st)
}

// mailPools reports what is left of the pools of mails.
func (f *findings) mailPools(ctx context.Context, st *store.Store) {
	pools, err := st.MailPools(ctx)
	if err != nil {
		f.problem("mails", "cannot count them: %v: run the check again", err)
	}

	for _, p := range pools {
		purpose := mailPurposes[p.Pool]
		switch {
		case p.Until != 0:
			f.note(
				"mails",
				"all %d mails a day for %s are sent: the next one goes out at %s; see mails in the table [limits]",
				p.Limit,
				purpose,
				p.Until,
			)

		case p.Limit > 0:
			f.ok("mails", "%d of %d mails a day for %s are left", p.Left, p.Limit, purpose)
		}
	}
}

// mailPurposes describes the pools of mails.
var mailPurposes = map[domain.MailPool]string{
	domain.PoolNew:    "verifications",
	domain.PoolProven: "recovery and owners",
}

// checkAlerts reports where alerts are sent, and sends one if the operator asks for it.
func (c *checkCommand) checkAlerts(ctx context.Context, f *findings, o outbound.AlertOptions) {
	to, _ := outbound.Origin(o.URL)
	if !c.TestAlert {
		if o.URL != "" {
			f.ok("alerts", "are sent to %s; --test-alert sends one", to)
		}
		return
	}
	if o.URL == "" {
		f.problem("alerts", "no test is sent: set --alert-url")
		return
	}

	o.Site = cmp.Or(c.BaseURL, "http://"+c.Addr)
	if err := outbound.NewAlertWorker(o).Test(ctx); err != nil {
		f.problem("alerts", "%s does not accept the test: %v", to, err)
		return
	}
	f.ok("alerts", "%s accepted the test", to)
}

// checkAddresses checks that the addresses of the listeners are free.
func (c *checkCommand) checkAddresses(f *findings) {
	for _, e := range c.endpoints(nil) {
		listener, err := e.Listen()
		switch {
		case err == nil:
			// Only after the loop, so that two settings with one address are found.
			defer listener.Close()
			f.ok("address", "%s is free", e.Addr)

		case errors.Is(err, fs.ErrPermission):
			// The user of the service may have the permission.
			f.note("address", "this user cannot listen on %s: %s", e.Addr, e.Remedy(err))

		default:
			f.problem(
				"address",
				"cannot listen on %s (%v): %s, unless the service manager listens for the service",
				e.Addr,
				err,
				e.Remedy(err),
			)
		}
	}
}

// checkCertificates checks the stored certificates.
func (c *checkCommand) checkCertificates(f *findings) {
	// Without a request to the network: only from outside it is visible whether the name points to
	// this machine and the ports are open.
	folder := c.certificates().Folder()
	if len(c.Domain) > 0 && durable.OpenToOthers(folder) {
		f.problem(
			"https",
			"other users of this machine can read the folder of the keys: chmod 700 %s",
			folder,
		)
	}

	for _, name := range c.Domain {
		cert, err := service.SavedCertificate(folder, name)
		switch {
		case errors.Is(err, fs.ErrPermission):
			f.problem("https", "%v: run the check as the user of the service", err)

		case err != nil:
			f.note(
				"https",
				"%s has no certificate yet: callbook serve obtains one within a minute of its start "+
					"if the name points to this machine and port 443 or 80 is open to the internet; "+
					"it retries after a minute, then after hours",
				name,
			)

		default:
			checkCertificate(f, name, cert, time.Now())
		}
	}
}

// checkCertificate checks the name and the expiry of a certificate.
func checkCertificate(f *findings, name string, cert *x509.Certificate, now time.Time) {
	// Renewal starts 30 days before the end, or when a third of the lifetime is left if that is
	// later. Some of that must have passed without success.
	late := min(10*24*time.Hour, cert.NotAfter.Sub(cert.NotBefore)/4)
	end := cert.NotAfter.Format(time.DateOnly)
	switch {
	case cert.VerifyHostname(name) != nil:
		f.problem(
			"https",
			"the certificate stored for %s is for %s: remove its file, and restart callbook serve",
			name,
			strings.Join(cert.DNSNames, ", "),
		)

	case cert.NotAfter.Sub(now) < late:
		f.problem(
			"https",
			"the certificate of %s expires on %s: callbook serve renews it while it runs, "+
				"and logs why it cannot",
			name,
			end,
		)

	default:
		f.ok(
			"https",
			"%s has a certificate by %s, valid until %s",
			name,
			service.CertificateIssuer(cert),
			end,
		)
	}
}

// checkBackups checks the scheduled backups.
func (c *checkCommand) checkBackups(f *findings, served bool) {
	if c.BackupDir == "" {
		return // checkSettings reports it
	}

	_, newest, err := c.schedule(c.DB).Newest(time.Now())
	if err == nil {
		err = sqlitedb.MayWrite(c.BackupDir)
	}

	made := newest.Format(time.RFC3339)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.note("backups", "%s is created at startup", c.BackupDir)

	case errors.Is(err, syscall.EROFS):
		f.problem("backups", "%v", sqlitedb.ErrFull)

	case err != nil:
		f.problem(
			"backups",
			"this user cannot use the folder: run the check as the user of the service, "+
				"or make that user the owner of the folder (%v)",
			err,
		)

	case newest.IsZero() && !served:
		f.note("backups", "there is none yet in %s", c.BackupDir)

	case newest.IsZero():
		// A service makes the first one at its start.
		f.problem(
			"backups",
			"there is none in %s though the service runs: unless it has just started, %s",
			c.BackupDir,
			backupsFail,
		)

	case time.Since(newest) > 2*time.Duration(c.BackupEvery):
		f.problem("backups", "the newest is of %s: %s", made, backupsFail)

	default:
		f.ok("backups", "the newest is of %s", made)
	}
}

// backupsFail is the text about scheduled backups that are missing.
const backupsFail = "the service makes none, or they fail; " +
	"look for \"cannot back up the database\" in its log, and free space in the folder"

// checkSettings reports settings that work, but may not be intended.
func (c *checkCommand) checkSettings(f *findings) {
	for _, file := range c.exposedSecrets() {
		f.problem("secrets", "other users of this machine can read %s: chmod o-r %s", file, file)
	}

	base, _ := url.Parse(c.BaseURL) // valid by plan
	host, _, _ := net.SplitHostPort(c.Addr)
	metrics, _, _ := net.SplitHostPort(c.MetricsAddr)
	sink, _ := c.setting()
	roots, err := x509.SystemCertPool()

	for _, note := range []struct {
		is            bool
		subject, text string
	}{
		{
			sink == off,
			"mail",
			"off: no mailbox can be verified, and owners cannot claim agents",
		},
		{
			sink == "log:",
			"mail",
			"mails are written to the log only: set --mail, so that agents get their codes",
		},
		{
			c.AlertURL == "",
			"alerts",
			"off: set --alert-url to hear of new reports, failed backups and the like",
		},
		{
			c.MetricsAddr != "" && !text.IsLoopback(metrics),
			"metrics",
			"other machines may reach " + c.MetricsAddr +
				": let the firewall admit only Prometheus, or give --metrics-addr 127.0.0.1:9100",
		},
		{
			err != nil || roots.Equal(x509.NewCertPool()),
			"https",
			"this machine trusts no certificate authority, so that mail servers, profile links, " +
				"receivers of alerts and, with --domain, the authority cannot be reached: " +
				"install the package ca-certificates",
		},
		{
			c.BaseURL == "" && !text.IsLoopback(host),
			"base URL",
			"not set: documents and mailed links contain the address of this machine",
		},
		{
			base.Scheme == "http" && !text.IsLoopback(base.Hostname()),
			"base URL",
			"without https, API keys cross the network unencrypted",
		},
		{
			base.Scheme == "https" && len(c.Domain)+len(c.TrustedProxy) == 0,
			"proxy",
			"the base URL is https, and --domain is not set: if a reverse proxy is in front, " +
				"set --trusted-proxy to its address, or all visitors count as one address",
		},
		{
			c.Contact == "",
			"contact",
			"not set: people cannot contact you about the site",
		},
		{
			c.Limits == off && !c.local,
			"limits",
			"off: for tests and private networks only",
		},
		{
			c.Durability != "full",
			"writes",
			"a power cut may lose the last writes (--durability normal)",
		},
		{
			c.BackupDir == "",
			"backups",
			"the service makes none: set --backup-dir to a folder on another disk",
		},
	} {
		if note.is {
			f.note(note.subject, "%s", note.text)
		}
	}
}
