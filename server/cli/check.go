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
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"callbook/server/alert"
	"callbook/server/https"
	"callbook/server/mail"
	"callbook/store"
	"callbook/store/backup"
	"callbook/store/domain"
	"callbook/store/durable"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// checkCommand takes the settings of serve, and checks whether serve would work with them.
type checkCommand struct {
	serveCommand `embed:""`
	TestAlert    bool `help:"Send a test alert to --alert-url."`
	JSON         bool `name:"json" env:"-" help:"Print one JSON object: the settings, the findings, and the number of problems."`
}

func (c *checkCommand) Run(ctx context.Context, console *console, k *kong.Context) error {
	f := &findings{out: console.out, json: c.JSON, Settings: map[string]string{}}
	c.printSettings(f, k)
	p, err := c.plan(zerolog.Nop())
	if err != nil {
		if c.JSON {
			f.problem("settings", "%v", err)
		}
		return errors.Join(f.end(), err)
	}
	verifying, end := console.showProgress(ctx)
	served := c.checkDatabase(verifying, f, end)
	c.checkDisk(f)
	c.checkMail(ctx, f)
	c.checkSecrets(f)
	c.checkMailPools(ctx, f)
	c.checkAlerts(ctx, f, p.alerts)
	c.checkAddress(f, served)
	c.checkAuthorities(f)
	c.checkCertificates(f)
	c.checkPublic(f)
	c.checkCopies(f, served)
	if err := f.end(); err != nil {
		return err
	}
	if f.Problems > 0 {
		return fmt.Errorf("found problems (%d): each line marked ERROR says how to fix one", f.Problems)
	}
	return nil
}

// checkRunning returns the findings about a running service, for the operator's page: those that need neither the
// network nor the whole database.
func (c *serveCommand) checkRunning(ctx context.Context, st *store.Store) string {
	var out strings.Builder
	f, check := &findings{out: &out}, &checkCommand{serveCommand: *c}
	check.checkDisk(f)
	check.checkSecrets(f)
	f.mailPools(ctx, st)
	check.checkCertificates(f)
	check.checkPublic(f)
	check.checkCopies(f, true)
	return out.String()
}

// printSettings prints every setting in force, as its variable and without passwords, and every limit.
func (c *checkCommand) printSettings(f *findings, k *kong.Context) {
	for _, flag := range k.Flags() {
		if len(flag.Envs) == 0 {
			continue
		}
		value := fmt.Sprint(k.FlagValue(flag))
		if list, ok := k.FlagValue(flag).([]string); ok {
			value = strings.Join(list, ",")
		}
		if flag.Name == "mail" || flag.Name == "mail-file" && isMailSetting(value) {
			value = mail.Describe(value)
		}
		if flag.Name == "mail-file" && c.MailFile == "" { // --mail takes precedence
			value = ""
		}
		if flag.Name == "alert-url" {
			value, _ = alert.Origin(value)
		}
		f.setting(flag.Envs[0], value)
	}

	numbers := c.numbers()
	for _, limit := range domain.Limits {
		f.setting("limits."+limit.Key(), strconv.Itoa(numbers[limit.Name]))
	}
	if !f.json {
		fmt.Fprintln(f.out)
	}
}

// checkDatabase checks the whole file, also while it is served.
func (c *checkCommand) checkDatabase(ctx context.Context, f *findings, verified func()) (served bool) {
	const subject = "database"
	lock, err := c.lock()
	switch {
	case err == nil:
		defer lock.ReleaseUnused()
	case errors.Is(err, sqlitedb.ErrLocked):
		served = true
		running, _, _ := strings.Cut(err.Error(), ": ") // the rest is for those who want to open it alone
		f.ok("process", "%s", running)
	case errors.Is(err, sqlitedb.ErrReadOnly): // which checkDisk reports
		return false
	default:
		f.problem(subject, "%v", err)
		return false
	}
	if !sqlitedb.Exists(c.DB) {
		f.note(subject, "there is no database yet: callbook serve creates %s", c.DB)
		return served
	}
	contents, err := backup.Verify(ctx, c.DB, served)
	verified()
	if err != nil {
		f.problem(subject, "%v", c.withNextStep(err))
		return served
	}
	file := sqlitedb.FileOf(c.DB)
	if err := errors.Join(sqlitedb.MayWrite(file), sqlitedb.MayWrite(filepath.Dir(file))); err != nil && !served && !errors.Is(err, syscall.EROFS) { // which checkDisk reports
		f.problem(subject, "this user cannot write to it: run the check as the user of the service, or make that user the owner of the file, its folder and the files beside it (%v)", err)
		return served
	}
	f.ok(subject, "%s, schema %d", formatContents(contents), contents.Schema)
	c.checkProxy(f, contents.UntrustedProxyAt.Time())
	if durable.OpenToOthers(file) {
		f.problem(subject, "other users of this machine can open it: chmod 600 %s*", file)
	}
	return served
}

