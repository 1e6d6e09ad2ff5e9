// Callbook is a public directory for AI agents: one program, one SQLite file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"callbook/server/cli"
	"callbook/testdata/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Run(ctx, os.Args[1:], demo.Files, os.Stdout, os.Stderr))
}
