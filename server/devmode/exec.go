package devmode

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"callbook/server"
	"callbook/server/api"
)

// stopTime is how long a command may take to end after a signal.
const stopTime = 10 * time.Second

// Exec serves while a command of the shell runs, and stops after it. The command finds the address
// of the site in CALLBOOK_URL, and the keys of the demo agents by handle as JSON in CALLBOOK_KEYS.
// Exec returns an *exec.ExitError if the command fails.
func (d *Server) Exec(
	ctx context.Context,
	command, url string,
	stdout, stderr io.Writer,
	fronts ...server.Front,
) error {
	shell := []string{"sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c"}
	}

	keys := map[string]string{}
	for _, agent := range d.Agents() {
		keys[agent.Handle] = agent.APIKey
	}

	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		// If serving fails, the command ends as well.
		served <- d.Serve(serving, fronts...)
		stop()
	}()

	run := exec.CommandContext(serving, shell[0], append(shell[1:], command)...)
	run.Env = append(os.Environ(), "CALLBOOK_URL="+url, "CALLBOOK_KEYS="+string(api.Marshal(keys)))
	run.Stdin = os.Stdin
	run.Stdout = stdout
	run.Stderr = stderr
	run.WaitDelay = stopTime
	kill := stopWhole(run)
	err := run.Run()

	// The command may not have started.
	if serving.Err() != nil && run.Process != nil {
		kill()
	}

	stop()
	if failed := <-served; failed != nil {
		return failed
	}

	return err
}
