package store

import (
	"context"

	"callbook/store/sqlitedb"
)

// Figures are what the operator watches of a directory.
type Figures struct {
	Commits uint64 // transactions stored since the start
	Writes  uint64 // acts stored by them
	sqlitedb.Health
	Mails   int // that wait in the outbox
	Reports int // that the operator has not closed
}

// Figures returns the figures as they are now.
func (s *Store) Figures(ctx context.Context) (f Figures, err error) {
	f.Commits, f.Writes = s.db.Counts()
	f.Health = s.db.Health()
	if err = s.get(ctx, &f.Mails, `SELECT COUNT(*) FROM outbox`); err == nil {
		err = s.get(ctx, &f.Reports, `SELECT COUNT(*) FROM reports WHERE closed_at IS NULL`)
	}
	return f, err
}
