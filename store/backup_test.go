package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"callbook/testdata/proof"
)

// restored opens what a backup brings back, in another place.
func restored(t testing.TB, backup string) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "restored.db")
	if _, _, err := Restore(context.Background(), backup, path, time.Now()); err != nil {
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

// TestBackupsHoldAllThatWasAnsweredBefore takes backups while others write: each
// holds every write that was answered before it began.
func TestBackupsHoldAllThatWasAnsweredBefore(t *testing.T) {
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
				draft := PostDraft{Kind: "seeking", Title: fmt.Sprintf("%d of %d", i, w), Body: "Tide levels."}
				if _, _, err := s.CreatePost(context.Background(), author, draft, Once{}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				answered[w].Store(i)
			}
		}()
	}
	rounds := proof.Rounds(60, 200, 200)
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
		contents, err := Backup(context.Background(), s.path, name)
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
		list, err := s.Posts(context.Background(), PostFilter{Author: fmt.Sprintf("writer-%d", w)}, Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		if len(list.Items) > 0 {
			_, text, _ := strings.Cut(list.Items[0].Post, `"title":"`)
			_, _ = fmt.Sscan(text, &got)
		}
		var count int64
		if err := s.get(context.Background(), &count, `
			SELECT COUNT(*) FROM posts WHERE title LIKE ?`, fmt.Sprintf("%% of %d", w)); err != nil {
			t.Fatal(err)
		}
		if got < want || count != got {
			t.Errorf("of writer %d the newest call is %d and %d are there; %d were answered", w, got, count, want)
		}
	}
}

func TestABackupIsPrivateAndWhole(t *testing.T) {
	s := newStore(t)
	s.register("tide-reader")
	to := filepath.Join(t.TempDir(), "copy.db")
	contents, err := Backup(context.Background(), s.path, to)
	s.ok(err)
	info, err := os.Stat(to)
	s.ok(err)
	if info.Mode().Perm() != 0o600 || contents.Agents != 1 || contents.Schema < 1 || contents.Bytes != info.Size() {
		t.Errorf("mode %v, contents %+v, %d bytes", info.Mode(), contents, info.Size())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(to), ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Backup(context.Background(), s.path, to); !errors.Is(err, ErrExists) {
		t.Errorf("a second backup by the same name: %v", err)
	}
	if _, err := Backup(context.Background(), filepath.Join(t.TempDir(), "none.db"), to+"2"); err == nil || Exists(to+"2") {
		t.Errorf("a backup of nothing: %v", err)
	}
}

// TestADamagedDatabaseMakesNoBackup: what cannot be read as a whole gets no name
// that somebody would trust.
func TestADamagedDatabaseMakesNoBackup(t *testing.T) {
	s := newStore(t)
	s.agents("agent", 50)
	s.stop()
	data, err := os.ReadFile(s.path)
	s.ok(err)
	for at := 40960; at < len(data)-4096; at += 8192 {
		copy(data[at:], strings.Repeat("\xa5", 4096))
	}
	s.ok(os.WriteFile(s.path, data, 0o600))
	to := filepath.Join(t.TempDir(), "copy.db")
	if _, err := Backup(context.Background(), s.path, to); err == nil {
		t.Error("it makes a backup")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(to), "*")); len(left) > 0 || Exists(to) {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Inspect(context.Background(), s.path); !errors.Is(err, ErrDamaged) {
		t.Errorf("inspecting it: %v", err)
	}
}

func TestRestoreBringsBackExactlyTheBackup(t *testing.T) {
	s := newStore(t)
	s.register("before")
	backup := filepath.Join(t.TempDir(), "copy.db")
	_, err := Backup(context.Background(), s.path, backup)
	s.ok(err)
	s.register("after")
	// As after a crash: the newest writes stand in the log alone.
	crashed := filepath.Join(t.TempDir(), "callbook.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(s.path + suffix)
		s.ok(err)
		s.ok(os.WriteFile(crashed+suffix, data, 0o600))
	}
	contents, kept, err := Restore(context.Background(), backup, crashed, s.Now())
	s.ok(err)
	if contents.Agents != 1 || kept != crashed+".before-restore-20261120T093000Z" {
		t.Errorf("%+v, kept as %s", contents, kept)
	}
	for path, want := range map[string]int{crashed: 1, kept: 2} {
		other := openStore(t, Options{Path: path, Normal: true})
		list, err := other.Agents(context.Background(), AgentFilter{}, Page{Limit: 10})
		if err != nil || list.Total != want {
			t.Errorf("%s has %d agents, %v; want %d", path, list.Total, err, want)
		}
		s.ok(other.Close())
	}
}

func TestWhatIsNoBackupIsNotRestored(t *testing.T) {
	s := newStore(t)
	s.register("tide-reader")
	folder := t.TempDir()
	backup := filepath.Join(folder, "copy.db")
	_, err := Backup(context.Background(), s.path, backup)
	s.ok(err)
	good, err := os.ReadFile(backup)
	s.ok(err)
	file := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		s.ok(os.WriteFile(path, data, 0o600))
		return path
	}
	change := func(name, query string) string {
		path := file(name, good)
		db, err := sql.Open("sqlite", path)
		s.ok(err)
		_, err = db.Exec(query)
		s.ok(errors.Join(err, db.Close()))
		return path
	}
	live, page := file("live.db", good), file("page.db", good)
	damageAt(t, page, rootOf(t, page, "audit")) // which nothing else looks at
	file("live.db-wal", []byte("a log"))
	for name, tt := range map[string]struct {
		backup string
		want   error
	}{
		"missing":          {filepath.Join(folder, "none.db"), os.ErrNotExist},
		"empty":            {file("empty.db", nil), ErrForeign},
		"text":             {file("text.db", []byte(strings.Repeat("no database ", 1000))), ErrDamaged},
		"cut short":        {file("short.db", good[:len(good)/2]), ErrDamaged},
		"a page damaged":   {page, ErrDamaged},
		"another's":        {change("other.db", `PRAGMA application_id = 7`), ErrForeign},
		"newer":            {change("newer.db", `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`), ErrNewerSchema},
		"orphans":          {change("orphans.db", `PRAGMA foreign_keys = OFF; DELETE FROM handles`), ErrDamaged},
		"in use, with log": {live, nil},
	} {
		target := filepath.Join(t.TempDir(), "callbook.db")
		s.ok(os.WriteFile(target, []byte("what was there"), 0o600))
		_, _, err := Restore(context.Background(), tt.backup, target, s.Now())
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(target), "*"))
		if data, _ := os.ReadFile(target); string(data) != "what was there" || len(left) != 1 {
			t.Errorf("%s: what was there is %q now, beside %q", name, data, left)
		}
	}
}

