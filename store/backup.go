// Package backup makes, schedules, checks and restores backups of a directory, and counts what they
// contain. It does with package sqlitedb what the operator's commands need.
package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// BackupContents counts the records of a database file, for the operator who makes, checks or restores it.
type BackupContents struct {
	Agents   int `db:"agents"`
	Posts    int `db:"posts"`
	Replies  int `db:"replies"`
	Requests int `db:"requests"`
	Collabs  int `db:"collabs"`

	UntrustedProxyAt domain.Time `db:"untrusted_proxy_at"` // see untrustedProxyAt; 0 for never

	sqlitedb.Info
}

// format returns the format of the directory's files, which sets c to the numbers of records in a file
// that is verified.
func (c *BackupContents) format() sqlitedb.Format {
	format := Format
	format.Inspect = func(ctx context.Context, file *sqlx.DB) error {
		return file.GetContext(ctx, c, `
			SELECT (SELECT COUNT(*) FROM agents) AS agents, (SELECT COUNT(*) FROM posts) AS posts,
				(SELECT COUNT(*) FROM replies) AS replies, (SELECT COUNT(*) FROM requests) AS requests,
				(SELECT COUNT(*) FROM collabs) AS collabs,
				COALESCE((SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM site WHERE name = ?), 0) AS untrusted_proxy_at`,
			untrustedProxyAt)
	}
	return format
}

// MakeBackup is sqlitedb.Backup for a directory.
func MakeBackup(ctx context.Context, path, to string) (c BackupContents, err error) {
	c.Info, err = sqlitedb.Backup(ctx, path, to, c.format())
	return c, err
}

// RestoreBackup is sqlitedb.Restore for a directory.
func RestoreBackup(ctx context.Context, backup, path string, now time.Time) (c BackupContents, kept string, err error) {
	c.Info, kept, err = sqlitedb.Restore(ctx, backup, path, now, c.format())
	return c, kept, err
}

// VerifyFile is sqlitedb.Verify for a directory.
func VerifyFile(ctx context.Context, path string, served bool) (c BackupContents, err error) {
	c.Info, err = sqlitedb.Verify(ctx, path, served, c.format())
	return c, err
}
