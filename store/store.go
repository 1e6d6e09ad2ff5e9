// Package store is the directory: its records and rules, in one SQLite file. It knows nothing of
// HTTP and no human language; both belong to package server.
//
// # Structure
//
// This package has the records, their SQL and the use cases, in files by entity: request.go and
// request_answer.go have the contact requests. An exported method of Store is one use case and at
// most one transaction. What several use cases share is in write.go (transactions), store.go and
// site.go (values of the site), quota.go, idempotency.go, jobs.go, maintenance.go and
// search_index.go.
//
// The packages below know no use case and no table:
//
//   - domain: records, drafts, states, policies and errors, without a database. Its package comment
//     explains the terms.
//   - text, search: normalization and validation of texts; tokens, queries and ranking.
//   - listing: pages of records, with cursors, totals and search.
//   - sqlitedb: the database file: locks, migrations, group commit, readers, backups.
//   - durable: files that survive a power cut.
//
// # A write
//
// A use case calls write with a function of a tx, whose lines are the use case: Authorize checks
// again that the caller may act, and returns its row; Replay returns the response of an earlier
// request with the same Idempotency-Key; then come the rules and the records, and StoreResponse. A
// [agentRow] is read, changed in its fields and stored by Store, which keeps its search row and
// evidence in step. writeOrReject commits even if the request is rejected, for a counter of failed
// attempts.
//
// Writes that wait share a transaction; one that returns an error is rolled back alone. After the
// commit, the listeners get the [Changes], which invalidate the cache and wake requests that wait
// for events, and then the writes return. See package sqlitedb for the guarantees.
//
// # A read
//
// Reads use the connections of the reading pool and see the last commit. Public reads leave hidden
// agents out by the column hidden, and search rows exist only for the others. Lists pass a
// [listing.Query] to package listing. Searches and filtered lists have a deadline, so that no
// query text is dangerous.
//
// Lists of short texts are JSON columns rather than child tables: they are read and written whole.
// To filter by them, the search rows contain them as facets.
//
// # A new field of an agent
//
//  1. A column of the table agents, in a new file of schema/migrations.
//  2. A field of domain.Agent, which the card shows, and one of domain.Profile, which an agent
//     sends. To filter by it, a field of domain.AgentFilter.
//  3. An optional text is a line of optionalTexts in agent_row.go; another type has one in Apply
//     and Settings.
//  4. To filter by it, a kind of facet and its row in filter.go.
//  5. The pages: static/agent.html and static/agent.md.tmpl.
//
// # A background job
//
// The server calls RunJobs every minute. Each job runs after the requests that wait; those that
// handle many records do so in transactions of limited size. The server also sends the mails of
// the outbox (StartMail, FinishMail) and checks links (StartLinkChecks, StoreLinkCheck) and, every
// second, matches new posts (MatchPosts): it gets the work in one transaction, does it without
// one, and stores the result in another.
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"callbook/schema"
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// Options configures a Store. The zero value of every field but Path is right for a server.
type Options struct {
	Path   string           // the SQLite file; created if missing
	Clock  func() time.Time // the only source of time; time.Now if nil
	Random io.Reader        // the source of ids and keys; crypto/rand if nil
	Quotas domain.Quotas    // daily limits; DefaultQuotas if nil
	Mails  *domain.MailCaps // caps on mails; DefaultMailCaps if nil
	// Secret is the key of the hashes of codes; a key in the database if empty.
	Secret       []byte
	Registration domain.RegistrationMode // who may register; RegistrationOpen if empty
	// SiteName is the name of the site, which no agent and no owner may have in its own.
	SiteName string

	// Normal, Batch and MaxBytes are those of sqlitedb.Options.
	Normal   bool
	Batch    int
	MaxBytes int64

	// NetworkDisk allows a file on a network file system, which is rejected otherwise.
	NetworkDisk bool

	// Beside opens a file that another process may be serving, for an operator's command. It
	// creates no file and changes no schema.
	Beside bool

	// Checking is called with the progress of a check of the whole file; see maintenance.
	Checking func(bytes int64, took time.Duration, done bool)

	// Rebuilding is called when the search index is damaged and rebuilt; see maintenance.
	Rebuilding func()

	// LoopbackLinks allows profile links to this machine, on any port, for callbook dev.
	LoopbackLinks bool

	ReadTimeout  time.Duration // as in sqlitedb.Options
	QueryTimeout time.Duration // as in sqlitedb.Options

	// For tests.
	Migrations fs.FS                                   // instead of those of package schema
	commit     func(context.Context, *sqlx.Conn) error // as in sqlitedb.Options
}

