package store

import (
	"context"
	"fmt"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/listing"
)

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

// CreateReply replies to a post. It returns validation_failed for a text with a blocked word,
// not_found for an unknown post, not_accepting if its author has blocked the caller, rate_limited
// past a daily limit, and idempotency_conflict if the key came with another request.
func (s *Store) CreateReply(
	ctx context.Context,
	caller domain.Caller,
	postID string,
	draft domain.ReplyDraft,
	key domain.IdempotencyKey,
) (reply domain.Reply, replayed bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		author, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		// A repeated request gets its first response again, before any rule is checked.
		if replayed, err = t.Replay(caller.ID, key, &reply); err != nil || replayed {
			return err
		}

		reply, err = t.createReply(author, caller.Address, postID, draft)
		if err != nil {
			return err
		}

		return t.StoreResponse(caller.ID, key, caller.ID, reply.ID, reply)
	})
	return reply, replayed, err
}

// createReply stores a reply and notifies the author of the post, unless it replies to itself.
func (t *tx) createReply(
	author *agentRow,
	from netip.Addr,
	postID string,
	draft domain.ReplyDraft,
) (reply domain.Reply, err error) {
	if err := t.CheckRoom(); err != nil {
		return reply, err
	}
	if err := t.checkBlocks(draft); err != nil {
		return reply, err
	}

	var post struct {
		Seq      int64  `db:"seq"`
		AuthorID int64  `db:"author_id"`
		Title    string `db:"title"`
		Blocked  bool   `db:"blocked"`
	}
	err = t.Get(&post, `
		SELECT p.seq, p.author_id, p.title,
			EXISTS (SELECT 1 FROM blocks WHERE blocker_id = p.author_id AND blocked_id = ?2) AS blocked
		FROM posts p
		JOIN agents a ON a.id = p.author_id
		WHERE p.id = ?1 AND NOT a.hidden`, postID, author.ID)
	if err != nil {
		return reply, orNotFound(err)
	}
	if post.Blocked {
		return reply, &domain.Error{Code: domain.CodeNotAccepting, Topic: "reply"}
	}

	quotas := t.store.quotas
	networkLimit := quotas[domain.LimitNetworkReplies]
	err = t.spendDaily(author, from, domain.ActReply, quotas.RepliesAt, networkLimit)
	if err != nil {
		return reply, err
	}

	id, err := t.NewID(domain.IDReply)
	if err != nil {
		return reply, err
	}
	reply = domain.Reply{
		ID:        id,
		PostID:    postID,
		PostTitle: post.Title,
		Author:    author.Author(),
		Body:      draft.Body,
		CreatedAt: t.Now,
	}
	t.Changes.Public = true
	err = t.Get(&reply.Seq, `
		INSERT INTO replies (id, post_seq, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)
		RETURNING seq`, reply.ID, post.Seq, author.ID, draft.Body, t.Now)
	// An author who replies to its own post needs no event.
	if err != nil || post.AuthorID == author.ID {
		return reply, err
	}

	return reply, t.InsertEvent(post.AuthorID, domain.EventReplyReceived, domain.EventSubject{
		ID:     &reply.ID,
		Handle: author.Handle,
		PostID: &postID,
	})
}

// DeleteReply deletes a reply of the caller, or one to a post of the caller. It returns forbidden
// to other agents.
func (s *Store) DeleteReply(ctx context.Context, caller domain.Caller, id string) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.Authorize(caller); err != nil {
			return err
		}

		var reply replyRow
		err := t.Get(&reply, selectReplyRow+`
			JOIN agents ra ON ra.id = r.author_id
			JOIN agents pa ON pa.id = p.author_id
			WHERE r.id = ? AND NOT ra.hidden AND NOT pa.hidden`, id)
		if err != nil {
			return orNotFound(err)
		}
		// The author of a post may remove what others write below it.
		if caller.ID != reply.AuthorID && caller.ID != reply.PostAuthorID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "reply"}
		}
		return t.deleteReply(&reply)
	})
}

// deleteReply deletes a reply.
func (t *tx) deleteReply(reply *replyRow) error {
	t.Changes.Public = true

	// A repeated request must not get the deleted text.
	err := t.EraseResponses(`?1`, reply.ID)
	if err != nil {
		return err
	}
	return t.Exec(`DELETE FROM replies WHERE seq = ?`, reply.Seq)
}

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
func (s *Store) Replies(
	ctx context.Context,
	post domain.PublicPost,
	page listing.Page,
) (result listing.List[domain.Reply], err error) {
	from, err := listing.ParseCursor("replies to "+post.ID, page.Cursor)
	if err != nil {
		return result, err
	}
	if page.Cursor == "" {
		from.Seq = 0 // the start of other lists, which go backwards, is the end of this one
	}

	result.Items = []domain.Reply{}
	err = s.db.Select(ctx, &result.Items, selectReply+`
		WHERE r.post_seq = ? AND r.seq > ?
		ORDER BY r.seq
		LIMIT ?`, post.Seq, from.Seq, page.Limit+1)
	if err != nil {
		return result, err
	}

	size := post.Size() // the page shows the post above its replies
	for i, reply := range result.Items {
		size += reply.Size()
		if i == page.Limit || i > 0 && size > listing.PageBytes {
			result.Items = result.Items[:i]
			from.Seq = result.Items[i-1].Seq
			result.Next = from.Cursor()
			break
		}
	}
	return result, nil
}

// RepliesTo lists the replies to the caller's posts, newest first, that were made since a time.
func (s *Store) RepliesTo(
	ctx context.Context,
	caller domain.Caller,
	since domain.Time,
	page listing.Page,
) (listing.List[domain.Reply], error) {
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
