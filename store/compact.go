package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// SQLite overwrites what is deleted (secure_delete), but not the copies that it left
// behind earlier, when it moved rows to other pages to make room. VACUUM writes the
// whole file anew, and leaves nothing but what is stored.

const (
	fileErased   = "erased_at"        // when something was first erased since the last compaction
	compactTried = "compact_tried_at" // when the service last began a compaction
)

const (
	// mostCompacted is how large a file may be that the service compacts by itself:
	// meanwhile writes wait, some ten seconds at this size.
	mostCompacted = 1 << 30

	compactHour  = 3 // UTC
	compactAge   = time.Hour
	compactLate  = Day + time.Hour // at any hour then: it was not running at night
	compactRetry = time.Hour
)

// noteErased remembers the erasure for the next compaction.
func (t *tx) noteErased() error {
	return t.Exec(`INSERT INTO site (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, fileErased, timeNote(t.now))
}

// compactIfDue compacts the file at night if something was erased since the last time,
// unless it is too large or the disk has too little room.
func (s *Store) compactIfDue(ctx context.Context) error {
	if fileSize(s.path) > s.mostCompacted {
		return nil
	}
	erased, err := s.notedTime(ctx, fileErased)
	if err != nil || erased == 0 {
		return err
	}
	tried, err := s.notedTime(ctx, compactTried)
	if err != nil || s.within(compactRetry, tried) {
		return err
	}
	if !s.dueAtNight(erased) {
		return nil
	}
	// Noted before, so that a program that is killed meanwhile does not begin again with each start.
	if err := s.writeDue(ctx, func(t *tx) error { return t.noteTime(compactTried, t.now) }); err != nil {
		return err
	}
	_, _, err = s.Compact(ctx)
	return err
}

// dueAtNight reports whether work that was due or done at some time is due now: at night if that was an hour ago, at any
// hour if a night has passed.
func (s *Store) dueAtNight(since Time) bool {
	return s.Now().Hour() == compactHour && !s.within(compactAge, since) || !s.within(compactLate, since)
}

// Compact writes the whole file anew, and returns its size before and after. Writes wait
// meanwhile, those of another process until their time is over. It needs twice the size
// of the file as free room, or fails with ErrNoRoom.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	before = fileSize(s.path)
	disk, err := s.Disk()
	if err != nil {
		return before, before, fmt.Errorf("look for the room that a compaction needs: %w", err)
	}
	if needed := 2 * (before + fileSize(s.path+"-wal")); disk.Free < needed {
		return before, before, fmt.Errorf("%w to compact the database: %d MiB are needed and %d MiB are free", ErrNoRoom, needed>>20+1, disk.Free>>20)
	}
	err = s.outside(ctx, func(w *writer) error {
		s.compacting.Store(true)
		defer s.compacting.Store(false)
		return w.vacuum(ctx)
	})
	if err == nil {
		err = s.checkpointErased(ctx)
	}
	return before, fileSize(s.path), err
}

// vacuum keeps the new file beside the database until it is whole, rather than in memory,
// as other temporary tables, or in a folder for temporary files, which may be memory too.
func (w *writer) vacuum(ctx context.Context) (err error) {
	run := func(ctx context.Context, query string, args ...any) {
		if err == nil {
			_, err = w.conn.ExecContext(ctx, query, args...)
		}
	}
	run(ctx, `PRAGMA temp_store_directory = `+`'`+strings.ReplaceAll(filepath.Dir(w.store.path), `'`, `''`)+`'`)
	run(ctx, `PRAGMA temp_store = FILE`)
	run(ctx, `VACUUM`)
	run(ctx, `DELETE FROM site WHERE name = ?`, fileErased)
	_, restoreErr := w.conn.ExecContext(context.Background(), `PRAGMA temp_store = MEMORY`)
	if err = errors.Join(err, restoreErr); err != nil {
		return fmt.Errorf("compact the database: %w", err)
	}
	w.store.erased = true // the log holds the pages as they were
	return nil
}
