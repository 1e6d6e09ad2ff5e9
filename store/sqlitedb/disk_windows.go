package sqlitedb

import (
	"os"

	"golang.org/x/sys/windows"
)

// DiskOf returns the disk that a path lies on.
func DiskOf(path string) (d Disk, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return d, err
	}

	var free, total uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, &total, nil); err != nil {
		return d, err
	}

	d.Free, d.Total = int64(free), int64(total)
	root := make([]uint16, windows.MAX_PATH)
	if windows.GetVolumePathName(name, &root[0], uint32(len(root))) == nil &&
		windows.GetDriveType(&root[0]) == windows.DRIVE_REMOTE {
		d.Network = "a network drive"
	}

	return d, nil
}

// MayWrite returns nil: only opening a file or folder would show whether this user may write it.
func MayWrite(string) error { return nil }

// linkCount returns 1: only opening the file would show how many names it has.
func linkCount(os.FileInfo) int { return 1 }

// copyOwner leaves a file as it is: it has the rights of its folder.
func copyOwner(string, string) error { return nil }
