package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"golang.org/x/net/idna"

	"callbook/server"
	"callbook/server/documents"
	"callbook/server/middleware"
	"callbook/server/outbound"
	"callbook/server/service"
	"callbook/server/tools"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/durable"
	"callbook/store/sqlitedb"
)

// serveCommand serves the directory. Its fields are the table of all settings: the name, the default
// and the help of each are read by the command line, the environment, the file of settings, callbook
// check, the manual and the man page.
type serveCommand struct {
	databaseFlags `embed:""`
	Addr          string `help:"Address to listen on, or unix: and the path of a socket for a reverse proxy. Default: 127.0.0.1:8080, or :443 with --domain." placeholder:"ADDR"`
	BaseURL       string `name:"base-url" help:"Public URL of the site, such as https://directory.example.org. Default: http:// and the address, or https:// and the first name of --domain." placeholder:"URL"`
	httpsFlags    `embed:"" group:"HTTPS:"`
	Contact       string `help:"How people reach the operator: a mail address, or a mailto:, https: or http: URI. Default: the home page." placeholder:"ADDRESS"`
	siteFlags     `embed:""`
	TrustedProxy  []string `help:"Addresses or networks of reverse proxies whose X-Forwarded-For header is trusted." placeholder:"ADDR"`
	Private       bool     `help:"For a directory that is not public: web pages of other sites cannot read it, and requests must name its own host, as those to the MCP endpoint do."`
	Registration  string   `enum:"open,invite,approve,closed" default:"open" help:"Who may register. open: every agent. invite: agents with an invitation of callbook admin invite. approve: every agent, but it is hidden and may only change itself until callbook admin approve. closed: no agent."`
	MCPOrigin     []string `name:"mcp-origin" help:"Origins of web pages that may use the MCP endpoint, such as https://app.example.org. Programs need none." placeholder:"ORIGIN"`
	MetricsAddr   string   `help:"Address of a listener for Prometheus (GET /metrics). Keep it private. Default: none." placeholder:"ADDR"`
	OperatorAddr  string   `help:"Address of a listener for the operator's page, of this machine only: 127.0.0.1:8081, or unix: and the path of a socket. callbook admin page prints a link to it. Default: none." placeholder:"ADDR"`
	backupFlags   `embed:"" group:"Database and backups:"`
	MaxSize       size     `group:"Database and backups:" default:"auto" help:"Size of the records in the database file, such as 10GB, from which nothing is stored that would create or enlarge a record. Reads, deletions and decisions continue. auto: half of the disk space that would be free at startup without the database. 0: no limit." placeholder:"SIZE"`
	CacheSize     size     `default:"16MiB" help:"Memory for cached responses, such as 128MB. 0: no cache." placeholder:"SIZE"`
	NetworkDisk   bool     `group:"Database and backups:" help:"Allow a database on a network file system. Writes may be lost there, and the file may be damaged."`
	Durability    string   `group:"Database and backups:" enum:"full,normal" default:"full" help:"full: a write is on the disk before its response. normal: faster on slow disks, but a power cut may lose the last writes."`
	SecretFile    string   `help:"File with a secret of at least 32 characters, the key of the hashes of mailed codes: a stolen database then does not tell them. Default: a key in the database." type:"path" placeholder:"PATH"`
	SharedCache   duration `default:"0s" help:"Time for which caches in front of the program may use a public response, such as 5s, and for as long again while they fetch a new one. At most 1m, since deleted agents stay visible for that time, too. 0s: they ask each time." placeholder:"DURATION"`
	logFlags      `embed:"" group:"Log:"`
	mailFlags     `embed:"" group:"Mail and owners:"`
	alertFlags    `embed:"" group:"Alerts:"`
	limitFlags    `embed:"" group:"Rate limits:"`
}

