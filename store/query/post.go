package query

import (
	"context"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/txn"
)

// SelectPost reads posts as the public sees them, without those of hidden authors.
const SelectPost = `
	SELECT ` + postFields + `
	FROM posts p
	JOIN post_documents d ON d.post_seq = p.seq
	JOIN agent_documents a ON a.agent_id = p.author_id`

// Post returns a post. It returns not_found if it does not exist or its author is hidden.
func (r *Reader) Post(ctx context.Context, id string) (domain.PostDocument, error) {
	var doc domain.PostDocument
	err := txn.OrNotFound(r.db.Get(ctx, &doc, SelectPost+` WHERE p.id = ?`, id))
	return doc, err
}

// The list queries.
const (
	postFields  = `p.seq, p.id, d.post, d.deadline, a.author, d.reply_count, d.created_at`
	listedPosts = `
		SELECT d.post_seq AS seq, d.post, a.author, d.reply_count, d.created_at`
	postsByNumber = listedPosts + `
		FROM post_documents d
		JOIN agent_documents a ON a.agent_id = d.author_id
		WHERE d.post_seq IN `
	allPosts = `
		SELECT post_seq AS id FROM post_documents
		WHERE post_seq < ?
		ORDER BY post_seq DESC LIMIT ? OFFSET ?`
	countPosts = `
		SELECT COUNT(*) AS n FROM (SELECT post_seq FROM post_documents LIMIT ?)`
	// There are many posts of a kind; an index finds them faster than the full-text table.
	postsOfKind = `
		SELECT p.seq AS id FROM posts p
		JOIN post_documents d ON d.post_seq = p.seq
		WHERE p.kind = ? AND p.seq < ?
		ORDER BY p.seq DESC LIMIT ? OFFSET ?`
	countPostsOfKind = `
		SELECT COUNT(*) AS n FROM (SELECT p.seq FROM posts p
			JOIN post_documents d ON d.post_seq = p.seq
			WHERE p.kind = ? LIMIT ?)`
	// The full-text table is late with a few posts whose deadline has just passed.
	notExpired = ` AND rowid NOT IN (SELECT post_seq FROM post_documents WHERE open = 1 AND deadline < ?)`
)

var (
	postIndex     = listing.NewIndex(txn.PostSearch, "post_tokens", "")
	openPostIndex = listing.NewIndex(txn.PostSearch, "post_tokens", notExpired)
)

// Posts lists posts, newest first; a search by relevance. It returns invalid_query if the cursor is
// not one of this list.
func (r *Reader) Posts(ctx context.Context, f document.PostFilter, page listing.Page) (found listing.List[domain.PostDocument], err error) {
	ctx, cancel := r.listContext(ctx, f == (document.PostFilter{Kind: f.Kind}) && page.Offset == 0)
	defer cancel()
	changes := r.postTotals.Changes()
	facets, index, bounds := f.Facets(), &postIndex, []any(nil)
	if f.Open {
		index, bounds = &openPostIndex, []any{r.db.Now().Date()}
	}
	if f.Query != "" {
		found, err = listing.ReadSearch[domain.PostDocument](ctx, r.db, listing.Search{
			Name:   f.Name(),
			Index:  index,
			Text:   f.Query,
			Facets: facets,
			Bounds: bounds,
			Strict: f.Strict || f.Newest,
			Newest: f.Newest,
			Rows:   postsByNumber,
		}, page)
	} else {
		q := &listing.Query{Name: f.Name(), Count: countPosts, MaxBytes: listing.PageBytes, Totals: r.postTotals, Changes: changes}
		ids := allPosts
		switch {
		case f.Kind != "" && f == (document.PostFilter{Kind: f.Kind}):
			ids, q.Count, q.Before = postsOfKind, countPostsOfKind, []any{f.Kind}
		case len(facets) > 0:
			ids, q.Count = index.IDs, index.Count
			q.Before, q.Bounds = []any{search.Within("", facets)}, bounds
		}
		q.Rows = listedPosts + ` FROM (` + ids + `) m JOIN post_documents d ON d.post_seq = m.id JOIN agent_documents a ON a.agent_id = d.author_id ORDER BY m.id DESC`
		found, err = listing.Read[domain.PostDocument](ctx, r.db, q, page)
	}
	for i := range found.Items {
		found.Items[i].ID = document.FirstMember(found.Items[i].Post)
	}
	return found, err
}
