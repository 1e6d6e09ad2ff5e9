package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endWithParent has the system end the child should this process be killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// tick is the unit of times in /proc: on Linux a hundredth of a second everywhere.
const tick = 10 * time.Millisecond

// cpu is the processor time that the child has used; false where nobody can tell.
func (p *process) cpu() (time.Duration, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}

	// The name, in brackets, may hold spaces. Behind it the 12th and 13th field are
	// the times in the program and in the system.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}

	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, true
}

// anonymous is how many bytes of memory the child has that belong to no file; false
// where nobody can tell.
func (p *process) anonymous() (int64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.cmd.Process.Pid))
	if err != nil {
		return 0, false
	}

	for line := range strings.Lines(string(text)) {
		if after, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			kB, err := strconv.ParseInt(
				strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(after), "kB")),
				10,
				64,
			)
			return kB << 10, err == nil
		}
	}

	return 0, false
}
