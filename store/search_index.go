package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"callbook/store/search"
)

// The full-text tables. The rowid of each is the number of the agent or post.
const (
	agentSearch = "agent_search"
	postSearch  = "post_search"
)

type searchKey struct {
	table  string
	number int64 // of the agent or post
}

// index replaces a row of a full-text table, and unindex deletes one, just before the commit: FTS5 writes all it has
// gathered whenever a savepoint ends, so the rows of the writes that share a transaction go in together.
func (t *tx) index(table string, number int64, row search.Row) {
	t.search[searchKey{table, number}] = &row
}

func (t *tx) unindex(table string, number int64) { t.search[searchKey{table, number}] = nil }

// storeSearchRows writes the rows that were gathered.
func (t *tx) storeSearchRows() error {
	keys := slices.SortedFunc(maps.Keys(t.search), func(a, b searchKey) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.number, b.number)) // the order that FTS5 wants
	})
	for _, key := range keys {
		t.changes.rows[key.table]++
		if err := t.Exec(`DELETE FROM `+key.table+` WHERE rowid = ?`, key.number); err != nil {
			return fmt.Errorf("delete a row of %s: %w", key.table, err)
		}
		row := t.search[key]
		if row == nil {
			continue
		}
		c := row.Columns()
		err := t.Exec(`INSERT INTO `+key.table+` (rowid, first, second, third, facets) VALUES (?, ?, ?, ?, ?)`, key.number, c[0], c[1], c[2], c[3])
		if err != nil {
			return fmt.Errorf("insert a row of %s: %w", key.table, err)
		}
	}
	clear(t.search)
	return nil
}

// clearSearch empties the full-text tables.
func (t *tx) clearSearch() error {
	for _, table := range []string{agentSearch, postSearch} {
		if err := t.Exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('delete-all')`); err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}
	clear(t.search)
	return nil
}

// optimizedAt names when the full-text tables were optimized last.
const optimizedAt = "search_optimized_at"

// optimizeSearch merges each full-text table into one segment, at night if anything was written: a search looks into
// every segment, and the words of deleted rows leave the file with theirs.
func (s *Store) optimizeSearch(ctx context.Context) error {
	last, err := s.notedTime(ctx, optimizedAt)
	if commits, _ := s.db.Counts(); err != nil || !s.dueAtNight(last) || commits == s.optimized.Load() {
		return err
	}
	err = s.writeScheduled(ctx, func(t *tx) error {
		for _, table := range []string{agentSearch, postSearch} {
			if err := t.Exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('optimize')`); err != nil {
				return fmt.Errorf("optimize %s: %w", table, err)
			}
		}
		s.erased.Store(true) // the log holds the segments as they were
		return t.noteTime(optimizedAt, t.now)
	})
	if err == nil {
		commits, _ := s.db.Counts()
		s.optimized.Store(commits)
	}
	return err
}
