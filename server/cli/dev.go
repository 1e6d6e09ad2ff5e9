package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"callbook/server"
	"callbook/server/devmode"
	"callbook/server/mail"
	"callbook/server/service"
	"callbook/store"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// devMails is the maximum number of mails that GET /dev/mail lists.
const devMails = 1000

// devCommand serves a directory for tests. It does not read CALLBOOK_DB: that is the file of callbook
// serve, which POST /dev/reset would empty.
type devCommand struct {
	Addr      string   `default:"127.0.0.1:8080" help:"Address to listen on: a loopback address, or any with --allow-host."`
	AllowHost []string `help:"Host name by which other machines, such as containers, reach the test directory. Repeatable. The first is that of its links if --addr is no loopback address." placeholder:"NAME"`
	Exec      *string  `help:"Run this command of the shell with CALLBOOK_URL and CALLBOOK_KEYS (JSON, keys by handle) in its environment, stop after it, and exit with its status." placeholder:"COMMAND"`
	DB        string   `name:"db" env:"CALLBOOK_DEV_DB" help:"Keep the directory in this file instead of a temporary one." type:"path"`
	Empty     bool     `help:"Start without the demo agents."`
	Limits    string   `enum:"strict,normal,relaxed,off" default:"off" env:"CALLBOOK_DEV_LIMITS" help:"Limits as those of callbook serve, to test how an agent handles them; unless off, mails have theirs, too."`
	logFlags  `embed:""`
}

// Help returns the text that kong shows below the usage.
func (*devCommand) Help() string {
	return "Read more: callbook help development, for what the test directory can do; callbook help testing, for suites in Go, TypeScript and Python."
}

// allowedHost matches a host name, and names of containers, which may have underscores.
var allowedHost = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// check rejects an address that other machines could reach, before anything listens there.
func (c *devCommand) check() error {
	if err := (service.Endpoint{Flag: service.SiteFlag, Addr: c.Addr}).Check(); err != nil {
		return err
	}
	if c.Exec != nil && strings.TrimSpace(*c.Exec) == "" {
		return errors.New("--exec takes a command of the shell, such as 'go test ./...'")
	}

	// --allow-host= gives an empty list.
	isEmpty := c.AllowHost != nil && len(c.AllowHost) == 0
	isMalformed := func(name string) bool { return !allowedHost.MatchString(name) }
	if isEmpty || slices.ContainsFunc(c.AllowHost, isMalformed) {
		return errors.New(
			"--allow-host takes a host name without a scheme and a port, such as callbook or host.docker.internal",
		)
	}

	host, _, _ := net.SplitHostPort(c.Addr)
	if !text.IsLoopback(host) && len(c.AllowHost) == 0 {
		return errors.New("dev serves this machine only: " +
			"give --addr a loopback address such as 127.0.0.1:8080, " +
			"or name the host by which containers reach it with --allow-host; " +
			"to serve others, use callbook serve")
	}

	return nil
}

// baseURL returns the address of the site for its own links.
func (c *devCommand) baseURL(listener net.Listener) string {
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	if !text.IsLoopback(host) {
		host = c.AllowHost[0]
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Run implements the command.
func (c *devCommand) Run(ctx context.Context, console *console, k *kong.Context) (err error) {
	log, closeLog := service.NewLog(console.err, service.LogFormat(c.Log), c.LogLevel)
	defer closeLog()
	if err := c.check(); err != nil {
		return fmt.Errorf("%w: %w", errSettings, err)
	}

	endpoints := []service.Endpoint{{Flag: service.SiteFlag, Addr: c.Addr}}
	if err := service.Listen(endpoints); err != nil {
		return err
	}

	listener := endpoints[0].Listener
	defer listener.Close()

	path := c.DB
	state := c.DB + ".dev.json"
	if path == "" {
		folder, err := os.MkdirTemp("", "callbook-dev-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)

		path = filepath.Join(folder, "callbook.db")
		state = "" // there is no next start, which would read it
	}

	lock, err := sqlitedb.AcquireLock(path)
	if err != nil {
		return err
	}
	defer lock.Release()

	fresh := !sqlitedb.Exists(path)
	if c.Empty && !fresh {
		log.Warn().
			Str("db", path).
			Msg("the file has a directory, which stays: --empty is for a new file and for POST /dev/reset")
	}

	clock := &devmode.Clock{}
	limits := domain.LimitsAt(c.Limits, nil)
	options := store.Options{
		Path:          path,
		Clock:         clock.Now,
		Quotas:        limits,
		Normal:        true,
		LoopbackLinks: true,
	}
	if c.Limits == "off" {
		// No caps, also none by receiver: a suite mails the same addresses again and again.
		options.Mails = &domain.MailCaps{}
	}

	st, err := store.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	// A directory of callbook serve is rejected here: a reset would delete it.
	if err := st.MarkDev(ctx, fresh); err != nil {
		return err
	}

	base := c.baseURL(listener)
	site := server.Options{
		BaseURL:    base,
		Limits:     server.LimitsOf(limits),
		Log:        log,
		LogClients: c.LogClients,
		Version:    version(),
		Settings:   settingsTables(k.Model),
	}
	dev, err := devmode.New(st, site, devmode.Options{
		Clock: clock,
		Demo:  console.demo,
		Mail:  mail.NewMemory(devMails),
		Hosts: c.AllowHost,
		Empty: c.Empty,
		State: state,
	})
	if err != nil {
		return err
	}

	if err := dev.Start(ctx, fresh); err != nil {
		return err
	}

	front := server.Front{Listener: listener}

	// This machine may not know the name for the others.
	here := "http://" + service.Reachable(listener.Addr())
	if c.Exec == nil {
		c.printWelcome(console.out, here, base, dev.Agents())
		return dev.Serve(ctx, front)
	}

	// Standard output is that of the command.
	c.printWelcome(console.err, here, base, dev.Agents())
	return dev.Exec(ctx, *c.Exec, here, console.out, console.err, front)
}

// printWelcome prints the address, a demo agent of each trust level, and where the rest is.
// Scripts parse the first line.
func (c *devCommand) printWelcome(out io.Writer, here, base string, agents []devmode.Agent) {
	text := "Callbook for testing agents: " + here + "\n"
	if here != base {
		text += "Other machines, such as containers, reach it at " + base + ", as its links say.\n"
	}

	text += fmt.Sprintf("%d demo agents, rate limits %s. Stop with Ctrl-C.\n", len(agents), c.Limits)
	for level := range 3 {
		at := slices.IndexFunc(agents, func(a devmode.Agent) bool { return a.Level == level })
		if at >= 0 {
			text += fmt.Sprintf("  %-24s level %d  %s\n", agents[at].Handle, level, agents[at].APIKey)
		}
	}

	if c.DB != "" {
		text += "The next start with --db " + c.DB +
			" goes on with the agents, their keys and the clock, but without mails, faults and journal.\n"
	}
	text += "Mails, the keys of all demo agents, the clock, a reset and commands to try: " + here + "/dev\n" +
		"Read more: " + here + "/docs/development and " + here + "/docs/testing\n"

	// In one write: a program that has read the address may stop reading.
	_, _ = io.WriteString(out, text)
}
