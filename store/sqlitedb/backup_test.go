package sqlitedb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBackup_IsPrivateAndWhole(t *testing.T) {
	d := newDB(t)
	d.add("tide-reader")
	to := filepath.Join(t.TempDir(), "copy.db")
	n := 0
	info, err := Backup(context.Background(), d.path, to, counting(&n))
	d.ok(err)
	stat, err := os.Stat(to)
	d.ok(err)
	if stat.Mode().Perm() != 0o600 || n != 1 || info.Schema != 1 || info.Bytes != stat.Size() {
		t.Errorf("mode %v, %d words, %+v, %d bytes", stat.Mode(), n, info, stat.Size())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(to), ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Backup(context.Background(), d.path, to, testFormat); !errors.Is(err, ErrExists) {
		t.Errorf("a second backup by the same name: %v", err)
	}
	if _, err := Backup(context.Background(), filepath.Join(t.TempDir(), "none.db"), to+"2", testFormat); err == nil || Exists(to+"2") {
		t.Errorf("a backup of nothing: %v", err)
	}
}

// TestBackup_RejectsDamagedDatabase: what cannot be read as a whole gets no name
// that somebody would trust.
func TestBackup_RejectsDamagedDatabase(t *testing.T) {
	d := newDB(t)
	d.addMany()
	d.stop()
	data, err := os.ReadFile(d.path)
	d.ok(err)
	for at := 40960; at < len(data)-4096; at += 8192 {
		copy(data[at:], strings.Repeat("\xa5", 4096))
	}
	d.ok(os.WriteFile(d.path, data, 0o600))
	to := filepath.Join(t.TempDir(), "copy.db")
	if _, err := Backup(context.Background(), d.path, to, testFormat); err == nil {
		t.Error("it makes a backup")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(to), "*")); len(left) > 0 || Exists(to) {
		t.Errorf("left behind: %q", left)
	}
	if _, err := Verify(context.Background(), d.path, false, testFormat); !errors.Is(err, ErrDamaged) {
		t.Errorf("inspecting it: %v", err)
	}
}

// TestBackup_OnlyOneGetsTheName: the others are told, and leave nothing behind.
func TestBackup_OnlyOneGetsTheName(t *testing.T) {
	d := newDB(t)
	to := filepath.Join(t.TempDir(), "copy.db")
	made := make(chan error)
	for range 8 {
		go func() { _, err := Backup(context.Background(), d.path, to, testFormat); made <- err }()
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

// TestBackup_LeavesDamagedFileAsItIs: with its log, of which more may be saved by hand.
func TestBackup_LeavesDamagedFileAsItIs(t *testing.T) {
	d := newDB(t)
	d.addMany()
	d.stop() // which folds the log into the file
	d = openDB(t, d.path)
	d.add("in the log")
	folder := t.TempDir()
	path := filepath.Join(folder, "callbook.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(d.path + suffix)
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
	_, err := Backup(t.Context(), path, filepath.Join(folder, "copy.db"), testFormat)
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
