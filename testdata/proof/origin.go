package proof

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Commit is the commit that figures are of, with a plus when files differ from it.
func Commit(ctx context.Context) string {
	name, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changed, _ := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	return strings.TrimSpace(string(name)) + strings.Repeat("+", min(1, len(changed)))
}

// Machine is the machine that figures are of, and its system. Only Linux tells its
// processor.
func Machine() string {
	processor := "processor unknown"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			processor = strings.TrimSpace(value)
			break
		}
	}

	return fmt.Sprintf(
		"%s, %d cores, %s/%s",
		processor,
		runtime.NumCPU(),
		runtime.GOOS,
		runtime.GOARCH,
	)
}
