package sqlitedb

import (
	"context"
	"errors"
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
	probeRoom    = 64 << 10    // bytes; more than most writes need
)

// Ready reports whether the database can be read and written, now or within the last second, and its state. It returns ErrWrites if only reads work. It waits a second at most.
func (db *DB) Ready(ctx context.Context) (Health, error) {
	return db.ready(ctx, readyTimeout)
}

// Alive reports whether the database responds within a time, for a watchdog: a full or read-only disk,
// a compaction and another process that writes are no reason to start again.
func (db *DB) Alive(ctx context.Context, within time.Duration) error {
	_, err := db.ready(ctx, within)
	for _, temporary := range []error{ErrNoSpace, ErrReadOnly, ErrBusy, ErrClosed, ErrStopped} {
		if errors.Is(err, temporary) {
			return nil
		}
	}
	return err
}

func (db *DB) ready(ctx context.Context, within time.Duration) (Health, error) {
	h := db.Health()
	if err := db.Failure(); err != nil {
		return h, err
	}
	age := db.options.Clock().Sub(time.UnixMilli(db.probed.Load()))
	switch {
	case db.compacting.Load(): // it reads, and writes wait
		return h, nil
	case 0 <= age && age < readyAge && !db.full.Load():
		return h, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the database does not read and write within %s", within))
	defer cancel()
	// A write that hangs must not hide that reads hang later: each has a probe of its own.
	err := db.try(ctx, "read", db.tryRead)
	if err == nil {
		err = db.try(ctx, "write", db.tryWrite)
	}
	return h, err
}

// try runs a probe, or waits for the one of that name that runs already.
func (db *DB) try(ctx context.Context, name string, probe func() error) error {
	select {
	case result := <-db.probe.DoChan(name, func() (any, error) { return nil, probe() }):
		return result.Err
	case <-ctx.Done():
		if name == "write" {
			return fmt.Errorf("%w: %w", ErrWrites, context.Cause(ctx))
		}
		return context.Cause(ctx)
	}
}

func (db *DB) tryRead() error {
	var number int
	if err := db.Get(context.Background(), &number, db.options.Probe.Read); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

func (db *DB) tryWrite() error {
	now := db.options.Clock()
	// After a write that found no room, write something that takes room: a value that fits into
	// an existing page proves nothing.
	full := db.full.Load()
	value := []byte(now.UTC().Format(time.RFC3339Nano))
	if full {
		value = append(value, make([]byte, probeRoom)...)
	}
	if err := db.Write(context.Background(), func(tx *Tx) error { return tx.Exec(db.options.Probe.Write, value) }); err != nil {
		return fmt.Errorf("%w: %w", ErrWrites, err)
	}
	if full {
		db.full.Store(false)
	}
	db.probed.Store(now.UnixMilli())
	return nil
}

// Health returns the state of the database. It asks the system, without opening a file:
// closing it would drop SQLite's locks.
func (db *DB) Health() Health {
	h := Health{Schema: db.upgrade.to, FileBytes: db.Size(), LogBytes: fileSize(db.path + "-wal"), FreeBytes: -1}
	if d, err := db.Disk(); err == nil {
		h.FreeBytes = d.Free
	}
	return h
}
