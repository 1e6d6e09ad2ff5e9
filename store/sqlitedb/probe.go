package sqlitedb

import (
	"context"
	"fmt"
	"time"
)

// Health is the state of the database.
type Health struct {
	Schema    int64 `json:"schema"`         // version
	FileBytes int64 `json:"database_bytes"` // of the database file
	LogBytes  int64 `json:"log_bytes"`      // of the write-ahead log
	FreeBytes int64 `json:"free_bytes"`     // of the disk, for this user; -1 when unknown
}

const (
	readyAge     = time.Second // how long a good probe counts: each one costs a write
	readyTimeout = time.Second // how long one may take
)

// Ready reports whether the database can be read and written, now or within the last second, and
// its state. It returns ErrWrites if only reads work. It waits a second at most, unless the disk
// does not respond to a read at all.
func (db *DB) Ready(ctx context.Context) (Health, error) {
	h := db.Health()
	if err := db.Failure(); err != nil {
		return h, err
	}

	// A clock that was set back makes the age negative: then a new probe is due.
	age := db.options.Clock().Sub(time.UnixMilli(db.probed.Load()))
	if 0 <= age && age < readyAge {
		return h, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()

	if err := db.tryRead(ctx); err != nil {
		return h, err
	}
	if db.compacting.Load() { // writes wait
		return h, nil
	}

	// Requests that ask at the same time share one write.
	select {
	case result := <-db.probe.DoChan("write", func() (any, error) { return nil, db.tryWrite() }):
		return h, result.Err
	case <-ctx.Done(): // the write goes on
		return h, fmt.Errorf("%w: a write has waited for %s", ErrWrites, readyTimeout)
	}
}

func (db *DB) tryRead(ctx context.Context) error {
	var number int
	if err := db.Get(ctx, &number, "PRAGMA user_version"); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// tryWrite writes the time into the number that SQLite keeps for applications, to the nanosecond: a
// write that changes nothing would not reach the disk.
func (db *DB) tryWrite() error {
	now := db.options.Clock()
	query := fmt.Sprintf("PRAGMA user_version = %d", int32(now.UnixNano()))

	ctx := context.Background()
	err := db.Write(ctx, func(tx *Tx) error {
		if err := tx.CheckRoom(); err != nil {
			return err
		}
		// Through tx, each number would be another prepared statement.
		_, err := db.writer.conn.ExecContext(ctx, query)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWrites, err)
	}

	db.probed.Store(now.UnixMilli())
	return nil
}

// Health returns the state of the database. It asks the system, without opening a file:
// closing it would drop SQLite's locks.
func (db *DB) Health() Health {
	h := Health{
		Schema:    db.upgrade.to,
		FileBytes: db.Size(),
		LogBytes:  fileSize(db.path + "-wal"),
		FreeBytes: -1,
	}

	if d, err := db.Disk(); err == nil {
		h.FreeBytes = d.Free
	}

	return h
}
