package store

import (
	"cmp"
)

// deletePost deletes a post with its replies.
func deletePost(t *tx, p *postRow) error {
	t.Changes.Public = true
	t.Unindex(postSearch, p.Seq)
	return cmp.Or(erasePostResponses(t, `seq = ?1`, p.Seq), t.Exec(`DELETE FROM posts WHERE seq = ?`, p.Seq))
}

// deletePostsOf deletes everything that an agent published.
func deletePostsOf(t *tx, id int64) error {
	if err := erasePostResponses(t, `author_id = ?1`, id); err != nil {
		return err
	}
	return t.ExecEach(id,
		`DELETE FROM replies WHERE author_id = ?1`,
		`DELETE FROM posts WHERE author_id = ?1`,
	)
}

// erasePostResponses erases the stored responses that contain posts, selected by where with value
// as ?1, or replies to them.
func erasePostResponses(t *tx, where string, value int64) error {
	posts := ` FROM posts WHERE ` + where
	return t.EraseResponses(`SELECT id`+posts+` UNION SELECT id FROM replies WHERE post_seq IN (SELECT seq`+posts+`)`, value)
}

// replyRow is a row of the table replies.
type replyRow struct {
	Seq          int64  `db:"seq"`
	ID           string `db:"id"`
	PostSeq      int64  `db:"post_seq"`
	AuthorID     int64  `db:"author_id"`
	Author       string `db:"handle"`
	PostAuthorID int64  `db:"post_author_id"`
}

// selectReplyRow selects rows of the table replies.
const selectReplyRow = `
	SELECT r.seq, r.id, r.post_seq, r.author_id, h.handle, p.author_id AS post_author_id
	FROM replies r
	JOIN handles h ON h.id = r.author_id
	JOIN posts p ON p.seq = r.post_seq`

// deleteReply deletes a reply.
func deleteReply(t *tx, reply *replyRow) error {
	t.Changes.Public = true
	return cmp.Or(
		t.Exec(`UPDATE idempotency SET answer = NULL WHERE subject = ?`, reply.ID),
		t.Exec(`DELETE FROM replies WHERE seq = ?`, reply.Seq))
}
