package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/sqlitedb"
	"callbook/testdata/proof"
)

// restored opens what a backup brings back, in another place.
func restored(t testing.TB, name string) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "restored.db")
	if _, _, err := RestoreBackup(context.Background(), name, path, time.Now()); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Path: path, Normal: true})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestBackup_ContainsAllConfirmedWrites takes backups while others write: each
// holds every write that was answered before it began.
func TestBackup_ContainsAllConfirmedWrites(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var answered [4]atomic.Int64
	turns, done := make(chan struct{}), make(chan struct{}) // so many writes a backup that the file stays small
	for w := range answered {
		author, _ := s.register(fmt.Sprintf("writer-%d", w))
		go func() {
			defer func() { done <- struct{}{} }()
			i := int64(0)
			for range turns {
				i++
				draft := domain.PostDraft{Kind: "seeking", Title: fmt.Sprintf("%d of %d", i, w), Body: "Tide levels."}
				if _, _, err := s.CreatePost(context.Background(), author, draft, domain.IdempotencyKey{}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				answered[w].Store(i)
			}
		}()
	}
	rounds := proof.Rounds(20, 200, 200)
	if proof.RaceDetector() || testing.Short() {
		rounds = 20
	}
	folder, meanwhile := t.TempDir(), int64(0)
	for i := range rounds {
		var least [len(answered)]int64
		for w := range answered {
			least[w] = answered[w].Load()
		}
		name := filepath.Join(folder, fmt.Sprintf("%d.db", i))
		go func() {
			pace := time.NewTicker(time.Millisecond) // a backup takes ten or more
			defer pace.Stop()
			for range 20 {
				turns <- struct{}{}
				<-pace.C
			}
			done <- struct{}{}
		}()
		contents, err := MakeBackup(context.Background(), s.path, name)
		for w := range answered {
			meanwhile += answered[w].Load()
		}
		if err != nil {
			t.Fatalf("backup %d: %v", i, err)
		}
		meanwhile -= int64(contents.Posts) // those in the copy may have been answered before it was made
		t.Run(fmt.Sprint(i), func(t *testing.T) { holdsAll(t, restored(t, name), least[:]) })
		s.ok(os.Remove(name))
		<-done
	}
	close(turns)
	for range answered {
		<-done
	}
	if meanwhile < int64(rounds) {
		t.Errorf("%d writes were answered while %d copies were made and checked", meanwhile, rounds)
	}
	proof.Figure(t, "backups", rounds)
	proof.Figure(t, "writes meanwhile", int(meanwhile))
}

// holdsAll: each writer's calls up to that number are there, and can be found.
func holdsAll(t testing.TB, s *Store, least []int64) {
	t.Helper()
	for w, want := range least {
		list, err := s.Posts(context.Background(), domain.PostFilter{Author: fmt.Sprintf("writer-%d", w)}, listing.Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		if len(list.Items) > 0 {
			_, _ = fmt.Sscan(list.Items[0].Title, &got)
		}
		var count int64
		if err := s.db.Get(context.Background(), &count, ofTest+`
			SELECT COUNT(*) FROM posts WHERE title LIKE ?`, fmt.Sprintf("%% of %d", w)); err != nil {
			t.Fatal(err)
		}
		if got < want || count != got {
			t.Errorf("of writer %d the newest call is %d and %d are there; %d were answered", w, got, count, want)
		}
	}
}

// scheduleStart is when tests begin.
var scheduleStart = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// newSchedule returns the schedule of a new database, with an empty folder.
func newSchedule(t testing.TB, keep int) BackupSchedule {
	t.Helper()
	b := BackupSchedule{Path: filepath.Join(t.TempDir(), "callbook.db"), Folder: t.TempDir(), Every: domain.Day, Keep: keep}
	db, err := sqlitedb.Open(t.Context(), sqlitedb.Options{
		Path: b.Path, Format: Format, Normal: true,
		Hooks: sqlitedb.Hooks{
			Begin: func(*sqlitedb.Tx) {}, BeforeCommit: func() error { return nil }, Committed: func() {}, Invalidate: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

// write writes a file into the folder.
func (b BackupSchedule) write(t testing.TB, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.Folder, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// files returns the names of the files in the folder, sorted.
func (b BackupSchedule) files(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(b.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestSchedule_MakesBackupsByTheClock(t *testing.T) {
	const day = domain.Day
	b := newSchedule(t, 3)
	b.write(t, "notes.txt")
	for _, tt := range []struct {
		at   time.Duration
		made bool
		left []string // days of November
	}{
		{0, true, []string{"20"}},
		{23 * time.Hour, false, []string{"20"}},
		{day, true, []string{"20", "21"}},
		{2 * day, true, []string{"20", "21", "22"}},
		{3 * day, true, []string{"21", "22", "23"}},
		{9 * day, true, []string{"22", "23", "29"}},
		{4 * day, true, []string{"22", "23", "24", "29"}}, // the clock goes back: backups from the future stay
		{4*day + time.Hour, false, []string{"22", "23", "24", "29"}},
		{5 * day, true, []string{"23", "24", "25", "29"}},
	} {
		name, contents, err := b.Run(t.Context(), scheduleStart.Add(tt.at))
		if err != nil || (name != "") != tt.made || (contents.Schema > 0) != tt.made {
			t.Errorf("after %s: %q, %+v, %v", tt.at, name, contents, err)
		}
		want := []string{"notes.txt"} // stays
		for _, date := range tt.left {
			want = append(want, "callbook-202611"+date+"T093000Z.db")
		}
		slices.Sort(want)
		if left := b.files(t); !slices.Equal(left, want) {
			t.Errorf("after %s: there are %q, want %q", tt.at, left, want)
		}
	}
}

func TestSchedule_KeepsGoodBackupsOfDamagedDatabase(t *testing.T) {
	b := newSchedule(t, 1)
	name, _, err := b.Run(t.Context(), scheduleStart)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.Path, []byte(strings.Repeat("no database ", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if second, _, err := b.Run(t.Context(), scheduleStart.Add(domain.Day)); err == nil || second != "" {
		t.Errorf("a backup of a damaged database: %q, %v", second, err)
	}
	if left := b.files(t); !slices.Equal(left, []string{filepath.Base(name)}) {
		t.Errorf("left: %q", left)
	}
}

// TestSchedule_RemovesOnlyItsOwnDrafts: a killed program leaves drafts; another backup that is made into
// the same folder stays, whatever the names of both.
func TestSchedule_RemovesOnlyItsOwnDrafts(t *testing.T) {
	b := newSchedule(t, 2)
	b.Folder = filepath.Join(b.Folder, "copies[of 2026")
	if err := os.Mkdir(b.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{
		".callbook-20261119T093000Z.db.123": false, ".callbook-20261119T093000Z.db.123-journal": false,
		".callbook-before-upgrade.db.123": true, ".callbook-.db.1": true,
		"callbook-notes.db.1": true, ".callbook-20261119T093000Z.db": true,
	} {
		b.write(t, name)
		if _, _, err := b.Run(t.Context(), scheduleStart); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(b.files(t), name) != stays {
			t.Errorf("%s stays: %v, want %v", name, !stays, stays)
		}
	}
}

// TestSchedule_IgnoresBackupFromTheFuture: it was made while the clock ran ahead.
func TestSchedule_IgnoresBackupFromTheFuture(t *testing.T) {
	b := BackupSchedule{Folder: t.TempDir()}
	b.write(t, "callbook-20990101T000000Z.db")
	b.write(t, "callbook-20261119T093000Z.db")
	name, made, err := b.Newest(scheduleStart)
	if err != nil || !made.Equal(scheduleStart.Add(-domain.Day)) || name != filepath.Join(b.Folder, "callbook-20261119T093000Z.db") {
		t.Errorf("%s, %v, %v", name, made, err)
	}
}

func TestSchedule_OwnsBackupsBehindLinks(t *testing.T) {
	b := BackupSchedule{Folder: t.TempDir()}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(b.nameAt(scheduleStart), link); err != nil {
		t.Skip("symbolic links cannot be made here:", err)
	}
	for path, want := range map[string]bool{b.nameAt(scheduleStart): true, link: true, filepath.Join(b.Folder, "callbook.db"): false} {
		if got := b.Owns(path); got != want {
			t.Errorf("%s is a backup: %v, want %v", path, got, want)
		}
	}
}
