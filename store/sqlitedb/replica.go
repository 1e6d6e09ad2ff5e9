package sqlitedb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
)

// A DB with Options.ReadOnly serves a copy of the database of another machine, which another process replaces again and
// again by renaming a newer copy over it. A copy itself never changes: the connections need neither locks nor a log,
// and write no file.

// copied is a copy that is served.
type copied struct {
	file    os.FileInfo
	schema  int64
	written time.Time // when the primary last probed its database before the copy was made
}

var errSuperseded = errors.New("a newer copy has just replaced the file")

// snapshots opens connections to one copy only. A pool opens a connection whenever it needs one, when the path may
// already name a newer copy.
type snapshots struct {
	driver.Connector
	path string
	file os.FileInfo
}

func (s snapshots) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.path); err != nil || !os.SameFile(info, s.file) {
		return nil, errors.Join(errSuperseded, conn.Close())
	}
	return conn, nil
}

// openCopy opens and checks the copy that the path names now.
func (db *DB) openCopy(ctx context.Context) (*sqlx.DB, *copied, error) {
	info, err := os.Stat(db.path)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("there is no copy of the database yet, or no longer: %w", err)
	case fileSize(db.path+"-wal") > logHeader:
		return nil, nil, fmt.Errorf("%w: it has a write-ahead log; serve a copy, or serve it without --read-only", ErrWritten)
	}
	source, err := dataSource(db.path, immutable, readPragmas...)
	if err != nil {
		return nil, nil, err
	}
	connector, err := sqlite.NewConnector(source)
	if err != nil {
		return nil, nil, err
	}
	pool := sqlx.NewDb(sql.OpenDB(snapshots{connector, db.path, info}), "sqlite")
	pool.SetMaxOpenConns(readConnections)
	pool.SetMaxIdleConns(readConnections)
	served := &copied{file: info}
	if err = errors.Join(db.checkCopy(ctx, pool, served), connectAll(ctx, pool)); err != nil {
		return nil, nil, openError(errors.Join(err, pool.Close()))
	}
	return pool, served, nil
}

// checkCopy checks that the program can serve a copy, and reads how old it is.
func (db *DB) checkCopy(ctx context.Context, pool *sqlx.DB, served *copied) error {
	o := &db.options
	if err := o.Format.checkMark(ctx, pool); err != nil {
		return err
	}
	version, newest, err := o.Format.versions(ctx, pool)
	if err != nil {
		return err
	}
	if version != newest {
		return fmt.Errorf("the copy was made by an older version of callbook (schema %d, this program knows %d): upgrade the primary", version, newest)
	}
	served.schema = version
	var probed string
	if err := pool.GetContext(ctx, &probed, o.Probe.Last); err != nil {
		return fmt.Errorf("read the age of the copy: %w", err)
	}
	if served.written, err = time.Parse(probeTime, probed[:min(len(probed), len(probeTime))]); err != nil {
		return fmt.Errorf("read the age of the copy: %w", err)
	}
	if o.Accept != nil {
		return o.Accept(ctx, pool)
	}
	return nil
}

// connectAll opens all connections of a pool.
func connectAll(ctx context.Context, pool *sqlx.DB) (err error) {
	for range readConnections {
		conn, openErr := pool.Conn(ctx)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, conn.Close()) }() // gives it back to the pool
	}
	return nil
}

// follow serves each newer copy, until Close.
func (db *DB) follow() {
	defer close(db.writer.done)
	ticker := time.NewTicker(db.options.WatchPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			err := db.openNewer(context.Background())
			db.copyErr.Store(&err)
		case <-db.writer.jobs: // closed
			return
		}
	}
}

// openNewer serves the copy that the path names now, if it is another one. If that copy cannot be served, the present
// one still is. A copy that changes under its readers stops the DB: they may have read half of a change.
func (db *DB) openNewer(ctx context.Context) error {
	now := db.serving.Load()
	info, err := os.Stat(db.path)
	if err == nil && os.SameFile(info, now.file) {
		if info.Size() != now.file.Size() || !info.ModTime().Equal(now.file.ModTime()) || fileSize(db.path+"-wal") > logHeader {
			db.stop(fmt.Errorf("%w: %w", ErrReplaced, ErrWritten))
		}
		return nil
	}
	pool, served, err := db.openCopy(ctx)
	if err != nil {
		return err
	}
	if err := db.readers.Acquire(ctx, readConnections); err != nil { // waits for the reads of the present copy
		return errors.Join(err, pool.Close())
	}
	old, prepared := db.reading, db.readStatements
	db.reading, db.readStatements = pool, &statements{}
	db.serving.Store(served)
	db.options.Hooks.Invalidate()
	db.readers.Release(readConnections)
	return errors.Join(prepared.close(), old.Close())
}

// CopyState returns when the primary last probed its database before the served copy was made, and why the newest copy
// is not the served one, if it is not. It is for a DB with Options.ReadOnly.
func (db *DB) CopyState() (written time.Time, err error) {
	if failed := db.copyErr.Load(); failed != nil {
		err = *failed
	}
	return db.serving.Load().written, err
}

// lastCopy reports whether the served copy can no longer be opened, because the path names another one. The driver drops
// a connection whose query is interrupted, and this copy would have one less.
func (db *DB) lastCopy() bool {
	failed := db.copyErr.Load()
	return failed != nil && *failed != nil
}