// Help returns the text that kong shows below the usage.
func (*serveCommand) Help() string {
	return `To try it, with all mails in the log:

    callbook serve

On a server of your own, with HTTPS, backups and mail:

    callbook serve --domain directory.example.org --backup-dir /mnt/backups \
        --mail-file /etc/callbook.mail --mail-from callbook@example.org

Behind a reverse proxy on the same machine:

    callbook serve --base-url https://directory.example.org --trusted-proxy 127.0.0.1

Each setting is a flag, a variable, and a key in the file of --config; the first that is given wins. callbook check takes the same settings and reports problems. callbook help configuration describes the file.`
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

// plan holds the options that result from the settings.
type plan struct {
	store  store.Options
	server server.Options
	alerts outbound.AlertOptions
}

// plan checks all settings before anything is opened, and returns all errors at once.
func (c *serveCommand) plan(log zerolog.Logger) (p plan, err error) {
	limits := c.numbers()
	p.store = store.Options{
		Path:         c.DB,
		Quotas:       limits,
		Mails:        c.mailCaps(),
		Registration: domain.RegistrationMode(c.Registration),
		SiteName:     c.SiteName,
		Normal:       c.Durability == "normal",
		NetworkDisk:  c.NetworkDisk,
	}
	p.server = server.Options{
		BaseURL:     c.BaseURL,
		Limits:      server.LimitsOf(limits),
		Private:     c.Private,
		Log:         log,
		LogClients:  c.LogClients,
		Version:     version(),
		Backups:     c.schedule(c.DB),
		CacheBytes:  cmp.Or(int64(c.CacheSize), -1),
		SharedCache: time.Duration(c.SharedCache),
	}

	// The operator corrects all settings at once, not one a start.
	var errs [7]error
	p.server.Operator, errs[0] = c.operator()
	p.server.Contact, errs[1] = documents.ParseContact(c.Contact)
	p.server.TrustedProxies, errs[2] = middleware.ParseTrustedProxies(c.TrustedProxy)
	p.server.MCPOrigins, errs[3] = tools.ParseOrigins(c.MCPOrigin)
	p.server.Mail, errs[4] = c.openMail(log)
	p.store.Secret, errs[5] = c.secret()
	p.alerts, errs[6] = c.alertOptions()
	if err := errors.Join(append(errs[:], c.checkRules())...); err != nil {
		return p, fmt.Errorf("%w:\n%w", errSettings, err)
	}

	return p, nil
}

// endpoints returns all addresses of a server; the first is the directory's own.
func (c *serveCommand) endpoints(certificates *service.Certificates) (all []service.Endpoint) {
	metrics := func(s *server.Server) server.Front {
		return server.Front{Handler: s.Metrics()}
	}
	operator := func(s *server.Server) server.Front {
		return server.Front{Handler: s.OperatorPage(c.checkRunning)}
	}

	for _, e := range []service.Endpoint{
		{Flag: service.SiteFlag, Addr: c.Addr, Front: certificates.Front},
		{Flag: "http-addr", Addr: c.HTTPAddr, Front: certificates.Redirect},
		{Flag: "metrics-addr", Addr: c.MetricsAddr, Front: metrics},
		{Flag: service.OperatorFlag, Addr: c.OperatorAddr, Front: operator},
	} {
		if e.Addr != "" && e.Addr != off {
			all = append(all, e)
		}
	}

	return all
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

// minSecret is the minimum length of the secret in --secret-file.
const minSecret = 32

// secret returns the content of --secret-file; nil without one.
func (c *serveCommand) secret() ([]byte, error) {
	text, err := fileOf("secret-file", c.SecretFile)
	if err != nil || c.SecretFile == "" {
		return nil, err
	}
	if len(text) < minSecret {
		return nil, fmt.Errorf(
			"--secret-file: the secret must have at least %d characters; openssl rand -hex 32 creates one",
			minSecret,
		)
	}

	return []byte(text), nil
}

// exposedSecrets returns the files with secrets that other users of this machine can read.
func (c *serveCommand) exposedSecrets() (files []string) {
	secrets := []string{c.SecretFile, c.MailFile, c.AlertSecretFile}

	// The file of settings has a secret only if the setting in force is in it.
	text, _ := os.ReadFile(c.Config)
	hasMail := isMailSetting(c.Mail) && bytes.Contains(text, []byte(c.Mail))
	hasAlertURL := c.AlertURL != "" && bytes.Contains(text, []byte(c.AlertURL))
	if hasMail || hasAlertURL {
		secrets = append(secrets, c.Config)
	}

	// On Windows, the mode says nothing about other users.
	if runtime.GOOS == "windows" {
		return nil
	}

	for _, file := range secrets {
		info, err := os.Stat(kong.ExpandPath(file))
		if file != "" && err == nil && info.Mode().Perm()&0o004 != 0 {
			files = append(files, file)
		}
	}

	return files
}

// gcPercent is how much the heap grows, in percent of what is in use, before garbage is collected.
// With Go's default of 100, collecting takes up to a sixth of the time of a response that is not
// cached.
const gcPercent = 150

// Run implements the command: it opens what the server needs, in an order in which a failure leaves
// nothing behind, and serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, console *console, k *kong.Context) (err error) {
	// The service survives the reader of its log, and its terminal.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	log, closeLog := service.NewLog(console.err, service.LogFormat(c.Log), c.LogLevel)
	defer closeLog()

	p, err := c.plan(log)
	if err != nil {
		return err
	}

	p.server.Settings = settingsTables(k.Model)

	// Before the addresses, so that a second start says that the database is in use.
	lock, err := c.lock()
	if err != nil {
		return err
	}
	defer lock.Release()

	p.store.MaxBytes = c.maxBytes(log)
	for _, file := range c.exposedSecrets() {
		log.Warn().
			Str("file", file).
			Msg("other users of this machine can read a file that contains a secret: take the permission away with chmod o-r")
	}

	certificates, err := service.NewCertificates(c.certificates(), log)
	if err != nil {
		return err
	}

	// Before the database is opened: a start that cannot listen neither creates nor upgrades it.
	endpoints := c.endpoints(certificates)
	err = service.Listen(endpoints)
	if errors.Is(err, service.ErrForeign) {
		return fmt.Errorf("%w: %w", errSettings, err)
	}
	if err != nil {
		return err
	}
	defer service.CloseAll(endpoints)

	at := endpoints[0].Listener.Addr()
	if p.server.BaseURL == "" {
		p.server.BaseURL = "http://" + service.Reachable(at)
		log.Info().
			Str("base_url", p.server.BaseURL).
			Msg("--base-url is not set: documents contain this address")
	}
	if c.local {
		log.Info().Msg("rate limits are off, since the site has no public address; --limits normal sets them")
	}

	st, err := c.openStore(ctx, console.err, log, p.store)
	if err != nil {
		return err
	}

	lock.Keep()
	defer func() {
		err = c.withNextStep(errors.Join(err, st.Close()))
		log.Info().Msg("callbook has stopped")
	}()

	p.alerts.Site = p.server.BaseURL
	p.alerts.Log = log
	p.server.Alerts = outbound.NewAlertWorker(p.alerts)
	s, err := server.New(st, p.server)
	if err != nil {
		return err
	}

	log.Info().
		Str("address", at.String()).
		Str("base_url", p.server.BaseURL).
		Str("db", c.DB).
		Str("version", version()).
		Msg("callbook is serving")
	if isTerminal(console.out) {
		fmt.Fprintf(console.out, "The directory: %s (Ctrl-C stops it)\n", p.server.BaseURL)
	}

	stop := service.NotifyManager(ctx, st, log)
	defer stop()
	certificates.Start(ctx, s, p.server.Alerts)

	// An operator's own choice takes precedence.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}

	return s.Serve(ctx, service.Fronts(endpoints, s)...)
}

// lock locks the database for this process. It returns an error if the database is missing but has
// existed.
func (c *serveCommand) lock() (*sqlitedb.Lock, error) {
	// The lock file of a missing database is an error of AcquireLock.
	lock, err := sqlitedb.AcquireLock(c.DB)
	if err != nil {
		return nil, c.withNextStep(err)
	}

	// So are backups without a database: a new one would hide the loss.
	newest, _, _ := c.schedule(c.DB).Newest(time.Now())
	if newest != "" && !sqlitedb.Exists(c.DB) {
		lock.Release()
		return nil, c.withNextStep(fmt.Errorf(
			"%w, but there are backups of it in %s: to start with a new database, move them away",
			sqlitedb.ErrGone,
			c.BackupDir,
		))
	}

	return lock, nil
}

// maxBytes returns the maximum size of the database file; 0 for no limit. It logs an automatic
// maximum.
func (c *serveCommand) maxBytes(log zerolog.Logger) int64 {
	if c.MaxSize != autoSize {
		return int64(c.MaxSize)
	}

	file := sqlitedb.FileOf(c.DB)
	disk, err := sqlitedb.DiskOf(filepath.Dir(file))
	if err != nil {
		log.Warn().
			Err(err).
			Msg("--max-size is not set and the free disk space is unknown: the size of the database is not limited")
		return 0
	}

	// Without the size of the file itself, the limit would change at each start.
	room := disk.Free
	if info, err := os.Stat(file); err == nil {
		room += info.Size()
	}

	most := min(max(room/2, minMaxSize), maxMaxSize)
	log.Info().
		Int64("bytes", most).
		Int64("free_bytes", disk.Free).
		Msg("--max-size is not set: the database may take half of the disk space that is free without it")
	return most
}

// makeBackupFolder creates the folder of --backup-dir, if one is set.
func (c *serveCommand) makeBackupFolder() error {
	if c.BackupDir == "" {
		return nil
	}

	err := durable.MakeFolder(c.BackupDir)
	if errors.Is(err, syscall.EIO) {
		// With the exit status and the next step of a failing disk.
		err = fmt.Errorf("%w: %w", sqlitedb.ErrDisk, err)
	}
	if err != nil {
		return fmt.Errorf("create the folder of --backup-dir: %w", err)
	}

	return nil
}

// openStore opens the database, and logs its creation, its upgrade and a reduced durability. If
// terminal is one, it shows the progress instead of the log.
func (c *serveCommand) openStore(
	ctx context.Context,
	terminal io.Writer,
	log zerolog.Logger,
	o store.Options,
) (*store.Store, error) {
	if err := c.makeBackupFolder(); err != nil {
		return nil, err
	}

	if !sqlitedb.Exists(c.DB) {
		log.Info().Str("db", c.DB).Msg("there is no database yet: creating one")
	}

	ctx, end := showProgress(ctx, terminal, func(text string) { log.Info().Msg(text) })
	o.Rebuilding = func() {
		log.Warn().
			Msg("the search index is damaged: rebuilding it; searches find only a part meanwhile")
	}

	o.Checking = func(bytes int64, took time.Duration, done bool) {
		message := "reading the whole database in the background to find damage"
		if done {
			message = "the database is not damaged"
		}
		log.Info().Int64("bytes", bytes).Float64("seconds", took.Seconds()).Msg(message)
	}

	st, err := store.Open(ctx, o)
	end()
	if err != nil {
		return nil, c.withNextStep(err)
	}

	if from, to, copied := st.Upgraded(); from > 0 && from != to {
		log.Info().
			Int64("from", from).
			Int64("to", to).
			Str("copy", copied).
			Msg("upgraded the database")
	}

	if o.Normal {
		log.Warn().Msg("durability is normal: a power cut may lose the last writes")
	}

	return st, nil
}
