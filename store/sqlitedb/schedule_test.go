package sqlitedb

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

// backup is how the tests' schedules make a copy.
func backup(ctx context.Context, path, to string) error {
	_, err := Backup(ctx, path, to, testFormat)
	return err
}

func TestSchedule_MakesCopiesByTheClock(t *testing.T) {
	d := newDB(t)
	d.add("tide-reader")
	ctx := context.Background()
	b := Schedule{Path: d.path, Folder: t.TempDir(), Every: day, Keep: 3}
	d.ok(os.WriteFile(filepath.Join(b.Folder, "notes.txt"), nil, 0o600))
	begun := testStart
	for _, tt := range []struct {
		at   time.Duration
		made bool
		left []string
	}{
		{0, true, []string{"20"}},
		{23 * time.Hour, false, []string{"20"}},
		{day, true, []string{"20", "21"}},
		{2 * day, true, []string{"20", "21", "22"}},
		{3 * day, true, []string{"21", "22", "23"}},
		{9 * day, true, []string{"22", "23", "29"}},
		{4 * day, true, []string{"22", "23", "24", "29"}}, // the clock goes back: what is to come is let be
		{4*day + time.Hour, false, []string{"22", "23", "24", "29"}},
		{5 * day, true, []string{"23", "24", "25", "29"}},
	} {
		n := 0
		name, err := b.Run(ctx, begun.Add(tt.at), func(ctx context.Context, path, to string) error {
			_, err := Backup(ctx, path, to, counting(&n))
			return err
		})
		if err != nil || (name != "") != tt.made || tt.made && n != 1 {
			t.Errorf("after %s: %q, %d words, %v", tt.at, name, n, err)
		}
		made, err := b.list(begun.Add(365 * day))
		d.ok(err)
		var left []string
		for _, at := range made {
			left = append(left, at.Format("02"))
		}
		if !slices.Equal(left, tt.left) {
			t.Errorf("after %s: there are %q, want %q", tt.at, left, tt.left)
		}
	}
	if missing(filepath.Join(b.Folder, "notes.txt")) {
		t.Error("what is no copy is gone")
	}
}

// TestSchedule_KeepsGoodCopiesOfDamagedDatabase: once the database cannot be copied any more, the last
// good copies stay.
func TestSchedule_KeepsGoodCopiesOfDamagedDatabase(t *testing.T) {
	d := newDB(t)
	b := Schedule{Path: d.path, Folder: t.TempDir(), Every: day, Keep: 1}
	name, err := b.Run(context.Background(), testStart, backup)
	d.ok(err)
	d.stop()
	d.ok(os.WriteFile(d.path, []byte(strings.Repeat("no database ", 10000)), 0o600))
	if again, err := b.Run(context.Background(), testStart.Add(day), backup); err == nil || again != "" {
		t.Errorf("a copy of what is none: %q", again)
	}
	if entries, _ := os.ReadDir(b.Folder); len(entries) != 1 || missing(name) {
		t.Errorf("left: %v", entries)
	}
}

// TestSchedule_RemovesUnfinishedCopies: a killed program leaves a draft.
func TestSchedule_RemovesUnfinishedCopies(t *testing.T) {
	d := newDB(t)
	b := Schedule{Path: d.path, Folder: t.TempDir(), Every: day, Keep: 1}
	for _, name := range []string{".callbook-20261119T093000Z.db.123", ".callbook-20261119T093000Z.db.123-journal"} {
		d.ok(os.WriteFile(filepath.Join(b.Folder, name), nil, 0o600))
	}
	_, err := b.Run(context.Background(), testStart, backup)
	d.ok(err)
	if left, _ := os.ReadDir(b.Folder); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestSchedule_RemovesOnlyItsOwnDrafts: another copy that is being made into the same
// folder stays, whatever its name and the folder'd.
func TestSchedule_RemovesOnlyItsOwnDrafts(t *testing.T) {
	d := newDB(t)
	folder := filepath.Join(t.TempDir(), "copies[of 2026")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{
		".callbook-20261119T093000Z.db.123": false, ".callbook-before-upgrade.db.123": true, ".callbook-.db.1": true,
		"callbook-notes.db.1": true, ".callbook-20261119T093000Z.db": true,
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Schedule{Path: d.path, Folder: folder, Every: day, Keep: 2}).Run(t.Context(), testStart, backup); err != nil {
			t.Fatal(err)
		}
		if missing(path) == stays {
			t.Errorf("%s: missing %v", name, missing(path))
		}
	}
}

// TestSchedule_IgnoresCopyFromTheFuture: a clock ran ahead when it was made.
func TestSchedule_IgnoresCopyFromTheFuture(t *testing.T) {
	folder, now := t.TempDir(), time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	b := Schedule{Folder: folder}
	for _, name := range []string{"callbook-20990101T000000Z.db", "callbook-20261119T093000Z.db"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newest, err := b.Newest(now)
	if err != nil || !newest.Equal(now.Add(-day)) || b.NewestName(now) != filepath.Join(folder, "callbook-20261119T093000Z.db") {
		t.Errorf("%v, %s, %v", newest, b.NewestName(now), err)
	}
}
