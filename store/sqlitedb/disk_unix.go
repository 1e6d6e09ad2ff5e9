//go:build unix

package sqlitedb

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// MayWrite returns an error if this user may not write a file or folder, without opening it.
func MayWrite(path string) error {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// linkCount returns how many names a file has.
func linkCount(info os.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Nlink)
	}
	return 1
}

// copyOwner gives a file the owner of a database, or of its folder if there is none.
func copyOwner(path, like string) error {
	if missing(like) {
		like = filepath.Dir(like)
	}

	info, err := os.Stat(like)
	if err != nil {
		return err
	}

	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
		return fmt.Errorf("give the file to the owner of %s (run this as that user): %w", like, err)
	}

	return nil
}
