package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/usage.txt")

// TestUsage compares what help, wrong commands and wrong flags print with testdata/usage.txt.
func TestUsage(t *testing.T) {
	const file = "testdata/usage.txt"
	var got strings.Builder
	for _, line := range []string{
		"--help", "help", "help topics", "admin --help", "backup --help", "help dev", "help admin suspend",
		"help weather", "help confguration", "help config", "help dve", "help tetsing", "help admin reprots", "help admin weather", "help weather admin", "help testing weather",
		"serv", "dve", "hlep", "bakcup copy.db", "sreve", "chekc", "weather", "testing", "backp copy.db", "admin", "admin reprots", "admin weather",
		"--adr :1", "serve --limit strict", "serve --limtis off", "-x", "backup --dbb x copy.db", "dev --adr :1", "admin reports --weather", "version --adr", "serve --port 8081", "dev -p 8081", "dev --prot 8081",
		"backup", "backup one two", "serve extra", "admin suspend", "completion", "serve --limits many", "serve --log yaml", "check --backup-every 1w", "restore /none/copy.db",
	} {
		status, out, errors := helped(t, strings.Fields(line)...)
		fmt.Fprintf(&got, "$ callbook %s # %d\n", line, status)
		for _, text := range []string{out, errors} {
			for line := range strings.Lines(text) {
				got.WriteString("    " + line)
			}
		}
	}
	text := strings.ReplaceAll(got.String(), "    \n", "\n")
	if *update {
		write(t, file, text, 0o600)
	}
	want, err := os.ReadFile(file)
	if diff := cmp.Diff(string(want), text); err != nil || diff != "" {
		t.Errorf("%v; go test ./server/cli -run Usage -update writes the file\n%s", err, diff)
	}
}

// TestVersion_FlagIsTheCommand: both print one line.
func TestVersion_FlagIsTheCommand(t *testing.T) {
	_, command, _ := helped(t, "version")
	for _, args := range [][]string{{"--version"}, {"backup", "--version"}} {
		if status, out, errors := helped(t, args...); status != 0 || out != command || errors != "" || !strings.HasPrefix(out, "callbook ") {
			t.Errorf("%q: %d %q %s, want %q", args, status, out, errors, command)
		}
	}
}
