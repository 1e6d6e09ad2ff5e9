// Package record has the rows of agents and posts, and what follows from them: the rows of the
// full-text tables, and which collaborations count as evidence. All of it is stored in the transaction
// that changes the record.
package record
