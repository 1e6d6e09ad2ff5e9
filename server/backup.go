package server

import (
	"context"
	"time"
)

// backupPause is how long after a copy that failed the next try comes: each reads
// the whole database.
const backupPause = time.Hour

// backUp makes a copy of the database when one is due.
func (s *Server) backUp(ctx context.Context) error {
	now := s.store.Now()
	if s.options.Backups.Folder == "" || now.Before(s.noBackup) {
		return nil
	}
	name, contents, err := s.options.Backups.Run(ctx, now)
	if err != nil {
		s.noBackup = now.Add(backupPause)
	}
	if name != "" {
		s.options.Log.Info().Str("file", name).Int("agents", contents.Agents).Int64("bytes", contents.Bytes).Msg("a backup is made")
	}
	return err
}
