package command

import (
	"errors"
	"io/fs"

	"callbook/store"
)

// Exit statuses, numbered as sysexits.h numbers them. A service manager that starts
// the program again helps after 1, 74 and 75 only.
const (
	statusFailed   = 1
	statusUsage    = 64 // the settings are wrong
	statusData     = 65 // the database is damaged, another program's, or of a newer version
	statusInternal = 70
	statusGone     = 73 // there is no database where there was one, or no folder for it
	statusDisk     = 74 // the disk failed or is full, or the file was replaced while it was served
	statusServed   = 75 // another process serves the database
	statusDenied   = 77 // a file may not be opened
)

// errSettings tells that the settings are wrong, not what they lead to.
var errSettings = errors.New("the settings are wrong")

// status is the exit status for what ended a command.
func status(err error) int {
	for _, known := range []struct {
		err    error
		status int
	}{
		{errSettings, statusUsage},
		{store.ErrNetworkDisk, statusUsage},
		{store.ErrDamaged, statusData},
		{store.ErrForeign, statusData},
		{store.ErrNewerSchema, statusData},
		{store.ErrGone, statusGone},
		{store.ErrDisk, statusDisk},
		{store.ErrReplaced, statusDisk},
		{store.ErrFull, statusDisk},
		{store.ErrNoRoom, statusDisk},
		{store.ErrServed, statusServed},
		{fs.ErrPermission, statusDenied},
	} {
		if errors.Is(err, known.err) {
			return known.status
		}
	}
	return statusFailed
}
