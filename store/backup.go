package store

import (
	"context"
	"io/fs"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/schema"
	"callbook/store/sqlitedb"
)

// applicationID marks a file as Callbook's: "Call".
const applicationID = 0x43616c6c

// formatWith returns the format of the directory's files, with other migrations if any are given.
func formatWith(migrations fs.FS) (f sqlitedb.Format, err error) {
	if migrations == nil {
		migrations, err = fs.Sub(schema.Migrations, schema.Folder)
	}
	return sqlitedb.Format{ApplicationID: applicationID, Migrations: migrations}, err
}

// Contents counts the records of a database file, for the operator who made, checked or restored it.
type Contents struct {
	Agents   int `db:"agents"`
	Posts    int `db:"posts"`
	Replies  int `db:"replies"`
	Requests int `db:"requests"`
	Collabs  int `db:"collabs"`
	sqlitedb.Info
}

// count calls f with the format of the directory's files, and counts into c the records of the file
// that f verifies.
func (c *Contents) count(f func(sqlitedb.Format) (sqlitedb.Info, error)) error {
	format, err := formatWith(nil)
	if err != nil {
		return err
	}
	format.Inspect = func(ctx context.Context, file *sqlx.DB) error {
		return file.GetContext(ctx, c, `
			SELECT (SELECT COUNT(*) FROM agents) AS agents, (SELECT COUNT(*) FROM posts) AS posts,
				(SELECT COUNT(*) FROM replies) AS replies, (SELECT COUNT(*) FROM requests) AS requests,
				(SELECT COUNT(*) FROM collabs) AS collabs`)
	}
	info, err := f(format)
	c.Info = info
	return err
}

// Backup is sqlitedb.Backup for a directory.
func Backup(ctx context.Context, path, to string) (c Contents, err error) {
	err = c.count(func(f sqlitedb.Format) (sqlitedb.Info, error) { return sqlitedb.Backup(ctx, path, to, f) })
	return c, err
}

// RunSchedule makes the next scheduled backup if it is due, and returns its name; empty when none was.
func RunSchedule(ctx context.Context, schedule sqlitedb.Schedule, now time.Time) (name string, c Contents, err error) {
	name, err = schedule.Run(ctx, now, func(ctx context.Context, path, to string) (err error) {
		c, err = Backup(ctx, path, to)
		return err
	})
	return name, c, err
}

// Restore is sqlitedb.Restore for a directory.
func Restore(ctx context.Context, backup, path string, now time.Time) (c Contents, kept string, err error) {
	err = c.count(func(f sqlitedb.Format) (info sqlitedb.Info, err error) {
		info, kept, err = sqlitedb.Restore(ctx, backup, path, now, f)
		return info, err
	})
	return c, kept, err
}

// Verify is sqlitedb.Verify for a directory.
func Verify(ctx context.Context, path string, served bool) (c Contents, err error) {
	err = c.count(func(f sqlitedb.Format) (sqlitedb.Info, error) { return sqlitedb.Verify(ctx, path, served, f) })
	return c, err
}
