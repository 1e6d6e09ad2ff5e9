package systemtest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfig_Precedence checks the order: flag, variable, file, default.
func TestConfig_Precedence(t *testing.T) {
	file := newSettingsFile(t, `
base-url = "https://file.example.org"
contact = "file@example.org"
site-name = "File"
trusted-proxy = ["127.0.0.1", "10.0.0.0/8"]
backup-every = "2h"
network-disk = true

[limits]
factor = "strict"
reads = 7
`)
	t.Setenv("CALLBOOK_CONTACT", "variable@example.org")
	t.Setenv("CALLBOOK_SITE_NAME", "Variable")
	db := newDB(t)
	for _, from := range []struct {
		name string
		args []string
		env  string
	}{{"a flag", []string{"--config", file}, ""}, {"a variable", nil, file}} {
		t.Run("named by "+from.name, func(t *testing.T) {
			if from.env != "" {
				t.Setenv("CALLBOOK_CONFIG", from.env)
			}
			_, out, _ := runCommand(append([]string{"check", "--addr=127.0.0.1:0", "--db", db, "--site-name=Flag"}, from.args...)...)
			for _, want := range []string{
				"CALLBOOK_BASE_URL=https://file.example.org", "CALLBOOK_CONTACT=variable@example.org", "CALLBOOK_SITE_NAME=Flag", "CALLBOOK_LIMITS=strict", "limits.reads=7", "limits.calls=60",
				"CALLBOOK_TRUSTED_PROXY=127.0.0.1,10.0.0.0/8", "CALLBOOK_BACKUP_EVERY=2h0m0s", "CALLBOOK_BACKUP_KEEP=7", "CALLBOOK_NETWORK_DISK=true",
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
	file := newSettingsFile(t, "db = '"+db+"'\naddr = '127.0.0.1:0'\nlimits = 'off'\n")
	p := start(t, "serve", "--config", file)
	p.register("tide-reader")
	for _, args := range [][]string{
		{"admin", "verify", "tide-reader"}, {"backup", filepath.Join(folder, "copy.db")}, {"admin", "log"}, {"check"},
	} {
		if status, out, errors := runCommand(append(args, "--config", file)...); status != 0 {
			t.Errorf("%q: %d, %s%s", args, status, out, errors)
		}
	}
	p.stop()
	if status, out, errors := runCommand("restore", filepath.Join(folder, "copy.db"), "--config", file); status != 0 || !strings.Contains(out, "1 agents") {
		t.Errorf("restore: %d, %s%s", status, out, errors)
	}
}

func TestConfig_RejectsWrongSettings(t *testing.T) {
	folder := t.TempDir()
	fresh := "--db=" + filepath.Join(folder, "fresh.db")
	text := filepath.Join(folder, "text.db")
	writeFile(t, text, bytes.Repeat([]byte("This is no database.\n"), 100))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const free = "--addr=127.0.0.1:0"
	tests := []struct {
		name    string
		status  int
		args    []string
		setting string // an environment variable
		want    string // part of the message
	}{
		{"unknown flag", 64, []string{"serve", "--nonsense"}, "", "--nonsense"},
		{"odd MCP origin", 64, []string{"serve", free, fresh, "--mcp-origin", "https://a.example.org/path"}, "", "MCP origin"},
		{"metrics where somebody listens", 1, []string{"serve", free, fresh, "--metrics-addr", taken.Addr().String()}, "", "listen for --metrics-addr"},
		{"time without a unit", 64, []string{"serve", free, fresh, "--shared-cache=5"}, "", "--shared-cache"},
		{"a socket without a base URL", 64, []string{"serve", fresh, "--addr", "unix:" + filepath.Join(folder, "s")}, "", "--base-url: with a socket"},
		{"a socket for HTTPS", 64, []string{"serve", fresh, "--addr", "unix:" + filepath.Join(folder, "s"), "--domain", "directory.example.org"}, "", "a socket serves no HTTPS"},
		{"a relative socket", 64, []string{"serve", fresh, "--addr", "unix:s", "--base-url", "https://directory.example.org"}, "", "absolute path"},
		{"operator's page for others", 64, []string{"serve", free, fresh, "--operator-addr", "0.0.0.0:8081"}, "", "other machines could reach"},
		{"operator's page on a name", 64, []string{"serve", free, fresh, "--operator-addr", "example.org:8081"}, "", "give an address of this machine"},
		{"operator's page on a relative socket", 64, []string{"serve", free, fresh, "--operator-addr", "unix:operator.sock"}, "", "absolute path"},
		{"link to a page that is off", 64, []string{"admin", "page", fresh}, "", "--operator-addr"},
		{"shared caches for a part of a second", 64, []string{"serve", free, fresh, "--shared-cache", "1500ms"}, "", "--shared-cache must be whole seconds"},
		{"shared caches of a private site", 64, []string{"serve", free, fresh, "--private", "--shared-cache", "5s"}, "", "--shared-cache and --private exclude each other"},
		{"no copy kept", 64, []string{"serve", free, fresh, "--backup-keep", "0"}, "", "--backup-keep"},
		{"a cache without a size", 64, []string{"serve", free, fresh, "--cache-size", "auto"}, "", "--cache-size must be a size"},
		{"copies without end", 64, []string{"serve", free, fresh}, "CALLBOOK_BACKUP_EVERY=1s", "--backup-every"},
		{"domain with a scheme", 64, []string{"serve", free, fresh, "--domain=https://directory.example.org"}, "", "is not a DNS name"},
		{"domain of one word", 64, []string{"serve", free, fresh, "--domain=directory"}, "", "is not a DNS name"},
		{"domain of this machine", 64, []string{"serve", free, fresh, "--domain=callbook.localhost"}, "", "--acme-directory"},
		{"domain twice", 64, []string{"serve", free, fresh, "--domain=a.example.org", "--domain=A.example.org"}, "", "given twice"},
		{"second domain wrong", 64, []string{"serve", free, fresh, "--domain=a.example.org", "--domain=b"}, "", `"b" is not a DNS name`},
		{"base URL of a domain without TLS", 64, []string{"serve", free, fresh, "--domain=a.example.org", "--base-url=http://a.example.org"}, "", "https://a.example.org"},
		{"base URL of another domain", 64, []string{"serve", free, fresh, "--domain=a.example.org", "--base-url=https://b.example.org"}, "", "https://a.example.org"},
		{"authority without TLS", 64, []string{"serve", free, fresh, "--domain=a.example.org", "--acme-directory=http://ca.example.org/dir"}, "", "--acme-directory"},
		{"authority without a host", 64, []string{"serve", free, fresh, "--domain=a.example.org", "--acme-directory=https:///dir"}, "", "--acme-directory"},
		{"plain HTTP without a domain", 64, []string{"serve", free, fresh, "--http-addr=:8080"}, "", "need --domain"},
		{"authority without a domain", 64, []string{"serve", free, fresh, "--acme-directory=https://ca.example.org/dir"}, "", "need --domain"},
		{"misspelt variable", 64, []string{"check"}, "CALLBOOK_BAKUP_DIR=x", "unknown variable CALLBOOK_BAKUP_DIR, did you mean CALLBOOK_BACKUP_DIR?"},
		{"misspelt flag", 64, []string{"serve", "--bakup-dir=x"}, "", "did you mean --backup-dir?"},
		{"dev with the settings of a server", 64, []string{"dev", "--config", newSettingsFile(t, "")}, "", "--config"},
		{"database among the scheduled backups", 64, []string{"serve", free, "--db=" + filepath.Join(folder, "callbook-20261101T000000Z.db"), "--backup-dir", folder}, "", "this is one of the backups"},
		{"unknown command", 64, []string{"nonsense"}, "", "nonsense"},
		{"unknown variable", 64, []string{"serve", free, fresh}, "CALLBOOK_NONSENSE=1", "CALLBOOK_NONSENSE"},
		{"address without a port", 64, []string{"serve", "--addr=nonsense", fresh}, "", "nonsense"},
		{"address in use", 1, []string{"serve", "--addr=" + taken.Addr().String(), fresh}, "", "in use"},
		{"no factor of limits", 64, []string{"serve", free, fresh, "--limits=maybe"}, "", "--limits"},
		{"file: negative limit", 64, []string{"check", "--config", newSettingsFile(t, "[limits]\nreads = -1")}, "", "reads in [limits] must be an integer from 0 (off) to 1000000000"},
		{"file: limit that is no number", 64, []string{"check", "--config", newSettingsFile(t, "limits.reads = 'many'")}, "", "reads in [limits] must be an integer"},
		{"file: limit that is a fraction", 64, []string{"check", "--config", newSettingsFile(t, "limits.reads = 0.4")}, "", "reads in [limits] must be an integer"},
		{"file: misspelt limit", 64, []string{"check", "--config", newSettingsFile(t, "[limits]\nposts-unverfied = 1")}, "", "unknown limit posts-unverfied in [limits], did you mean posts-unverified?"},
		{"file: no factor of limits", 64, []string{"check", "--config", newSettingsFile(t, "limits.factor = 'on'")}, "", "--limits must be one of"},
		{"base URL with a slash", 64, []string{"serve", free, fresh, "--base-url=https://example.org/"}, "", "without a slash"},
		{"base URL with a password", 64, []string{"serve", free, fresh, "--base-url=https://u:hunter2@example.org"}, "", "--base-url: give"},
		{"contact", 64, []string{"serve", free, fresh, "--contact=the operator"}, "", "mailto:"},
		{"contact by a variable", 64, []string{"serve", free, fresh}, "CALLBOOK_CONTACT=https://u:hunter2@example.org", "mail address"},
		{"log form", 64, []string{"serve", free, fresh, "--log=xml"}, "", "--log"},
		{"log level", 64, []string{"serve", free, fresh, "--log-level=loud"}, "", "--log-level"},
		{"durability", 64, []string{"serve", free, fresh, "--durability=none"}, "", "--durability"},
		{"trusted proxy", 64, []string{"serve", free, fresh, "--trusted-proxy=localhost"}, "", "--trusted-proxy: give"},
		{"mail without a sender", 64, []string{"serve", free, fresh, "--mail=smtp://u:hunter2@localhost"}, "", "--mail-from"},
		{"mail by a variable", 64, []string{"serve", free, fresh, "--mail-from=a@example.org"}, "CALLBOOK_MAIL=smtp://u:hunter2@", "--mail is not"},
		{"mail in a file that is missing", 64, []string{"serve", free, fresh, "--mail-file", filepath.Join(folder, "missing")}, "", "--mail-file"},
		{"mail in the place of its file", 64, []string{"serve", free, fresh, "--mail-file=smtp://u:hunter2@localhost"}, "", "takes the name of a file"},
		{"file: misspelt", 64, []string{"check", "--config", newSettingsFile(t, "base-ulr = 'https://a.example.org'")}, "", "did you mean base-url?"},
		{"file: unlike any", 64, []string{"check", "--config", newSettingsFile(t, "colour = 'blue'")}, "", "unknown setting colour\n"},
		{"file: an argument", 64, []string{"check", "--config", newSettingsFile(t, "file = 'x'")}, "", "unknown setting file\n"},
		{"file: of another form", 64, []string{"check", "--config", newSettingsFile(t, "backup-keep = 'many'")}, "", "--backup-keep"},
		{"file: out of range", 64, []string{"check", "--config", newSettingsFile(t, "backup-keep = 0")}, "", "--backup-keep"},
		{"file: a password in a table", 64, []string{"check", "--config", newSettingsFile(t, "mail = {sink = 'smtp://user:hunter2@mail.example.org'}")}, "", "mail must be a text in quotation marks"},
		{"file: a fraction", 64, []string{"check", "--config", newSettingsFile(t, "backup-keep = 0.4")}, "", "backup-keep must be a text in quotation marks, an integer, true"},
		{"file: a number for a time", 64, []string{"check", "--config", newSettingsFile(t, "backup-every = 24")}, "", "--backup-every"},
		{"file: a number for a yes", 64, []string{"check", "--config", newSettingsFile(t, "network-disk = 7")}, "", "--network-disk"},
		{"file: a list of numbers", 64, []string{"check", "--config", newSettingsFile(t, "trusted-proxy = [1]")}, "", "trusted-proxy must be a text"},
		{"file: more than SQLite has", 64, []string{"check", "--config", newSettingsFile(t, "max-size = '90TB'")}, "", "--max-size must be"},
		{"file: an address without a port", 64, []string{"check", "--config", newSettingsFile(t, "addr = '8080'")}, "", "--addr: 8080 is not an address"},
		{"file: a port that is none", 64, []string{"check", "--config", newSettingsFile(t, "metrics-addr = ':99999'")}, "", "--metrics-addr: :99999 is not an address"},
		{"file: no file", 64, []string{"check", "--config", newSettingsFile(t, "db = ''")}, "", "--db: the name of the file is empty"},
		{"file: a file in the file", 64, []string{"check", "--config", newSettingsFile(t, "config = 'x'")}, "", "unknown setting config\n"},
		{"file: no TOML", 64, []string{"check", "--config", newSettingsFile(t, "addr: here")}, "", "line 1"},
		{"file: unfinished", 64, []string{"check", "--config", newSettingsFile(t, "mcp-origin = [")}, "", "read the settings in"},
		{"file: none", 64, []string{"check", "--config", filepath.Join(folder, "none.toml")}, "", "no such file"},
		{"no database", 65, []string{"serve", free, "--db=" + text}, "", "text.db"},
		{"no such folder", 73, []string{"serve", free, "--db=" + filepath.Join(folder, "missing", "x.db")}, "", "missing"},
		{"newer schema", 65, []string{"serve", free, "--db=" + newDBOfNewerVersion(t)}, "", "newer version of callbook"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.setting, "="); ok {
				t.Setenv(name, value)
			}
			status, out, errors := runCommand(tt.args...)
			if status != tt.status || !strings.Contains(errors, tt.want) || !strings.Contains(errors, "callbook: ") {
				t.Errorf("status %d, message %q, want %d and %q", status, errors, tt.status, tt.want)
			}
			for _, unwanted := range []string{"goroutine", "panic", ".go:", "hunter2"} {
				if strings.Contains(out+errors, unwanted) {
					t.Errorf("%q in the message: %s", unwanted, errors)
				}
			}
		})
	}
	if _, err := os.Stat(filepath.Join(folder, "fresh.db")); !os.IsNotExist(err) {
		t.Errorf("a database is created: %v", err)
	}
}

// TestConfig_ReportsAllErrors checks that all errors are reported at once, before anything is opened.
func TestConfig_ReportsAllErrors(t *testing.T) {
	db := newDB(t)
	status, _, errors := runCommand("serve", "--db", db, "--contact=a b", "--base-url=ftp://x", "--mail=smtp:/", "--backup-keep=0", "--trusted-proxy=x")
	for _, want := range []string{"--contact: give", "--base-url: give", "--mail is not", "--backup-every must be at least", "--trusted-proxy: give"} {
		if !strings.Contains(errors, "\ncallbook: "+want) {
			t.Errorf("no line about %s: %s", want, errors)
		}
	}
	if strings.Contains(errors, "netip") {
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
	status, out, errors := runCommand("check", "--addr=127.0.0.1:0", "--db", newDB(t))
	if status != 0 || !strings.Contains(out, "CALLBOOK_BACKUP_DIR=\n") || !strings.Contains(out, "the service makes none") {
		t.Errorf("%d, %s%s", status, out, errors)
	}
}
