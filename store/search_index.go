package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/sqlitedb"
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
		// The order that FTS5 wants.
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.number, b.number))
	})

	for _, key := range keys {
		var err error
		tokens := t.search[key]
		if tokens == "" {
			err = t.Exec(`DELETE FROM `+key.table+` WHERE rowid = ?`, key.number)
		} else {
			err = t.Exec(`INSERT OR REPLACE INTO `+key.table+` (rowid, tokens) VALUES (?, ?)`,
				key.number, tokens)
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
		err := t.Exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('optimize')`)
		if err != nil {
			return fmt.Errorf("optimize %s: %w", table, err)
		}
	}

	return nil
}

// ClearSearch deletes all rows of the full-text tables.
func (t *tx) ClearSearch() error {
	for _, table := range searchTables {
		err := t.Exec(`INSERT INTO ` + table + ` (` + table + `) VALUES ('delete-all')`)
		if err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}
	clear(t.search)
	return nil
}

// indexBatch is how many records one transaction of rebuildSearch indexes, so that requests do not
// wait for long.
const indexBatch = 250

// rebuildSearch rebuilds all rows of the full-text tables, for tables that are damaged, or that an
// older program wrote in another way. Searches find only a part meanwhile. 100,000 agents take
// minutes.
func (s *Store) rebuildSearch(ctx context.Context) error {
	if err := s.writeBackground(ctx, (*tx).ClearSearch); err != nil {
		return fmt.Errorf("clear the full-text tables: %w", err)
	}

	for _, next := range []func(t *tx, after int64) (last int64, err error){
		(*tx).indexAgentsAfter,
		(*tx).indexPostsAfter,
	} {
		for last := int64(-1); last != 0; {
			after := max(last, 0)
			err := s.writeBackground(ctx, func(t *tx) (err error) {
				t.Changes.Public = true // searches find more
				last, err = next(t, after)
				return err
			})
			if err != nil {
				return fmt.Errorf("rebuild the full-text tables: %w", err)
			}
		}
	}

	return s.writeBackground(ctx, (*tx).OptimizeSearch)
}

// searchIsWhole reports whether searches find as many agents and posts as the public sees. FTS5
// does not notice some damage of its tables, after which it finds nothing.
func (s *Store) searchIsWhole(ctx context.Context) (whole bool, err error) {
	// Each agent has one of these levels, and each post one of these kinds.
	every := func(kind rune, values ...string) string {
		return search.Within("", []string{search.AnyFacet(facets(kind, values))})
	}

	err = s.db.Get(ctx, &whole, `
		SELECT (SELECT COUNT(*) FROM agent_search WHERE agent_search MATCH ?)
				= (SELECT COUNT(*) FROM agents WHERE hidden = 0)
			AND (SELECT COUNT(*) FROM post_search WHERE post_search MATCH ?)
				= (SELECT COUNT(*) FROM posts
					WHERE author_id NOT IN (SELECT id FROM agents WHERE hidden = 1))`,
		every(facetLevel, "0", "from1"), every(facetKind, domain.PostKinds...))

	return whole, err
}

// indexAgentsAfter stores the search rows of the next agents, and returns the number of the last;
// 0 if there are no more.
func (t *tx) indexAgentsAfter(id int64) (last int64, err error) {
	var agents []agentRow
	err = t.Select(
		&agents,
		selectAgents+` WHERE a.id > ? AND NOT a.hidden ORDER BY a.id LIMIT ?`,
		id,
		indexBatch,
	)
	for i := range agents {
		last = agents[i].ID
		t.Index(agentSearch, last, agentTokens(&agents[i].Agent))
	}
	return last, err
}

// indexPostsAfter is indexAgentsAfter for posts.
func (t *tx) indexPostsAfter(seq int64) (last int64, err error) {
	posts, err := t.authoredPosts(`p.seq > ? ORDER BY p.seq LIMIT ?`, seq, indexBatch)
	for i := range posts {
		last = posts[i].Seq
		t.Index(postSearch, last, posts[i].tokens(posts[i].Author, postWords(&posts[i].Post)))
	}
	return last, err
}

// authoredPost is a post with the handle of its author.
type authoredPost struct {
	postRow
	Author string `db:"author"`
}

// authoredPosts returns the posts that where selects, without those of hidden authors.
func (t *tx) authoredPosts(where string, args ...any) (posts []authoredPost, err error) {
	err = t.Select(&posts, `
		SELECT `+sqlitedb.ColumnsOf[postRow]().Select("p")+`, h.handle AS author
		FROM posts p
		JOIN agents a ON a.id = p.author_id
		JOIN handles h ON h.id = p.author_id
		WHERE NOT a.hidden AND `+where, args...)
	return posts, err
}
