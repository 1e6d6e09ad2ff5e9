package command

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by .release/build, which looks at the repository itself: what the go command
// stamps by itself depends on the clone.
var release, commit string

type versionCommand struct{}

func (versionCommand) Run(console *console) error {
	line := "callbook " + version()
	if built := builtFrom(); built != "" {
		line += " (" + built + ")"
	}
	_, err := fmt.Fprintf(console.out, "%s %s %s/%s\n", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is the release, or what the go command knows of one. It is one word, as
// the header User-Agent takes.
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

// builtFrom is the commit that the program was built from, if known.
func builtFrom() string {
	if commit != "" {
		return commit
	}
	found := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			found[setting.Key] = setting.Value
		}
	}
	revision := found["vcs.revision"]
	if revision != "" && found["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return revision
}
