package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// checkDeadline returns the error of a deadline that has passed.
func (t *tx) checkDeadline(date string) []domain.FieldError {
	if !domain.DeadlinePassed(date, t.Now.Time()) {
		return nil
	}
	return []domain.FieldError{{Field: "deadline", Code: domain.FaultBadValue, Topic: "deadline"}}
}

// CreatePost publishes a post of the caller. It returns validation_failed for a deadline that has
// passed and for a text with a blocked word, duplicate for the text of another post of the last
// day, rate_limited past a daily limit, and idempotency_conflict if the key came with another
// request.
func (s *Store) CreatePost(
	ctx context.Context,
	caller domain.Caller,
	draft domain.PostDraft,
	key domain.IdempotencyKey,
) (post domain.PublicPost, replayed bool, err error) {
	// Before the transaction, since it takes long and needs nothing of the database.
	planned := draftedPost(draft)
	words := postWords(&planned)

	err = s.write(ctx, func(t *tx) error {
		author, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		// A repeated request gets its first response again, before any rule is checked.
		if replayed, err = t.Replay(caller.ID, key, &post); err != nil || replayed {
			return err
		}

		post, err = t.createPost(author, caller.Address, draft, words)
		if err != nil {
			return err
		}

		return t.StoreResponse(caller.ID, key, caller.ID, post.ID, post)
	})
	return post, replayed, err
}

// createPost publishes a post, whose postWords are words.
func (t *tx) createPost(
	author *agentRow,
	from netip.Addr,
	draft domain.PostDraft,
	words string,
) (post domain.PublicPost, err error) {
	if err := t.CheckRoom(); err != nil {
		return post, err
	}
	if err := t.checkBlocks(draft, t.checkDeadline(draft.Deadline)...); err != nil {
		return post, err
	}

	// Before the limits, so that a repeated post costs nothing.
	hash := draft.TextHash()
	if err := t.checkRepeated(author.ID, hash); err != nil {
		return post, err
	}
	quotas := t.store.quotas
	networkLimit := quotas[domain.LimitNetworkPosts]
	err = t.spendDaily(author, from, domain.ActPost, quotas.PostsAt, networkLimit)
	if err != nil {
		return post, err
	}

	id, err := t.NewID(domain.IDPost)
	if err != nil {
		return post, err
	}
	row := postRow{
		Post:      draftedPost(draft),
		AuthorID:  author.ID,
		Closed:    draft.Deadline != "" && draft.Deadline < t.Now.Date(),
		CreatedAt: t.Now,
	}
	row.ID = id
	if err := row.Insert(t, author.Handle, hash, words); err != nil {
		return post, err
	}
	return domain.PublicPost{
		Post:      row.Post,
		Author:    author.Author(),
		CreatedAt: row.CreatedAt,
		Seq:       row.Seq,
	}, nil
}

// checkRepeated returns duplicate, with the id of the first, if a post of an author with the same
// text is less than domain.RepeatWindow old.
func (t *tx) checkRepeated(authorID int64, hash []byte) error {
	// A deleted one does not count: posts cannot be edited, so an author corrects a post by
	// deleting it and publishing it again, as often as the daily limit allows.
	var first string
	found, err := t.Find(&first, `
		SELECT id FROM posts
		WHERE author_id = ? AND text_hash = ? AND created_at > ?
		ORDER BY seq
		LIMIT 1`, authorID, hash, t.Now.Add(-domain.RepeatWindow))
	if err != nil || !found {
		return err
	}
	return &domain.Error{Code: domain.CodeDuplicate, Topic: "post", Names: []any{first}}
}

// spendDaily counts a post or reply against the limits of its author, by its trust level, and of
// the network that it comes from.
func (t *tx) spendDaily(
	author *agentRow,
	from netip.Addr,
	action domain.QuotaAction,
	limitAt func(level int) int,
	networkLimit int,
) error {
	limit := limitAt(author.Level())
	if err := t.Spend(author.ID, action, limit); err != nil {
		if limited, ok := errors.AsType[*domain.Error](err); ok && limit != limitAt(1) {
			limited.Topic += "_unverified" // a verified agent may do more
		}

		return err
	}

	return t.SpendNetwork(t.counted(from), action, networkLimit)
}

// draftedPost returns the post of a draft, without its id.
func draftedPost(d domain.PostDraft) domain.Post {
	return domain.Post{
		Kind:        d.Kind,
		Title:       d.Title,
		Body:        d.Body,
		Deliverable: domain.Optional(d.Deliverable),
		Deadline:    domain.Optional(d.Deadline),
		Constraints: domain.Optional(d.Constraints),
		Languages:   text.CanonicalLanguages(d.Languages),
		Tags:        text.CanonicalTags(d.Tags),
		Lang:        domain.Optional(d.Lang),
	}
}

// DeletePost deletes a post of the caller, with its replies. It returns forbidden for another
// agent's post.
func (s *Store) DeletePost(ctx context.Context, caller domain.Caller, id string) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.Authorize(caller); err != nil {
			return err
		}

		var p postRow
		err := t.Get(&p, selectPostRow+`
			JOIN agents a ON a.id = p.author_id
			WHERE p.id = ? AND NOT a.hidden`, id)
		if err != nil {
			return orNotFound(err)
		}

		// The post is public, so that nothing is revealed by forbidden.
		if p.AuthorID != caller.ID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "post"}
		}
		return t.deletePost(&p)
	})
}

// postRow is a row of the table posts.
type postRow struct {
	domain.Post
	Seq       int64       `db:"seq"`
	AuthorID  int64       `db:"author_id"`
	Closed    bool        `db:"closed"` // the search row says that the deadline has passed
	CreatedAt domain.Time `db:"created_at"`
}

