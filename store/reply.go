package store

import (
	"callbook/store/domain"
	"context"
	"fmt"
)

const selectReply = `
	SELECT r.seq, r.id, p.id AS post_id, p.title AS post_title, a.author, r.body, r.created_at
	FROM replies r
	JOIN posts p ON p.seq = r.post_seq
	JOIN agent_documents a ON a.agent_id = r.author_id`

// visibleReplies counts the replies to a call, whose number ends it, that the public
// sees: those of hidden agents are not there.
const visibleReplies = `
	SELECT COUNT(*) FROM replies r
	JOIN agent_documents d ON d.agent_id = r.author_id
	WHERE r.post_seq = `

// recountReplies counts the replies anew of all calls that an agent replied to: it
// was hidden, or is shown again.
func (t *tx) recountReplies(authorID int64) error {
	n, err := t.Change(`
		UPDATE post_documents SET reply_count = (`+visibleReplies+`post_documents.post_seq)
		WHERE post_seq IN (SELECT post_seq FROM replies WHERE author_id = ?)`, authorID)
	if n > 0 {
		t.touchPosts()
	}
	return err
}

// CreateReply answers a call. It refuses with validation_failed a text with a
// blocked word, with not_found a call that is not there, with rate_limited more
// than the day's replies, and with idempotency_conflict a repeated key with
// another body.
func (s *Store) CreateReply(ctx context.Context, caller domain.Caller, postID string, draft domain.ReplyDraft, once Once) (reply domain.Reply, replayed bool, err error) {
	return createOnce(ctx, s.writeAs, caller, once, func(t *tx) (domain.Reply, error) { return t.createReply(caller, postID, draft) })
}

func (t *tx) createReply(caller domain.Caller, postID string, draft domain.ReplyDraft) (reply domain.Reply, err error) {
	if err := t.checkTexts(draft); err != nil {
		return reply, err
	}
	var post domain.PostDocument
	if err := orNotFound(t.Get(&post, selectPost+` WHERE p.id = ?`, postID)); err != nil {
		return reply, err
	}
	if err := t.spend(caller.ID, domain.ActReply, t.store.quotas.Replies); err != nil {
		return reply, err
	}
	id, err := t.newID(domain.IdReply)
	if err != nil {
		return reply, err
	}
	var seq int64
	err = t.Get(&seq, `
		INSERT INTO replies (id, post_seq, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)
		RETURNING seq`, id, post.Seq, caller.ID, draft.Body, t.now)
	if err != nil {
		return reply, fmt.Errorf("insert the reply: %w", err)
	}
	if err := t.Exec(`UPDATE post_documents SET reply_count = reply_count + 1 WHERE post_seq = ?`, post.Seq); err != nil {
		return reply, err
	}
	t.touchPosts()
	if err := t.tellOfReply(caller, post, id); err != nil {
		return reply, err
	}
	err = t.Get(&reply, selectReply+` WHERE r.seq = ?`, seq)
	return reply, err
}

// tellOfReply tells the author of a call that another has answered.
func (t *tx) tellOfReply(caller domain.Caller, post domain.PostDocument, replyID string) error {
	var author int64
	if err := t.Get(&author, `SELECT author_id FROM posts WHERE seq = ?`, post.Seq); err != nil || author == caller.ID {
		return err
	}
	return t.tell(author, "reply.received", domain.EventSubject{ID: &replyID, Handle: caller.Handle, PostID: &post.ID})
}

// Replies lists the replies to a call, oldest first.
func (s *Store) Replies(ctx context.Context, post domain.PostDocument, page Page) (List[domain.Reply], error) {
	from, err := parseCursor("replies to "+post.ID, page.Cursor)
	if err != nil {
		return List[domain.Reply]{}, err
	}
	if page.Cursor == "" {
		from.seq = 0
	}
	result := List[domain.Reply]{Items: []domain.Reply{}}
	err = s.selectAll(ctx, &result.Items, selectReply+`
		WHERE r.post_seq = ? AND r.seq > ?
		ORDER BY r.seq
		LIMIT ?`, post.Seq, from.seq, page.Limit+1)
	size := post.Size()
	for i, reply := range result.Items {
		size += reply.Size()
		if i == page.Limit || i > 0 && size > pageBytes {
			result.Items = result.Items[:i]
			result.Next = position{list: from.list, seq: result.Items[i-1].Seq}.cursor()
			break
		}
	}
	return result, err
}

// RepliesTo lists the replies to the caller's calls by others and itself, newest
// first; since narrows to those made at that time or later.
func (s *Store) RepliesTo(ctx context.Context, caller domain.Caller, since domain.Time, page Page) (List[domain.Reply], error) {
	return list[domain.Reply](ctx, s, &listing{
		name: fmt.Sprintf("replies to %d since %d", caller.ID, since),
		rows: selectReply + `
			WHERE r.seq < ? AND p.author_id = ? AND r.created_at >= ?
			ORDER BY r.seq DESC
			LIMIT ? OFFSET ?`,
		count: `
			SELECT COUNT(*) AS n FROM (
				SELECT 1
				FROM posts p
				JOIN replies r ON r.post_seq = p.seq
				JOIN agent_documents a ON a.agent_id = r.author_id
				WHERE p.author_id = ? AND r.created_at >= ?
				LIMIT ?)`,
		bounds: []any{caller.ID, since},
		most:   pageBytes,
	}, page)
}
