package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
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

// errSettings tells that the settings are wrong, not what they lead to.
var errSettings = errors.New("invalid settings")

// ending is a way in which the program ends before it was told to.
type ending struct {
	err    error
	status int
	again  bool   // starting the program again may help: a service manager should
	next   string // what the operator does then, where the error does not say; %s is the command that restores
}

// endings are told by the first that fits.
var endings = []ending{
	{err: errSettings, status: statusUsage},
	{err: sqlitedb.ErrNetworkDisk, status: statusUsage},
	{err: sqlitedb.ErrDamaged, status: statusData, next: "restore a backup: %s"},
	{err: sqlitedb.ErrForeign, status: statusData},
	{err: sqlitedb.ErrNewerSchema, status: statusData},
	{err: sqlitedb.ErrGone, status: statusGone, next: "to restore a backup: %s"},
	{err: sqlitedb.ErrReplaced, status: statusDisk, again: true, next: "if the database is still at its path, start again; otherwise move it back, or restore a backup: %s"},
	{err: sqlitedb.ErrDisk, status: statusDisk, again: true, next: "look for disk errors (dmesg), then start again, which checks the whole database"},
	{err: sqlitedb.ErrFull, status: statusDisk, again: true},
	{err: sqlitedb.ErrNoRoom, status: statusDisk, again: true},
	{err: sqlitedb.ErrLocked, status: statusServed, again: true},
	{err: fs.ErrPermission, status: statusDenied},
}

func endingOf(err error) ending {
	for _, e := range endings {
		if errors.Is(err, e.err) {
			return e
		}
	}
	return ending{status: statusFailed, again: true}
}

// advise adds the next step to what the operator is told of a database that cannot
// be served.
func (c *serveCommand) advise(err error) error {
	next := endingOf(err).next
	if err == nil || next == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, strings.ReplaceAll(next, "%s", c.restoring()))
}

// restoring is the command that brings the newest copy back.
func (c *serveCommand) restoring() string {
	return fmt.Sprintf("callbook restore %s --db %s", cmp.Or(c.schedule(c.DB).NewestName(time.Now()), "COPY"), c.DB)
}
