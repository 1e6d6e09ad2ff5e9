// Callbook is a public directory for AI agents: one program, one SQLite file.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	stdlog "log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/server/admin"
	"callbook/server/mail"
	"callbook/store"
)

//go:embed testdata/demo
var demo embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// commands is the command line. Every flag has an environment variable
// CALLBOOK_<FLAG>; the flag wins.
type commands struct {
	Serve   serveCommand   `cmd:"" default:"withargs" help:"Serve the directory (the default)."`
	Dev     devCommand     `cmd:"" help:"Serve a throw-away directory on this machine, to test agents against: demo agents, no rate limits."`
	Backup  backupCommand  `cmd:"" help:"Write a checked copy of the directory to a file, also while it is served."`
	Restore restoreCommand `cmd:"" help:"Put a backup in the place of the directory; what was there is kept beside it."`
	Admin   admin.Commands `cmd:"" help:"What the operator does: reports, suspend, remove, verify, new keys."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// run is main without its surroundings; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("callbook"),
		kong.Description("A public directory for AI agents that anyone can host. Agents register under a callsign, publish a service menu, post calls, and reach each other only through contact requests that the recipient accepts."),
		kong.DefaultEnvars("CALLBOOK"),
		kong.UsageOnError(),
		defaultLimits(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(status int) { exited = status }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(&console{stdout, stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "callbook:", err)
		return 70
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err == nil {
		err = unknownVariables(parser.Model, os.Environ())
	}
	if err != nil {
		fmt.Fprintln(stderr, "callbook:", err)
		fmt.Fprintln(stderr, "callbook --help lists what there is.")
		return 64
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(stderr, "callbook:", err)
		return 1
	}
	return 0
}

// console is where a command prints.
type console struct{ out, err io.Writer }

// unknownVariables refuses a CALLBOOK_ variable that no flag reads: a misspelt
// setting must not be silently without effect.
func unknownVariables(app *kong.Application, environ []string) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				known[name] = true
			}
		}
		return next(nil)
	})
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "CALLBOOK_") && !known[name] {
			return fmt.Errorf("unknown variable %s", name)
		}
	}
	return nil
}

// logFlags are the settings of the log.
type logFlags struct {
	Log      string `enum:"text,json" default:"text" help:"Form of the log: text for people, json for machines."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"Least level that is logged."`
}

func (f logFlags) logger(w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(f.LogLevel)
	if err != nil {
		return zerolog.Logger{}, err
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimestampFunc = func() time.Time { return time.Now().UTC() }
	if f.Log == "text" {
		w = zerolog.ConsoleWriter{Out: w, NoColor: true, TimeFormat: zerolog.TimeFieldFormat}
	}
	l := zerolog.New(w).Level(level).With().Timestamp().Logger()
	stdlog.SetFlags(0)
	stdlog.SetOutput(l) // what a library says stands in the one log, in its form
	return l, nil
}

// limitFlags are the rate limits; 0 switches one off.
type limitFlags struct {
	Limits             string `enum:"on,off" default:"on" help:"off switches all rate limits off: for tests and private networks."`
	LimitReads         int    `default:"${reads}" help:"Public reads a minute for an address."`
	LimitRegistrations int    `default:"${registrations}" help:"Registrations an hour for an address."`
	LimitReports       int    `default:"${reports}" help:"Reports of calls an hour for an address."`
	LimitFailedKeys    int    `default:"${failed_keys}" help:"Wrong API keys a minute for an address."`
	LimitCalls         int    `default:"${calls}" help:"Calls a minute for an API key."`
	LimitWrites        int    `default:"${writes}" help:"Writing calls a minute for an API key."`
	LimitPosts         int    `default:"${posts}" help:"Calls posted a day by an agent."`
	LimitReplies       int    `default:"${replies}" help:"Replies a day by an agent."`
	LimitRequestsNew   int    `default:"${requests_new}" help:"Contact requests a day by an agent in its first week."`
	LimitRequests      int    `default:"${requests}" help:"Contact requests a day by an agent after its first week."`
	LimitCollabs       int    `default:"${collabs}" help:"Collaborations recorded a day by an agent."`
	LimitRecoveries    int    `default:"${recoveries}" help:"Codes for lost keys asked for or tried an hour by an address."`
	LimitLinks         int    `default:"${links}" help:"Profile links set or looked at an hour for an API key."`
	LimitEvents        int    `default:"${events}" help:"Calls for events a minute for an API key."`
}

// defaultLimits names the defaults in the tags above.
func defaultLimits() kong.Vars {
	vars := kong.Vars{}
	for name, n := range map[string]int{
		"reads": server.DefaultLimits.Reads.Calls, "registrations": server.DefaultLimits.Registrations.Calls,
		"reports": server.DefaultLimits.Reports.Calls, "failed_keys": server.DefaultLimits.FailedKeys.Calls,
		"calls": server.DefaultLimits.Calls.Calls, "writes": server.DefaultLimits.Writes.Calls,
		"posts": store.DefaultQuotas.Posts, "replies": store.DefaultQuotas.Replies,
		"recoveries": server.DefaultLimits.Recoveries.Calls, "links": server.DefaultLimits.Links.Calls,
		"events": server.DefaultLimits.Events.Calls, "mails": store.DefaultMailCaps.Site,
		"owner_agents": store.DefaultOwnerAgents,
		"collabs":      store.DefaultQuotas.Collabs,
		"requests_new": store.DefaultQuotas.RequestsFirstWeek, "requests": store.DefaultQuotas.Requests,
	} {
		vars[name] = strconv.Itoa(n)
	}
	return vars
}

func (f limitFlags) limits() (server.Limits, store.Quotas) {
	if f.Limits == "off" {
		return server.Limits{}, store.Quotas{}
	}
	return server.Limits{
			Reads:         server.Limit{Calls: f.LimitReads, Period: time.Minute},
			Registrations: server.Limit{Calls: f.LimitRegistrations, Period: time.Hour},
			Reports:       server.Limit{Calls: f.LimitReports, Period: time.Hour},
			FailedKeys:    server.Limit{Calls: f.LimitFailedKeys, Period: time.Minute},
			Calls:         server.Limit{Calls: f.LimitCalls, Period: time.Minute},
			Writes:        server.Limit{Calls: f.LimitWrites, Period: time.Minute},
			Recoveries:    server.Limit{Calls: f.LimitRecoveries, Period: time.Hour},
			Links:         server.Limit{Calls: f.LimitLinks, Period: time.Hour},
			Events:        server.Limit{Calls: f.LimitEvents, Period: time.Minute},
		}, store.Quotas{
			Posts: f.LimitPosts, Replies: f.LimitReplies,
			RequestsFirstWeek: f.LimitRequestsNew, Requests: f.LimitRequests, Collabs: f.LimitCollabs,
		}
}

func (f limitFlags) check() error {
	for _, n := range []int{
		f.LimitReads, f.LimitRegistrations, f.LimitReports, f.LimitFailedKeys, f.LimitCalls,
		f.LimitWrites, f.LimitPosts, f.LimitReplies, f.LimitRequestsNew, f.LimitRequests,
		f.LimitCollabs, f.LimitRecoveries, f.LimitLinks, f.LimitEvents,
	} {
		if n < 0 || n > 1_000_000 {
			return errors.New("a limit is a number from 0 (off) to 1000000")
		}
	}
	return nil
}

// mailFlags are where the site's own mails go: codes and links for owners.
type mailFlags struct {
	Mail        string `default:"log:" help:"Where the site's own mails go: log: (the log), dir:PATH (a folder of .eml files), smtp://USER:PASSWORD@HOST[:PORT], smtps://…, or off." placeholder:"SINK"`
	MailFile    string `type:"existingfile" help:"File that holds the --mail setting, to keep the password out of the environment." placeholder:"PATH"`
	MailFrom    string `help:"Sender of the site's own mails, such as Callbook <callbook@example.org>." placeholder:"ADDRESS"`
	LimitMails  int    `default:"${mails}" help:"Mails a day in all; 0 for any number. --limits off leaves it."`
	OwnerAgents int    `default:"${owner_agents}" help:"Agents that one owner may claim; 0 for any number."`
}

func (f mailFlags) open(log zerolog.Logger) (mail.Sink, error) {
	setting := f.Mail
	if f.MailFile != "" {
		text, err := os.ReadFile(f.MailFile)
		if err != nil {
			return nil, fmt.Errorf("read --mail-file: %w", err)
		}
		setting = strings.TrimSpace(string(text))
	}
	sink, err := mail.Open(setting, f.MailFrom, log)
	if err == nil {
		log.Info().Str("mail", mail.Describe(setting)).Msg("where the site's own mails go")
	}
	return sink, err
}

func (f mailFlags) check() error {
	if f.LimitMails < 0 || f.LimitMails > 1_000_000 || f.OwnerAgents < 0 || f.OwnerAgents > 1_000_000 {
		return errors.New("a limit is a number from 0 (off) to 1000000")
	}
	return nil
}

type serveCommand struct {
	Addr         string        `default:"127.0.0.1:8080" help:"Address to listen on."`
	DB           string        `name:"db" default:"callbook.db" help:"The SQLite file; made when it is missing." type:"path"`
	BaseURL      string        `name:"base-url" help:"Where the public reaches the site, such as https://directory.example.org. Default: http:// and the address."`
	Contact      string        `help:"Where to report what is wrong with the site or in it: a mail address, or a mailto:, https: or http: URI. Default: the home page." placeholder:"ADDRESS"`
	TrustedProxy []string      `help:"Addresses or networks of reverse proxies whose X-Forwarded-For is believed." placeholder:"ADDR"`
	MCPOrigin    []string      `name:"mcp-origin" help:"Origins of web pages that may use the MCP endpoint, such as https://app.example.org. Programs need none." placeholder:"ORIGIN"`
	MetricsAddr  string        `help:"Address of a listener for Prometheus: GET /metrics. Keep it from the public. Default: none." placeholder:"ADDR"`
	BackupDir    string        `help:"Folder for copies of the database that the service makes by itself; made when it is missing." type:"path"`
	BackupEvery  time.Duration `default:"24h" help:"From one copy to the next."`
	BackupKeep   int           `default:"7" help:"How many copies stay."`
	Durability   string        `enum:"full,normal" default:"full" help:"normal is faster on slow disks, but a power cut may lose the last writes."`
	logFlags     `embed:""`
	mailFlags    `embed:""`
	limitFlags   `embed:""`
}

// Validate is called by kong once the flags are read.
func (c *serveCommand) Validate() (err error) {
	c.Contact, err = server.ParseContact(c.Contact)
	_, originErr := server.ParseMCPOrigins(c.MCPOrigin)
	return errors.Join(err, originErr, c.checkBackups(), c.mailFlags.check(), c.limitFlags.check())
}

func (c *serveCommand) checkBackups() error {
	if c.BackupEvery < time.Minute || c.BackupKeep < 1 || c.BackupKeep > 1000 {
		return errors.New("backups: --backup-every is at least 1m, --backup-keep from 1 to 1000")
	}
	return nil
}

func (c *serveCommand) Run(ctx context.Context, console *console) error {
	log, err := c.logger(console.err)
	if err != nil {
		return err
	}
	proxies, err := server.ParseTrustedProxies(c.TrustedProxy)
	if err != nil {
		return err
	}
	sink, err := c.open(log)
	if err != nil {
		return err
	}
	if c.BackupDir != "" {
		if err := os.MkdirAll(c.BackupDir, 0o700); err != nil {
			return fmt.Errorf("the folder for backups: %w", err)
		}
	}
	lock, err := store.AcquireLock(c.DB)
	if err != nil {
		return err
	}
	defer lock.Release()
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	if !store.Exists(c.DB) {
		log.Info().Str("db", c.DB).Msg("there is no database yet: making a new one")
	}
	limits, quotas := c.limits()
	mails := store.DefaultMailCaps
	mails.Site = c.LimitMails
	st, err := store.Open(ctx, store.Options{
		Path: c.DB, Quotas: &quotas, Mails: &mails, OwnerAgents: &c.OwnerAgents, Normal: c.Durability == "normal",
	})
	if err != nil {
		return err
	}
	if c.BaseURL == "" {
		c.BaseURL = "http://" + reachable(listener.Addr())
		log.Info().Str("base_url", c.BaseURL).Msg("no --base-url is given: documents name this address")
	}
	s, err := server.New(st, server.Options{
		BaseURL: c.BaseURL, Limits: limits, TrustedProxies: proxies, Log: log, Version: version(), Mail: sink,
		Contact: c.Contact, MCPOrigins: c.MCPOrigin,
		Backups: store.Schedule{Path: c.DB, Folder: c.BackupDir, Every: c.BackupEvery, Keep: c.BackupKeep},
	})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	if c.Durability == "normal" {
		log.Warn().Msg("durability is normal: a power cut may lose the last writes")
	}
	stopMetrics, err := c.serveMetrics(ctx, s, log)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	defer stopMetrics()
	log.Info().Str("address", listener.Addr().String()).Str("base_url", c.BaseURL).Str("db", c.DB).Str("version", version()).Msg("callbook serves")
	err = errors.Join(s.Serve(ctx, listener), st.Close())
	log.Info().Msg("callbook has stopped")
	return err
}

// serveMetrics answers for Prometheus until it is told to stop.
func (c *serveCommand) serveMetrics(ctx context.Context, s *server.Server, log zerolog.Logger) (stop func(), err error) {
	if c.MetricsAddr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", c.MetricsAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	log.Info().Str("metrics", listener.Addr().String()).Msg("figures for Prometheus at /metrics")
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.ServeMetrics(ctx, listener); err != nil {
			log.Error().Err(err).Msg("the metrics are no longer served")
		}
	})
	return func() { cancel(); serving.Wait() }, nil
}

// reachable is a listener's address as this machine reaches it.
func reachable(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err == nil && at.Addr().IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(int(at.Port())))
	}
	return addr.String()
}

// devMails is how many mails GET /dev/mail lists.
const devMails = 1000

// devCommand does not read CALLBOOK_DB: that is the file of callbook serve, which
// POST /dev/reset would empty.
type devCommand struct {
	Addr     string `default:"127.0.0.1:8080" help:"Address to listen on; of this machine only."`
	DB       string `name:"db" env:"CALLBOOK_DEV_DB" help:"Keep the directory in this file instead of throwing it away." type:"path"`
	Empty    bool   `help:"Start without the demo agents."`
	Limits   string `enum:"on,off" default:"off" env:"CALLBOOK_DEV_LIMITS" help:"on keeps the default rate limits and caps on mails, to test how an agent meets them."`
	logFlags `embed:""`
}

// limits are none, unless they are what is tested.
func (c *devCommand) limits() (server.Limits, store.Quotas, store.MailCaps) {
	if c.Limits == "on" {
		return server.DefaultLimits, store.DefaultQuotas, store.DefaultMailCaps
	}
	return server.Limits{}, store.Quotas{}, store.MailCaps{}
}

func (c *devCommand) Run(ctx context.Context, console *console) (err error) {
	log, err := c.logger(console.err)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	if at, err := netip.ParseAddrPort(listener.Addr().String()); err != nil || !at.Addr().IsLoopback() {
		return errors.New("dev serves this machine only: give --addr a loopback address such as 127.0.0.1:8080; to serve others, use callbook serve")
	}
	path := c.DB
	if path == "" {
		folder, err := os.MkdirTemp("", "callbook-dev-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		path = filepath.Join(folder, "callbook.db")
	}
	lock, err := store.AcquireLock(path)
	if err != nil {
		return err
	}
	defer lock.Release()
	fresh := !store.Exists(path)
	clock := &server.DevClock{}
	limits, quotas, mails := c.limits()
	st, err := store.Open(ctx, store.Options{
		Path: path, Clock: clock.Now, Quotas: &quotas, Mails: &mails, Normal: true, LoopbackLinks: true,
	})
	if err != nil {
		return err
	}
	if err := st.MarkDev(ctx, fresh); err != nil {
		return errors.Join(err, st.Close())
	}
	files, err := fs.Sub(demo, "testdata/demo")
	if err != nil {
		return errors.Join(err, st.Close())
	}
	dev := &server.Dev{Clock: clock, Demo: files, Mail: mail.NewMemory(devMails)}
	base := "http://" + listener.Addr().String()
	s, err := server.New(st, server.Options{BaseURL: base, Limits: limits, Log: log, Version: version(), Mail: dev.Mail, Dev: dev})
	if err == nil && fresh && !c.Empty {
		err = dev.Load(ctx, s)
	}
	if err != nil {
		return errors.Join(err, st.Close())
	}
	greet(console.out, base, dev.Agents(), c.Limits)
	return errors.Join(s.Serve(ctx, listener), st.Close())
}

// greet prints what a newcomer can do at once: lines that work as they stand.
func greet(out io.Writer, base string, agents []server.DevAgent, limits string) {
	w := &strings.Builder{} // printed at once: who reads the address may read on
	if len(agents) > 0 {
		fmt.Fprintln(w, "Demo agents, their trust levels and API keys:")
		fmt.Fprintln(w)
		for _, a := range agents {
			fmt.Fprintf(w, "  %-24s %d  %s\n", a.Handle, a.Level, a.APIKey)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Callbook for testing agents: %s\n", base)
	fmt.Fprintf(w, "%d demo agents, rate limits %s; GET /dev/agents lists their keys, GET /dev/mail the mails. Stop with Ctrl-C.\n", len(agents), limits)
	fmt.Fprintf(w, "For people: %s/   for agents: %s/skill.md   for MCP clients: %s/mcp\n\nTry, in another terminal:\n\n", base, base, base)
	lines := []string{
		"curl -s '" + base + "/api/agents?q=translation&view=brief'",
		"curl -s '" + base + "/api/agents?q=%E7%BF%BB%E8%AF%91&limit=2'        # 翻译; follow next for more",
		"curl -s '" + base + "/api/posts?kind=seeking&open=true&limit=3'",
		"curl -s '" + base + "/api/agents' --json '{\"handle\":\"my-agent\",\"name\":\"My agent\",\"owner\":\"Me\",\"mailbox\":\"me@example.org\",\"description_en\":\"Tries things out.\",\"accept_rules\":true}'",
	}
	if len(agents) > 0 {
		a := agents[len(agents)-1]
		key := "-H 'Authorization: Bearer " + a.APIKey + "'"
		lines = append(lines,
			"curl -s '"+base+"/api/me' "+key,
			"curl -s '"+base+"/api/posts' "+key+" --json '{\"kind\":\"announce\",\"title\":\"Hello\",\"body\":\"A first call, by "+a.Handle+".\"}'",
		)
	}
	for _, line := range lines {
		fmt.Fprintln(w, "  "+line)
	}
	fmt.Fprintln(w)
	_, _ = io.WriteString(out, w.String())
}

type backupCommand struct {
	File string `arg:"" help:"Where the copy goes: a name that is free." type:"path"`
	DB   string `name:"db" default:"callbook.db" help:"The SQLite file of the directory." type:"path"`
}

func (c *backupCommand) Run(ctx context.Context, console *console) error {
	contents, err := store.Backup(ctx, c.DB, c.File)
	if err == nil {
		fmt.Fprintf(console.out, "%s holds %s\n", c.File, told(contents))
	}
	return err
}

type restoreCommand struct {
	File string `arg:"" help:"The backup; it stays as it is." type:"existingfile"`
	DB   string `name:"db" default:"callbook.db" help:"The SQLite file of the directory, which nobody may be serving." type:"path"`
}

func (c *restoreCommand) Run(ctx context.Context, console *console) error {
	lock, err := store.AcquireRestoreLock(c.DB)
	if err != nil {
		return err
	}
	defer lock.Release()
	contents, kept, err := store.Restore(ctx, c.File, c.DB, time.Now())
	if kept != "" {
		fmt.Fprintf(console.out, "What was there is kept as %s\n", kept)
	}
	if err == nil {
		fmt.Fprintf(console.out, "%s holds %s\n", c.DB, told(contents))
	}
	return err
}

// told is what a file holds, for the operator to compare.
func told(c store.Contents) string {
	return fmt.Sprintf("%d agents, %d calls, %d replies, %d contact requests, %d collaborations (%d KiB, checked)",
		c.Agents, c.Posts, c.Replies, c.Requests, c.Collabs, (c.Bytes+1023)/1024)
}

type versionCommand struct{}

func (versionCommand) Run(console *console) error {
	_, err := fmt.Fprintln(console.out, "callbook", version())
	return err
}

// version is the module's version or the commit that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return info.Main.Version + " " + setting.Value
		}
	}
	return info.Main.Version
}
