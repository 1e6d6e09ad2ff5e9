package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/testdata/testkit"
)

func TestSiteFlags_ReadTheTextAboutTheSite(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "about.md"), "Who we are.", 0o600)
	o, err := siteFlags{SiteName: "Harbour", About: file, LegalURL: "https://example.org/legal"}.operator()
	if err != nil || o.Name != "Harbour" || o.About != "Who we are." || o.Legal != "https://example.org/legal" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, wrong := range []siteFlags{{About: file + ".missing"}, {LegalURL: "legal"}, {SiteName: "<b>"}} {
		if _, err := wrong.operator(); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

// TestMaxSize_DefaultsToHalfOfTheFreeDisk: half of what would be free without it, so that the limit is the
// same at the next start, when the database has grown.
// It holds promise 10 of SECURITY.md.
func TestMaxSize_DefaultsToHalfOfTheFreeDisk(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "callbook.db"), "", 0o600)
	disk, err := sqlitedb.DiskOf(filepath.Dir(file))
	if err != nil {
		t.Skip(err)
	}
	half := disk.Free                                    // of the free space and as much of the database
	if err := os.Truncate(file, disk.Free); err != nil { // it takes no space
		t.Skip(err)
	}
	for setting, want := range map[string]int64{"": half, "auto": half, "20MB": 20_000_000, "0": 0} {
		args := []string{"--db", file}
		if setting != "" {
			args = append(args, "--max-size", setting)
		}
		c, err := parseServe(t, "", args...)
		testkit.NoError(t, err)
		var log bytes.Buffer
		got := c.maxBytes(zerolog.New(&log))
		// Others use the same disk meanwhile.
		if difference := max(got-want, want-got); difference > want/10 || want < 100_000_000 && difference != 0 {
			t.Errorf("--max-size=%s: %d bytes, want %d", setting, got, want)
		}
		if logged := strings.Contains(log.String(), fmt.Sprintf(`"bytes":%d`, got)); logged != (want > 20_000_000) {
			t.Errorf("--max-size=%s: the log: %s", setting, &log)
		}
	}
}

// TestLimits_AreAFactorAndSingleOnes checks the limits in force.
func TestLimits_AreAFactorAndSingleOnes(t *testing.T) {
	for name, tt := range map[string]struct {
		config string
		args   []string
		want   map[domain.LimitName]int
	}{
		"public":       {"", []string{"--base-url=https://directory.example.org"}, domain.DefaultQuotas},
		"by name":      {"", []string{"--domain=directory.example.org"}, map[domain.LimitName]int{"reads": 600, "mails": 200}},
		"local":        {"", nil, map[domain.LimitName]int{"reads": 0, "registrations": 0, "posts": 0, "mails": 0, "owner_agents": 20}},
		"local, mails": {"[limits]\nmails = 20", nil, map[domain.LimitName]int{"reads": 0, "mails": 20}},
		"normal":       {"", []string{"--limits=normal"}, domain.DefaultQuotas},
		"strict":       {"", []string{"--limits=strict"}, map[domain.LimitName]int{"reads": 300, "requests": 3, "posts_unverified": 2, "mails": 200}},
		"relaxed":      {"limits = 'relaxed'", nil, map[domain.LimitName]int{"reads": 2400, "posts_unverified": 12, "owner_agents": 20}},
		"off":          {"limits = 'relaxed'", []string{"--limits=off"}, map[domain.LimitName]int{"reads": 0, "posts": 0, "mails": 200}},
		"single":       {"[limits]\nreads = 7\nposts-unverified = 0", nil, map[domain.LimitName]int{"reads": 7, "posts_unverified": 0, "calls": 0}},
		"single, off":  {"[limits]\nreads = 7", []string{"--limits=off"}, map[domain.LimitName]int{"reads": 7, "calls": 0}},
		"with factor":  {"[limits]\nfactor = 'strict'\nreads = 7\nmails = 20", nil, map[domain.LimitName]int{"reads": 7, "calls": 60, "mails": 20}},
		"factor, flag": {"[limits]\nfactor = 'strict'", []string{"--limits=normal"}, map[domain.LimitName]int{"calls": 120}},
	} {
		c, err := parseServe(t, tt.config, tt.args...)
		testkit.NoError(t, err)
		got := c.numbers()
		for limit, want := range tt.want {
			if got[limit] != want {
				t.Errorf("%s: %s is %d, want %d", name, limit, got[limit], want)
			}
		}
		if caps := c.mailCaps(); caps.Site != got[domain.LimitMails] {
			t.Errorf("%s: %d mails", name, caps.Site)
		}
	}
}

