package store

import "golang.org/x/sys/unix"

// networks are the file systems on which other machines may write the same file.
var networks = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.SMB2_SUPER_MAGIC: "SMB2",
	unix.V9FS_MAGIC: "9P", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda",
	unix.FUSE_SUPER_MAGIC: "FUSE",
}

// DiskOf tells of the disk that a path lies on.
func DiskOf(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, err
	}
	return Disk{Free: int64(s.Bavail) * s.Bsize, Network: networks[s.Type]}, nil
}
