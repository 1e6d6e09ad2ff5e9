package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"callbook/testdata/proof"
)

// unit returns the output of callbook unit.
func unit(t testing.TB, args ...string) string {
	t.Helper()
	status, text, errors := runCommand(append([]string{"unit"}, args...)...)
	if status != 0 || errors != "" {
		t.Fatalf("status %d: %s", status, errors)
	}
	return text
}

// runSystemdAnalyze runs systemd-analyze on a unit, with this program in place of the installed one.
func runSystemdAnalyze(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, args := range map[string][]string{"callbook.service": nil, "callbook.socket": {"--socket"}} {
		text := strings.ReplaceAll(unit(t, args...), "/usr/local/bin/callbook", program)
		writeFile(t, filepath.Join(folder, name), []byte(text))
	}
	out, err := exec.Command("systemd-analyze", append(args, filepath.Join(folder, name))...).CombinedOutput()
	return string(out), err
}

func TestUnit_PassesSystemdVerify(t *testing.T) {
	for _, name := range []string{"callbook.service", "callbook.socket"} {
		// It prints what it finds wrong with a unit, and often succeeds nevertheless.
		if out, err := runSystemdAnalyze(t, name, "verify", "--man=no"); err != nil || strings.Contains(out, name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestUnit_IsConfined(t *testing.T) {
	out, err := runSystemdAnalyze(t, "callbook.service", "security", "--no-pager", "--offline=true", "--threshold=15")
	if err != nil {
		t.Errorf("more than 1.5 of 10 is exposed: %v\n%s", err, out)
	}
	if found := regexp.MustCompile(`exposure level.*: (\d)\.(\d)`).FindStringSubmatch(out); found != nil {
		tenths, _ := strconv.Atoi(found[1] + found[2]) // two digits
		proof.Figure(t, "tenths exposed", tenths)
	}
}

// TestUnit_RestartSettings checks that failures are restarted, but not those that need an operator.
func TestUnit_RestartSettings(t *testing.T) {
	text := unit(t)
	for line := range strings.FieldsSeq("Restart=on-failure Type=notify NotifyAccess=main StartLimitBurst=180 StartLimitIntervalSec=1h RestartSec=10") {
		name, _, _ := strings.Cut(line, "=")
		if !strings.Contains(text, "\n"+line+"\n") || strings.Count(text, "\n"+name+"=") != 1 {
			t.Errorf("the unit does not say %s once", line)
		}
	}
}

func TestUnit_CommandLineWorks(t *testing.T) {
	const file = "/etc/callbook.toml"
	_, line, found := strings.Cut(unit(t), "\nExecStart=/usr/local/bin/callbook ")
	line, _, _ = strings.Cut(line, "\n")
	if !found || strings.Count(line, file) != 1 {
		t.Fatalf("the command is %q", line)
	}
	db := newDB(t)
	settings := newSettingsFile(t, "addr = \"127.0.0.1:0\"\ndb = '"+db+"'\n")
	if status, body := start(t, strings.Fields(strings.Replace(line, file, settings, 1))...).call("GET", "/readyz", ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
