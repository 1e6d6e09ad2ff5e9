package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
	"github.com/rs/zerolog"

	"callbook/server/documents"
	"callbook/server/mail"
	"callbook/server/outbound"
	"callbook/store"
	"callbook/store/domain"
)

// off is the value of settings that switch something off.
const off = "off"

// databaseFlags select the directory of a command.
type databaseFlags struct {
	Config string `help:"TOML file of settings, whose keys are the names of the flags, such as base-url = \"https://directory.example.org\". Flags and variables take precedence. Default: /etc/callbook.toml, if there is one; empty: no file." placeholder:"PATH"`
	DB     string `name:"db" default:"callbook.db" help:"SQLite file of the directory." type:"path"`
}

// siteFlags describe who runs the site.
type siteFlags struct {
	SiteName string `help:"Name of the site on its pages, in the guide and in mails. Default: Callbook." placeholder:"NAME"`
	About    string `help:"Markdown file in which the operator says who runs the site; / and /about show it." type:"path" placeholder:"PATH"`
	LegalURL string `name:"legal-url" help:"Address of the legal notice, to which every page links." placeholder:"URL"`
}

// operator returns the description of the operator, or the errors of its settings.
func (f siteFlags) operator() (o documents.Operator, err error) {
	o.Name = f.SiteName
	o.Legal = f.LegalURL
	o.About, err = fileOf("about", f.About)
	if err != nil {
		return o, err
	}

	return o, o.Check()
}

// fileOf returns the content of the file that a flag names, without space around it; empty without
// a file.
func fileOf(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}

	text, err := os.ReadFile(kong.ExpandPath(path))
	if err != nil {
		return "", fmt.Errorf("read --%s: %w", flag, err)
	}

	return strings.TrimSpace(string(text)), nil
}

// limitFlags set the rate limits. The table [limits] of the file of settings has single ones.
type limitFlags struct {
	Limits string `enum:"auto,strict,normal,relaxed,off" default:"auto" help:"Rate limits. auto: normal if --domain or --base-url gives the site a public address, otherwise none, not even of mails. strict: half of the defaults. relaxed: four times as many. off: none, for tests and private networks. Single ones are in the table [limits] of the file of settings."`

	single domain.Quotas // from the file of settings

	// local is true if the directory serves this machine alone, where nobody needs protection.
	local bool
}

// resolve decides what auto means.
func (f *limitFlags) resolve(public bool) {
	switch {
	case f.Limits != "auto":
	case public:
		f.Limits = "normal"
	default:
		f.Limits, f.local = off, true
	}
}

// numbers returns the limits in force by name.
func (f limitFlags) numbers() domain.Quotas {
	numbers := domain.LimitsAt(f.Limits, f.single)
	if f.local {
		numbers[domain.LimitMails] = f.single[domain.LimitMails]
	}
	return numbers
}

// mailFlags configure the mails of the site: codes and links for owners.
type mailFlags struct {
	Mail     string `default:"log:" help:"Where the site sends its mails: log: (the log), dir:PATH (a folder of .eml files), smtp://USER:PASSWORD@HOST[:PORT], smtps://…, or off." placeholder:"SINK"`
	MailFile string `help:"File that contains the --mail setting, to keep the password out of the environment." placeholder:"PATH"`
	MailFrom string `help:"Sender of the site's mails, such as Callbook <callbook@example.org>." placeholder:"ADDRESS"`
}

// resolve drops --mail-file if --mail is set in a place that takes precedence: a flag, then a
// variable, then the file of settings. It rejects both in one place.
func (f *mailFlags) resolve(k *kong.Context) error {
	setting, file := rank(k, "mail"), rank(k, "mail-file")
	switch {
	case f.MailFile == "":
	case setting > file:
		f.MailFile = ""

	case setting == file:
		return errors.New("--mail and --mail-file are set in the same place: leave out one of them")
	}

	return nil
}

// openMail opens the sink of the mails, and logs where they go.
func (f mailFlags) openMail(log zerolog.Logger) (mail.Sink, error) {
	setting, err := f.setting()
	if err != nil {
		return nil, err
	}

	sink, err := mail.Open(setting, f.MailFrom, log)
	if err != nil {
		return nil, err
	}

	log.Info().Str("mail", mail.Describe(setting)).Msg("mails are sent")
	return sink, nil
}

// setting returns the setting of the mails, from --mail or the content of --mail-file.
func (f mailFlags) setting() (string, error) {
	if f.MailFile == "" {
		return f.Mail, nil
	}
	if isMailSetting(f.MailFile) {
		// Reading it would print it, with the password, in an error.
		return "", errors.New(
			"--mail-file takes the name of a file that contains the setting; give the setting itself to --mail",
		)
	}
	return fileOf("mail-file", f.MailFile)
}

