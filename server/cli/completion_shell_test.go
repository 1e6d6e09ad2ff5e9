package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCompletion_GivesWords: the program's own commands and flags, also those that it would otherwise carry out.
func TestCompletion_GivesWords(t *testing.T) {
	for typed, want := range map[string]string{
		"ver": "version\tPrint the version.\n", "--help serve --mcp": "--mcp-origin\tOrigins of web pages that may use the MCP endpoint, such as https://app.example.org\n",
		"admin reports weather ": "", "help comp": "compact\tRewrite the database without free space and remains of deleted rows, also while it is served: writes wait\ncompletion\tPrint the completion of commands and flags for a shell.\n",
		"help te": "testing\tSuites in Go, TypeScript and Python that test an agent against a test directory\n", "help admin unv": "unverify\tMark an agent's mailbox as not verified, and forget earlier ones: none of them recovers the key.\n",
		"help --": "--help\tShow context-sensitive help.\n--version\tPrint the version.\n", "completion z": "zsh\t\n", "serve --durability ": "full\t\nnormal\t\n",
	} {
		status, out, errors := helped(t, append([]string{"completion", "bash", "--"}, strings.Split(typed, " ")...)...)
		if status != 0 || out != want || errors != "" {
			t.Errorf("%q: %d %q %s", typed, status, out, errors)
		}
	}
	if status, _, errors := helped(t, "completion", "tcsh"); status != statusUsage || !strings.Contains(errors, "bash") {
		t.Errorf("tcsh: %d %s", status, errors)
	}
}

// TestCompletion_WorksInShells loads each script in its shell, with a program that prints its arguments as candidates.
func TestCompletion_WorksInShells(t *testing.T) {
	folder := t.TempDir()
	program := "#!/bin/sh\nprintf 'one\\ttext\\ntwo words\\t\\n<%s>\\n' \"$*\"\n"
	write(t, filepath.Join(folder, "callbook"), program, 0o700)
	for shell, tt := range map[string]struct{ run, want string }{
		"bash": {`. ./bash; COMP_WORDS=(callbook serve ""); COMP_CWORD=2; _callbook; printf '%s|' "${COMPREPLY[@]}"`, "one|two words|<completion bash -- serve >|"},
		"zsh":  {`_describe() { print -rn -- "${(Pj:|:)2}|" }; compdef() {}; . ./zsh; words=(callbook serve ""); CURRENT=3; _callbook`, "one:text|two words:|<completion zsh -- serve >|"},
		"fish": {`source ./fish; complete -C 'callbook serve ' | string join '|'`, "<completion fish -- serve >|one\ttext|two words\n"},
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("there is no %s here", shell)
			}
			_, script, _ := helped(t, "completion", shell)
			write(t, filepath.Join(folder, shell), script, 0o600)
			command := exec.Command(path, "-c", tt.run)
			command.Dir, command.Env = folder, append(os.Environ(), "HOME="+folder, "PATH="+folder+":"+os.Getenv("PATH"))
			if out, err := command.CombinedOutput(); err != nil || string(out) != tt.want {
				t.Errorf("%v: %q, want %q", err, out, tt.want)
			}
		})
	}
}

// TestMan_HasEveryCommandAndSetting: what callbook help and callbook serve --help list.
func TestMan_HasEveryCommandAndSetting(t *testing.T) {
	status, page, errors := helped(t, "man")
	if status != 0 || errors != "" || !strings.HasPrefix(page, `.TH "CALLBOOK" "1" "" "callbook `) {
		t.Errorf("%d %s%s", status, page, errors)
	}
	for _, want := range []string{`.B "admin reports`, `.B "health"`, `.SS "HTTPS"`, `.B "\-\-http\-addr=ADDR, CALLBOOK_HTTP_ADDR"`, `.B "failed\-keys"`} {
		if n := strings.Count(page, "\n"+want); n != 1 {
			t.Errorf("%d lines begin with %s", n, want)
		}
	}
	if _, err := exec.LookPath("groff"); err == nil {
		groff := exec.Command("groff", "-Kutf8", "-man", "-Tutf8", "-ww", "-z")
		groff.Stdin = strings.NewReader(page)
		if out, err := groff.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %s", err, out)
		}
	}
	long := slices.MaxFunc(strings.Split(page, "\n"), func(a, b string) int { return len(a) - len(b) })
	if len(long) > 1000 {
		t.Errorf("a line has %d bytes", len(long))
	}
}
