// Callbook is a public directory for AI agents: one program, one SQLite file.
package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"callbook/server/command"
)

//go:embed testdata/demo
var testdata embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without its surroundings; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	demo, err := fs.Sub(testdata, "testdata/demo")
	if err != nil {
		fmt.Fprintln(stderr, "callbook:", err)
		return 70
	}
	return command.Run(ctx, args, demo, stdout, stderr)
}
