package sqlitedb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileOf follows the links of a path to the file of a database, which may be missing: its log and
// its lock are beside the file, not beside a link.
func FileOf(path string) string {
	const mostLinks = 40 // as in Linux, so that a loop ends

	// filepath.EvalSymlinks alone would fail for a link to a file that is still missing.
	for range mostLinks {
		if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(folder, filepath.Base(path))
		}

		to, err := os.Readlink(path)
		if err != nil {
			break
		}

		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}

		path = to
	}

	return path
}

// Exists reports whether there is a database: an empty file is none.
func Exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// checkLinks returns ErrLinked for a file that has several names.
func checkLinks(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || linkCount(info) < 2 {
		return nil
	}
	return fmt.Errorf("%w (find MOUNT-POINT -samefile %s lists all %d)",
		ErrLinked, path, linkCount(info))
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// fileSize returns the size of a file, 0 if it is missing. It does not open the file: closing it
// would drop SQLite's locks.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// createPrivate creates an empty file that only its owner may read.
func createPrivate(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// removeAll removes files, of which some may be missing, up to the first that cannot be removed.
func removeAll(names ...string) error {
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// The unfinished files beside a database always have the same names, so that the next start can
// remove those of a program that was killed.
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
