package record

import (
	"callbook/store/domain"
	"callbook/store/sqlitedb"
	"callbook/store/txn"
)

// PostRow is a row of the table posts.
type PostRow struct {
	domain.Post
	Seq       int64       `db:"seq"`
	AuthorID  int64       `db:"author_id"`
	Closed    bool        `db:"closed"` // the search row says that the deadline has passed
	CreatedAt domain.Time `db:"created_at"`
}

// newPost is a PostRow with what only its publication stores.
type newPost struct {
	PostRow
	TextHash []byte `db:"text_hash"`
}

var (
	// SelectPostRow selects rows of the table posts.
	SelectPostRow = `SELECT ` + sqlitedb.ColumnsOf[PostRow]().Select("p") + ` FROM posts p`

	insertPost = sqlitedb.ColumnsOf[newPost]("seq").Insert("posts") + ` RETURNING seq`
)

// Insert stores a new post by an author's handle. words are its PostWords.
func (p *PostRow) Insert(t *txn.Tx, author string, textHash []byte, words string) error {
	if err := t.GetNamed(&p.Seq, insertPost, newPost{PostRow: *p, TextHash: textHash}); err != nil {
		return err
	}
	t.Changes.Public = true
	t.Index(txn.PostSearch, p.Seq, p.tokens(author, words))
	return nil
}

// IndexStalePosts rebuilds the search rows of posts whose deadline has passed, so that searches for
// open posts need not skip them, limit at most, and returns their number. It also reopens posts that a
// clock that ran ahead has closed.
func IndexStalePosts(t *txn.Tx, limit int) (int, error) {
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
func indexPosts(t *txn.Tx, where string, value int64) error {
	posts, err := authoredPosts(t, where, value)
	for i := range posts {
		t.Index(txn.PostSearch, posts[i].Seq, posts[i].tokens(posts[i].Author, PostWords(&posts[i].Post)))
	}
	return err
}
