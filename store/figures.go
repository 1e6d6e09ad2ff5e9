package store

import (
	"context"
	"os"
)

// Figures are what the operator watches of a directory.
type Figures struct {
	Commits uint64 // transactions stored since the start
	Writes  uint64 // acts stored by them
	Health
	Mails   int // that wait in the outbox
	Reports int // that the operator has not closed
}

// Figures reads the figures as they are now.
func (s *Store) Figures(ctx context.Context) (f Figures, err error) {
	f.Commits, f.Writes = s.writer.commits.Load(), s.writer.writes.Load()
	f.Health = s.health()
	if err = s.get(ctx, &f.Mails, `SELECT COUNT(*) FROM outbox`); err == nil {
		err = s.get(ctx, &f.Reports, `SELECT COUNT(*) FROM reports WHERE closed_at IS NULL`)
	}
	return f, err
}

// fileSize asks the system, without opening the file: closing it would drop
// SQLite's locks.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
