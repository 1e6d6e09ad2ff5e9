package sqlitedb

import (
	"testing"
)

// TestDisk_KnowsNetworkFileSystems: by the numbers of statfs(2).
func TestDisk_KnowsNetworkFileSystems(t *testing.T) {
	for kind, want := range map[int64]string{
		0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9P", 0x00c36400: "Ceph",
		0x5346414f: "AFS", 0x6b414653: "AFS", 0x73757245: "Coda", 0x564c: "NCP", 0x7461636f: "OCFS2", 0x65735546: "FUSE",
		0x01161970: "GFS2", 0x0bd00bd0: "Lustre", 0x47504653: "GPFS",
		-0xacb2be: "CIFS", // as a system of 32 bits has it
		// Of this machine: ext4, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS, bcachefs.
		0xef53: "", 0x58465342: "", 0x9123683e: "", 0x01021994: "", 0x794c7630: "", 0x2fc12fc1: "", 0xf2f52010: "", 0xca451a4e: "",
	} {
		if got := networkOf(kind); got != want {
			t.Errorf("%#x is %q, want %q", kind, got, want)
		}
	}
}

func TestDisk_ReportsItsRoom(t *testing.T) {
	d, err := DiskOf(t.TempDir())
	if err != nil || d.Free <= 0 || d.Total < d.Free {
		t.Errorf("%+v, %v", d, err)
	}
	for total, want := range map[int64]int64{1 << 30: 1 << 30 / 10, 20 << 30: 200 << 20} {
		if got := (Disk{Total: total}).Least(); got != want {
			t.Errorf("of %d bytes at least %d should be free, want %d", total, got, want)
		}
	}
}
