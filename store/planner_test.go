package store

import (
	"reflect"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// TestPlansDependOnTheTextAlone: every connection has been told, those that read and
// the one that writes.
func TestPlansDependOnTheTextAlone(t *testing.T) {
	s := newStore(t)
	tls := libc.NewTLS()
	defer tls.Close()
	args := tls.Alloc(24)
	defer tls.Free(24)
	for _, mode := range []mode{readOnly, readWrite} {
		conn, err := s.connection(mode).Connx(t.Context())
		s.ok(err)
		s.ok(conn.Raw(func(c any) error {
			db := uintptr(reflect.ValueOf(c).Elem().FieldByName("db").Uint())
			told := args + 16
			rc := sqlite3.Xsqlite3_db_config(tls, db, sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG, libc.VaList(args, int32(-1), told))
			if on := libc.AtomicLoadPInt32(told); rc != sqlite3.SQLITE_OK || on != 1 {
				t.Errorf("%v: %d, %d", mode, rc, on)
			}
			return nil
		}))
		s.ok(conn.Close())
	}
}