// proxyNoticeAge is how long check reports a request through a proxy that is not trusted. The service
// records one a day.
const proxyNoticeAge = 48 * time.Hour

// checkProxy checks that a proxy in front is trusted, given when a request last came through another.
func (c *checkCommand) checkProxy(f *findings, untrusted time.Time) {
	const subject = "proxy"
	switch {
	case len(c.TrustedProxy) > 0:
	case time.Since(untrusted) < proxyNoticeAge:
		f.problem(subject, "requests come through a proxy that is not trusted, the last one recorded at %s: all visitors count as one address; set --trusted-proxy to the address of the proxy", untrusted.Format(time.RFC3339))
	case strings.HasPrefix(c.BaseURL, "https:") && len(c.Domain) == 0:
		f.note(subject, "the base URL is https, and --domain is not set: if a reverse proxy is in front, set --trusted-proxy to its address, or all visitors count as one address")
	}
}

// checkSecrets checks that other users of this machine cannot read the files that contain secrets.
func (c *checkCommand) checkSecrets(f *findings) {
	for _, file := range c.exposedSecrets() {
		f.problem("secrets", "other users of this machine can read %s: chmod o-r %s", file, file)
	}
}

func (c *checkCommand) checkDisk(f *findings) {
	const subject = "disk"
	d, err := sqlitedb.DiskOf(filepath.Dir(sqlitedb.FileOf(c.DB)))
	switch {
	case err != nil:
		f.problem(subject, "cannot read its state: %v: mount the disk, or correct --db", err)
	case d.Network != "" && !c.NetworkDisk:
		f.problem(subject, "%v (%s)", sqlitedb.ErrNetworkDisk, d.Network)
	case d.Network != "":
		f.note(subject, "the database is on a network file system (%s), where writes may be lost and the file damaged", d.Network)
	case sqlitedb.IsReadOnly(filepath.Dir(sqlitedb.FileOf(c.DB))):
		f.problem(subject, "%v", sqlitedb.ErrReadOnly)
	case d.Free < d.Least():
		f.problem(subject, "%d MiB are free, at least %d MiB are needed: free some space", d.Free>>20, d.Least()>>20)
	default:
		f.ok(subject, "%d MiB are free", d.Free>>20)
	}
}

