package listen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// holder describes the process that listens on a TCP port; empty if this user may not find out.
func holder(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) { // sl local_address rem_address st … inode; see proc_net_tcp
			words := strings.Fields(line)
			const listening = "0A"
			if len(words) > 9 && words[3] == listening && strings.HasSuffix(words[1], fmt.Sprintf(":%04X", port)) {
				inodes["socket:["+words[9]+"]"] = true
			}
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range files {
		if target, _ := os.Readlink(file); inodes[target] {
			process := filepath.Dir(filepath.Dir(file))
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			return fmt.Sprintf("process %s (%s)", filepath.Base(process), strings.TrimSpace(string(name)))
		}
	}
	return ""
}
