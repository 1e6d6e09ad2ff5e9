package cli

import (
	"context"
	"fmt"

	"callbook/store"
)

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
		if err == nil {
			fmt.Fprintf(
				console.out,
				"%s: %d KiB before, %d KiB after\n",
				c.DB,
				(before+1023)/1024,
				(after+1023)/1024,
			)
		}

		return err
	})
}
