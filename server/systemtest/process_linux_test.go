package systemtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// descriptors returns the number of open files of a process, and of the sockets among them.
func (p *process) descriptors() (sockets, all int) {
	p.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", p.command.Process.Pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		p.Skipf("needs to see the open files of a process: %v", err)
	}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(folder, e.Name()))
		if err != nil {
			continue // it was closed since
		}
		all++
		if strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return sockets, all
}

// processor returns the processor time of a process.
func (p *process) processor() time.Duration {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		p.Skipf("needs to see the time that a process takes: %v", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var sum time.Duration
	for _, field := range fields[11:13] { // user's and system's, in ticks of 10 ms
		n, err := strconv.Atoi(field)
		if err != nil {
			p.Fatal(err)
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}

// anonymousMB returns the private memory of a process in megabytes, without mapped files, which the system can drop.
func (p *process) anonymousMB() int {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.command.Process.Pid))
	if err != nil {
		p.Skipf("needs to see the memory of a process: %v", err)
	}
	found := regexp.MustCompile(`(?m)^Anonymous: +(\d+) kB$`).FindSubmatch(text)
	if found == nil {
		p.Fatalf("no line Anonymous: %s", text)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		p.Fatal(err)
	}
	return n >> 10
}
