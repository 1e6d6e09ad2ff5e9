package store

import (
	"context"

	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/sqlitedb"
	"callbook/store/watch"
)

// Watches returns the caller's watches.
func (s *Store) Watches(ctx context.Context, caller domain.Caller) ([]domain.Watch, error) {
	return watch.Of(ctx, s.db, caller.ID)
}

// ReplaceWatches replaces all watches of the caller. It returns validation_failed for one that names nothing, is given twice,
// or whose q has no words.
func (s *Store) ReplaceWatches(ctx context.Context, caller domain.Caller, drafts domain.WatchDrafts) ([]domain.Watch, error) {
	rows, err := watch.Prepare(ctx, s.db, drafts.Watches)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		ctx = sqlitedb.Freeing(ctx)
	}
	if err := s.writeOwn(ctx, caller, func(t *tx) error { return watch.Replace(t.Tx, caller.ID, rows) }); err != nil {
		return nil, err
	}
	return s.Watches(ctx, caller)
}

// MatchPosts notifies agents of the new posts that they watch for. It should run every second; without new posts it does
// nothing.
func (s *Store) MatchPosts(ctx context.Context) error { return s.matcher.Run(ctx) }

func (t *tx) endRests() (int, error) { return watch.EndRests(t.Tx, lifecycle.Batch) }
