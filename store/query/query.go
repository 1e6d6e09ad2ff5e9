// Package query has the reads of the directory that need no transaction: cards, posts, replies,
// collaborations, events and counts, and what the operator reads. A Reader uses the reading
// connections, and sees the last commit.
package query

import (
	"callbook/store/listing"
	"callbook/store/txn"
)

// Reader reads the directory. Its methods may be called from any goroutine.
type Reader struct {
	db          *txn.DB
	agentTotals *listing.Totals
	postTotals  *listing.Totals
}

// NewReader returns a reader, which is usable after SetDB.
func NewReader() *Reader {
	return &Reader{agentTotals: listing.NewTotals(), postTotals: listing.NewTotals()}
}

// SetDB sets the database to read.
func (r *Reader) SetDB(db *txn.DB) { r.db = db }

// Committed forgets totals that a commit has changed. It must be called after the commit
// and before its writers return.
func (r *Reader) Committed(c txn.Changes) {
	agents, posts := c.Rows(txn.AgentSearch), c.Rows(txn.PostSearch)
	if c.All {
		agents, posts = listing.UnknownChanges, listing.UnknownChanges
	}
	r.agentTotals.AddChanges(agents)
	r.postTotals.AddChanges(posts)
}
