package systemtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var needStrace = func() func(testing.TB) {
	tried := sync.OnceValue(func() error {
		out, err := exec.Command("strace", "-qq", "-e", "inject=fsync:error=EIO:when=1", "-o", "/dev/null", "true").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	return func(t testing.TB) {
		t.Helper()
		if err := tried(); err != nil {
			t.Skipf("needs strace, and that it may trace: %v", err)
		}
	}
}()

// spawnWithFaults runs the program under strace, which injects faults into its system calls. Signals go to the program
// itself.
func spawnWithFaults(t testing.TB, db string, faults ...string) *process {
	t.Helper()
	needStrace(t)
	p := newProcessVia(t, func(self string) *exec.Cmd {
		args := append([]string{"-f", "-qq", "-y", "-o", db + ".trace", "-e", "signal=none"}, faults...)
		return exec.Command("strace", append(args, self, "serve", "--addr=127.0.0.1:0", "--limits=off", "--db", db)...)
	})
	p.cancel = func() {}
	return p
}

// signalServer sends a signal to the program under strace that serves a database. Its process id may belong to
// another process once it has exited.
func (p *process) signalServer(end syscall.Signal, db string) {
	p.Helper()
	pid, err := strconv.Atoi(strings.SplitN(readText(p, db+".lock"), "\n", 2)[0])
	if err != nil {
		p.Fatal(err)
	}
	served, err := os.FindProcess(pid)
	if err != nil {
		p.Fatal(err)
	}
	p.cancel = func() { _ = served.Signal(end) }
}

// wantNoSyncAfterFailure checks that a failed sync is not retried. SQLite ignores failed syncs of folders.
func wantNoSyncAfterFailure(t testing.TB, db string) {
	t.Helper()
	trace := readFile(t, db+".trace")
	var syncs []string
	for line := range strings.Lines(string(trace)) {
		if strings.Contains(line, filepath.Base(db)) {
			syncs = append(syncs, line)
		}
	}
	if !strings.Contains(string(trace), "INJECTED") {
		t.Errorf("no sync failed: %s", trace)
	}
	// None of these failed if the failed sync was that of the folder.
	if first := slices.IndexFunc(syncs, func(line string) bool { return strings.Contains(line, "INJECTED") }); first >= 0 && first != len(syncs)-1 {
		t.Errorf("it is tried again: %q", syncs)
	}
}

// newImageFolder returns a folder for images, in memory if possible.
func newImageFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "callbook-power-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
