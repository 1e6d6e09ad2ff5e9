package sqlitedb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

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
