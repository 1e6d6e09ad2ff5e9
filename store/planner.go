package store

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite plans a statement anew when a number that is bound to it becomes, or was, 0
// or 1, since that may tell it more. FTS5 binds the number of each segment, one of which
// is often 1, so a search of ten words had its statements prepared anew twenty times and
// more, which took most of its time. No plan of ours gains by it: all connections are
// told to plan by the text alone (SQLITE_DBCONFIG_ENABLE_QPSG), in the one way that
// SQLite has for all of them, an extension that is part of the program. The driver has
// no setting for it.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	// The memory representation of functions that modernc.org/libc calls by pointer.
	plan := struct {
		f func(tls *libc.TLS, db, message, api uintptr) int32
	}{planByText}
	if rc := sqlite3.Xsqlite3_auto_extension(tls, *(*uintptr)(unsafe.Pointer(&plan))); rc != sqlite3.SQLITE_OK {
		panic("SQLite takes no extension")
	}
}

func planByText(tls *libc.TLS, db, _, _ uintptr) int32 {
	const each = 8 // bytes of an argument
	args := tls.Alloc(2 * each)
	defer tls.Free(2 * each)
	return sqlite3.Xsqlite3_db_config(tls, db, sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG, libc.VaList(args, int32(1), uintptr(0)))
}
