package cli

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
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

// TestAbuse10_TheDatabaseMayTakeHalfOfTheFreeDisk: half of what would be free without it, so that the limit is the
// same at the next start, when the database has grown.
func TestAbuse10_TheDatabaseMayTakeHalfOfTheFreeDisk(t *testing.T) {
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
		noError(t, err)
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

// TestFlags_DefaultsAreThoseOfThePackages compares the numbers in the tags of the flags.
func TestFlags_DefaultsAreThoseOfThePackages(t *testing.T) {
	c, err := parseServe(t, "")
	noError(t, err)
	limits, quotas := c.limits()
	for name, same := range map[string]bool{
		"rate limits": maps.Equal(limits, server.DefaultLimits), "quotas": quotas == domain.DefaultQuotas,
		"mails": *c.caps() == domain.DefaultMailCaps, "agents of an owner": c.OwnerAgents == domain.DefaultOwnerAgents,
	} {
		if !same {
			t.Errorf("other %s", name)
		}
	}
}
