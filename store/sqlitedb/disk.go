package sqlitedb

import (
	"errors"
	"path/filepath"
)

// Disk is a disk that a file lies on.
type Disk struct {
	Free    int64  // bytes that the program may still write
	Total   int64  // bytes that it has in all
	Network string // name of a network file system, which SQLite's locks cannot be trusted on; else empty
}

// MayWrite returns an error for each file or folder that this user may not write, without opening
// them. On Windows it returns nil: only opening them would show it.
func MayWrite(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, mayWrite(path))
	}
	return errors.Join(errs...)
}

// leastFree is how much room a large disk should have.
const leastFree = 200 << 20

// Least returns the free room below which the operator should make some: a tenth of the
// disk, or 200 MiB where that is less.
func (d Disk) Least() int64 { return min(d.Total/10, leastFree) }

// diskOfFile returns the disk that a database's file lies on.
func diskOfFile(path string) (Disk, error) { return DiskOf(filepath.Dir(path)) }
