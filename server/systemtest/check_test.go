package systemtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestCheck_ReportsProblems covers each problem that operators meet, with its remedy.
func TestCheck_ReportsProblems(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	whole := filepath.Join(folder, "whole.db")
	p := startServe(t, whole)
	key := p.register("tide-reader")
	p.object("POST", "/api/me/verify", "", "Authorization: Bearer "+key)
	for copies, want := range map[string]string{"none though the service runs": "there is none in", "some": "the newest is of"} {
		folder := t.TempDir()
		if copies == "some" {
			writeFile(t, filepath.Join(folder, time.Now().UTC().Format("callbook-20060102T150405Z.db")), nil)
		}
		if _, printed := runCommandMerged("check", "--db", whole, "--backup-dir", folder); !strings.Contains(printed, want) {
			t.Errorf("backups, %s: %s", copies, printed)
		}
	}
	if status, printed := runCommandMerged("check", "--db", whole); status != 0 || !regexp.MustCompile(`(?m)^ok +process +another process serves this database \(process \d+\)$`).MatchString(printed) || !strings.Contains(printed, "1 agents") {
		t.Errorf("while it is served: %d, %s", status, printed)
	}
	p.stop()
	data := readFile(t, whole)
	file := func(name string, data []byte, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		writeFile(t, path, data)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	damaged := append([]byte(nil), data...)
	for at := 40960; at < len(damaged)-4096; at += 8192 {
		copy(damaged[at:], strings.Repeat("\xa5", 4096))
	}
	proxied := file("proxied.db", data, 0o600)
	execDatabase(t, proxied, `INSERT INTO site (name, value) VALUES ('untrusted_proxy_at', CAST(? AS BLOB))`, fmt.Sprint(time.Now().UnixMilli()))
	linked := file("linked.db", data, 0o600)
	if err := os.Link(linked, linked+".old"); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const free = "--addr=127.0.0.1:0"
	oneAddress := freeAddress(t)
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"nothing yet", []string{free, "--db", filepath.Join(folder, "new.db")}, 0, "there is no database yet"},
		{"whole", []string{free, "--db", whole}, 0, "1 agents"},
		{"damaged", []string{free, "--db", file("damaged.db", damaged, 0o600)}, 1, "callbook restore COPY"},
		{"no database", []string{free, "--db", file("text.db", []byte(strings.Repeat("text ", 1000)), 0o600)}, 1, "ERROR database"},
		{"open to others", []string{free, "--db", file("open.db", data, 0o644)}, 1, "chmod 600"},
		{"no folder", []string{free, "--db", filepath.Join(folder, "none", "callbook.db")}, 1, "its folder is not there"},
		{"gone", []string{free, "--db", strings.TrimSuffix(file("gone.db.lock", nil, 0o600), ".lock")}, 1, "restore a backup"},
		{"address in use", []string{"--addr", taken.Addr().String(), "--db", whole}, 1, "give another --addr"},
		{"metrics where somebody is", []string{free, "--metrics-addr", taken.Addr().String(), "--db", whole}, 1, "give another --metrics-addr"},
		{"two on one address", []string{"--addr", oneAddress, "--metrics-addr", oneAddress, "--db", whole}, 1, "give another --metrics-addr"},
		{"metrics for other machines", []string{free, "--metrics-addr", "0.0.0.0:0", "--db", whole}, 0, "note metrics other machines may reach 0.0.0.0:0"},
		{"a setting for a file's name", []string{free, "--db", whole, "--mail-file", "smtp://somebody:hunter2@mail.example.org"}, 64, "takes the name of a file"},
		{"no mail server", []string{free, "--db", whole, "--mail", "smtp://somebody:hunter2@" + freeAddress(t), "--mail-from", "a@b.example.org"}, 1, "ERROR mail"},
		{"mails switched off", []string{free, "--db", whole, "--mail", "off"}, 0, "no mailbox can be verified"},
		{"mails into a folder", []string{free, "--db", whole, "--mail", "dir:" + folder}, 0, "ready to send mails"},
		{"mails left", []string{free, "--db", whole, "--limits", "normal"}, 0, "99 of 100 mails a day for verifications are left"},
		{"mails spent", []string{free, "--db", whole, "--config", newSettingsFile(t, "[limits]\nmails = 2")}, 0, "all 1 mails a day for verifications are sent"},
		{"no limit of mails", []string{free, "--db", whole, "--config", newSettingsFile(t, "[limits]\nmails = 0")}, 0, "ok disk"},
		{"no copy yet", []string{free, "--db", whole, "--backup-dir", t.TempDir()}, 0, "there is none yet in"},
		{"old copies", []string{free, "--db", whole, "--backup-dir", filepath.Dir(file("callbook-20200131T000000Z.db", nil, 0o600))}, 1, "the newest is of 2020-01-31"},
		{"http in the open", []string{free, "--db", whole, "--base-url", "http://directory.example.org"}, 0, "without https"},
		{"a proxy that is not trusted", []string{free, "--db", proxied}, 1, "ERROR proxy"},
		{"a proxy that is trusted by now", []string{free, "--db", proxied, "--trusted-proxy", "127.0.0.1"}, 0, "1 agents"},
		{"https by a proxy", []string{free, "--db", whole, "--base-url", "https://directory.example.org"}, 0, "note proxy"},
		{"a password for everybody", []string{free, "--db", whole, "--mail-file", file("mail", []byte("log:"), 0o644)}, 1, "ERROR secrets"},
		{"a secret for everybody", []string{free, "--db", whole, "--secret-file", file("key", []byte(strings.Repeat("k", 32)), 0o604)}, 1, "chmod o-r"},
		{"a short secret", []string{free, "--db", whole, "--secret-file", file("short", []byte("k"), 0o600)}, 64, "at least 32 characters"},
		{"no alerts", []string{free, "--db", whole}, 0, "note alerts off"},
		{"a test without alerts", []string{free, "--db", whole, "--test-alert"}, 1, "ERROR alerts no test is sent"},
		{"no receiver of alerts", []string{free, "--db", whole, "--test-alert", "--alert-url", "https://hunter2@" + freeAddress(t) + "/hunter2"}, 1, "does not accept the test: dial"},
		{"alerts without encryption", []string{free, "--db", whole, "--alert-url", "http://ntfy.example.org/hunter2"}, 64, "--alert-url: give an https URL"},
		{"a secret of alerts for everybody", []string{free, "--db", whole, "--alert-url", "https://ntfy.example.org/hunter2", "--alert-secret-file", file("alerts", []byte(alertSecret), 0o604)}, 1, "chmod o-r"},
		{"a wrong secret of alerts", []string{free, "--db", whole, "--alert-url", "https://ntfy.example.org/hunter2", "--alert-secret-file", file("wrong", []byte("hunter2"), 0o600)}, 64, "--alert-secret-file: the secret must be whsec_"},
		{"two names", []string{free, "--db", linked}, 1, "hard links"},
		{"no host of that name", []string{free, "--db", whole, "--mail", "smtp://mail.invalid", "--mail-from", "a@b.example.org"}, 1, `"mail.invalid"`},
		{"limits off", []string{free, "--db", whole, "--limits", "off"}, 0, "for tests and private networks only"},
	} {
		status, printed := runCommandMerged(append([]string{"check"}, tt.args...)...)
		if status != tt.status || !strings.Contains(strings.Join(strings.Fields(printed), " "), tt.want) {
			t.Errorf("%s: %d, want %d with %q:\n%s", tt.name, status, tt.status, tt.want, printed)
		}
		if strings.Contains(printed, "hunter2") {
			t.Errorf("%s: the password is printed: %s", tt.name, printed)
		}
	}
}

// TestCheck_ReportsMissingAuthorities runs on a system without certificates of authorities, such as an empty container.
func TestCheck_ReportsMissingAuthorities(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the system verifies certificates itself: run this on Linux; SSL_CERT_FILE has no effect here")
	}
	command := exec.Command(os.Args[0], "check", "--addr=127.0.0.1:0", "--db", newDB(t))
	command.Env = append(os.Environ(), asProgram+"=1", "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
	printed, err := command.CombinedOutput()
	if want := "install the package ca-certificates"; err != nil || !strings.Contains(string(printed), want) {
		t.Errorf("%v; want %q in:\n%s", err, want, printed)
	}
}
