package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"callbook/testdata/testkit"
)

// FuzzConfig reads settings files with a password in them: each is taken, or rejected with
// words that do not hold it.
func FuzzConfig(f *testing.F) {
	const password = "hunter2"
	f.Setenv("CALLBOOK_FUZZED", "x") // so that nothing runs, and no file is opened but this one
	path := filepath.Join(f.TempDir(), "callbook.toml")
	quotes := []struct{ open, end string }{
		{`"`, `"`}, {`'`, `'`}, {`"""`, `"""`}, {`'''`, `'''`}, {`["`, `"]`}, {`[["a"], ["`, `"]]`}, {`{ sink = "`, `" }`}, {`[{ sink = '`, `' }]`}, {`7, "`, `"`}, {``, ``},
	}
	for i, quote := range quotes {
		f.Add("", uint8(i), quote.end)
		f.Add("[limits]", uint8(i), quote.end+"\nreads = 7")
		f.Add("trusted-proxy = ['127.0.0.1']", uint8(i), quote.end+" # end")
		f.Add("limits = '''", uint8(i), "'''")
		f.Add("mail = 'off'", uint8(i), "")
	}
	for _, text := range []string{
		"base-ulr = 'x'", "help = true", "config = 'x'", "limits.reads = 99999999999999999999", "limits.reads = 0x7f", "limits.reads = 1_0", "limits.reads = -0.0e9", "limits.reads = nan", "limits = 7", "limits.factor = []", "backup-every = 07:32:00",
		"backup-every = 1979-05-27T07:32:00Z", "backup-every = '9999999h'", "backup-keep = 0b1", "max-size = '9EB'", "max-size = '-1'", "network-disk = 1", "domain = ['潮汐.example', 'xn--', '\U0001F30A']", "mcp-origin = [\n,]",
		"db = ''", "db = '~'", "mail-file = '\\u0000'", "db = \"\\uD800\"", "db = \"\\x\"", "a.b.c = 1\na.b = 2", "[a]\n[a]", "[[mail]]", "\"\" = 1", "'a b'.\"\\n\" = {}", "\ufeff", "\xff", "\x00", "#\r", strings.Repeat("[", 500), "a = " + strings.Repeat("[", 500), strings.Repeat("a.", 200) + "a = 1",
	} {
		f.Add(text, uint8(0), `"`)
		f.Add("", uint8(1), "'\n"+text)
	}
	f.Fuzz(func(t *testing.T, before string, quote uint8, after string) {
		text := before + "\nmail = " + quotes[int(quote)%len(quotes)].open + "smtp://callbook:" + password + "@mail.example.org" + after
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		status := Run(t.Context(), []string{"check", "--config", path}, nil, &out, &out)
		said := out.String()
		if status != statusUsage || !strings.HasPrefix(said, "callbook: ") {
			t.Errorf("%q: %d, %s", text, status, said)
		}
		values := map[string]any{}
		err := toml.Unmarshal([]byte(text), &values)
		if read := !strings.Contains(said, "read the settings in"); read != (err == nil) {
			t.Errorf("%q: %v, but %s", text, err, said)
		}
		isSecret := err != nil || strings.Contains(fmt.Sprint(values["mail"]), password) // else it is another setting
		if isSecret && !strings.Contains(before+after, password) && strings.Contains(said, password) {
			t.Errorf("%q: the password is told: %s", text, said)
		}
	})
}

// TestConfig_TheFileOfThePackagesWorks: as it is installed, and each example in it.
func TestConfig_TheFileOfThePackagesWorks(t *testing.T) {
	text, err := os.ReadFile("../../.release/package/callbook.toml")
	testkit.NoError(t, err)
	if c, err := parseServe(t, string(text)); err != nil || c.DB != "/var/lib/callbook/callbook.db" || c.BackupDir == "" || c.Addr != "127.0.0.1:8080" {
		t.Errorf("%v %+v", err, c)
	}
	c, err := parseServe(t, regexp.MustCompile(`(?m)^#([a-z-]+ = )`).ReplaceAllString(string(text), "$1"))
	if err != nil || len(c.Domain) != 1 || len(c.TrustedProxy) != 1 || c.MailFrom == "" || c.Contact == "" || c.MetricsAddr == "" {
		t.Errorf("%v %+v", err, c)
	}
}

func init() { systemConfig = "" } // tests do not depend on the machine

// withSystemConfig replaces the path of the file of settings of the machine.
func withSystemConfig(t testing.TB, path string) {
	t.Helper()
	before := systemConfig
	systemConfig = path
	t.Cleanup(func() { systemConfig = before })
}

// TestConfig_OfTheMachine: it is read unless another file is named, or none; callbook dev and the commands without settings
// ignore it.
func TestConfig_OfTheMachine(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string { return write(t, filepath.Join(folder, name), text, 0o600) }
	machine, other, wrong := file("machine", "backup-keep = 3"), file("other", "backup-keep = 4"), file("wrong", "weather = 1")
	for _, tt := range []struct {
		system, variable, args, want string
		status                       int
	}{
		{machine, "-", "check", "CALLBOOK_CONFIG=" + machine, 64},
		{machine, "-", "check", "CALLBOOK_BACKUP_KEEP=3", 64},
		{machine, "-", "check --backup-keep 5", "CALLBOOK_BACKUP_KEEP=5", 64},
		{machine, "-", "check --config " + other, "CALLBOOK_BACKUP_KEEP=4", 64},
		{machine, other, "check", "CALLBOOK_BACKUP_KEEP=4", 64},
		{machine, "", "check", "CALLBOOK_BACKUP_KEEP=7", 64},
		{machine, other, "check --config=", "CALLBOOK_BACKUP_KEEP=7", 64},
		{filepath.Join(folder, "none"), "-", "check", "CALLBOOK_BACKUP_KEEP=7", 64},
		{wrong, "-", "check", "wrong: unknown setting weather", 64},
		{wrong, "-", "admin reports", "wrong: unknown setting weather", 64},
		{wrong, "-", "dev --addr weather", "weather is not an address", 64},
		{wrong, "-", "version", "callbook ", 0},
	} {
		t.Run(tt.args+tt.variable, func(t *testing.T) {
			withSystemConfig(t, tt.system)
			if tt.variable != "-" {
				t.Setenv("CALLBOOK_CONFIG", tt.variable)
			}
			args := strings.Fields(tt.args)
			if args[0] == "check" {
				args = append(args, "--about", filepath.Join(folder, "missing")) // so that nothing is checked
			}
			if status, out, errors := helped(t, args...); status != tt.status || !strings.Contains(out+errors, tt.want) {
				t.Errorf("%d, want %d and %s:\n%s%s", status, tt.status, tt.want, out, errors)
			}
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		closed := write(t, filepath.Join(folder, "closed"), "", 0)
		if file, err := os.Open(closed); err == nil {
			_ = file.Close()
			t.Skip("this user may open every file: the tests run as root")
		}
		withSystemConfig(t, closed)
		if status, _, errors := helped(t, "check"); status != 64 || !strings.Contains(errors, "permission denied: run the command as root or the user of the service") {
			t.Errorf("%d %s", status, errors)
		}
	})
}
