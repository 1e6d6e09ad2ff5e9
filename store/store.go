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
// inside it. A single goroutine owns the writing connection; writes that wait
// share its next commit (commit.go). A write says which agents and calls it
// touched, and before the commit document.go makes their derived data anew: the
// stored documents that reads serve, and the search rows. Counts alone move by
// themselves: of confirmed collaborations (trust.go) and of replies (reply.go).
//
// Lists of short texts are JSON columns rather than child tables: they are read
// and written whole, and what is searched or filtered in them stands in the
// search rows, where any combination of filters is one index look-up.
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/semaphore"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Options says where the directory is kept and what it takes from outside. The
// zero value of every field but Path is what a server wants.
type Options struct {
	Path        string           // the SQLite file; created when missing
	Clock       func() time.Time // the only source of time; time.Now when nil
	Random      io.Reader        // the source of ids and keys; crypto/rand when nil
	Quotas      *Quotas          // limits by the day; DefaultQuotas when nil
	Mails       *MailCaps        // caps on mails; DefaultMailCaps when nil
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

	migrations fs.FS         // in the place of the program's own, for tests
	watch      time.Duration // between two looks at the files; watchPeriod when 0
}

// Store is an open directory. Its methods may be called from any goroutine.
type Store struct {
	name     string      // as it was given
	path     string      // of the file itself, whatever link led to it
	beside   bool        // another process may serve the file
	normal   bool        // synchronous=NORMAL
	full     atomic.Bool // a write found no room, and none as large has since
	killed   bool        // whoever had the file before was killed
	upgraded upgrade
	clock    func() time.Time
	random   io.Reader
	quotas   Quotas
	mails    MailCaps
	// ownerAgents is how many agents one owner may claim; 0 for any number.
	ownerAgents    int
	loopbackLinks  bool
	writing        *sqlx.DB
	reading        *sqlx.DB
	readStatements statements
	readTimeout    time.Duration
	readers        *semaphore.Weighted // of the connections of the reading pool
	agentTotals    *totals
	postTotals     *totals
	writer         *writer
	active         activity
	counts         statsCache
	probe          probe
	failure        failure
	checked        atomic.Int64  // Time: when this process last found the file whole; 0 when it did not look
	compacting     atomic.Bool   // writes wait for VACUUM
	optimized      atomic.Uint64 // commits when the full-text tables were optimized last
	mostCompacted  int64
	stopWatching   context.CancelFunc

	closing sync.RWMutex
	closed  bool

	watchers []func(Changes)
	erased   bool // personal data was erased since the last truncating checkpoint; the writer's
}

// Open opens the directory, brings its schema up to date and starts its writer.
func Open(ctx context.Context, o Options) (*Store, error) {
	name := o.Path
	o.Path = FileOf(name)
	// A program that was killed may have left erased data in the log.
	s := &Store{
		name: name, path: o.Path, beside: o.Beside, clock: o.Clock, random: o.Random, quotas: DefaultQuotas, mails: DefaultMailCaps,
		ownerAgents: DefaultOwnerAgents, loopbackLinks: o.LoopbackLinks, erased: true, normal: o.Normal,
		readTimeout: readTimeout, readers: semaphore.NewWeighted(readConnections),
		failure: failure{done: make(chan struct{})}, stopWatching: func() {}, mostCompacted: mostCompacted,
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
	if err := s.open(ctx, o); err != nil {
		err = fmt.Errorf("open %s: %w", name, openError(err))
		if fatal(err) != nil {
			return nil, err // the files stay open, as in Close
		}
		return nil, errors.Join(err, s.closeFiles())
	}
	go s.writer.run()
	if o.Beside {
		return s, nil
	}
	// What a log holds may stand in the system's memory alone, where a sync has failed
	// before: it is written to the file itself, which is synced, before more follows it.
	if s.killed {
		_ = s.checkpointErased(ctx) // on a full disk it stays
	}
	// A file that cannot be written is found now rather than at the first call; on a
	// full disk it is served all the same, for those who read.
	err := s.probeOnce(ctx)
	if err == nil || errors.Is(err, refuse(CodeStorageFull)) {
		err = s.rebuildIfOld(ctx, o.Rebuilding) // without it searches would find nothing
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, openError(cmp.Or(s.Failure(), err))), s.Close())
	}
	watching, stop := context.WithCancel(context.Background())
	s.stopWatching = stop
	go s.watch(watching, s.files(), cmp.Or(o.watch, watchPeriod))
	return s, nil
}

// Watch calls f after each commit and before its writers are answered. It must
// be called before the store is used, and f must be quick.
func (s *Store) Watch(f func(Changes)) { s.watchers = append(s.watchers, f) }

func (s *Store) committed(c Changes) {
	if c.empty() {
		return
	}
	if c.Removed {
		s.erased = true
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

// Normal tells whether a power cut may lose the last writes.
func (s *Store) Normal() bool { return s.normal }

// Now is the directory's time.
func (s *Store) Now() time.Time { return at(s.clock()).Time() }

// Close finishes the waiting writes, folds the write-ahead log into the file and
// closes it. It may be called once. A store that has stopped because it cannot trust
// its file leaves that as it is, for the end of the process to close.
func (s *Store) Close() error {
	s.closing.Lock()
	s.closed = true
	close(s.writer.jobs)
	s.closing.Unlock()
	<-s.writer.ended
	s.stopWatching()
	if s.untrusted() {
		return nil // whoever serves it knows
	}
	if !s.beside {
		// Where it fails, as on a full disk, the log stays and the next start reads it.
		_, err := s.writer.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
		if _ = s.judge(err); s.untrusted() {
			return s.Failure()
		}
	}
	return s.closeFiles()
}

func (s *Store) closeFiles() error {
	var errs []error
	if s.reading != nil {
		errs = append(errs, s.reading.Close())
	}
	if s.writer != nil && s.writer.conn != nil {
		errs = append(errs, s.writer.stmts.close(), s.writer.conn.Close())
	}
	if s.writing != nil {
		errs = append(errs, s.writing.Close())
	}
	return errors.Join(errs...)
}