func TestCopiesAreMadeByTheClock(t *testing.T) {
	s := newStore(t)
	s.register("tide-reader")
	ctx := context.Background()
	b := Schedule{Path: s.path, Folder: t.TempDir(), Every: Day, Keep: 3}
	s.ok(os.WriteFile(filepath.Join(b.Folder, "notes.txt"), nil, 0o600))
	begun := s.Now()
	for _, tt := range []struct {
		at   time.Duration
		made bool
		left []string
	}{
		{0, true, []string{"20"}},
		{23 * time.Hour, false, []string{"20"}},
		{Day, true, []string{"20", "21"}},
		{2 * Day, true, []string{"20", "21", "22"}},
		{3 * Day, true, []string{"21", "22", "23"}},
		{9 * Day, true, []string{"22", "23", "29"}},
		{4 * Day, true, []string{"22", "23", "24", "29"}}, // the clock goes back: what is to come is let be
		{4*Day + time.Hour, false, []string{"22", "23", "24", "29"}},
		{5 * Day, true, []string{"23", "24", "25", "29"}},
	} {
		name, contents, err := b.Run(ctx, begun.Add(tt.at))
		if err != nil || (name != "") != tt.made || tt.made && contents.Agents != 1 {
			t.Errorf("after %s: %q, %+v, %v", tt.at, name, contents, err)
		}
		made, err := b.made()
		s.ok(err)
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

// TestABadCopyPushesOutNone: once the database cannot be copied any more, the last
// good copies stay.
func TestABadCopyPushesOutNone(t *testing.T) {
	s := newStore(t)
	b := Schedule{Path: s.path, Folder: t.TempDir(), Every: Day, Keep: 1}
	name, _, err := b.Run(context.Background(), s.Now())
	s.ok(err)
	s.stop()
	s.ok(os.WriteFile(s.path, []byte(strings.Repeat("no database ", 10000)), 0o600))
	if again, _, err := b.Run(context.Background(), s.Now().Add(Day)); err == nil || again != "" {
		t.Errorf("a copy of what is none: %q", again)
	}
	if entries, _ := os.ReadDir(b.Folder); len(entries) != 1 || missing(name) {
		t.Errorf("left: %v", entries)
	}
}

// TestARestoreThatFailsChangesNothing: neither what is there, nor what tells that
// something was.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	s := newStore(t)
	s.register("tide-reader")
	ctx, folder := context.Background(), t.TempDir()
	good := filepath.Join(folder, "copy.db")
	_, err := Backup(ctx, s.path, good)
	s.ok(err)
	gone := filepath.Join(folder, "gone.db")
	s.ok(os.WriteFile(gone+".lock", nil, 0o600))
	lock, err := AcquireRestoreLock(gone)
	s.ok(err)
	if _, _, err := Restore(ctx, filepath.Join(folder, "none.db"), gone, s.Now()); err == nil {
		t.Error("it restores from nothing")
	}
	s.ok(lock.Release())
	if _, err := AcquireLock(gone); !errors.Is(err, ErrGone) {
		t.Errorf("after a restore that failed: %v", err)
	}
	if _, err := AcquireRestoreLock(folder); err == nil || missing(folder) {
		t.Errorf("a folder is locked as if it were a database: %v", err)
	}
	served, err := AcquireLock(s.path)
	s.ok(err)
	defer served.Release()
	for name, from := range map[string]string{"a folder": folder, "the database itself": good, "one that is served": s.path} {
		if _, _, err := Restore(ctx, from, good, s.Now()); err == nil {
			t.Errorf("%s is restored", name)
		}
	}
	if contents, err := Inspect(ctx, good); err != nil || contents.Agents != 1 {
		t.Errorf("what was there: %+v, %v", contents, err)
	}
}

// TestARestoreThatFailsHalfwayTellsWhatItKept: the database has left its name by then.
func TestARestoreThatFailsHalfwayTellsWhatItKept(t *testing.T) {
	s := newStore(t)
	s.register("tide-reader")
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err := Backup(t.Context(), s.path, copied)
	s.ok(err)
	s.stop()
	s.ok(os.MkdirAll(filepath.Join(s.path+"-shm", "in the way"), 0o700))
	_, kept, err := Restore(t.Context(), copied, s.path, s.Now())
	if err == nil || kept == "" {
		t.Fatalf("%q, %v", kept, err)
	}
	if contents, err := Inspect(t.Context(), kept); err != nil || contents.Agents != 1 {
		t.Errorf("%s holds %+v, %v", kept, contents, err)
	}
}

func TestABackupTakesNoNameOfTheDatabase(t *testing.T) {
	s := newStore(t)
	for _, suffix := range []string{"", "-journal", "-wal", "-shm", ".lock"} {
		if _, err := Backup(context.Background(), s.path, s.path+suffix); err == nil {
			t.Errorf("it takes %q", suffix)
		}
	}
	s.register("tide-reader")
}

// TestOneOfManyBackupsTakesAName: the others are told, and leave nothing behind.
func TestOneOfManyBackupsTakesAName(t *testing.T) {
	s := newStore(t)
	to := filepath.Join(t.TempDir(), "copy.db")
	made := make(chan error)
	for range 8 {
		go func() { _, err := Backup(context.Background(), s.path, to); made <- err }()
	}
	won := 0
	for range 8 {
		if err := <-made; err == nil {
			won++
		} else if !errors.Is(err, ErrExists) {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(to)); won != 1 || len(left) != 1 {
		t.Errorf("%d won, left %v", won, left)
	}
}

// TestCopiesThatNobodyFinishedGo: a killed program leaves a draft.
func TestCopiesThatNobodyFinishedGo(t *testing.T) {
	s := newStore(t)
	b := Schedule{Path: s.path, Folder: t.TempDir(), Every: Day, Keep: 1}
	for _, name := range []string{".callbook-20261119T093000Z.db.123", ".callbook-20261119T093000Z.db.123-journal"} {
		s.ok(os.WriteFile(filepath.Join(b.Folder, name), nil, 0o600))
	}
	_, _, err := b.Run(context.Background(), s.Now())
	s.ok(err)
	if left, _ := os.ReadDir(b.Folder); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestOnlyDraftsOfTheScheduleAreTidied: another copy that is being made into the same
// folder stays, whatever its name and the folder's.
func TestOnlyDraftsOfTheScheduleAreTidied(t *testing.T) {
	s := newStore(t)
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
		if _, _, err := (Schedule{Path: s.path, Folder: folder, Every: Day, Keep: 2}).Run(t.Context(), s.Now()); err != nil {
			t.Fatal(err)
		}
		if missing(path) == stays {
			t.Errorf("%s: missing %v", name, missing(path))
		}
	}
}

// TestACopyOfATimeToComeIsNotTheNewest: a clock ran ahead when it was made.
func TestACopyOfATimeToComeIsNotTheNewest(t *testing.T) {
	folder, now := t.TempDir(), time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	b := Schedule{Folder: folder}
	for _, name := range []string{"callbook-20990101T000000Z.db", "callbook-20261119T093000Z.db"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newest, err := b.Newest(now)
	if err != nil || !newest.Equal(now.Add(-Day)) || b.NewestName(now) != filepath.Join(folder, "callbook-20261119T093000Z.db") {
		t.Errorf("%v, %s, %v", newest, b.NewestName(now), err)
	}
}

// TestABackupLeavesADamagedFileAsItIs: with its log, of which more may be saved by hand.
func TestABackupLeavesADamagedFileAsItIs(t *testing.T) {
	s := newStore(t)
	s.agents("agent", 50)
	folder := t.TempDir()
	path := filepath.Join(folder, "callbook.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.path + suffix)
		if suffix == "" && err == nil {
			for at := 40960; at < len(data)-4096; at += 8192 {
				copy(data[at:], strings.Repeat("\xa5", 4096))
			}
		}
		if err := errors.Join(err, os.WriteFile(path+suffix, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before, log := fileText(t, path), fileText(t, path+"-wal")
	_, err := Backup(t.Context(), path, filepath.Join(folder, "copy.db"))
	if err == nil {
		t.Error("a damaged file is copied")
	}
	if fileText(t, path) != before || fileText(t, path+"-wal") != log || log == "" {
		t.Error("the file or its log was changed")
	}
}

func fileText(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
