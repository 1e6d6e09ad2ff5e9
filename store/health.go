package store

import (
	"context"
	"errors"
	"fmt"

	"callbook/store/sqlitedb"
)

// Ready reports whether the directory can be read and written, now or within the last second, and
// the state of its file. It waits a second at most.
func (s *Store) Ready(ctx context.Context) (sqlitedb.Health, error) {
	return s.db.Ready(ctx)
}

// Broken returns a channel that is closed when the store has stopped permanently.
func (s *Store) Broken() <-chan struct{} { return s.db.Broken() }

// Failure returns why the store has stopped permanently, as sqlitedb.ErrDamaged, ErrDisk or
// ErrReplaced; nil if it has not.
func (s *Store) Failure() error { return s.db.Failure() }

// Disk returns the disk that the database lies on.
func (s *Store) Disk() (sqlitedb.Disk, error) { return s.db.Disk() }

// Normal reports whether a power cut may lose the last writes.
func (s *Store) Normal() bool { return s.db.Normal() }

// Upgraded is sqlitedb.DB.Upgraded.
func (s *Store) Upgraded() (from, to int64, kept string) { return s.db.Upgraded() }

// Compact rebuilds the full-text tables and rewrites the whole file, and returns its size before
// and after; see sqlitedb.DB.Compact.
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	// First, so that what the full-text tables no longer need leaves the file.
	if err := s.rebuildSearch(ctx); err != nil {
		return s.db.Size(), s.db.Size(), err
	}
	return s.compactFile(ctx)
}

// RecordUntrustedProxy stores that a request came through a proxy that is not trusted, in the
// background, for callbook check.
func (s *Store) RecordUntrustedProxy() {
	// The request does not wait for it, and if it is lost the next one records the same.
	s.tryWrite(func(t *tx) error { return t.SetSiteTime(untrustedProxyAt, t.Now) }, func(error) {})
}

// AddAbuse adds requests that were rejected as abuse to those of today; see
// [domain.Error.IsAbuse]. RunJobs deletes days past [domain.AbuseRetention].
func (s *Store) AddAbuse(ctx context.Context, requests int64) error {
	if requests == 0 {
		return nil
	}

	return s.writeBackground(ctx, func(t *tx) error {
		return t.Exec(`
			INSERT INTO abuse_days (day, requests) VALUES (?, ?)
			ON CONFLICT (day) DO UPDATE SET requests = requests + excluded.requests`,
			t.Now.StartOfDay(), requests)
	})
}

// Figures are the metrics of a directory.
type Figures struct {
	Commits uint64 // transactions since startup
	Writes  uint64 // writes in them
	sqlitedb.Health
	Mails   int // in the outbox
	Reports int // open reports
}

// Figures returns the current metrics.
func (s *Store) Figures(ctx context.Context) (f Figures, err error) {
	f.Commits, f.Writes = s.db.Counts()
	f.Health = s.db.Health()
	if err := s.db.Get(ctx, &f.Mails, `SELECT COUNT(*) FROM outbox`); err != nil {
		return f, err
	}

	err = s.db.Get(ctx, &f.Reports, `SELECT COUNT(*) FROM reports WHERE closed_at IS NULL`)
	return f, err
}

// Clear deletes everything in the directory, including handles, for tests of agents.
func (s *Store) Clear(ctx context.Context) error { return s.write(ctx, (*tx).clearDirectory) }

// ErrNotDev is returned for a file that callbook dev did not create.
var ErrNotDev = errors.New(
	"this directory was not made by callbook dev, which could empty it; give another --db",
)

// MarkDev marks a fresh directory as one of callbook dev. It returns ErrNotDev for another that is
// not marked.
func (s *Store) MarkDev(ctx context.Context, fresh bool) error {
	return s.write(ctx, func(t *tx) error {
		if fresh {
			return t.setFirst(devName, []byte(t.Now.String()))
		}

		var since []byte
		marked, err := t.Find(&since, selectSiteValue, devName)
		if err != nil {
			return err
		}
		if !marked {
			return ErrNotDev
		}
		return nil
	})
}

// clearDirectory deletes everything in the directory, including handles, for tests of agents.
func (t *tx) clearDirectory() error {
	for _, table := range []string{
		"outbox", "mail_log", "mail_networks", "mail_stops",
		"reports", "audit", "blocklist", "invites", "operator_links", "abuse_days",
		"blocks", "network_usage", "requests", "collabs",
		// The other tables of an agent are emptied with it. The numbers of records begin again.
		"agents", "handles", "sqlite_sequence",
	} {
		if err := t.Exec(`DELETE FROM ` + table); err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}

	// They hold numbers of posts.
	if err := t.Exec(`DELETE FROM site WHERE name LIKE 'matched_%'`); err != nil {
		return err
	}
	if err := t.ClearSearch(); err != nil {
		return err
	}

	t.Changes = everything
	return nil
}
