// Package durable writes files and creates folders that survive a power cut.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile writes a file that only its owner may read, in place of any file of that name.
// After a crash the name holds the old content or the new one, never a part.
func WriteFile(name string, data []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(name), ".draft-*") // with mode 0600
	if err != nil {
		return err
	}

	// After a success nothing has that name any more.
	defer os.Remove(draft.Name())

	_, err = draft.Write(data)
	if err := errors.Join(err, draft.Close()); err != nil {
		return err
	}
	return Replace(draft.Name(), name)
}

// Replace renames a finished file, in place of any file of that name. After a crash the name holds
// the old file or all of the new one.
func Replace(draft, name string) error { return publish(draft, name, os.Rename) }

// Create is [Replace] for a name that must be free: it returns [fs.ErrExist] if there is a file. On
// a disk without hard links, a file that another program creates at the same moment is lost.
func Create(draft, name string) error {
	return publish(draft, name, func(draft, name string) error {
		// Unlike a rename, a link does not replace a file that has the name.
		err := os.Link(draft, name)
		switch {
		case errors.Is(err, fs.ErrExist):
			return err

		case err != nil:
			return os.Rename(draft, name)
		}

		return os.Remove(draft)
	})
}

func publish(draft, name string, rename func(draft, name string) error) error {
	// The content reaches the disk before the name does: after a power cut the name would else show
	// an empty file.
	f, err := os.OpenFile(draft, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := rename(draft, name); err != nil {
		return err
	}

	return SyncFolder(filepath.Dir(name))
}

// MakeFolder creates a folder if it is missing, readable by its owner only, and its parents.
func MakeFolder(name string) error {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return err
	}
	if err := SyncFolder(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Dir(name), err)
	}
	return nil
}

// SyncFolder makes the names in a folder survive a power cut. On Windows, which has no such call
// and does not need it, it does nothing.
func SyncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}

	folder, err := os.Open(name)
	if err != nil {
		return err
	}

	return errors.Join(folder.Sync(), folder.Close())
}

// OpenToOthers reports whether other users of this machine may open a file or folder.
func OpenToOthers(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}
