// Package maintenance looks after the database file: it checks that the file is whole, and sees
// to it that deleted personal data leaves it.
//
// SQLite overwrites deleted rows (secure_delete), but the write-ahead log keeps the pages as they
// were until it is truncated, and the file keeps copies that SQLite left when it moved rows to
// other pages. VACUUM rewrites the file without them.
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

// maintainer runs the maintenance of one database. Its methods may be called from any goroutine.
type maintainer struct {
	MaxCompacted int64 // size of the largest file that Run compacts

	// Checking is called when a check of the whole file begins, and when it has found the file undamaged. It may be nil.
	Checking func(bytes int64, took time.Duration, done bool)

	// Rebuilding is called when the full-text tables are damaged and rebuilt. It may be nil.
	Rebuilding func()

	db      *database
	erased  atomic.Bool  // personal data was deleted since the log was last truncated
	checked atomic.Int64 // domain.Time when this process last checked the file; 0 if it did not
}

// newMaintainer returns a maintainer. Before SetDB, only Erased may be called.
func newMaintainer() *maintainer {
	m := &maintainer{MaxCompacted: maxCompacted}
	m.erased.Store(true) // a program that was killed may have left deleted data in the log
	return m
}

// SetDB sets the database, which was just opened.
func (m *maintainer) SetDB(db *database) { m.db = db }

// Erased records that personal data was deleted, so that Run truncates the log.
func (m *maintainer) Erased() { m.erased.Store(true) }

// Run does the maintenance that is due: it optimizes the full-text tables and compacts the file
// at night, and truncates the log after an erasure. It should run every minute.
func (m *maintainer) Run(ctx context.Context) error {
	return errors.Join(m.optimizeSearch(ctx), m.compactIfDue(ctx), m.truncateLog(ctx))
}

// dueAtNight reports whether work that came up or was done at a time is due now: at night if
// that was an hour ago, at any hour if a night has passed.
func (m *maintainer) dueAtNight(since domain.Time) bool {
	night := m.db.Now().Time().Hour() == nightHour
	return night && !m.db.Within(nightAge, since) || !m.db.Within(lateAge, since)
}

// optimizeSearch optimizes the full-text tables at night.
func (m *maintainer) optimizeSearch(ctx context.Context) error {
	last, err := m.db.SiteTime(ctx, optimizedAt)
	if err != nil || !m.dueAtNight(last) {
		return err
	}
	return m.db.WriteBackground(ctx, func(t *Transaction) error {
		if err := t.OptimizeSearch(); err != nil {
			return err
		}
		m.erased.Store(true) // the log holds the segments as they were
		return t.SetSiteTime(optimizedAt, t.Now)
	})
}

// compactIfDue compacts the file at night if something was erased since the last time, unless it
// is too large.
func (m *maintainer) compactIfDue(ctx context.Context) error {
	if m.db.Size() > m.MaxCompacted {
		return nil
	}
	erased, err := m.db.SiteTime(ctx, erasedAt)
	if err != nil || erased == 0 {
		return err
	}
	if !m.dueAtNight(erased) {
		return nil
	}

	// If the compaction fails, or the program is killed meanwhile, another night is soon enough.
	err = m.db.WriteBackground(ctx, func(t *Transaction) error { return t.SetSiteTime(erasedAt, t.Now) })
	if err != nil {
		return err
	}
	_, _, err = m.Compact(ctx)
	return err
}

// Compact rewrites the whole file, and returns its size before and after; see
// sqlitedb.DB.Compact.
func (m *maintainer) Compact(ctx context.Context) (before, after int64, err error) {
	return m.db.Compact(ctx, func(conn *sqlx.Conn) error {
		m.erased.Store(true) // the log holds the pages as they were
		_, err := conn.ExecContext(ctx, `DELETE FROM site WHERE name = ?`, erasedAt)
		return err
	})
}

// truncateLog empties the write-ahead log after personal data was deleted.
func (m *maintainer) truncateLog(ctx context.Context) error {
	if !m.erased.CompareAndSwap(true, false) {
		return nil
	}
	done, err := m.db.TruncateLog(ctx)
	if !done {
		m.erased.Store(true) // a reader was in the way: the next run tries again
	}
	return err
}

// Check reads the whole file in the background, unless it was found undamaged within the last day, and stops the database if it
// is damaged. An earlier process that did not close the file counts as no check. It takes about a second for each 60 MB.
func (m *maintainer) Check(ctx context.Context) error {
	now := m.db.Now()
	checked := domain.Time(m.checked.Load())
	if checked == 0 && !m.db.Unclean() {
		checked, _ = m.db.SiteTime(ctx, checkedAt) // if it is unreadable, check the file
	}
	if m.db.Within(checkAge, checked) {
		return nil
	}
	err := m.checkAll(ctx)
	if err != nil {
		return err
	}
	m.checked.Store(int64(now))
	return m.db.Write(ctx, func(t *Transaction) error { return t.SetSiteTime(checkedAt, now) })
}

// checkFile reads the whole file, and rebuilds the full-text tables if they alone are damaged.
func (m *maintainer) checkFile(ctx context.Context) error {
	if err := m.db.Check(ctx, m.rebuildSearch); err != nil {
		return err
	}
	whole, err := searchIsWhole(ctx, m.db)
	if err != nil || whole {
		return err
	}
	return m.rebuildSearch(ctx)
}

// rebuildSearch rebuilds the full-text tables, which are damaged.
func (m *maintainer) rebuildSearch(ctx context.Context) error {
	if m.Rebuilding != nil {
		m.Rebuilding()
	}
	return rebuildSearch(ctx, m.db)
}

// checkAll reads the whole file, and reports its begin and end.
func (m *maintainer) checkAll(ctx context.Context) error {
	if m.Checking == nil {
		return m.checkFile(ctx)
	}

	start, size := time.Now(), m.db.Size() //clock: of the check
	m.Checking(size, 0, false)
	err := m.checkFile(ctx)
	if err == nil {
		m.Checking(size, time.Since(start), true) //clock: of the check
	}
	return err
}
