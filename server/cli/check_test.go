package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck_PrintsJSON: one object with what the lines say, also for settings that are wrong.
func TestCheck_PrintsJSON(t *testing.T) {
	db := "--db=" + filepath.Join(t.TempDir(), "callbook.db")
	for name, tt := range map[string]struct {
		args                  []string
		status, problems      int
		verdict, subject, has string
	}{
		"no problem":     {[]string{"--addr=127.0.0.1:0"}, 0, 0, "note", "mail", "log only"},
		"a problem":      {[]string{"--addr=127.0.0.1:0", "--mail=smtp://u:hunter2@127.0.0.1:1", "--mail-from=a@example.org"}, statusFailed, 1, "error", "mail", "correct --mail"},
		"wrong settings": {[]string{"--addr=weather"}, statusUsage, 1, "error", "settings", "weather is not an address"},
	} {
		status, out, errors := helped(t, append([]string{"check", "--json", db}, tt.args...)...)
		var got findings
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		found := 0
		for _, f := range got.Findings {
			if f.Verdict == tt.verdict && f.Subject == tt.subject && strings.Contains(f.Text, tt.has) {
				found++
			}
		}
		if status != tt.status || got.Problems != tt.problems || found != 1 || got.Settings["CALLBOOK_LOG"] != "text" || strings.Contains(out+errors, "hunter2") {
			t.Errorf("%s: status %d, %+v, %s", name, status, got, errors)
		}
		if _, lines, _ := helped(t, append([]string{"check", db}, tt.args...)...); status != statusUsage && strings.Count(lines, "\n") != len(got.Settings)+1+len(got.Findings) {
			t.Errorf("%s: %d settings and %d findings, but the lines are\n%s", name, len(got.Settings), len(got.Findings), lines)
		}
	}
}
