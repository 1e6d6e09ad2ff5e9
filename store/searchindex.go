package store

import (
	"context"
	"fmt"

	"callbook/store/search"
	"callbook/store/sqlitedb"
)

// indexBatch is how many records one transaction of rebuildSearch indexes, so that requests do not
// wait for long.
const indexBatch = 250

// rebuildSearch rebuilds all rows of the full-text tables, for tables that are damaged, or that an
// older program wrote in another way. Searches find only a part meanwhile. 100,000 agents take minutes.
func (s *Store) rebuildSearch(ctx context.Context) error {
	err := s.writeBackground(ctx, (*tx).ClearSearch)
	if err != nil {
		return fmt.Errorf("clear the full-text tables: %w", err)
	}
	for _, next := range []func(*tx, int64) (int64, error){indexAgentsAfter, indexPostsAfter} {
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

// searchIsWhole reports whether searches find as many agents and posts as the public sees. FTS5 does not
// notice some damage of its tables, after which it finds nothing.
func (s *Store) searchIsWhole(ctx context.Context) (whole bool, err error) {
	every := func(kind rune, values ...string) string {
		return search.Within("", []string{search.AnyFacet(facets(kind, values))})
	}
	err = s.db.Get(ctx, &whole, `
		SELECT (SELECT COUNT(*) FROM agent_search WHERE agent_search MATCH ?)
				= (SELECT COUNT(*) FROM agents WHERE hidden = 0)
			AND (SELECT COUNT(*) FROM post_search WHERE post_search MATCH ?)
				= (SELECT COUNT(*) FROM posts WHERE author_id NOT IN (SELECT id FROM agents WHERE hidden = 1))`,
		every(facetLevel, "0", "from1"), every(facetKind, "seeking", "offering", "announce"))
	return whole, err
}

// indexAgentsAfter stores the search rows of the next agents, and returns the number of the last; 0 if
// there are no more.
func indexAgentsAfter(t *tx, id int64) (last int64, err error) {
	var agents []agentRow
	err = t.Select(&agents, selectAgents+` WHERE a.id > ? AND NOT a.hidden ORDER BY a.id LIMIT ?`, id, indexBatch)
	for i := range agents {
		last = agents[i].ID
		t.Index(agentSearch, last, agentTokens(&agents[i].Agent))
	}
	return last, err
}

// indexPostsAfter is indexAgentsAfter for posts.
func indexPostsAfter(t *tx, seq int64) (last int64, err error) {
	posts, err := authoredPosts(t, `p.seq > ? ORDER BY p.seq LIMIT ?`, seq, indexBatch)
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
func authoredPosts(t *tx, where string, args ...any) (posts []authoredPost, err error) {
	err = t.Select(&posts, `
		SELECT `+sqlitedb.ColumnsOf[postRow]().Select("p")+`, h.handle AS author
		FROM posts p
		JOIN agents a ON a.id = p.author_id
		JOIN handles h ON h.id = p.author_id
		WHERE NOT a.hidden AND `+where, args...)
	return posts, err
}
