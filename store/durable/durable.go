// Package durable writes files that survive a power cut.
package durable

import (
	"errors"
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
	_, err = draft.Write(data)
	if err == nil {
		err = draft.Sync()
	}
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return SyncFolder(filepath.Dir(name))
}

// SyncFolder makes the names in a folder survive a power cut. Windows cannot, and need not.
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
