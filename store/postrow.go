package store

import (
	"callbook/store/domain"
	"callbook/store/sqlitedb"
)

// postRow is a row of the table posts.
type postRow struct {
	domain.Post
	Seq       int64       `db:"seq"`
	AuthorID  int64       `db:"author_id"`
	Closed    bool        `db:"closed"` // the search row says that the deadline has passed
	CreatedAt domain.Time `db:"created_at"`
}

// postRecord is a PostRow with what only its publication stores.
type postRecord struct {
	postRow
	TextHash []byte `db:"text_hash"`
}

var (
	// selectPostRow selects rows of the table posts.
	selectPostRow = `SELECT ` + sqlitedb.ColumnsOf[postRow]().Select("p") + ` FROM posts p`

	insertPost = sqlitedb.ColumnsOf[postRecord]("seq").Insert("posts") + ` RETURNING seq`
)

// Insert stores a new post by an author's handle. words are its PostWords.
func (p *postRow) Insert(t *tx, author string, textHash []byte, words string) error {
	if err := t.GetNamed(&p.Seq, insertPost, postRecord{postRow: *p, TextHash: textHash}); err != nil {
		return err
	}
	t.Changes.Public = true
	t.Index(postSearch, p.Seq, p.tokens(author, words))
	return nil
}

// indexStalePosts rebuilds the search rows of posts whose deadline has passed, so that searches for
// open posts need not skip them, limit at most, and returns their number. It also reopens posts that a
// clock that ran ahead has closed.
func indexStalePosts(t *tx, limit int) (int, error) {
	var stale []int64
	today := t.Now.Date()
	err := t.Select(&stale, `
		SELECT seq FROM posts WHERE closed = 0 AND deadline < ?1
		UNION ALL
		SELECT seq FROM posts WHERE closed = 1 AND deadline >= ?1
		LIMIT ?2`, today, limit)
	if err != nil {
		return 0, err
	}

	for _, seq := range stale {
		if err := t.Exec(`UPDATE posts SET closed = deadline < ? WHERE seq = ?`, today, seq); err != nil {
			return 0, err
		}
		if err := indexPosts(t, `p.seq = ?`, seq); err != nil {
			return 0, err
		}
	}
	t.Changes.Public = t.Changes.Public || len(stale) > 0
	return len(stale), nil
}

// indexPosts stores the search rows of the posts that where selects, without those of hidden authors.
func indexPosts(t *tx, where string, value int64) error {
	posts, err := authoredPosts(t, where, value)
	for i := range posts {
		t.Index(postSearch, posts[i].Seq, posts[i].tokens(posts[i].Author, postWords(&posts[i].Post)))
	}
	return err
}
