package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"callbook/store/durable"
	"callbook/store/progress"
)

// Restore replaces the database at path, which the caller has locked, with a verified copy of a backup.
// It renames the old file and its log, and returns the new name; empty if there was no file.
func Restore(ctx context.Context, backup, path string, now time.Time, f Format) (info Info, kept string, err error) {
	if err := checkBackup(backup, path); err != nil {
		return info, "", err
	}
	draft, err := copyBeside(ctx, backup, path)
	defer os.Remove(draft) // gone by then unless something failed
	if err != nil {
		return info, "", fmt.Errorf("copy %s: %w", backup, err)
	}
	if info, err = f.verify(ctx, draft, immutable); err != nil {
		return info, "", fmt.Errorf("check %s: %w", backup, err)
	}
	if kept, err = moveAside(path, now); err != nil {
		return info, kept, fmt.Errorf("set aside %s: %w", path, err)
	}
	return info, kept, durable.Replace(draft, path)
}

// checkBackup rejects a file that is no backup: no regular file, the database itself, or a database that
// is served or has a log, without which it is not complete.
func checkBackup(backup, path string) error {
	from, err := os.Stat(backup)
	if err != nil {
		return err
	}
	if !from.Mode().IsRegular() {
		return fmt.Errorf("%s is no file: name the backup itself", backup)
	}
	if to, err := os.Stat(path); err == nil && os.SameFile(from, to) {
		return errors.New("the backup is the database itself: name another file")
	}
	if own := FileOf(backup); fileSize(own+"-wal") > 0 || isLocked(own) {
		return fmt.Errorf("%s is a database with a log of its own, not a copy: make one first, with callbook backup COPY --db %s, and restore that", backup, backup)
	}
	return nil
}

// isLocked reports whether a process serves a database.
func isLocked(path string) bool {
	if missing(path + ".lock") {
		return false
	}
	l := flock.New(path + ".lock")
	locked, err := l.TryLock()
	_ = l.Close()
	return err == nil && !locked
}

// copyBeside copies a backup into the folder of the database, for the owner of the database: the operator
// may be another user than the service.
func copyBeside(ctx context.Context, backup, path string) (draft string, err error) {
	in, err := os.Open(backup)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".restoring.*")
	if err != nil {
		return "", err
	}
	defer progress.Watch(ctx, "copying the backup", func() (done, total int64) { return fileSize(out.Name()), fileSize(backup) })()
	_, err = io.Copy(out, in)
	return out.Name(), errors.Join(err, out.Close(), copyOwner(out.Name(), path))
}

// moveAside renames a database with its log, so that SQLite would still find both
// together. SQLite would apply a log that stayed to the next database of that name.
func moveAside(path string, now time.Time) (kept string, err error) {
	name := path + ".before-restore-" + now.UTC().Format("20060102T150405Z")
	kept = name
	for n := 2; !missing(kept) || !missing(kept+"-wal"); n++ {
		kept = fmt.Sprintf("%s-%d", name, n)
	}
	found := ""
	for _, suffix := range []string{"", "-wal"} {
		err := os.Rename(path+suffix, kept+suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, err
		}
		found = kept
		// One after the other on the disk, too: a power cut must leave neither a database
		// without its log nor a log beside another database.
		if err := durable.SyncFolder(filepath.Dir(path)); err != nil {
			return found, err
		}
	}
	return found, removeAll(path + "-shm")
}
