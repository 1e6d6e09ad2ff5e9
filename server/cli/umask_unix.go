//go:build unix

package cli

import "golang.org/x/sys/unix"

// keepPrivate has every file that the program makes be its user's alone, whatever
// makes it: keys, mails and mailboxes stand in them.
func keepPrivate() { unix.Umask(0o077) }
