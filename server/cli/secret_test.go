package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAbuse20_SecretsThatOthersCanRead(t *testing.T) {
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

func TestAbuse21_SecretFile(t *testing.T) {
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
