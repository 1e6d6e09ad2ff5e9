//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// asGroup has a command's whole family told to end when it is cancelled: the go command
// does not hand on what it is told.
func asGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
}
