package store

import (
	"context"
	"fmt"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/sqlitedb"
)

// postFields are the fields of domain.PublicPost, for a SELECT from posts p and postAuthor. The replies of hidden
// agents do not count.
var postFields = sqlitedb.ColumnsOf[domain.Post]().Select("p") + `, p.seq, p.created_at,
	h.handle AS "author.handle", a.name AS "author.name", a.level AS "author.level", (
		SELECT COUNT(*) FROM replies r
		JOIN agents ra ON ra.id = r.author_id
		WHERE r.post_seq = p.seq AND NOT ra.hidden) AS reply_count`

const postAuthor = `
	JOIN agents a ON a.id = p.author_id AND NOT a.hidden
	JOIN handles h ON h.id = p.author_id`

// selectPost reads posts as the public sees them, without those of hidden authors.
var selectPost = `SELECT ` + postFields + ` FROM posts p` + postAuthor

// Post returns a post. It returns not_found if it does not exist or its author is hidden.
func (s *Store) Post(ctx context.Context, id string) (domain.PublicPost, error) {
	var post domain.PublicPost
	err := orNotFound(s.db.Get(ctx, &post, selectPost+` WHERE p.id = ?`, id))
	return post, err
}

// The list queries.
const (
	allPosts = `
		SELECT seq AS id FROM posts
		WHERE ` + shownAuthor + ` AND seq < ?
		ORDER BY seq DESC LIMIT ? OFFSET ?`
	countPosts = `
		SELECT COUNT(*) AS n FROM (SELECT seq FROM posts WHERE ` + shownAuthor + ` LIMIT ?)`
	// There are many posts of a kind; an index finds them faster than the full-text table.
	postsOfKind = `
		SELECT seq AS id FROM posts
		WHERE kind = ? AND ` + shownAuthor + ` AND seq < ?
		ORDER BY seq DESC LIMIT ? OFFSET ?`
	countPostsOfKind = `
		SELECT COUNT(*) AS n FROM (SELECT seq FROM posts WHERE kind = ? AND ` + shownAuthor + ` LIMIT ?)`
	// Few agents are hidden, and their list is read once. A join would read a row for each post.
	shownAuthor = `author_id NOT IN (SELECT id FROM agents WHERE hidden = 1)`
	// The full-text table is late with a few posts whose deadline has just passed.
	notExpired = ` AND rowid NOT IN (SELECT seq FROM posts WHERE closed = 0 AND deadline < ?)`
)

var (
	postIndex     = listing.NewIndex(postSearch, "post_tokens", "")
	openPostIndex = listing.NewIndex(postSearch, "post_tokens", notExpired)
)

// Posts lists posts, newest first; a search by relevance. It returns invalid_query if the cursor is
// not one of this list.
func (s *Store) Posts(ctx context.Context, f domain.PostFilter, page listing.Page) (listing.List[domain.PublicPost], error) {
	ctx, cancel := s.listContext(ctx, f == (domain.PostFilter{Kind: f.Kind}) && page.Offset == 0)
	defer cancel()

	asked, index, bounds := askedOfPosts(f), &postIndex, []any(nil)
	if f.Open {
		index, bounds = &openPostIndex, []any{s.now().Date()}
	}
	name := fmt.Sprintf("posts %q %q %s", f.Query, asked, f.Order)
	newest := f.Order == domain.OrderNewest
	if f.Query != "" {
		return listing.ReadSearch[domain.PublicPost](ctx, s.db, listing.Search{
			Name:     name,
			Index:    index,
			Text:     f.Query,
			Facets:   asked,
			Bounds:   bounds,
			Strict:   f.Match == domain.MatchAll || newest,
			Newest:   newest,
			Rows:     selectPost + ` JOIN page ON page.id = p.seq`,
			MaxBytes: listing.PageBytes,
		}, page)
	}

	q := &listing.Query{Name: name, Count: countPosts, MaxBytes: listing.PageBytes}
	ids := allPosts
	switch {
	case f.Kind != "" && f == (domain.PostFilter{Kind: f.Kind}):
		ids, q.Count, q.Before = postsOfKind, countPostsOfKind, []any{f.Kind}
	case len(asked) > 0:
		ids, q.Count = index.IDs, index.Count
		q.Before, q.Bounds = []any{search.Within("", asked)}, bounds
	}
	q.Rows = `SELECT ` + postFields + ` FROM (` + ids + `) m JOIN posts p ON p.seq = m.id` + postAuthor + ` ORDER BY m.id DESC`
	return listing.Read[domain.PublicPost](ctx, s.db, q, page)
}