// parseServe parses the flags of callbook serve, with the text of a file of settings unless it is empty.
func parseServe(t testing.TB, config string, args ...string) (*serveCommand, error) {
	t.Helper()
	var c commands
	file := &configFile{}
	parser, err := kong.New(&c,
		kong.DefaultEnvars("CALLBOOK"),
		kong.Resolvers(kong.ResolverFunc(file.resolve)),
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
		kong.Bind(file),
		kong.Writers(io.Discard, io.Discard),
	)
	testkit.NoError(t, err)
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

// TestSecrets_OthersCanReadFile holds promise 20 of SECURITY.md.
func TestSecrets_OthersCanReadFile(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		return write(t, filepath.Join(folder, name), text, mode)
	}
	const password = "smtp://somebody:secret@mail.example.org"
	open, private, group := file("open", password, 0o644), file("private", password, 0o600), file("group", password, 0o640)
	const alerts = "https://ntfy.example.org/topic"
	settings, alerting := file("settings", "mail = '"+password+"'", 0o644), file("alerting", "alert-url = '"+alerts+"'", 0o644)
	if info, err := os.Stat(open); err != nil || info.Mode().Perm() != 0o644 {
		t.Skip("this system has no such permissions")
	}
	for _, tt := range []struct {
		name string
		set  func(*serveCommand)
		want []string
	}{
		{"none", func(*serveCommand) {}, nil},
		{"private ones", func(c *serveCommand) { c.MailFile, c.SecretFile = private, group }, nil},
		{"the mail setting", func(c *serveCommand) { c.MailFile = open }, []string{open}},
		{"the secret", func(c *serveCommand) { c.SecretFile = open }, []string{open}},
		{"settings with a password", func(c *serveCommand) { c.Config, c.Mail = settings, password }, []string{settings}},
		{"settings without one", func(c *serveCommand) { c.Config, c.Mail = settings, "log:" }, nil},
		{"a password from elsewhere", func(c *serveCommand) { c.Config, c.Mail = settings, password+":26" }, nil},
		{"the secret of alerts", func(c *serveCommand) { c.AlertSecretFile = open }, []string{open}},
		{"settings with the URL of alerts", func(c *serveCommand) { c.Config, c.AlertURL = alerting, alerts }, []string{alerting}},
		{"settings without it", func(c *serveCommand) { c.Config = alerting }, nil},
		{"a missing file", func(c *serveCommand) { c.MailFile = filepath.Join(folder, "none") }, nil},
	} {
		c := &serveCommand{}
		tt.set(c)
		if got := c.exposedSecrets(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSecretFile_Read holds promise 21 of SECURITY.md.
func TestSecretFile_Read(t *testing.T) {
	folder := t.TempDir()
	for name, tt := range map[string]struct{ text, want, err string }{
		"long":  {" " + strings.Repeat("k", 32) + "\n", strings.Repeat("k", 32), ""},
		"short": {strings.Repeat("k", 31) + "\n", "", "at least 32 characters"},
		"empty": {"", "", "at least 32 characters"},
	} {
		c := &serveCommand{SecretFile: write(t, filepath.Join(folder, name), tt.text, 0o600)}
		secret, err := c.secret()
		if string(secret) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v", name, secret, err)
		}
	}
	if _, err := (&serveCommand{SecretFile: filepath.Join(folder, "none")}).secret(); err == nil {
		t.Error("a missing file is no error")
	}
}
