package store

import (
	"context"

	"callbook/store/blocklist"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/query"
	"callbook/store/txn"
)

// CreateReply replies to a post. It returns validation_failed for a text with a blocked word,
// not_found for an unknown post, not_accepting if its author has blocked the caller, rate_limited
// past a daily limit, and idempotency_conflict if the key came with another request.
func (s *Store) CreateReply(ctx context.Context, caller domain.Caller, postID string, draft domain.ReplyDraft, key domain.IdempotencyKey) (reply domain.Reply, replayed bool, err error) {
	return createOnce(ctx, s.writeAs, caller, key, func(t *tx) (domain.Reply, error) { return t.createReply(caller, postID, draft) })
}

func (t *tx) createReply(caller domain.Caller, postID string, draft domain.ReplyDraft) (reply domain.Reply, err error) {
	if err := blocklist.Check(t.Tx, draft); err != nil {
		return reply, err
	}
	var post domain.PostDocument
	if err := txn.OrNotFound(t.Get(&post, query.SelectPost+` WHERE p.id = ?`, postID)); err != nil {
		return reply, err
	}
	author, err := t.authorFor(caller.ID, post)
	if err != nil {
		return reply, err
	}
	if err := t.spendDaily(caller, domain.ActReply, t.store.quotas.RepliesAt, t.store.quotas[domain.LimitNetworkReplies]); err != nil {
		return reply, err
	}
	id, err := t.NewID(domain.IDReply)
	if err != nil {
		return reply, err
	}
	var seq int64
	err = t.Get(&seq, `
		INSERT INTO replies (id, post_seq, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)
		RETURNING seq`, id, post.Seq, caller.ID, draft.Body, t.Now)
	if err != nil {
		return reply, err
	}
	if err := t.Exec(`UPDATE post_documents SET reply_count = reply_count + 1 WHERE post_seq = ?`, post.Seq); err != nil {
		return reply, err
	}
	t.TouchPosts()
	if author != caller.ID {
		if err := t.InsertEvent(author, "reply.received", domain.EventSubject{ID: &id, Handle: caller.Handle, PostID: &post.ID}); err != nil {
			return reply, err
		}
	}
	err = t.Get(&reply, query.SelectReply+` WHERE r.seq = ?`, seq)
	return reply, err
}

// authorFor returns the author of a post. It returns not_accepting if the author has blocked the caller.
func (t *tx) authorFor(callerID int64, post domain.PostDocument) (author int64, err error) {
	if err := t.Get(&author, `SELECT author_id FROM posts WHERE seq = ?`, post.Seq); err != nil {
		return 0, err
	}
	blocked, err := t.blocked(author, callerID)
	if err == nil && blocked {
		err = &domain.Error{Code: domain.CodeNotAccepting, Topic: "reply"}
	}
	return author, err
}

// DeleteReply deletes a reply of the caller, or one to a post of the caller. It returns forbidden to
// other agents.
func (s *Store) DeleteReply(ctx context.Context, caller domain.Caller, id string) error {
	return s.writeAs(ctx, caller, func(t *tx) error {
		var reply lifecycle.ReplyRow
		err := txn.OrNotFound(t.Get(&reply, lifecycle.SelectReplyRow+`
			WHERE r.id = ? AND EXISTS (SELECT 1 FROM agent_documents WHERE agent_id = r.author_id)
				AND EXISTS (SELECT 1 FROM post_documents WHERE post_seq = r.post_seq)`, id))
		if err != nil {
			return err
		}
		if caller.ID != reply.AuthorID && caller.ID != reply.PostAuthorID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "reply"}
		}
		return lifecycle.DeleteReply(t.Tx, &reply)
	})
}
