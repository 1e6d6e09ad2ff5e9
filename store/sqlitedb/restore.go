package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"callbook/store/durable"
)

// Restore checks a backup, or any other database of the application with its log, and replaces the
// database at path, which the caller has locked, with a copy of it. It renames the old file and its
// log, and returns the new name; empty if there was no file.
func Restore(
	ctx context.Context,
	backup, path string,
	now time.Time,
	f Format,
) (info Info, kept string, err error) {
	backup = FileOf(backup)
	mode := immutable // also on a disk that takes no writes
	if !missing(backup + "-wal") {
		mode = readOnly // a process may serve it
	}
	if info, err = f.verify(ctx, backup, mode); err != nil {
		return info, "", fmt.Errorf("check %s: %w", backup, err)
	}

	draft, err := restoredDraft(ctx, backup, path, mode)
	defer os.Remove(draft) // gone by then unless something failed
	if err != nil {
		return info, "", fmt.Errorf("copy %s: %w", backup, err)
	}

	// The old database leaves its place only now that a whole copy lies beside it.
	if kept, err = moveAside(path, now); err != nil {
		return info, kept, fmt.Errorf("set aside %s: %w", path, err)
	}
	return info, kept, durable.Replace(draft, path)
}

// restoredDraft copies a backup into the folder of the database, for the owner of the database: the
// operator may be another user than the service.
func restoredDraft(ctx context.Context, backup, path string, mode mode) (draft string, err error) {
	draft = draftOf(path, newDraft)
	if err := removeDrafts(path); err != nil {
		return draft, err
	}
	if err := createPrivate(draft); err != nil {
		return draft, err
	}
	if err := copyInto(ctx, backup, draft, mode); err != nil {
		return draft, err
	}

	return draft, copyOwner(draft, path)
}

// moveAside renames a database with its log, so that SQLite would still find both
// together. SQLite would apply a log that stayed to the next database of that name.
func moveAside(path string, now time.Time) (kept string, err error) {
	name := path + ".before-restore-" + now.UTC().Format("20060102T150405Z")
	kept = name
	// Two restores within a second must not overwrite each other's database.
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