func (c *checkCommand) checkMail(ctx context.Context, f *findings) {
	const subject = "mail"
	sink, err := c.openMail(zerolog.Nop())
	if err == nil && sink != nil {
		err = mail.Check(ctx, sink)
	}
	switch {
	case err != nil:
		f.problem(subject, "%v: correct --mail or the mail server; until then mails wait and expire", err)
	case sink == nil:
		f.note(subject, "off: no mailbox can be verified, and owners cannot claim agents")
	case c.Mail == "log:" && c.MailFile == "":
		f.note(subject, "mails are written to the log only: set --mail, so that agents get their codes")
	default:
		f.ok(subject, "ready to send mails")
	}
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

// mailPools reports the pools of mails of an open store.
func (f *findings) mailPools(ctx context.Context, st *store.Store) {
	pools, err := st.MailPools(ctx)
	if err != nil {
		f.problem("mails", "cannot count them: %v: run the check again", err)
	}
	for _, p := range pools {
		purpose := mailPurposes[p.Pool]
		switch {
		case p.Until != 0:
			f.note("mails", "all %d mails a day for %s are sent: the next one goes out at %s; see mails in the table [limits]", p.Limit, purpose, p.Until)
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

func (c *checkCommand) checkAddress(f *findings, served bool) {
	const subject = "address"
	if host, _, err := net.SplitHostPort(c.MetricsAddr); err == nil && !text.IsLoopback(host) {
		f.note("metrics", "other machines may reach %s: let the firewall admit only Prometheus, or give --metrics-addr 127.0.0.1:9100", c.MetricsAddr)
	}
	if served {
		f.ok(subject, "not checked: the server is running")
		return
	}
	for _, e := range c.endpoints(nil) {
		listener, err := e.Listen()
		if errors.Is(err, fs.ErrPermission) { // perhaps this user alone
			f.note(subject, "this user cannot listen on %s: %s", e.Addr, e.Remedy(err))
			continue
		}
		if err != nil {
			f.problem(subject, "cannot listen on %s (%v): %s, unless the service manager listens for the service", e.Addr, err, e.Remedy(err))
			continue
		}
		defer listener.Close() // in the end: no two can have the same
		f.ok(subject, "%s is free", e.Addr)
	}
}

// checkAuthorities reports a machine that trusts no certificate authority, such as an empty container.
func (c *checkCommand) checkAuthorities(f *findings) {
	if roots, err := x509.SystemCertPool(); err != nil || roots.Equal(x509.NewCertPool()) {
		f.note("https", "this machine trusts no certificate authority, so that mail servers, profile links, receivers of alerts and, with --domain, the authority cannot be reached: install the package ca-certificates")
	}
}

// checkCertificates checks the stored certificates, without a request to the network: only from outside it is
// visible whether the name points to this machine and the ports are open.
func (c *checkCommand) checkCertificates(f *findings) {
	const subject = "https"
	if len(c.Domain) == 0 {
		return
	}
	folder := c.certificates().Folder()
	if durable.OpenToOthers(folder) {
		f.problem(subject, "other users of this machine can read the folder of the keys: chmod 700 %s", folder)
	}
	for _, name := range c.Domain {
		cert, err := https.Saved(folder, name)
		switch {
		case errors.Is(err, os.ErrPermission):
			f.problem(subject, "%v: run the check as the user of the service", err)
		case err != nil:
			f.note(subject, "%s has no certificate yet: callbook serve obtains one within a minute of its start if the name points to this machine and port 443 or 80 is open to the internet; it retries after a minute, then after hours", name)
		default:
			checkCertificate(f, subject, name, cert, time.Now())
		}
	}
}

// checkCertificate checks the name and the expiry of a certificate. Renewal starts 30 days before its end, or when a
// third of the lifetime is left if that is later.
func checkCertificate(f *findings, subject, name string, cert *x509.Certificate, now time.Time) {
	end := cert.NotAfter.Format(time.DateOnly)
	late := min(10*24*time.Hour, cert.NotAfter.Sub(cert.NotBefore)/4)
	const next = "callbook serve renews it while it runs, and logs why it cannot"
	switch {
	case cert.VerifyHostname(name) != nil:
		f.problem(subject, "the certificate stored for %s is for %s: remove its file, and restart callbook serve", name, strings.Join(cert.DNSNames, ", "))
	case now.After(cert.NotAfter):
		f.problem(subject, "the certificate of %s expired on %s: %s", name, end, next)
	case cert.NotAfter.Sub(now) < late:
		f.problem(subject, "the certificate of %s expires on %s: %s", name, end, next)
	default:
		f.ok(subject, "%s has a certificate by %s, valid until %s", name, https.Issuer(cert), end)
	}
}

// checkPublic checks the public address, the contact, the limits and the durability.
func (c *checkCommand) checkPublic(f *findings) {
	base, _ := url.Parse(c.BaseURL) // valid, by plan
	host, _, _ := net.SplitHostPort(c.Addr)
	switch {
	case c.BaseURL == "" && !text.IsLoopback(host):
		f.note("base URL", "not set: documents and mailed links contain the address of this machine")
	case base.Scheme == "http" && !text.IsLoopback(base.Hostname()):
		f.note("base URL", "without https, API keys cross the network unencrypted")
	default:
		f.ok("base URL", "%s", cmp.Or(c.BaseURL, "this machine only"))
	}
	if c.Contact == "" {
		f.note("contact", "not set: people cannot contact you about the site")
	}
	if c.Limits == "off" {
		f.note("limits", "off: for tests and private networks only")
	} else if c.openToFloods() {
		f.problem("limits", unlimitedRegistrations)
	}
	if c.Durability != "full" {
		f.note("writes", "a power cut may lose the last writes (--durability normal)")
	}
}

// checkCopies checks the scheduled backups. A service that runs has made the first one at its start.
func (c *checkCommand) checkCopies(f *findings, served bool) {
	const subject = "backups"
	if c.BackupDir == "" {
		f.note(subject, "the service makes none: set --backup-dir to a folder on another disk")
		return
	}
	_, newest, err := c.schedule(c.DB).Newest(time.Now())
	denied := sqlitedb.MayWrite(c.BackupDir)
	switch age := time.Since(newest); {
	case errors.Is(err, os.ErrNotExist):
		f.note(subject, "%s is created at startup", c.BackupDir)
	case err != nil:
		f.problem(subject, "the folder cannot be read: %v: make the user of the service its owner, or give another --backup-dir", err)
	case errors.Is(denied, syscall.EROFS):
		f.problem(subject, "%v", sqlitedb.ErrReadOnly)
	case denied != nil:
		f.problem(subject, "this user cannot write to it: run the check as the user of the service, or make that user the owner of the folder (%v)", denied)
	case newest.IsZero() && served:
		f.problem(subject, "there is none in %s though the service runs: unless it has just started, they fail; look for \"cannot back up the database\" in its log, and free space in the folder", c.BackupDir)
	case newest.IsZero():
		f.note(subject, "there is none yet in %s", c.BackupDir)
	case age > 2*time.Duration(c.BackupEvery):
		f.problem(subject, "the newest is of %s: the service makes none, or they fail; look for \"cannot back up the database\" in its log, and free space in the folder", newest.Format(time.RFC3339))
	default:
		f.ok(subject, "the newest is of %s", newest.Format(time.RFC3339))
	}
}
