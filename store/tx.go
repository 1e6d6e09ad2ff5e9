package store

import (
	"maps"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/sqlitedb"
)

// tx is one write's view of the transaction, or that of all writes that share it: a fixed time,
// and the data that must be rebuilt or reported because of them.
type tx struct {
	*sqlitedb.Tx
	store   *Store
	now     domain.Time
	stale   ids                       // agents whose document and search row must be rebuilt
	recent  ids                       // agents of whose document only the recent calls must be
	search  map[searchKey]*search.Row // full-text rows to replace; nil to delete
	changes Changes
}

type ids map[int64]struct{}

// Changes are the effects of a commit, for caches and waiting requests.
type Changes struct {
	Cards   ids  // agents whose card changed
	All     bool // every card
	Agents  bool // the list of agents, or an entry of it
	Posts   bool // calls, replies, or the authors in them
	Collabs bool // confirmed collaborations, or the parties in them
	Told    ids  // agents that have new events
	Mail    bool // a mail waits to be sent
	Removed bool // personal data was erased: the file needs a checkpoint

	rows map[string]int // search rows, by table: as many records at the most came into lists or left them
}

// everything stands for changes that are unknown.
var everything = Changes{All: true, Agents: true, Posts: true, Collabs: true, Mail: true, Removed: true}

func (c Changes) empty() bool {
	return !c.Public() && len(c.Told) == 0 && !c.Mail && !c.Removed
}

// Public reports whether anything that the public sees changed.
func (c Changes) Public() bool {
	return len(c.Cards) > 0 || c.All || c.Agents || c.Posts || c.Collabs
}

func newTx(s *Store, db *sqlitedb.Tx, now domain.Time) *tx {
	return &tx{Tx: db, store: s, now: now, stale: ids{}, recent: ids{}, search: map[searchKey]*search.Row{}, changes: Changes{Cards: ids{}, Told: ids{}, rows: map[string]int{}}}
}

// merge adds the changes of another write of the same transaction.
func (t *tx) merge(other *tx) {
	if other.changes.All { // everything was cleared
		clear(t.stale)
		clear(t.recent)
		clear(t.search)
	}
	maps.Copy(t.stale, other.stale)
	maps.Copy(t.recent, other.recent)
	maps.Copy(t.search, other.search)
	maps.Copy(t.changes.Cards, other.changes.Cards)
	t.changes.All = t.changes.All || other.changes.All
	t.changes.Agents = t.changes.Agents || other.changes.Agents
	t.changes.Posts = t.changes.Posts || other.changes.Posts
	t.changes.Collabs = t.changes.Collabs || other.changes.Collabs
	maps.Copy(t.changes.Told, other.changes.Told)
	t.changes.Mail = t.changes.Mail || other.changes.Mail
	t.changes.Removed = t.changes.Removed || other.changes.Removed
	for table, n := range other.changes.rows {
		t.changes.rows[table] += n
	}
}

// touch notes that the public data of agents changed: their documents and search rows are
// rebuilt before the commit.
func (t *tx) touch(agentIDs ...int64) {
	for _, id := range agentIDs {
		t.stale[id] = struct{}{}
		t.touchActive(id)
	}
}

// touchRecent notes that an agent's recent calls changed.
func (t *tx) touchRecent(agentID int64) {
	t.recent[agentID] = struct{}{}
	t.changes.Cards[agentID] = struct{}{}
}

// touchActive notes that the time of an agent's last request changed.
func (t *tx) touchActive(agentID int64) {
	t.changes.Cards[agentID] = struct{}{}
	t.changes.Agents = true
}

// touchPosts notes that calls or replies changed.
func (t *tx) touchPosts() { t.changes.Posts = true }

// touchNames notes that calls, replies and collaborations show an agent by another name.
func (t *tx) touchNames() { t.changes.Posts, t.changes.Collabs = true, true }

// forget notes that an agent is deleted.
func (t *tx) forget(agentID int64) {
	delete(t.stale, agentID)
	delete(t.recent, agentID)
	t.touchActive(agentID)
	t.touchNames()
	t.changes.Told[agentID] = struct{}{} // it may be waiting
	t.changes.Removed = true
}

func (t *tx) newID(prefix string) (string, error) {
	return domain.NewID(prefix, t.now, t.store.random)
}
