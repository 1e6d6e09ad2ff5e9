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
	if err != nil {
		return err
	}

	return console.printf("%s holds %s", c.File, formatContents(contents))
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
	if err != nil {
		return err
	}

	return console.printf("%s holds %s", c.DB, formatContents(contents))
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
		kib(c.Bytes),
	)
}

type compactCommand struct {
	databaseFlags `embed:""`
}

// Run implements the command.
func (c *compactCommand) Run(ctx context.Context, console *console) error {
	console.db = c.DB
	return console.open(ctx, func(st *store.Store) error {
		ctx, end := console.showProgress(ctx)
		before, after, err := st.Compact(ctx)
		end()
		if err != nil {
			return err
		}

		return console.printf("%s: %d KiB before, %d KiB after", c.DB, kib(before), kib(after))
	})
}

// kib returns a number of bytes in KiB, rounded up.
func kib(bytes int64) int64 { return (bytes + 1023) / 1024 }
