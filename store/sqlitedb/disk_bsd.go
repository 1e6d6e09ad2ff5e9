//go:build darwin || freebsd

package sqlitedb

import "golang.org/x/sys/unix"

// DiskOf returns the disk that a path lies on.
func DiskOf(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, err
	}

	d := Disk{Free: int64(s.Bavail) * int64(s.Bsize), Total: int64(s.Blocks) * int64(s.Bsize)}
	if s.Flags&unix.MNT_LOCAL == 0 {
		d.Network = unix.ByteSliceToString(s.Fstypename[:])
	}

	return d, nil
}
