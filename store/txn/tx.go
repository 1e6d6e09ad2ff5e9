package txn

import (
	"fmt"
	"io"
	"maps"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/sqlitedb"
)

// Tx is what one write sees of its transaction: a fixed time, and what must be rebuilt and
// reported because of the write.
type Tx struct {
	*sqlitedb.Tx
	Now         domain.Time
	Random      io.Reader
	StaleAgents IDs // agents whose document and search row must be rebuilt
	StaleRecent IDs // agents of whose document only the recent posts must be
	Changes     Changes

	db     *DB
	search map[searchKey]*search.Row // rows of full-text tables to replace; nil to delete
}

// IDs is a set of ids.
type IDs map[int64]struct{}

// Add adds an id.
func (s IDs) Add(id int64) { s[id] = struct{}{} }

// Changes are the effects of a commit, for caches and waiting requests.
type Changes struct {
	Cards     IDs  // agents whose card changed
	All       bool // every card
	Agents    bool // the list of agents, or an entry of it
	Posts     bool // posts, replies, or the authors in them
	Collabs   bool // confirmed collaborations, or the parties in them
	NewEvents IDs  // agents that have new events
	Mail      bool // a mail was put into the outbox
	Wake      bool // an agent must be woken
	Erased    bool // personal data was deleted: the log must be truncated and the file compacted
	Lists     bool // a list of the operator changed
	Reports   int  // new reports to the operator
	Approvals int  // agents that began to wait for the operator's approval

	MailsExpired int // mails that were deleted before they were delivered; they are Erased

	rows map[string]int // rows of full-text tables that changed, by table
}

// Everything is the effect of an unknown commit.
var Everything = Changes{All: true, Agents: true, Posts: true, Collabs: true, Mail: true, Wake: true, Erased: true}

// Rows returns how many rows of a full-text table changed. Each is a record that came into
// lists or left them.
func (c Changes) Rows(table string) int { return c.rows[table] }

func (db *DB) newTx(tx *sqlitedb.Tx, now domain.Time) *Tx {
	return &Tx{
		Tx: tx, Now: now, Random: db.options.Random, db: db, StaleAgents: IDs{}, StaleRecent: IDs{}, search: map[searchKey]*search.Row{},
		Changes: Changes{Cards: IDs{}, NewEvents: IDs{}, rows: map[string]int{}},
	}
}

// merge adds the effects of a write to those of the others in the same transaction.
func (t *Tx) merge(other *Tx) {
	if other.Changes.All { // everything was deleted
		clear(t.search)
	}
	maps.Copy(t.StaleAgents, other.StaleAgents)
	maps.Copy(t.StaleRecent, other.StaleRecent)
	maps.Copy(t.search, other.search)
	c, o := &t.Changes, &other.Changes
	maps.Copy(c.Cards, o.Cards)
	maps.Copy(c.NewEvents, o.NewEvents)
	c.All = c.All || o.All
	c.Agents = c.Agents || o.Agents
	c.Posts = c.Posts || o.Posts
	c.Collabs = c.Collabs || o.Collabs
	c.Mail = c.Mail || o.Mail
	c.Wake = c.Wake || o.Wake
	c.Erased = c.Erased || o.Erased
	c.Lists = c.Lists || o.Lists
	c.Reports += o.Reports
	c.Approvals += o.Approvals
	c.MailsExpired += o.MailsExpired
	for table, n := range o.rows {
		c.rows[table] += n
	}
}

// refresh rebuilds the derived data before the commit.
func (t *Tx) refresh(rebuild func(*Tx) error) error {
	if err := rebuild(t); err != nil {
		return err
	}
	if t.Changes.Erased {
		if err := t.setFirst(ErasedAt, formatNumber(int64(t.Now))); err != nil {
			return fmt.Errorf("record the erasure: %w", err)
		}
	}
	return t.StoreSearchRows()
}

// TouchAgent records that the public data of agents changed, so that their documents and search
// rows are rebuilt before the commit.
func (t *Tx) TouchAgent(agentIDs ...int64) {
	for _, id := range agentIDs {
		t.StaleAgents.Add(id)
		t.TouchCard(id)
	}
}

// TouchRecentPosts records that the recent posts of an agent changed, so that they are rebuilt
// in its document before the commit.
func (t *Tx) TouchRecentPosts(agentID int64) {
	t.StaleRecent.Add(agentID)
	t.Changes.Cards.Add(agentID)
}

// TouchFacts records that what only the card of an agent shows changed, and needs no rebuild.
func (t *Tx) TouchFacts(agentID int64) { t.Changes.Cards.Add(agentID) }

// TouchCard records that the card of an agent changed, and needs no rebuild.
func (t *Tx) TouchCard(agentID int64) {
	t.Changes.Cards.Add(agentID)
	t.Changes.Agents = true
}

// TouchPosts records that posts or replies changed.
func (t *Tx) TouchPosts() { t.Changes.Posts = true }

// TouchAuthors records that an agent changed as posts, replies and collaborations show it.
func (t *Tx) TouchAuthors() { t.Changes.Posts, t.Changes.Collabs = true, true }

// TouchErased records that rows with personal data were deleted, which promises to overwrite them
// soon: mailboxes, keys and texts. Events, quotas and hashes need no such promise.
func (t *Tx) TouchErased(rows int64) { t.Changes.Erased = t.Changes.Erased || rows > 0 }

// TouchDeleted records that an agent was deleted.
func (t *Tx) TouchDeleted(agentID int64) {
	delete(t.StaleAgents, agentID)
	delete(t.StaleRecent, agentID)
	t.TouchCard(agentID)
	t.TouchAuthors()
	t.Changes.NewEvents.Add(agentID) // so that a request that waits for its events ends
	t.Changes.Erased = true
}

// NewID returns a new id that begins with prefix.
func (t *Tx) NewID(prefix string) (string, error) {
	return domain.NewID(prefix, t.Now, t.Random)
}
