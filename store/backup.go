package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// BackupContents counts the records of a database file, for the operator who makes, checks or
// restores it.
type BackupContents struct {
	Agents   int `db:"agents"`
	Posts    int `db:"posts"`
	Replies  int `db:"replies"`
	Requests int `db:"requests"`
	Collabs  int `db:"collabs"`

	UntrustedProxyAt domain.Time `db:"untrusted_proxy_at"` // see untrustedProxyAt; 0 for never

	sqlitedb.Info
}

// format returns the format of the directory's files, which sets c to the numbers of records in a
// file that is verified.
func (c *BackupContents) format() sqlitedb.Format {
	format := Format
	format.Inspect = func(ctx context.Context, file *sqlx.DB) error {
		return file.GetContext(ctx, c, `
			SELECT
				(SELECT COUNT(*) FROM agents) AS agents,
				(SELECT COUNT(*) FROM posts) AS posts,
				(SELECT COUNT(*) FROM replies) AS replies,
				(SELECT COUNT(*) FROM requests) AS requests,
				(SELECT COUNT(*) FROM collabs) AS collabs,
				COALESCE((
					SELECT CAST(CAST(value AS TEXT) AS INTEGER) FROM site WHERE name = ?
				), 0) AS untrusted_proxy_at`,
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
func RestoreBackup(
	ctx context.Context,
	backup, path string,
	now time.Time,
) (c BackupContents, kept string, err error) {
	c.Info, kept, err = sqlitedb.Restore(ctx, backup, path, now, c.format())
	return c, kept, err
}

// VerifyFile is sqlitedb.Verify for a directory.
func VerifyFile(ctx context.Context, path string, served bool) (c BackupContents, err error) {
	c.Info, err = sqlitedb.Verify(ctx, path, served, c.format())
	return c, err
}

// BackupSchedule configures scheduled backups.
type BackupSchedule struct {
	Path   string        // of the database
	Folder string        // for the backups; there are none if it is empty
	Every  time.Duration // between two backups
	Keep   int           // number of backups that stay; at least 1
}

// scheduledName is the name of a backup, with its time, so that names sort by age.
const scheduledName = "callbook-20060102T150405Z.db"

// Run makes the next backup if it is due, and returns its name; empty if it was not due. Then it
// deletes older ones. The time in the name of a backup counts, not that of the file.
func (b BackupSchedule) Run(
	ctx context.Context,
	now time.Time,
) (name string, c BackupContents, err error) {
	made, err := b.list(now)
	if err != nil {
		return "", c, err
	}
	if err := b.removeDrafts(); err != nil {
		return "", c, err
	}
	// The service may start several times a day.
	if n := len(made); n > 0 && now.Sub(made[n-1]) < b.Every {
		return "", c, nil
	}

	name = b.nameAt(now)
	if c, err = MakeBackup(ctx, b.Path, name); err != nil {
		return "", c, err
	}

	// Only now: the backup of a damaged database has failed above, and the last good one stays.
	var errs []error
	for i := range len(made) + 1 - max(b.Keep, 1) {
		errs = append(errs, os.Remove(b.nameAt(made[i])))
	}

	if err := errors.Join(errs...); err != nil {
		return name, c, fmt.Errorf(
			"the new backup is complete, but older ones cannot be removed: %w",
			err,
		)
	}

	return name, c, nil
}

// removeDrafts removes the unfinished backups of a program that was killed; see sqlitedb.Backup
// for their names.
func (b BackupSchedule) removeDrafts() error {
	entries, err := os.ReadDir(b.Folder)
	for _, entry := range entries {
		if draft, _ := filepath.Match(".callbook-????????T??????Z.db.*", entry.Name()); draft {
			err = errors.Join(err, os.Remove(filepath.Join(b.Folder, entry.Name())))
		}
	}
	return err
}

// Newest returns the newest backup that is not from the future, and when it was made; zero values
// if there is none.
func (b BackupSchedule) Newest(now time.Time) (name string, made time.Time, err error) {
	if b.Folder == "" {
		return "", made, nil
	}

	all, err := b.list(now)
	if err != nil || len(all) == 0 {
		return "", made, err
	}

	made = all[len(all)-1]
	return b.nameAt(made), made, nil
}

// Owns reports whether a file is a scheduled backup, by its folder and name. One that is served
// would be deleted like the others.
func (b BackupSchedule) Owns(path string) bool {
	path = sqlitedb.FileOf(path)
	if _, err := time.Parse(scheduledName, filepath.Base(path)); err != nil {
		return false
	}

	in, inErr := os.Stat(filepath.Dir(path))
	folder, folderErr := os.Stat(b.Folder)
	return errors.Join(inErr, folderErr) == nil && os.SameFile(in, folder)
}

// nameAt returns the name of a backup by its time.
func (b BackupSchedule) nameAt(made time.Time) string {
	return filepath.Join(b.Folder, made.UTC().Format(scheduledName))
}

// list returns the times of the backups, the oldest first, without those after now, which were
// made while the clock ran ahead.
func (b BackupSchedule) list(now time.Time) (made []time.Time, err error) {
	entries, err := os.ReadDir(b.Folder)
	if err != nil {
		return nil, err
	}

	for _, entry := range entries { // sorted by name
		if at, err := time.Parse(scheduledName, entry.Name()); err == nil && !at.After(now) {
			made = append(made, at)
		}
	}

	return made, nil
}
