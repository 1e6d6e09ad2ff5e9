package cli

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// parseServe parses the flags of callbook serve, with the text of a file of settings unless it is empty.
func parseServe(t testing.TB, config string, args ...string) (*serveCommand, error) {
	t.Helper()
	var c commands
	parser, err := kong.New(&c, kong.DefaultEnvars("CALLBOOK"), kong.Resolvers(&configFile{}), kong.NamedMapper("path", kong.MapperFunc(decodePath)), kong.Writers(io.Discard, io.Discard))
	noError(t, err)
	if config != "" {
		args = append(args, "--config", write(t, filepath.Join(t.TempDir(), "callbook.toml"), config, 0o600))
	}
	_, err = parser.Parse(append([]string{"serve"}, args...))
	return &c.Serve, err
}

// TestMailFlags_TheNearerSettingCounts: --mail off on the command line is not undone by a mail-file in the settings.
func TestMailFlags_TheNearerSettingCounts(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "mail"), "log:\n", 0o600)
	inFile := "mail-file = '" + file + "'"
	for name, tt := range map[string]struct {
		config, variable string
		args             []string
		want             string // setting, or part of the error
	}{
		"flag before the file of settings":     {inFile, "", []string{"--mail", "off"}, "off"},
		"variable before the file of settings": {inFile, "off", nil, "off"},
		"flag before the variable":             {"", "off", []string{"--mail-file", file}, "log:"},
		"file of settings":                     {inFile, "", nil, "log:"},
		"none":                                 {"", "", nil, "log:"},
		"both flags":                           {"", "", []string{"--mail-file", file, "--mail", "off"}, "leave out one"},
		"both in the file of settings":         {inFile + "\nmail = 'off'", "", nil, "leave out one"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.variable != "" {
				t.Setenv("CALLBOOK_MAIL", tt.variable)
			}
			c, err := parseServe(t, tt.config, tt.args...)
			got := ""
			if err == nil {
				got, err = c.mailFlags.setting()
			}
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestDurations_HaveOneSyntax: in flags, variables, the file of settings and commands.
func TestDurations_HaveOneSyntax(t *testing.T) {
	for given, want := range map[string]string{
		"90m": "1h30m0s", "36h": "36h0m0s", "7d": "168h0m0s", "1d12h": "36h0m0s", "0d1m": "1m0s", "36500d": "876000h0m0s",
		"": "", "d": "", "1": "", "1w": "", "1h2d": "", "1d-1h": "", "-1d": "", "1.5d": "", "36501d": "", "99999999999999999999d": "", "1dd": "",
	} {
		byFlag, flagErr := parseServe(t, "", "--backup-every="+given)
		byFile, fileErr := parseServe(t, "backup-every = '"+given+"'")
		_, endErr := parseEnd(given, time.Now())
		if (flagErr == nil) != (want != "") || (fileErr == nil) != (want != "") || (endErr == nil) != (want != "" || given == "") {
			t.Errorf("%q: %v, %v, %v", given, flagErr, fileErr, endErr)
		} else if want != "" && (byFlag.BackupEvery.String() != want || byFile.BackupEvery != byFlag.BackupEvery) {
			t.Errorf("%q is %v as a flag and %v in the file, want %s", given, byFlag.BackupEvery, byFile.BackupEvery, want)
		}
	}
}

// TestDev_RejectsAddressOfOthersBeforeItListens: with the status for settings.
func TestDev_RejectsAddressOfOthersBeforeItListens(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:1", ":8080", "example.org:1", "unix:/s", "127.0.0.1", "[::]:0"} {
		if status := Run(t.Context(), []string{"dev", "--addr", addr}, nil, io.Discard, io.Discard); status != statusUsage {
			t.Errorf("%s: status %d, want %d", addr, status, statusUsage)
		}
	}
}

// TestDev_SaysWhatARestartGoesOnWith checks the banner with a file, which it names, and without one.
func TestDev_SaysWhatARestartGoesOnWith(t *testing.T) {
	for db, want := range map[string]string{"": "", "test.db": "The next start with --db test.db goes on with the agents, their keys and the clock, but without mails, faults and journal.\n"} {
		var out strings.Builder
		(&devCommand{DB: db, Limits: "off"}).printWelcome(&out, "http://127.0.0.1:8080", "http://127.0.0.1:8080", nil)
		if text := out.String(); !strings.Contains(text, want) || strings.Contains(text, "next start") != (db != "") {
			t.Errorf("%q: %s", db, text)
		}
	}
}
