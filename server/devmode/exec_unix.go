//go:build unix

package devmode

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/mattn/go-isatty"
)

// stopWhole makes the end of the context end all processes of a command. kill ends those that are
// left.
func stopWhole(run *exec.Cmd) (kill func()) {
	// A shell ends before the programs that it has started. They form a group, except on a terminal,
	// which interrupts them itself.
	group := 1
	if !isatty.IsTerminal(os.Stdin.Fd()) {
		run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		group = -1
	}
	run.Cancel = func() error { return syscall.Kill(group*run.Process.Pid, syscall.SIGTERM) }
	return func() { _ = syscall.Kill(group*run.Process.Pid, syscall.SIGKILL) }
}
