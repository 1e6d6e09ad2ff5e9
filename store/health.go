package store

import (
	"context"
	"time"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// storeProbe is the statement with which the database tries whether it can write.
const storeProbe = `
	INSERT INTO site (name, value) VALUES ('probe', ?)
	ON CONFLICT (name) DO UPDATE SET value = excluded.value`

// Ready reports whether the directory can be read and written, now or within the last second,
// and the state of its file. It waits a second at most.
func (s *Store) Ready(ctx context.Context) (sqlitedb.Health, error) {
	h, err := s.db.Ready(ctx)
	return h, publicError(err)
}

// Alive reports whether the store responds within a time, for a watchdog.
func (s *Store) Alive(ctx context.Context, within time.Duration) error {
	return s.db.Alive(ctx, within)
}

// Broken returns a channel that is closed when the store has stopped for good.
func (s *Store) Broken() <-chan struct{} { return s.db.Broken() }

// Failure returns why the store has stopped for good, as sqlitedb.ErrDamaged, ErrDisk or
// ErrReplaced; nil while it has not.
func (s *Store) Failure() error { return s.db.Failure() }

// Disk returns the disk that the database lies on.
func (s *Store) Disk() (sqlitedb.Disk, error) { return s.db.Disk() }

// Normal reports whether a power cut may lose the last writes.
func (s *Store) Normal() bool { return s.db.Normal() }

// Upgraded is sqlitedb.DB.Upgraded.
func (s *Store) Upgraded() (from, to int64, kept string) { return s.db.Upgraded() }

// checkEvery is how long a file that was found whole is trusted.
const checkEvery = domain.Day

// fileChecked names when it was found whole last.
const fileChecked = "checked_at"

// CheckWhole reads the whole file beside other work, unless it was found whole within the last
// day, and stops the store when it finds damage. It takes about a second for each 60 MB.
func (s *Store) CheckWhole(ctx context.Context) error {
	now := domain.TimeOf(s.clock())
	checked := domain.Time(s.checked.Load())
	if checked == 0 {
		checked, _ = s.notedTime(ctx, fileChecked) // unreadable: check the file
	}
	if s.within(checkEvery, checked) {
		return nil
	}
	if err := s.db.Check(ctx); err != nil {
		return err
	}
	s.checked.Store(int64(now))
	return s.write(ctx, func(t *tx) error {
		return t.noteTime(fileChecked, now)
	})
}
