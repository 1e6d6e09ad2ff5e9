package systemtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// settingsFile returns a file of settings for --config.
func settingsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callbook.toml")
	lay(t, path, []byte(text))
	return path
}

// TestConfig_Precedence checks the order: flag, variable, file, default.
func TestConfig_Precedence(t *testing.T) {
	file := settingsFile(t, `
base-url = "https://file.example.org"
limit-reads = 7
limit-writes = 8
limit-calls = 9
trusted-proxy = ["127.0.0.1", "10.0.0.0/8"]
backup-every = "2h"
no-backup = true
`)
	t.Setenv("CALLBOOK_LIMIT_WRITES", "80")
	t.Setenv("CALLBOOK_LIMIT_CALLS", "90")
	db := filepath.Join(t.TempDir(), "callbook.db")
	for _, from := range []struct {
		name string
		args []string
		env  string
	}{{"a flag", []string{"--config", file}, ""}, {"a variable", nil, file}} {
		t.Run("named by "+from.name, func(t *testing.T) {
			if from.env != "" {
				t.Setenv("CALLBOOK_CONFIG", from.env)
			}
			_, out, _ := finished(append([]string{"check", "--addr=127.0.0.1:0", "--db", db, "--limit-calls=900"}, from.args...)...)
			for _, want := range []string{
				"CALLBOOK_BASE_URL=https://file.example.org", "CALLBOOK_LIMIT_READS=7", "CALLBOOK_LIMIT_WRITES=80", "CALLBOOK_LIMIT_CALLS=900",
				"CALLBOOK_TRUSTED_PROXY=127.0.0.1,10.0.0.0/8", "CALLBOOK_BACKUP_EVERY=2h0m0s", "CALLBOOK_BACKUP_KEEP=7", "CALLBOOK_NO_BACKUP=true",
			} {
				if !strings.Contains(out, want+"\n") {
					t.Errorf("no line %s in:\n%s", want, out)
				}
			}
		})
	}
}

// TestConfig_SharedByAllCommands checks that a command accepts keys of other commands in the file.
func TestConfig_SharedByAllCommands(t *testing.T) {
	folder := t.TempDir()
	db := filepath.Join(folder, "elsewhere.db")
	file := settingsFile(t, "db = '"+db+"'\naddr = '127.0.0.1:0'\nlimits = 'off'\n")
	p := start(t, "serve", "--config", file)
	join(p, "tide-reader")
	for _, args := range [][]string{
		{"admin", "verify", "tide-reader"}, {"backup", filepath.Join(folder, "copy.db")}, {"admin", "log"}, {"check"},
	} {
		if status, out, errors := finished(append(args, "--config", file)...); status != 0 {
			t.Errorf("%q: %d, %s%s", args, status, out, errors)
		}
	}
	p.stop()
	if status, out, errors := finished("restore", filepath.Join(folder, "copy.db"), "--config", file); status != 0 || !strings.Contains(out, "1 agents") {
		t.Errorf("restore: %d, %s%s", status, out, errors)
	}
}

func TestConfig_RejectsWrongFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"misspelt", "base-ulr = 'https://a.example.org'", "did you mean base-url?"},
		{"unlike any", "colour = 'blue'", "unknown setting colour\n"},
		{"an argument", "file = 'x'", "unknown setting file\n"},
		{"of another form", "limit-reads = 'many'", "--limit-reads"},
		{"out of range", "backup-keep = 0", "--backup-keep"},
		{"a table", "[mail]\nfrom = 'a@b.example.org'", "mail must be a string in quotation marks"},
		{"a password in a list", "mail = ['smtp://user:hunter2@mail.example.org']", "mail must be a string in quotation marks"},
		{"a fraction", "limit-reads = 0.4", "limit-reads must be an integer"},
		{"a number for a time", "backup-every = 24", "backup-every must be a string in quotation marks"},
		{"a number for a yes", "no-backup = 1", "no-backup must be true or false"},
		{"a list of numbers", "trusted-proxy = [1]", "trusted-proxy must be a list of strings"},
		{"more than SQLite has", "max-size = '90TB'", "--max-size must be"},
		{"an address without a port", "addr = '8080'", "--addr: 8080 is not an address"},
		{"a port that is none", "metrics-addr = ':99999'", "--metrics-addr: :99999 is not an address"},
		{"no file", "db = ''", "--db: the name of the file is empty"},
		{"a file in the file", "config = 'x'", "unknown setting config\n"},
		{"no TOML", "addr: here", "line 1"},
		{"unfinished", "mcp-origin = [", "read the settings in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, errors := finished("check", "--config", settingsFile(t, tt.text))
			if status != 64 || !strings.Contains(errors, tt.want) || strings.Contains(errors, "hunter2") {
				t.Errorf("%d, want 64 with %q: %s", status, tt.want, errors)
			}
		})
	}
	if status, _, errors := finished("check", "--config", filepath.Join(t.TempDir(), "none.toml")); status != 64 || !strings.Contains(errors, "no such file") {
		t.Errorf("no file: %d, %s", status, errors)
	}
}

// TestConfig_ReportsAllErrors checks that all errors are reported at once, before anything is opened.
func TestConfig_ReportsAllErrors(t *testing.T) {
	db := filepath.Join(t.TempDir(), "callbook.db")
	status, _, errors := finished("serve", "--db", db, "--contact=a b", "--base-url=ftp://x", "--mail=smtp:/", "--limit-reads=-1", "--limit-posts-unverified=-1", "--limit-mails=1000000001", "--owner-agents=-1", "--trusted-proxy=x")
	for _, want := range []string{"--contact: give", "--base-url: give", "--mail is not", "--limit-reads: a limit must be", "--limit-posts-unverified: a limit must be", "--limit-mails: a limit must be", "--owner-agents: a limit must be", "--trusted-proxy: give"} {
		if !strings.Contains(errors, "\ncallbook: "+want) {
			t.Errorf("no line about %s: %s", want, errors)
		}
	}
	if strings.Contains(errors, "netip") || strings.Count(errors, "a limit must be") != 4 {
		t.Error(errors)
	}
	entries, err := os.ReadDir(filepath.Dir(db))
	if status != 64 || err != nil || len(entries) > 0 {
		t.Errorf("%d, files %v, %v", status, entries, err)
	}
}

// TestConfig_EmptyPathIsUnset covers variables that are set to nothing.
func TestConfig_EmptyPathIsUnset(t *testing.T) {
	t.Setenv("CALLBOOK_BACKUP_DIR", "")
	t.Setenv("CALLBOOK_CONFIG", "")
	status, out, errors := finished("check", "--addr=127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "callbook.db"))
	if status != 0 || !strings.Contains(out, "CALLBOOK_BACKUP_DIR=\n") || !strings.Contains(out, "the service makes none") {
		t.Errorf("%d, %s%s", status, out, errors)
	}
}
