package store

// Disk is where a file lies.
type Disk struct {
	Free    int64  // bytes that the program may still write
	Network string // name of a network file system, which SQLite's locks cannot be trusted on; else empty
}
