// Package cli parses the command line and runs the commands. Each command has a file
// of its own; flags.go has the settings that several share.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"callbook/server/service"
)

// commands is the command line. Every flag has an environment variable CALLBOOK_<FLAG> unless its
// tag says env:"-". The flag takes precedence over the variable, and that over the file of settings.
type commands struct {
	Serve      serveCommand      `cmd:"" default:"withargs" help:"Serve the directory (the default)."`
	Dev        devCommand        `cmd:"" help:"Serve a temporary directory on this machine, to test agents: demo agents, no rate limits, no file of settings."`
	Check      checkCommand      `cmd:"" help:"Check the settings of callbook serve, the database, the disk and the mail server for problems."`
	Health     healthCommand     `cmd:"" help:"Check that a running service responds: the exit status is 0 or 1. It takes the settings of callbook serve."`
	Backup     backupCommand     `cmd:"" help:"Write a checked copy of the database to a file, also while it is served."`
	Restore    restoreCommand    `cmd:"" help:"Replace the database by a backup; the previous one is kept beside it."`
	Compact    compactCommand    `cmd:"" help:"Rewrite the database without free space and remains of deleted rows, also while it is served: writes wait. It needs free space of twice its size."`
	Admin      adminCommands     `cmd:"" help:"Moderate the directory: reports, suspensions, removals, verification, new keys."`
	Unit       unitCommand       `cmd:"" help:"Print a systemd unit that confines the service, for /etc/systemd/system."`
	Completion completionCommand `cmd:"" help:"Print the completion of commands and flags for a shell."`
	Man        manCommand        `cmd:"" help:"Print the man page."`
	Topics     helpCommand       `cmd:"" name:"help" help:"Describe a command or a topic, or list them."`
	Version    versionCommand    `cmd:"" help:"Print the version."`

	PrintVersion kong.VersionFlag `name:"version" env:"-" help:"Print the version."`
}

// Help returns the text that kong shows below the description.
func (commands) Help() string {
	return "Read more: callbook help operation (run a directory), callbook help development and callbook help testing (test an agent), callbook help topics (a list)."
}

// Run runs a command and returns the exit status. demo is the initial directory of callbook dev.
func Run(ctx context.Context, args []string, demo fs.FS, stdout, stderr io.Writer) int {
	restrictPermissions()
	var c commands
	file := &configFile{}
	exited := -1
	parser, err := kong.New(
		&c,
		kong.Name("callbook"),
		kong.Description("A public directory for AI agents that anyone can host. "+
			"Agents register under a callsign, publish a service menu, post calls, and reach each other "+
			"only through contact requests that the recipient accepts."),
		kong.DefaultEnvars("CALLBOOK"),
		kong.Vars{"version": versionLine()},
		kong.Resolvers(kong.ResolverFunc(file.resolve)),
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(status int) { exited = status }),
		kong.Bind(file),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(&console{
			in:   os.Stdin,
			out:  stdout,
			err:  stderr,
			demo: demo,
		}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "callbook:", err)
		return statusInternal
	}

	// callbook help COMMAND is callbook COMMAND --help.
	var possible []string
	if isHelpOf(args) {
		possible = topicNames()
		args = append(args[1:len(args):len(args)], "--help")
	}

	// kong calls its Exit, with a status, once it has printed a help or the version.
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if file.err != nil {
		err = file.err
	}
	if err == nil {
		err = unknownVariables(parser.Model, os.Environ())
	}

	if err != nil {
		help, err := usageError(parser.Model, err, possible)
		printError(stderr, err)
		fmt.Fprintln(stderr, help)

		return statusUsage
	}

	err = command.Run()
	if err == nil {
		return 0
	}

	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "callbook: stopped before it finished")

		// The servers end in no other way; another command has not done its work.
		if name := command.Selected().Name; name == "serve" || name == "dev" {
			return 0
		}
		return statusFailed
	}

	// The command of callbook dev --exec has printed its own errors.
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		printError(stderr, err)
	}

	return exitOf(err).status
}

// decodePath implements kong.MapperFunc for paths.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("path", &path); err != nil {
		return err
	}

	// An empty path means none, and kong would make it the current folder.
	if path != "" {
		path = kong.ExpandPath(path)
	}

	target.SetString(path)
	return nil
}

// printError prints an error, or several, a line each.
func printError(stderr io.Writer, err error) {
	begin := "callbook:"
	if service.IsJournal(stderr) {
		begin = service.ErrorPriority + begin
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, begin, strings.TrimSpace(line))
	}
}

// console holds the input and the outputs of a command.
type console struct {
	in       io.Reader
	out, err io.Writer
	demo     fs.FS  // initial directory of callbook dev
	db       string // path of the database, for the commands of an operator
}

// unknownVariables rejects a CALLBOOK_ variable that no flag reads, so that a misspelt setting is not
// silently without effect.
func unknownVariables(app *kong.Application, environ []string) error {
	known := []string{"CALLBOOK_URL", "CALLBOOK_KEYS"} // set by callbook dev --exec
	for _, flag := range settings(app) {
		known = append(known, flag.Envs...)
	}

	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "CALLBOOK_") && !slices.Contains(known, name) {
			return fmt.Errorf("unknown variable %s%s", name, suggestion(name, "", known))
		}
	}

	return nil
}
