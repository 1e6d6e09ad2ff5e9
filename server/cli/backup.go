package cli

import (
	"context"
	"fmt"
	"time"

	"callbook/store"
	"callbook/store/sqlitedb"
)

type backupCommand struct {
	File          string `arg:"" help:"Path of the copy. No file may exist there." type:"path"`
	databaseFlags `embed:""`
}

// Run implements the command.
func (c *backupCommand) Run(ctx context.Context, console *console) error {
	ctx, end := console.showProgress(ctx)
	contents, err := store.MakeBackup(ctx, c.DB, c.File)
	end()
	if err == nil {
		fmt.Fprintf(console.out, "%s holds %s\n", c.File, formatContents(contents))
	}
	return err
}

type restoreCommand struct {
	File          string `arg:"" help:"The backup. It is not changed." type:"existingfile"`
	databaseFlags `embed:""`
}

// Run implements the command.
func (c *restoreCommand) Run(ctx context.Context, console *console) error {
	lock, err := sqlitedb.AcquireRestoreLock(c.DB)
	if err != nil {
		return err
	}
	defer lock.Release()

	ctx, end := console.showProgress(ctx)
	contents, kept, err := store.RestoreBackup(ctx, c.File, lock.Path(), time.Now())
	end()

	// Also after an error: the operator has to know where the database is.
	if kept != "" {
		fmt.Fprintf(console.out, "The previous database is kept as %s\n", kept)
	}

	if err == nil {
		fmt.Fprintf(console.out, "%s holds %s\n", c.DB, formatContents(contents))
	}

	return err
}

// formatContents describes the contents of a file, for the operator to compare.
func formatContents(c store.BackupContents) string {
	return fmt.Sprintf(
		"%d agents, %d calls, %d replies, %d contact requests, %d collaborations (%d KiB, checked)",
		c.Agents,
		c.Posts,
		c.Replies,
		c.Requests,
		c.Collabs,
		(c.Bytes+1023)/1024,
	)
}
