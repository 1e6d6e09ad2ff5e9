package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
)

// Compact rewrites the whole file with VACUUM, and returns its size before and after. SQLite
// overwrites deleted rows (secure_delete), but not the copies that it left when it moved rows to
// other pages; the new file has only the stored rows. Before any other write it calls after, which
// may be nil. It returns ErrNoRoom if less than twice the size of the file is free. Writes wait
// meanwhile, those of another process until their timeout.
func (db *DB) Compact(
	ctx context.Context,
	after func(*sqlx.Conn) error,
) (before, size int64, err error) {
	before = db.Size()
	// VACUUM writes a whole copy, and then copies that through the log.
	needed := 2 * (before + fileSize(db.path+"-wal"))
	if err := requireRoom(db.path, needed, "compact the database"); err != nil {
		return before, before, err
	}

	defer EstimateProgress(ctx, "compacting the database", before)()
	err = db.Exclusive(ctx, func(conn *sqlx.Conn) error {
		db.compacting.Store(true) // so that Ready does not report the waiting writes as a failure
		defer db.compacting.Store(false)

		if err := db.vacuum(ctx, conn); err != nil || after == nil {
			return err
		}
		return after(conn)
	})
	if err != nil {
		return before, db.Size(), err
	}

	// The log holds every page of the new file, and the file is not shorter before.
	_, err = db.TruncateLog(ctx)
	return before, db.Size(), err
}

// vacuum keeps the new file beside the database until it is whole, rather than in memory, as
// other temporary tables, or in a folder for temporary files, which may be memory too.
func (db *DB) vacuum(ctx context.Context, conn *sqlx.Conn) (err error) {
	folder := strings.ReplaceAll(filepath.Dir(db.path), `'`, `''`)
	for _, query := range []string{
		`PRAGMA temp_store_directory = '` + folder + `'`,
		`PRAGMA temp_store = FILE`,
		`VACUUM`,
	} {
		if _, err = conn.ExecContext(ctx, query); err != nil {
			break
		}
	}

	// Also after an error, and if ctx has ended: the writer goes on with this connection.
	_, restoreErr := conn.ExecContext(context.Background(), `PRAGMA temp_store = MEMORY`)
	if err = errors.Join(err, restoreErr); err != nil {
		return fmt.Errorf("compact the database: %w", err)
	}

	return nil
}
