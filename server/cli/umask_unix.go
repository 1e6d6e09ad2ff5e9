//go:build unix

package cli

import "golang.org/x/sys/unix"

// restrictPermissions removes the permissions of other users from every file that the program
// creates, because they contain keys, mails and mailboxes.
func restrictPermissions() { unix.Umask(0o077) }
