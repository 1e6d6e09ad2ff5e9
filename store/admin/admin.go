// Package admin has the operator's use cases: moderation, the blocklist, and the log of the
// operator's acts. An exported method of Operator is one use case, and it leaves a note in that log. What
// the operator reads is in package query.
package admin

import (
	"io"

	"callbook/store/txn"
)

// Operator moderates a directory. Its methods may be called from any goroutine.
type Operator struct {
	db     *txn.DB
	random io.Reader // the source of keys
}

// New returns the operator of an open database.
func New(db *txn.DB, random io.Reader) *Operator { return &Operator{db: db, random: random} }
