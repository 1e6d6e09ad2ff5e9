package store

import (
	"fmt"
	"io"
	"maps"

	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// Transaction is what one write sees of its transaction: a fixed time, and what must happen because of the
// write.
type Transaction struct {
	*sqlitedb.Tx
	Now     domain.Time
	Random  io.Reader
	Changes Changes

	db     *database
	search map[searchKey]string // tokens of rows of full-text tables to replace; empty to delete
}

// iDs is a set of ids.
type iDs map[int64]struct{}

// Add adds an id.
func (s iDs) Add(id int64) { s[id] = struct{}{} }

// Changes are the effects of a commit, for the cache and waiting requests.
type Changes struct {
	All       bool // everything may have changed
	Public    bool // something that public responses show
	NewEvents iDs  // agents that have new events
	Mail      bool // a mail was put into the outbox
	Wake      bool // an agent must be woken
	Erased    bool // personal data was deleted: the log must be truncated and the file compacted
	Lists     bool // a list of the operator changed
	Reports   int  // new reports to the operator
	Approvals int  // agents that began to wait for the operator's approval

	MailsExpired int // mails that were deleted before they were delivered; they are Erased
}

// everything is the effect of an unknown commit.
var everything = Changes{All: true, Public: true, Mail: true, Wake: true, Erased: true}

func (db *database) newTx(tx *sqlitedb.Tx, now domain.Time) *Transaction {
	return &Transaction{
		Tx:      tx,
		Now:     now,
		Random:  db.options.Random,
		Changes: Changes{NewEvents: iDs{}},
		db:      db,
		search:  map[searchKey]string{},
	}
}

// merge adds the effects of a write to those of the others in the same transaction.
func (t *Transaction) merge(other *Transaction) {
	if other.Changes.All { // everything was deleted
		clear(t.search)
	}
	maps.Copy(t.search, other.search)
	c, o := &t.Changes, &other.Changes
	maps.Copy(c.NewEvents, o.NewEvents)
	c.All = c.All || o.All
	c.Public = c.Public || o.Public
	c.Mail = c.Mail || o.Mail
	c.Wake = c.Wake || o.Wake
	c.Erased = c.Erased || o.Erased
	c.Lists = c.Lists || o.Lists
	c.Reports += o.Reports
	c.Approvals += o.Approvals
	c.MailsExpired += o.MailsExpired
}

// finish stores before the commit what the writes have gathered.
func (t *Transaction) finish() error {
	if t.Changes.Erased {
		if err := t.setFirst(erasedAt, formatNumber(int64(t.Now))); err != nil {
			return fmt.Errorf("record the erasure: %w", err)
		}
	}
	return t.StoreSearchRows()
}

// Erase records that rows with personal data were deleted, which promises to overwrite them soon:
// mailboxes, keys and texts. Events, quotas and hashes need no such promise.
func (t *Transaction) Erase(rows int64) { t.Changes.Erased = t.Changes.Erased || rows > 0 }

// NewID returns a new id that begins with prefix.
func (t *Transaction) NewID(prefix string) (string, error) {
	return domain.NewID(prefix, t.Now, t.Random)
}