// isMailSetting reports whether the name of a file is a mail setting, which may hold a password
// and must not be printed.
func isMailSetting(file string) bool { return strings.Contains(file, "://") }

// mailCaps returns the caps on mails, with the limit of the operator.
func (f limitFlags) mailCaps() *domain.MailCaps {
	if f.local {
		return &domain.MailCaps{Site: f.single[domain.LimitMails]}
	}

	caps := domain.DefaultMailCaps
	caps.Site = f.numbers()[domain.LimitMails]
	if caps.Site == 0 {
		// The cap of a network only protects the mails of the site.
		caps.Network = domain.Share{}
	}
	return &caps
}

// httpsFlags configure HTTPS.
type httpsFlags struct {
	Domain        []string `help:"Names of the site, such as directory.example.org. Callbook obtains and renews their certificates, and serves HTTPS. Further names, such as www.directory.example.org, redirect to the first. This accepts the terms of the certificate authority." placeholder:"NAME"`
	ACMEDirectory string   `name:"acme-directory" default:"https://acme-v02.api.letsencrypt.org/directory" help:"With --domain: ACME directory of the certificate authority." placeholder:"URL"`
	HTTPAddr      string   `name:"http-addr" help:"With --domain: address of the listener that redirects HTTP to HTTPS and answers the certificate authority, or off. Default: :80." placeholder:"ADDR"`
}

// alertFlags configure the alerts for the operator.
type alertFlags struct {
	AlertURL        string `name:"alert-url" help:"URL that gets a POST request for a new report, low disk space, a failed backup, an overdue certificate and the like, such as a topic of ntfy: https, or http on this machine. Default: no alerts." placeholder:"URL"`
	AlertFormat     string `enum:"json,text" default:"json" help:"json: an object with title and message, as Gotify takes it. text: one line, as ntfy takes it."`
	AlertSecretFile string `help:"File with a secret (whsec_…) that signs the alerts as Standard Webhooks." type:"path" placeholder:"PATH"`
}

// alertOptions checks the settings of alerts. Its errors do not contain the URL or the secret.
func (f alertFlags) alertOptions() (o outbound.AlertOptions, err error) {
	o.URL = f.AlertURL
	o.Text = f.AlertFormat == "text"
	if f.AlertURL != "" {
		if _, err := outbound.Origin(f.AlertURL); err != nil {
			return o, fmt.Errorf("--alert-url: %w", err)
		}
	}

	secret, err := fileOf("alert-secret-file", f.AlertSecretFile)
	if err != nil || f.AlertSecretFile == "" {
		return o, err
	}

	o.Key, err = outbound.ParseWebhookKey(secret)
	if err != nil {
		return o, fmt.Errorf("--alert-secret-file: %w", err)
	}

	return o, nil
}

// backupFlags configure scheduled backups.
type backupFlags struct {
	BackupDir   string   `help:"Folder for scheduled backups of the database. It is created if it is missing." type:"path"`
	BackupEvery duration `default:"24h" help:"Time between scheduled backups, such as 12h or 7d."`
	BackupKeep  int      `default:"7" help:"Number of scheduled backups to keep."`
}

// schedule returns the schedule of the backups of a database.
func (f backupFlags) schedule(db string) store.BackupSchedule {
	return store.BackupSchedule{
		Path:   db,
		Folder: f.BackupDir,
		Every:  time.Duration(f.BackupEvery),
		Keep:   f.BackupKeep,
	}
}

// logFlags are the settings of the log.
type logFlags struct {
	Log        string `enum:"text,json" default:"text" help:"Format of the log: text for people, json for machines."`
	LogLevel   string `enum:"debug,info,warn,error" default:"info" help:"Least severe level to log."`
	LogClients bool   `help:"Log with each request a keyed hash of the client's network and the handle of the agent. The key is new at each start."`
}

// duration is a time.Duration that settings write like 90m, 36h, 7d or 1d12h.
type duration time.Duration

// String returns the duration as Go writes it.
func (d duration) String() string { return time.Duration(d).String() }

// UnmarshalText parses a duration.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := domain.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// size is a number of bytes, written as 10GB or 512MiB; 0 means none.
type size int64

// UnmarshalText parses a size or auto.
func (s *size) UnmarshalText(text []byte) error {
	if string(text) == autoSize.String() {
		*s = autoSize
		return nil
	}

	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 10GB or 512MiB", text)
	}

	*s = size(n)
	return nil
}

// autoSize is the size that lets the program choose.
const autoSize size = -1

// String returns the number of bytes, or auto.
func (s size) String() string {
	if s == autoSize {
		return "auto"
	}
	return strconv.FormatInt(int64(s), 10)
}

// minMaxSize is the minimum of --max-size in bytes: a new database takes a part of it.
const minMaxSize = 10_000_000

// maxMaxSize is the maximum of --max-size in bytes: SQLite cannot address more.
const maxMaxSize = 17_000_000_000_000
