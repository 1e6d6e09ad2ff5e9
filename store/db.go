// Package txn runs the transactions of the directory's use cases. A [DB] is the open database.
// A [Tx] is what one write sees of its transaction: the time, and what all use cases share,
// which are ids, events, quotas, idempotency keys and values of the site.
//
// A Tx also collects what must happen because of the write. Before the commit, the rows of the
// full-text tables are replaced, once for all writes that share the transaction. After the commit,
// Options.Committed gets the [Changes].
package store

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"callbook/schema"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// databaseOptions configures a DB.
type databaseOptions struct {
	sqlitedb.Options // without Format and Hooks, which Open sets

	Secret     []byte        // the key of CodeHash; that of Pseudonym if empty
	Random     io.Reader     // the source of ids and secrets
	Migrations fs.FS         // instead of those of package schema, for tests
	Committed  func(Changes) // is called after each commit and before its writes return
}

// database is the open database of a directory. Its methods may be called from any goroutine.
type database struct {
	*sqlitedb.DB
	options databaseOptions
	secret  []byte // the key of Pseudonym
	batch   *Transaction    // of the transaction that the writer has open, or had last; the writer's
}

// applicationID marks a file as Callbook's: "Call".
const applicationID = 0x43616c6c

// Format is that of the directory's files.
var Format = sqlitedb.Format{ApplicationID: applicationID, Migrations: schema.Migrations}

// openDatabase opens the database, upgrades its schema and starts its writer.
func openDatabase(ctx context.Context, o databaseOptions) (db *database, err error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	db = &database{options: o}
	o.Format = Format
	if o.Migrations != nil {
		o.Format.Migrations = o.Migrations
	}
	o.Hooks = sqlitedb.Hooks{
		Begin:        func(tx *sqlitedb.Tx) { db.batch = db.newTx(tx, db.Now()) },
		BeforeCommit: func() error { return db.batch.finish() },
		Committed:    func() { o.Committed(db.batch.Changes) },
		Invalidate:   func() { o.Committed(everything) },
	}
	if db.DB, err = sqlitedb.Open(ctx, o.Options); err != nil {
		return nil, err
	}
	if err = db.readSecret(ctx); err != nil {
		return nil, errors.Join(db.OpenError(err), db.Close())
	}
	return db, nil
}

// Now returns the time of the directory's clock.
func (db *database) Now() domain.Time { return domain.TimeOf(db.options.Clock()) }

// Within reports whether at is at most age ago. It reports false for a time in the future, as
// after the clock was set back.
func (db *database) Within(age time.Duration, at domain.Time) bool {
	now := db.Now()
	return now.Add(-age) <= at && at <= now
}

// Write runs act in a transaction, and returns once it is committed, or rejected and rolled
// back. A write that has started is finished even if ctx ends. act may run twice (see package
// sqlitedb), so it must set its results each time and have no effect outside the transaction.
func (db *database) Write(ctx context.Context, act func(*Transaction) error) error {
	return db.DB.Write(ctx, db.collect(act))
}

// WriteOrReject is Write that commits even if act returns a domain.Error, so that side effects
// such as a counter of failed attempts persist. It returns the Error after the commit.
func (db *database) WriteOrReject(ctx context.Context, act func(*Transaction) error) error {
	var rejection error
	err := db.Write(ctx, func(t *Transaction) error {
		rejection = act(t)
		if _, rejected := errors.AsType[*domain.Error](rejection); rejected {
			return nil
		}
		return rejection
	})
	return cmp.Or(err, rejection)
}

// WriteBackground is Write for background jobs, which requests do not delay.
func (db *database) WriteBackground(ctx context.Context, act func(*Transaction) error) error {
	return db.DB.WriteBackground(ctx, db.collect(act))
}

// TryWrite queues act without waiting for it, or drops it if the writer is busy, for a write
// that may be lost. It calls done with the result.
func (db *database) TryWrite(act func(*Transaction) error, done func(error)) {
	db.DB.TryWrite(db.collect(act), done)
}

// collect returns act as a write of the database whose effects are added to the batch if it
// succeeds.
func (db *database) collect(act func(*Transaction) error) func(*sqlitedb.Tx) error {
	return func(tx *sqlitedb.Tx) error {
		t := db.newTx(tx, db.batch.Now)
		if err := act(t); err != nil {
			return err
		}
		db.batch.merge(t)
		return nil
	}
}
