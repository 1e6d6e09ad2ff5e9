package store

import (
	"callbook/store/domain"
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// SQLite overwrites deleted rows (secure_delete), but not the copies that it left behind
// earlier, when it moved rows to other pages to make room. VACUUM rewrites the whole file
// without them.

const (
	fileErased   = "erased_at"        // when something was first erased since the last compaction
	compactTried = "compact_tried_at" // when the service last began a compaction
)

const (
	// maxCompacted is how large a file may be that the service compacts by itself:
	// meanwhile writes wait, some ten seconds at this size.
	maxCompacted = 1 << 30

	compactHour  = 3 // UTC
	compactAge   = time.Hour
	compactLate  = domain.Day + time.Hour // at any hour then: it was not running at night
	compactRetry = time.Hour
)

// noteErased remembers the erasure for the next compaction.
func (t *tx) noteErased() error {
	return t.Exec(`INSERT INTO site (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, fileErased, timeNote(t.now))
}

// compactIfDue compacts the file at night if something was erased since the last time,
// unless it is too large or the disk has too little room.
func (s *Store) compactIfDue(ctx context.Context) error {
	if s.db.Size() > s.maxCompacted {
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
	if err := s.writeScheduled(ctx, func(t *tx) error { return t.noteTime(compactTried, t.now) }); err != nil {
		return err
	}
	_, _, err = s.Compact(ctx)
	return err
}

// dueAtNight reports whether work that was due or done at some time is due now: at night if that was an hour ago, at any
// hour if a night has passed.
func (s *Store) dueAtNight(since domain.Time) bool {
	return s.Now().Hour() == compactHour && !s.within(compactAge, since) || !s.within(compactLate, since)
}

// Compact rewrites the whole file, and returns its size before and after; see
// sqlitedb.DB.Compact.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	before, after, err = s.db.Compact(ctx, func(conn *sqlx.Conn) error {
		s.erased.Store(true) // the log holds the pages as they were
		_, err := conn.ExecContext(ctx, `DELETE FROM site WHERE name = ?`, fileErased)
		return err
	})
	return before, after, publicError(err)
}
