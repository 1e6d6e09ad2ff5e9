package document

import (
	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	"callbook/store/txn"
)

// maxRecentPosts is how many posts a card lists.
const maxRecentPosts = 5

func recentPosts(t *txn.Tx, id int64) (string, error) {
	posts := []domain.RecentPost{}
	err := t.Select(&posts, `
		SELECT id, kind, title, created_at
		FROM posts
		WHERE author_id = ?
		ORDER BY seq DESC
		LIMIT ?`, id, maxRecentPosts)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(posts)
	return string(b), err
}

func rebuildRecentPosts(t *txn.Tx, id int64) error {
	posts, err := recentPosts(t, id)
	if err != nil {
		return err
	}
	delete(t.StaleRecent, id)
	return t.Exec(`UPDATE agent_documents SET recent_posts = ? WHERE agent_id = ?`, posts, id)
}

// BuildPost builds the document and search row of a post by an author's handle, and returns the
// document. Since a post never changes, this is done once; only the search row is rebuilt when
// the deadline passes.
func BuildPost(t *txn.Tx, p *PostRow, author string) (doc string, err error) {
	if doc, err = members(p.Post); err != nil {
		return "", err
	}
	open := p.Deadline == nil || *p.Deadline >= t.Now.Date()
	err = t.Exec(`
		INSERT INTO post_documents (post_seq, author_id, deadline, open, reply_count, created_at, post)
		VALUES (?1, ?2, ?3, ?4, (`+VisibleReplies+`?1), ?5, ?6)
		ON CONFLICT (post_seq) DO UPDATE SET open = excluded.open, post = excluded.post`,
		p.Seq, p.AuthorID, p.Deadline, open, p.CreatedAt, doc)
	if err != nil {
		return "", err
	}
	t.Index(txn.PostSearch, p.Seq, p.searchRow(author, open))
	return doc, nil
}

// RebuildPost rebuilds the document and search row of a stored post.
func RebuildPost(t *txn.Tx, seq int64) error {
	var p PostRow
	if err := t.Get(&p, SelectPostRow+` WHERE seq = ?`, seq); err != nil {
		return err
	}
	var author string
	if err := t.Get(&author, `SELECT handle FROM handles WHERE id = ?`, p.AuthorID); err != nil {
		return err
	}
	_, err := BuildPost(t, &p, author)
	return err
}

// VisibleReplies counts the replies to a post, whose number must follow, without those of
// hidden agents.
const VisibleReplies = `
	SELECT COUNT(*) FROM replies r
	JOIN agent_documents d ON d.agent_id = r.author_id
	WHERE r.post_seq = `

// recountReplies counts the replies to all posts that an agent replied to again, after it was
// hidden or shown.
func recountReplies(t *txn.Tx, authorID int64) error {
	return t.Exec(`
		UPDATE post_documents SET reply_count = (`+VisibleReplies+`post_documents.post_seq)
		WHERE post_seq IN (SELECT post_seq FROM replies WHERE author_id = ?)`, authorID)
}
