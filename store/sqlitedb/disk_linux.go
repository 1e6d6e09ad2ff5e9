package sqlitedb

import "golang.org/x/sys/unix"

// networks are the file systems on which other machines, or programs beside the
// system's own, may write the same file.
var networks = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.SMB2_SUPER_MAGIC:  "SMB2",
	unix.V9FS_MAGIC:        "9P",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	// Without a name in the kernel's list.
	0x01161970: "GFS2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x786f4256: "a folder of VirtualBox's host",
	0xbacbacbc: "a folder of VMware's host",
}

// DiskOf returns the disk that a path lies on.
func DiskOf(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, err
	}
	return Disk{
		Free:    int64(s.Bavail) * int64(s.Bsize),
		Total:   int64(s.Blocks) * int64(s.Bsize),
		Network: networkOf(int64(s.Type)),
	}, nil
}

// networkOf returns the name of a network file system by its number, of which the system may
// extend the sign.
func networkOf(kind int64) string { return networks[kind&0xffffffff] }
