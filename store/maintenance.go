package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
)

// Names of site values.
const (
	checkedAt   = "checked_at"          // when the whole file was last found undamaged
	optimizedAt = "search_optimized_at" // when the full-text tables were last optimized
)

const (
	// maxCompacted is the size of the largest file that Run compacts: writes wait meanwhile,
	// some ten seconds at this size.
	maxCompacted = 1 << 30

	nightHour = 3                      // UTC
	nightAge  = time.Hour              // work that came up within this time waits for another night
	lateAge   = domain.Day + time.Hour // work this old is done at any hour
	checkAge  = domain.Day             // how long a check is trusted
)

// maintenance is the state of the care of the database file: that the file is whole, and that
// deleted personal data leaves it.
//
// SQLite overwrites deleted rows (secure_delete), but the write-ahead log keeps the pages as they
// were until it is truncated, and the file keeps copies that SQLite left when it moved rows to
// other pages. VACUUM rewrites the file without them.
type maintenance struct {
	maxCompacted int64       // size of the largest file that is compacted at night
	erased       atomic.Bool // personal data was deleted since the log was last truncated
	// Domain.Time when this process last checked the file; 0 if it did not.
	checked atomic.Int64
}

// runMaintenance does the maintenance that is due: it optimizes the full-text tables and compacts
// the file at night, and truncates the log after an erasure. It should run every minute.
func (s *Store) runMaintenance(ctx context.Context) error {
	return errors.Join(s.optimizeSearch(ctx), s.compactIfDue(ctx), s.truncateLog(ctx))
}

// dueAtNight reports whether work that came up or was done at a time is due now: at night if
// that was an hour ago, at any hour if a night has passed.
func (s *Store) dueAtNight(since domain.Time) bool {
	night := s.now().Time().Hour() == nightHour
	return night && !s.within(nightAge, since) || !s.within(lateAge, since)
}

// optimizeSearch optimizes the full-text tables at night.
func (s *Store) optimizeSearch(ctx context.Context) error {
	last, err := s.siteTime(ctx, optimizedAt)
	if err != nil || !s.dueAtNight(last) {
		return err
	}

	return s.writeBackground(ctx, func(t *tx) error {
		if err := t.OptimizeSearch(); err != nil {
			return err
		}

		s.maintenance.erased.Store(true) // the log holds the segments as they were
		return t.SetSiteTime(optimizedAt, t.Now)
	})
}

// compactIfDue compacts the file at night if something was erased since the last time, unless it
// is too large.
func (s *Store) compactIfDue(ctx context.Context) error {
	// When writes may wait for longer is for the operator to say, with the command.
	if s.db.Size() > s.maintenance.maxCompacted {
		return nil
	}
	erased, err := s.siteTime(ctx, erasedAt)
	if err != nil || erased == 0 {
		return err
	}
	if !s.dueAtNight(erased) {
		return nil
	}

	// If the compaction fails, or the program is killed meanwhile, another night is soon enough.
	err = s.writeBackground(ctx, func(t *tx) error { return t.SetSiteTime(erasedAt, t.Now) })
	if err != nil {
		return err
	}
	_, _, err = s.compactFile(ctx)
	return err
}

// compactFile rewrites the whole file, and returns its size before and after; see
// sqlitedb.DB.Compact.
func (s *Store) compactFile(ctx context.Context) (before, after int64, err error) {
	return s.db.Compact(ctx, func(conn *sqlx.Conn) error {
		s.maintenance.erased.Store(true) // the log holds the pages as they were
		_, err := conn.ExecContext(ctx, `DELETE FROM site WHERE name = ?`, erasedAt)
		return err
	})
}

// truncateLog empties the write-ahead log after personal data was deleted.
func (s *Store) truncateLog(ctx context.Context) error {
	if !s.maintenance.erased.CompareAndSwap(true, false) {
		return nil
	}

	done, err := s.db.TruncateLog(ctx)
	if !done {
		s.maintenance.erased.Store(true) // a reader was in the way: the next run tries again
	}

	return err
}

// CheckFile reads the whole file in the background, unless it was found undamaged within the last
// day, and stops the store if it is damaged. An earlier process that did not close the file counts
// as no check. It takes about a second for each 60 MB.
func (s *Store) CheckFile(ctx context.Context) error {
	now := s.now()
	checked := domain.Time(s.maintenance.checked.Load())
	if checked == 0 && !s.db.Unclean() {
		checked, _ = s.siteTime(ctx, checkedAt) // if it is unreadable, check the file
	}

	if s.within(checkAge, checked) {
		return nil
	}

	if err := s.checkAll(ctx); err != nil {
		return err
	}

	// What was damaged during the check may lie behind it: the time of its start counts.
	s.maintenance.checked.Store(int64(now))
	return s.write(ctx, func(t *tx) error { return t.SetSiteTime(checkedAt, now) })
}

// checkFile reads the whole file, and rebuilds the full-text tables if they alone are damaged.
func (s *Store) checkFile(ctx context.Context) error {
	if err := s.db.Check(ctx, s.repairSearch); err != nil {
		return err
	}

	whole, err := s.searchIsWhole(ctx)
	if err != nil || whole {
		return err
	}

	return s.repairSearch(ctx)
}

// repairSearch rebuilds the full-text tables, which are damaged.
func (s *Store) repairSearch(ctx context.Context) error {
	if s.rebuilding != nil {
		s.rebuilding()
	}
	return s.rebuildSearch(ctx)
}

// checkAll reads the whole file, and reports its begin and end.
func (s *Store) checkAll(ctx context.Context) error {
	if s.checking == nil {
		return s.checkFile(ctx)
	}

	start, size := time.Now(), s.db.Size() //clock: of the check
	s.checking(size, 0, false)
	if err := s.checkFile(ctx); err != nil {
		return err
	}
	s.checking(size, time.Since(start), true) //clock: of the check
	return nil
}
