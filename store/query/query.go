// Package query has the reads of the directory that need no transaction: cards, posts, replies,
// collaborations, events and counts, and what the operator reads. A Reader uses the reading
// connections, and sees the last commit.
package query

import (
	"callbook/store/txn"
)

// Reader reads the directory. Its methods may be called from any goroutine.
type Reader struct {
	db *txn.DB
}

// NewReader returns a reader of a database.
func NewReader(db *txn.DB) *Reader { return &Reader{db: db} }
