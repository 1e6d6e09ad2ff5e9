package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"callbook/store/sqlitedb"
)

// Exit statuses, numbered as sysexits.h numbers them.
const (
	statusFailed   = 1
	statusUsage    = 64
	statusData     = 65
	statusInternal = 70
	statusGone     = 73
	statusDisk     = 74
	statusServed   = 75
	statusDenied   = 77
)

// errSettings reports invalid settings, not the failures that valid ones cause.
var errSettings = errors.New("invalid settings")

// exit describes how the program exits after an error.
type exit struct {
	err    error
	status int
	again  bool // a restart may help

	// next is the next step, unless the error says it. %s is the command that restores a backup.
	next string
}

// exits are matched in their order; the first match counts.
var exits = []exit{
	{err: errSettings, status: statusUsage},
	{err: sqlitedb.ErrNetworkDisk, status: statusUsage},
	{err: sqlitedb.ErrLinked, status: statusUsage},
	{err: sqlitedb.ErrDamaged, status: statusData, next: "restore a backup: %s"},
	{err: sqlitedb.ErrForeign, status: statusData},
	{err: sqlitedb.ErrNewerSchema, status: statusData},
	{err: sqlitedb.ErrGone, status: statusGone, next: "to restore a backup: %s"},
	{
		err:    sqlitedb.ErrReplaced,
		status: statusDisk,
		again:  true,
		next:   "if the database is still at its path, start again; otherwise move it back, or restore a backup: %s",
	},
	{
		err:    sqlitedb.ErrDisk,
		status: statusDisk,
		again:  true,
		next:   "look for disk errors (dmesg), then start again, which checks the whole database",
	},
	{err: sqlitedb.ErrFull, status: statusDisk, again: true},
	{err: sqlitedb.ErrNoRoom, status: statusDisk, again: true},
	{err: sqlitedb.ErrLocked, status: statusServed, again: true},
	{err: fs.ErrPermission, status: statusDenied},
}

// exitOf returns how the program exits after an error.
func exitOf(err error) exit {
	// The command of callbook dev --exec: its status is passed on, as a shell reports it.
	if command, ok := errors.AsType[*exec.ExitError](err); ok {
		status, ok := command.Sys().(syscall.WaitStatus)
		if ok && status.Signaled() {
			return exit{status: 128 + int(status.Signal())}
		}

		return exit{status: max(command.ExitCode(), statusFailed)}
	}

	for _, e := range exits {
		if errors.Is(err, e.err) {
			return e
		}
	}

	return exit{status: statusFailed, again: true}
}

// withNextStep adds the next step for the operator to the error of a database that cannot be
// served.
func (c *serveCommand) withNextStep(err error) error {
	next := exitOf(err).next
	if err == nil || next == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, strings.ReplaceAll(next, "%s", c.restoreCommandLine()))
}

// restoreCommandLine returns the command that restores the newest backup.
func (c *serveCommand) restoreCommandLine() string {
	newest, _, _ := c.schedule(c.DB).Newest(time.Now())
	return fmt.Sprintf("callbook restore %s --db %s", cmp.Or(newest, "COPY"), c.DB)
}