// Store is an open directory. Its methods may be called from any goroutine.
type Store struct {
	Lists *BlockLists // of the operator, for requests

	db    *sqlitedb.DB
	batch *tx // of the transaction that the writer has open, or had last; the writer's

	clock      func() time.Time
	random     io.Reader
	secret     []byte // the key of pseudonyms, which never leaves the database
	codeSecret []byte // the key of the hashes of codes; empty for secret

	quotas        domain.Quotas
	mails         domain.MailCaps
	registration  domain.RegistrationMode
	siteName      string // empty if the site has none of its own
	loopbackLinks bool

	maintenance maintenance
	checking    func(bytes int64, took time.Duration, done bool)
	rebuilding  func()

	listening sync.RWMutex
	listeners []func(Changes)
}

// applicationID marks a file as Callbook's: "Call".
const applicationID = 0x43616c6c

// Format is that of the directory's files.
var Format = sqlitedb.Format{ApplicationID: applicationID, Migrations: schema.Migrations}

// Open opens the directory, upgrades its schema and starts its writer.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		clock:         o.Clock,
		random:        cmp.Or(o.Random, rand.Reader),
		codeSecret:    o.Secret,
		quotas:        o.Quotas,
		mails:         *cmp.Or(o.Mails, &domain.DefaultMailCaps),
		registration:  cmp.Or(o.Registration, domain.RegistrationOpen),
		siteName:      o.SiteName,
		loopbackLinks: o.LoopbackLinks,
		maintenance:   maintenance{maxCompacted: maxCompacted},
		checking:      o.Checking,
		rebuilding:    o.Rebuilding,
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.quotas == nil {
		s.quotas = domain.DefaultQuotas
	}

	// A program that was killed may have left deleted data in the log.
	s.maintenance.erased.Store(true)

	format := Format
	if o.Migrations != nil {
		format.Migrations = o.Migrations
	}

	var err error
	s.db, err = sqlitedb.Open(ctx, sqlitedb.Options{
		Path:         o.Path,
		Format:       format,
		Clock:        s.clock,
		Normal:       o.Normal,
		Batch:        o.Batch,
		MaxBytes:     o.MaxBytes,
		NetworkDisk:  o.NetworkDisk,
		Beside:       o.Beside,
		ReadTimeout:  o.ReadTimeout,
		QueryTimeout: o.QueryTimeout,
		Commit:       o.commit,
		Hooks: sqlitedb.Hooks{
			Begin:        func(t *sqlitedb.Tx) { s.batch = s.newTx(t, s.now()) },
			BeforeCommit: func() error { return s.batch.finish() },
			Committed:    func() { s.committed(s.batch.Changes) },
			Invalidate:   func() { s.committed(everything) },
		},
	})
	if err != nil {
		return nil, err
	}
	if err := s.readSecret(ctx); err != nil {
		return nil, errors.Join(s.db.OpenError(err), s.Close())
	}

	s.Lists = newLists(s.db)
	s.Lists.Committed(everything) // reads them for the first time
	s.OnCommit(s.Lists.Committed)
	return s, nil
}

// OnCommit calls f after each commit and before its writes return. It must be called before the
// store is used, and f must be fast.
func (s *Store) OnCommit(f func(Changes)) {
	s.listening.Lock() // another process may write at any time
	defer s.listening.Unlock()

	s.listeners = append(s.listeners, f)
}

func (s *Store) committed(c Changes) {
	if c.Erased {
		s.maintenance.erased.Store(true)
	}

	s.listening.RLock()
	defer s.listening.RUnlock()

	for _, f := range s.listeners {
		f(c)
	}
}

// Now returns the directory's time.
func (s *Store) Now() time.Time { return s.now().Time() }

// now returns the time of the directory's clock.
func (s *Store) now() domain.Time { return domain.TimeOf(s.clock()) }

// within reports whether at is at most age ago. It reports false for a time in the future, as
// after the clock was set back.
func (s *Store) within(age time.Duration, at domain.Time) bool {
	now := s.now()
	return now.Add(-age) <= at && at <= now
}

// Close finishes the waiting writes and closes the file. It may be called once.
func (s *Store) Close() error { return s.db.Close() }
