package sqlitedb

import (
	"fmt"
	"path/filepath"
)

// Disk is a disk that a file lies on.
type Disk struct {
	Free  int64 // bytes that the program may still write
	Total int64 // bytes that it has in all
	// Network names a network file system, on which SQLite's locks cannot be trusted; else empty.
	Network string
}

// leastFree is how much room a large disk should have.
const leastFree = 200 << 20

// Least returns the number of free bytes below which the operator should make room: a tenth of the
// disk, or 200 MiB if that is less.
func (d Disk) Least() int64 { return min(d.Total/10, leastFree) }

// requireRoom returns ErrNoRoom if the disk of a database has not so many bytes free to do
// something.
func requireRoom(path string, needed int64, do string) error {
	disk, err := DiskOf(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("find the room to %s: %w", do, err)
	}
	if disk.Free < needed {
		return fmt.Errorf("%w to %s: %d MiB are needed and %d MiB are free",
			ErrNoRoom, do, needed>>20+1, disk.Free>>20)
	}

	return nil
}
