//go:build !unix

package devmode

import "os/exec"

// stopWhole does nothing: the end of the context kills the command.
func stopWhole(*exec.Cmd) (kill func()) { return func() {} }
