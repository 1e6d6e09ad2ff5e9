package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// The release and the commit are set by .release/build from the repository: the version that the go
// command stamps depends on the clone.
var release, commit string

// versionCommand prints the version.
type versionCommand struct{}

// Run implements the command.
func (versionCommand) Run(console *console) error {
	_, err := fmt.Fprintln(console.out, versionLine())
	return err
}

// versionLine returns the version with what it was built from.
func versionLine() string {
	line := "callbook " + version()
	if commit != "" {
		line += " (" + commit + ")"
	}
	return fmt.Sprintf("%s %s %s/%s", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the release, or the version that the go command stamps, which names the
// commit. It is one word, as the header User-Agent takes.
func version() string {
	if release != "" {
		return release
	}

	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}

	return cmp.Or(strings.Trim(info.Main.Version, "()"), "devel")
}
