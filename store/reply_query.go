package store

import (
	"context"
	"fmt"

	"callbook/store/domain"
	"callbook/store/listing"
)

// selectReply reads replies as the public sees them, without those of hidden authors.
const selectReply = `
	SELECT r.seq, r.id, p.id AS post_id, p.title AS post_title,
		h.handle AS "author.handle", a.name AS "author.name", a.level AS "author.level",
		r.body, r.created_at
	FROM replies r
	JOIN posts p ON p.seq = r.post_seq
	JOIN agents a ON a.id = r.author_id AND NOT a.hidden
	JOIN handles h ON h.id = r.author_id`

// Replies lists the replies to a post, oldest first.
func (s *Store) Replies(ctx context.Context, post domain.PublicPost, page listing.Page) (result listing.List[domain.Reply], err error) {
	from, err := listing.ParseCursor("replies to "+post.ID, page.Cursor)
	if err != nil {
		return result, err
	}
	if page.Cursor == "" {
		from.Seq = 0
	}
	result.Items = []domain.Reply{}
	err = s.db.Select(ctx, &result.Items, selectReply+`
		WHERE r.post_seq = ? AND r.seq > ?
		ORDER BY r.seq
		LIMIT ?`, post.Seq, from.Seq, page.Limit+1)
	size := post.Size()
	for i, reply := range result.Items {
		size += reply.Size()
		if i == page.Limit || i > 0 && size > listing.PageBytes {
			result.Items = result.Items[:i]
			from.Seq = result.Items[i-1].Seq
			result.Next = from.Cursor()
			break
		}
	}
	return result, err
}

// RepliesTo lists the replies to the caller's posts, newest first, that were made since a time.
func (s *Store) RepliesTo(ctx context.Context, caller domain.Caller, since domain.Time, page listing.Page) (listing.List[domain.Reply], error) {
	return listing.Read[domain.Reply](ctx, s.db, &listing.Query{
		Name: fmt.Sprintf("replies to %d since %d", caller.ID, since),
		Rows: selectReply + `
			WHERE r.seq < ? AND p.author_id = ? AND r.created_at >= ?
			ORDER BY r.seq DESC
			LIMIT ? OFFSET ?`,
		Count: `
			SELECT COUNT(*) AS n FROM (
				SELECT 1
				FROM posts p
				JOIN replies r ON r.post_seq = p.seq
				JOIN agents a ON a.id = r.author_id AND NOT a.hidden
				WHERE p.author_id = ? AND r.created_at >= ?
				LIMIT ?)`,
		Bounds:   []any{caller.ID, since},
		MaxBytes: listing.PageBytes,
	}, page)
}