// postRecord is a postRow with what only its publication stores.
type postRecord struct {
	postRow
	TextHash []byte `db:"text_hash"`
}

var (
	// selectPostRow selects rows of the table posts.
	selectPostRow = `SELECT ` + sqlitedb.ColumnsOf[postRow]().Select("p") + ` FROM posts p`

	insertPost = sqlitedb.ColumnsOf[postRecord]("seq").Insert("posts") + ` RETURNING seq`
)

// Insert stores a new post by an author's handle. words are its postWords.
func (p *postRow) Insert(t *tx, author string, textHash []byte, words string) error {
	record := postRecord{postRow: *p, TextHash: textHash}
	if err := t.GetNamed(&p.Seq, insertPost, record); err != nil {
		return err
	}

	t.Changes.Public = true
	t.Index(postSearch, p.Seq, p.tokens(author, words))
	return nil
}

// indexStalePosts rebuilds the search rows of posts whose deadline has passed, so that searches
// for open posts need not skip them, jobBatch at most, and returns their number.
func (t *tx) indexStalePosts() (int, error) {
	// The second half reopens posts that a clock that ran ahead has closed.
	var stale []int64
	today := t.Now.Date()
	err := t.Select(&stale, `
		SELECT seq FROM posts WHERE closed = 0 AND deadline < ?1
		UNION ALL
		SELECT seq FROM posts WHERE closed = 1 AND deadline >= ?1
		LIMIT ?2`, today, jobBatch)
	if err != nil {
		return 0, err
	}

	for _, seq := range stale {
		err := t.Exec(`UPDATE posts SET closed = deadline < ? WHERE seq = ?`, today, seq)
		if err != nil {
			return 0, err
		}
		if err := t.indexPosts(`p.seq = ?`, seq); err != nil {
			return 0, err
		}
	}

	t.Changes.Public = t.Changes.Public || len(stale) > 0
	return len(stale), nil
}

// indexPosts stores the search rows of the posts that where selects, without those of hidden
// authors.
func (t *tx) indexPosts(where string, value int64) error {
	posts, err := t.authoredPosts(where, value)
	if err != nil {
		return err
	}

	for i := range posts {
		post := &posts[i]
		t.Index(postSearch, post.Seq, post.tokens(post.Author, postWords(&post.Post)))
	}
	return nil
}

// postFields are the fields of domain.PublicPost, for a SELECT from posts p and postAuthor. The
// replies of hidden agents do not count.
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
		SELECT COUNT(*) AS n FROM (
			SELECT seq FROM posts
			WHERE kind = ? AND ` + shownAuthor + `
			LIMIT ?)`
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
func (s *Store) Posts(
	ctx context.Context,
	f domain.PostFilter,
	page listing.Page,
) (listing.List[domain.PublicPost], error) {
	ofKind := f == domain.PostFilter{Kind: f.Kind} // or without any filter
	ctx, cancel := s.listContext(ctx, ofKind && page.Offset == 0)
	defer cancel()

	facets := askedOfPosts(f)
	index := &postIndex
	var bounds []any
	if f.Open {
		index = &openPostIndex
		bounds = []any{s.now().Date()}
	}

	name := fmt.Sprintf("posts %q %q %s", f.Query, facets, f.Order)
	if f.Query != "" {
		newest := f.Order == domain.OrderNewest
		return listing.ReadSearch[domain.PublicPost](ctx, s.db, listing.Search{
			Name:   name,
			Index:  index,
			Text:   f.Query,
			Facets: facets,
			Bounds: bounds,
			// By time, posts that match a word in passing would hide those that match all.
			Strict:   f.Match == domain.MatchAll || newest,
			Newest:   newest,
			Rows:     selectPost + ` JOIN page ON page.id = p.seq`,
			MaxBytes: listing.PageBytes,
		}, page)
	}

	q := &listing.Query{Name: name, Count: countPosts, MaxBytes: listing.PageBytes}
	ids := allPosts
	switch {
	case ofKind && f.Kind != "":
		ids = postsOfKind
		q.Count = countPostsOfKind
		q.Before = []any{f.Kind}

	case len(facets) > 0:
		ids = index.IDs
		q.Count = index.Count
		q.Before = []any{search.Within("", facets)}
		q.Bounds = bounds
	}
	q.Rows = `
		SELECT ` + postFields + `
		FROM (` + ids + `) m JOIN posts p ON p.seq = m.id` + postAuthor + `
		ORDER BY m.id DESC`
	return listing.Read[domain.PublicPost](ctx, s.db, q, page)
}

// deletePost deletes a post with its replies.
func (t *tx) deletePost(p *postRow) error {
	t.Changes.Public = true
	t.Unindex(postSearch, p.Seq)

	// First the responses: they are found by the post and its replies.
	if err := t.erasePostResponses(`seq = ?1`, p.Seq); err != nil {
		return err
	}
	return t.Exec(`DELETE FROM posts WHERE seq = ?`, p.Seq)
}

// deletePostsOf deletes everything that an agent published.
func (t *tx) deletePostsOf(id int64) error {
	if err := t.erasePostResponses(`author_id = ?1`, id); err != nil {
		return err
	}
	return t.ExecEach(id,
		`DELETE FROM replies WHERE author_id = ?1`,
		`DELETE FROM posts WHERE author_id = ?1`,
	)
}

// erasePostResponses erases the stored responses that contain posts, selected by where with value
// as ?1, or replies to them.
func (t *tx) erasePostResponses(where string, value int64) error {
	posts := ` FROM posts WHERE ` + where
	return t.EraseResponses(
		`SELECT id`+posts+` UNION SELECT id FROM replies WHERE post_seq IN (SELECT seq`+posts+`)`,
		value,
	)
}
