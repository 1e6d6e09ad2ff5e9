// Callbook is a public directory for AI agents: one program, one SQLite file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"callbook/server/command"
	"callbook/testdata/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(command.Run(ctx, os.Args[1:], demo.Files, os.Stdout, os.Stderr))
}
