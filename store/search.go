package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// The full-text tables. The rowid of each is the number of the agent or post.
const (
	agentSearch = "agent_search"
	postSearch  = "post_search"
)

// searchTables are all full-text tables.
var searchTables = []string{agentSearch, postSearch}

type searchKey struct {
	table  string
	number int64 // of the agent or post
}

// Index replaces the tokens of a record in a full-text table just before the commit. FTS5 writes
// all that it has gathered whenever a savepoint ends, so the rows of all writes that share the
// transaction are stored together.
func (t *tx) Index(table string, number int64, tokens string) {
	t.search[searchKey{table: table, number: number}] = tokens
}

// Unindex deletes the row of a record in a full-text table just before the commit.
func (t *tx) Unindex(table string, number int64) {
	t.search[searchKey{table: table, number: number}] = ""
}

// StoreSearchRows writes the rows that Index and Unindex have gathered.
func (t *tx) StoreSearchRows() error {
	keys := slices.SortedFunc(maps.Keys(t.search), func(a, b searchKey) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.number, b.number)) // the order that FTS5 wants
	})
	for _, key := range keys {
		var err error
		if tokens := t.search[key]; tokens == "" {
			err = t.Exec(`DELETE FROM `+key.table+` WHERE rowid = ?`, key.number)
		} else {
			err = t.Exec(`INSERT OR REPLACE INTO `+key.table+` (rowid, tokens) VALUES (?, ?)`, key.number, tokens)
		}
		if err != nil {
			return fmt.Errorf("store a row of %s: %w", key.table, err)
		}
	}
	clear(t.search)
	return nil
}

// OptimizeSearch merges each full-text table into one segment: a search seeks each of its words in
// every segment, and the words of deleted rows leave the file.
func (t *tx) OptimizeSearch() error {
	// The first time FTS5 may only finish a merge that had begun before rows were deleted, and keep
	// their words. The second time it does nothing unless that is so.
	for _, table := range slices.Concat(searchTables, searchTables) {
		if err := t.Exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('optimize')`); err != nil {
			return fmt.Errorf("optimize %s: %w", table, err)
		}
	}
	return nil
}

// ClearSearch deletes all rows of the full-text tables.
func (t *tx) ClearSearch() error {
	for _, table := range searchTables {
		if err := t.Exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('delete-all')`); err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}
	clear(t.search)
	return nil
}
