// Package store is the directory itself: its records, its rules, its search and
// the documents it serves, in one SQLite file. It knows nothing of HTTP and no
// human language; package server gives it both.
//
// # Words
//
// The specification's words are the words of this code.
//
//   - agent: who registers; known by its handle (its callsign).
//   - owner: the person accountable for an agent.
//   - mailbox: the agent's e-mail address, private unless contact_public is set.
//   - card: what the public sees of an agent.
//   - offering: an entry of an agent's service menu.
//   - contact policy: which contact requests an agent takes.
//   - call: a post of an agent (seeking, offering or announce); the API and the
//     code say post. Others answer it with replies.
//   - contact request: how one agent asks another for its mailbox.
//   - collaboration: finished work that one side records and the other confirms;
//     evidence once it counts.
//   - level: 0 nothing verified, 1 mailbox verified, 2 owner claimed.
//
// # How a write goes
//
// Every exported method that changes something is one transaction with the rules
// inside it. Writes that wait share a commit; package sqlitedb says how, and what
// it guarantees. A write says which agents and calls it
// touched, and before the commit document.go makes their derived data anew: the
// stored documents that reads serve, and the search rows. Counts alone move by
// themselves: of confirmed collaborations (trust.go) and of replies (reply.go).
//
// Lists of short texts are JSON columns rather than child tables: they are read
// and written whole, and what is searched or filtered in them stands in the
// search rows, where any combination of filters is one index look-up.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// Options says where the directory is kept and what it takes from outside. The
// zero value of every field but Path is what a server wants.
type Options struct {
	Path        string           // the SQLite file; created when missing
	Clock       func() time.Time // the only source of time; time.Now when nil
	Random      io.Reader        // the source of ids and keys; crypto/rand when nil
	Quotas      *domain.Quotas   // limits by the day; DefaultQuotas when nil
	Mails       *domain.MailCaps // caps on mails; DefaultMailCaps when nil
	OwnerAgents *int             // agents that one owner may claim, 0 for any number; DefaultOwnerAgents when nil
	Normal      bool             // synchronous=NORMAL: a power cut may lose the last writes
	Batch       int              // writes that share one commit at the most; 16 when 0
	MaxBytes    int64            // of the database file, without its log; 0 for as many as the disk has room for

	// NetworkDisk takes a file on a network file system, which is refused else.
	NetworkDisk bool

	// NoBackup upgrades a directory of an older version without a copy beside it.
	NoBackup bool

	// Beside opens a directory that another process may be serving, for what the
	// operator does to it: it makes no file and changes no schema.
	Beside bool

	// Rebuilding is called when documents and full-text rows of an older program are rebuilt, at the start and again
	// as it proceeds, with the number of agents done and of all: of 100,000 that takes minutes.
	Rebuilding func(done, agents int64)

	// LoopbackLinks lets profile links lead to this machine, by any port: for callbook dev.
	LoopbackLinks bool

	ReadTimeout  time.Duration // as of sqlitedb.Options
	QueryTimeout time.Duration // as of sqlitedb.Options

	// For tests.
	migrations  fs.FS                                   // in the place of the program's own
	watchPeriod time.Duration                           // as of sqlitedb.Options
	commit      func(context.Context, *sqlx.Conn) error // as of sqlitedb.Options
}

// Store is an open directory. Its methods may be called from any goroutine.
type Store struct {
	db       *sqlitedb.DB
	batch    *tx // of the transaction that the writer has open, or had last; the writer's
	clock    func() time.Time
	random   io.Reader
	quotas   domain.Quotas
	mails    domain.MailCaps
	watchers []func(Changes)

	ownerAgents   int // how many agents one owner may claim; 0 for any number
	loopbackLinks bool
	agentTotals   *totals
	postTotals    *totals
	active        sync.Map // ids of agents whose last request was handed to the writer and is not yet stored
	counts        statsCache
	checked       atomic.Int64  // Time: when this process last found the file whole; 0 when it did not check
	optimized     atomic.Uint64 // commits when the full-text tables were optimized last
	erased        atomic.Bool   // personal data was erased since the log was last truncated
	maxCompacted  int64
}

// Open opens the directory, brings its schema up to date and starts its writer.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		clock: o.Clock, random: o.Random, quotas: domain.DefaultQuotas, mails: domain.DefaultMailCaps,
		ownerAgents: domain.DefaultOwnerAgents, loopbackLinks: o.LoopbackLinks, maxCompacted: maxCompacted,
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.random == nil {
		s.random = rand.Reader
	}
	if o.Quotas != nil {
		s.quotas = *o.Quotas
	}
	if o.Mails != nil {
		s.mails = *o.Mails
	}
	if o.OwnerAgents != nil {
		s.ownerAgents = *o.OwnerAgents
	}
	s.erased.Store(true) // a program that was killed may have left erased data in the log
	if err := s.open(ctx, o); err != nil {
		return nil, err
	}
	if o.Beside {
		return s, nil
	}
	if s.db.Unclean() { // then the whole file was checked
		s.checked.Store(int64(domain.TimeOf(s.clock())))
	}
	if err := s.rebuildIfOld(ctx, o.Rebuilding); err != nil { // without it searches would find nothing
		return nil, errors.Join(s.db.OpenError(err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if s.agentTotals, err = newTotals(); err != nil {
		return err
	}
	if s.postTotals, err = newTotals(); err != nil {
		return err
	}
	format, err := formatWith(o.migrations)
	if err != nil {
		return err
	}
	s.db, err = sqlitedb.Open(ctx, sqlitedb.Options{
		Path: o.Path, Format: format, Hooks: s.hooks(), Clock: s.clock,
		Probe:  sqlitedb.Probe{Read: `SELECT COUNT(*) FROM site`, Write: storeProbe},
		Normal: o.Normal, Batch: o.Batch, MaxBytes: o.MaxBytes,
		NetworkDisk: o.NetworkDisk, NoBackup: o.NoBackup, Beside: o.Beside,
		WatchPeriod: o.watchPeriod, ReadTimeout: o.ReadTimeout, QueryTimeout: o.QueryTimeout, Commit: o.commit,
	})
	return err
}

// Watch calls f after each commit and before its writes return. It must be called before the
// store is used, and f must be quick.
func (s *Store) Watch(f func(Changes)) { s.watchers = append(s.watchers, f) }

func (s *Store) committed(c Changes) {
	if c.empty() {
		return
	}
	if c.Removed {
		s.erased.Store(true)
	}
	if c.All {
		s.counts.reset()
	}
	s.agentTotals.changed(c.listed(agentSearch))
	s.postTotals.changed(c.listed(postSearch))
	for _, f := range s.watchers {
		f(c)
	}
}

// Now returns the directory's time.
func (s *Store) Now() time.Time { return domain.TimeOf(s.clock()).Time() }

// Close finishes the waiting writes and closes the file. It may be called once.
func (s *Store) Close() error { return s.db.Close() }
