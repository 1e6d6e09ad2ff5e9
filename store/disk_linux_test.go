package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
)

// TestStore_KeepsSQLitesLocks: the system takes away all locks that a process holds
// on a file as soon as it closes that file, however often it has it open.
func TestStore_KeepsSQLitesLocks(t *testing.T) {
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Skip("the system does not tell of locks:", err)
	}
	s := newStore(t)
	s.fill()
	reading, err := s.connection("ro").Beginx() // holds a lock for as long as it lasts
	s.ok(err)
	var n int
	s.ok(reading.Get(&n, `SELECT COUNT(*) FROM site`))
	ctx, folder := context.Background(), t.TempDir()
	want := s.locks()
	if all := strings.Join(want, "\n"); !strings.HasPrefix(all, ": READ") || !strings.Contains(all, "-shm: READ") {
		t.Fatalf("held: %q", want)
	}
	for _, tt := range []struct {
		name string
		act  func() error
	}{
		{"a backup", func() error { _, err := MakeBackup(ctx, s.path, filepath.Join(folder, "copy.db")); return err }},
		{"a backup that is refused", func() error {
			if _, err := MakeBackup(ctx, s.path, s.path+"-wal"); err == nil {
				return errors.New("it is made")
			}
			return nil
		}},
		{"a scheduled backup", func() error {
			return errOf3(BackupSchedule{Path: s.path, Folder: folder, Every: time.Hour, Keep: 1}.Run(ctx, s.Now()))
		}},
		{"readiness", func() error { _, err := s.Ready(ctx); return err }},
		{"figures", func() error { _, err := s.Figures(ctx); return err }},
		{"the disk", func() error { _, err := s.Disk(); return err }},
		{"a check of the whole", func() error { return s.CheckFile(ctx) }},
		{"an examination", func() error { _, err := VerifyFile(ctx, s.path, false); return err }},
		{"the operator's acts beside it", func() error {
			beside, err := Open(ctx, Options{Path: s.path, Beside: true, Normal: true})
			if err != nil {
				return err
			}
			return errors.Join(beside.Suspend(ctx, "crowd-0", "r", time.Time{}), beside.Close())
		}},
		{"a restore of it elsewhere", func() error {
			_, _, err := RestoreBackup(ctx, s.path, filepath.Join(folder, "other.db"), time.Now())
			return err
		}},
		{"what is due", func() error { return s.RunJobs(ctx) }},
	} {
		if err := tt.act(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := s.locks(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: held before: %q; after: %q", tt.name, want, got)
		}
	}
	s.ok(reading.Rollback())
}

// locks are this process's POSIX locks on the database's files that last, as the
// system tells them. While it tells them, others of the machine come and go, so that
// it may tell one twice or leave one out: two readings have to agree.
func (s *testStore) locks() (held []string) {
	s.Helper()
	s.ok(s.db.Exclusive(context.Background(), func(*sqlx.Conn) error { return nil })) // a checkpoint may follow the last write
	for before := []string(nil); before == nil || !slices.Equal(before, held); {
		before, held = held, []string{}
		text, err := os.ReadFile("/proc/locks")
		s.ok(err)
		for _, suffix := range []string{"", "-shm"} {
			info, err := os.Stat(s.path + suffix)
			s.ok(err)
			of := regexp.MustCompile(fmt.Sprintf(`(?m)POSIX .* (\w+) %d \S+:%d (\d+ \d+)$`, os.Getpid(), info.Sys().(*syscall.Stat_t).Ino))
			for _, lock := range of.FindAllSubmatch(text, -1) {
				if told := fmt.Sprintf("%s: %s %s", suffix, lock[1], lock[2]); !slices.Contains(held, told) { // a process has none twice
					held = append(held, told)
				}
			}
		}
	}
	return held
}
