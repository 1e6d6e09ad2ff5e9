package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"callbook/store/durable"
)

// publish gives a finished file its name, so that it is there as a whole or not at
// all, whatever ends the program or the power.
func publish(draft, name string, as func(draft, name string) error) error {
	if err := flush(draft); err != nil {
		return err
	}
	if err := as(draft, name); err != nil {
		return err
	}
	return syncFolder(name)
}

// link is os.Rename that replaces no file. Where a disk knows no links,
// another program that takes the name at the same moment loses it.
func link(draft, name string) error {
	err := os.Link(draft, name)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s", ErrExists, name)
	case err != nil:
		return os.Rename(draft, name)
	}
	return os.Remove(draft)
}

// flush syncs a file.
func flush(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeFolder creates a folder and those above it where they are missing, readable by their
// owner only. The new names survive a power cut.
func MakeFolder(name string) error {
	if !missing(name) {
		return os.MkdirAll(name, 0o700) // returns an error for a file of that name
	}
	if err := MakeFolder(filepath.Dir(name)); err != nil {
		return err
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	if err := syncFolder(name); err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}

// syncFolder makes the names in a file's folder survive a power cut.
func syncFolder(name string) error { return durable.SyncFolder(filepath.Dir(name)) }

// removeAll removes files, of which some may be missing, up to the first that cannot be removed.
func removeAll(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The unfinished files beside a database always have the same names, so that the next start can remove
// those of a program that was killed.
const (
	newDraft      = "new"         // becomes the database
	keptDraft     = "pre-migrate" // becomes the copy that is kept before an upgrade
	migratedDraft = "migrating"   // is brought up to date
)

// draftOf returns the name of an unfinished file beside a database.
func draftOf(path, kind string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+kind)
}

// removeDrafts removes the unfinished files beside a database.
func removeDrafts(path string) error {
	for _, kind := range []string{newDraft, keptDraft, migratedDraft} {
		draft := draftOf(path, kind)
		if err := removeAll(draft, draft+"-journal", draft+"-wal", draft+"-shm"); err != nil {
			return err
		}
	}
	return nil
}

// existingParent returns a file, or the folder that it would be in.
func existingParent(path string) string {
	if missing(path) {
		return filepath.Dir(path)
	}
	return path
}
