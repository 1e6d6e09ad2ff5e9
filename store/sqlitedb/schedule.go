package sqlitedb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Schedule says how the service makes copies by itself.
type Schedule struct {
	Path   string        // of the database
	Folder string        // for the copies; there are none when it is empty
	Every  time.Duration // from one to the next
	Keep   int           // how many stay; at least 1
}

// scheduledName is the name of a copy, with its time, so that names sort by age.
const scheduledName = "callbook-20060102T150405Z.db"

// Run makes the next copy with backup if it is due, and returns its name; empty when none was.
// Older ones are deleted only once the new one is whole, so a database that can no longer be
// copied never pushes out the last good copy. A copy's own time counts, not that of its file.
func (b Schedule) Run(ctx context.Context, now time.Time, backup func(ctx context.Context, path, to string) error) (name string, err error) {
	made, err := b.list(now)
	if err != nil {
		return "", err
	}
	if err := b.removeDrafts(); err != nil {
		return "", err
	}
	if n := len(made); n > 0 && now.Sub(made[n-1]) < b.Every {
		return "", nil
	}
	name = b.nameAt(now)
	if err = backup(ctx, b.Path, name); err != nil {
		return "", err
	}
	var errs []error
	for i := range len(made) + 1 - max(b.Keep, 1) {
		errs = append(errs, os.Remove(b.nameAt(made[i])))
	}
	return name, errors.Join(errs...)
}

// removeDrafts removes unfinished copies: the program was killed meanwhile.
func (b Schedule) removeDrafts() error {
	entries, err := os.ReadDir(b.Folder)
	for _, entry := range entries {
		of, found := strings.CutPrefix(entry.Name(), ".")
		at := strings.LastIndexByte(of, '.')
		if _, notOurs := time.Parse(scheduledName, of[:max(at, 0)]); found && notOurs == nil {
			err = errors.Join(err, os.Remove(filepath.Join(b.Folder, entry.Name())))
		}
	}
	return err
}

// Newest returns the time of the newest copy that is not of a time to come; zero when there
// is none.
func (b Schedule) Newest(now time.Time) (time.Time, error) {
	if b.Folder == "" {
		return time.Time{}, nil
	}
	made, err := b.list(now)
	if err != nil || len(made) == 0 {
		return time.Time{}, err
	}
	return made[len(made)-1], nil
}

// Owns reports whether a file is one of the copies, by its folder and name.
func (b Schedule) Owns(path string) bool {
	path = FileOf(path)
	_, err := time.Parse(scheduledName, filepath.Base(path))
	in, inErr := os.Stat(filepath.Dir(path))
	folder, folderErr := os.Stat(b.Folder)
	return errors.Join(err, inErr, folderErr) == nil && os.SameFile(in, folder)
}

// NewestName returns the name of the newest copy; empty when there is none.
func (b Schedule) NewestName(now time.Time) string {
	newest, err := b.Newest(now)
	if err != nil || newest.IsZero() {
		return ""
	}
	return b.nameAt(newest)
}

// nameAt returns the name of a copy by its time.
func (b Schedule) nameAt(made time.Time) string {
	return filepath.Join(b.Folder, made.UTC().Format(scheduledName))
}

// list returns the times of the copies that there are, the oldest first, without those after now,
// which were made while the clock ran ahead.
func (b Schedule) list(now time.Time) (made []time.Time, err error) {
	entries, err := os.ReadDir(b.Folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries { // sorted by name
		if at, err := time.Parse(scheduledName, entry.Name()); err == nil && !at.After(now) {
			made = append(made, at)
		}
	}
	return made, nil
}
