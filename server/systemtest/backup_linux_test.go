package systemtest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestBackup_SyncsBeforeRename checks that a copy is synced before it gets its name, and its folder afterwards: a
// power cut must leave neither a name without a database nor a database without its name.
func TestBackup_SyncsBeforeRename(t *testing.T) {
	t.Parallel()
	needStrace(t)
	folder := t.TempDir()
	db, copied := filepath.Join(folder, "callbook.db"), filepath.Join(folder, "copy.db")
	p := spawn(t, db)
	p.tryRegister("harbour-pilot")
	p.stopCleanly()
	for _, args := range [][]string{{"backup", copied, "--db", db}, {"restore", copied, "--db", db}} {
		trace := filepath.Join(t.TempDir(), "trace")
		p := newProcessVia(t, func(self string) *exec.Cmd {
			return exec.Command("strace", append([]string{"-f", "-qq", "-y", "-o", trace, "-e", "signal=none", "-e", "trace=fsync,?link,linkat,?rename,renameat,renameat2", self}, args...)...)
		})
		if status := p.wait(); status != 0 {
			t.Fatalf("%s ended with %d: %s", args[0], status, p.err)
		}
		text := readFile(t, trace)
		// The draft's own sync, its name, the folder's sync.
		name := map[string]string{"backup": "copy", "restore": "callbook"}[args[0]] + `\.db`
		draft := regexp.QuoteMeta(folder) + `/\.` + name + `[.\w]*`
		want := regexp.MustCompile(`(?s)fsync\(\d+<` + draft + `>\).*(link|rename)\w*\([^\n]*` + draft + `"[^\n]*/` + name + `".*fsync\(\d+<` + regexp.QuoteMeta(folder) + `>\)`)
		if !want.Match(text) {
			t.Errorf("%s:\n%s", args[0], text)
		}
	}
}
