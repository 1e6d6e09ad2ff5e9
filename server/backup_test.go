package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// TestJobs_MakeBackupsOnSchedule: by its clock, and not again and again where it fails.
func TestJobs_MakeBackupsOnSchedule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "callbook.db")
	s := newSite(t, func(o *siteOptions) { o.path = path })
	s.agent("tide-reader")
	folder := filepath.Join(t.TempDir(), "copies")
	s.server.options.Backups = sqlitedb.Schedule{Path: path, Folder: folder, Every: domain.Day, Keep: 7}
	copies := func(want int) {
		t.Helper()
		if entries, _ := os.ReadDir(folder); len(entries) != want {
			t.Errorf("there are %d copies, want %d", len(entries), want)
		}
	}
	if err := s.server.RunDue(t.Context()); err == nil {
		t.Error("it does not tell that the folder is missing")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 0}, {backupRetry, 1}, {time.Hour, 1}, {domain.Day, 2}} {
		s.clock.Advance(step.later)
		if err := s.server.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		copies(step.want)
	}
	if strings.Count(s.log.String(), "a backup is made") != 2 {
		t.Errorf("the log: %s", s.log)
	}
}
