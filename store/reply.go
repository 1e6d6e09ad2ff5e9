package store

import (
	"context"

	"callbook/store/blocklist"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/record"
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
	post, err := t.postFor(caller.ID, postID)
	if err != nil {
		return reply, err
	}
	author, err := t.author(caller)
	if err != nil {
		return reply, err
	}
	if err := t.spendDaily(caller, author.Level, domain.ActReply, t.store.quotas.RepliesAt, t.store.quotas[domain.LimitNetworkReplies]); err != nil {
		return reply, err
	}
	reply = domain.Reply{PostID: postID, PostTitle: post.Title, Author: author, Body: draft.Body, CreatedAt: t.Now}
	if reply.ID, err = t.NewID(domain.IDReply); err != nil {
		return reply, err
	}
	t.Changes.Public = true
	err = t.Get(&reply.Seq, `
		INSERT INTO replies (id, post_seq, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)
		RETURNING seq`, reply.ID, post.Seq, caller.ID, draft.Body, t.Now)
	if err != nil || post.AuthorID == caller.ID {
		return reply, err
	}
	return reply, t.InsertEvent(post.AuthorID, "reply.received", domain.EventSubject{ID: &reply.ID, Handle: caller.Handle, PostID: &postID})
}

// postFor returns a post that an agent may reply to. It returns not_found for a post that the public does
// not see, and not_accepting if its author has blocked the agent.
func (t *tx) postFor(agentID int64, id string) (post record.PostRow, err error) {
	err = txn.OrNotFound(t.Get(&post, record.SelectPostRow+`
		JOIN agents a ON a.id = p.author_id
		WHERE p.id = ? AND NOT a.hidden`, id))
	if err != nil {
		return post, err
	}
	blocked, err := t.blocked(post.AuthorID, agentID)
	if err == nil && blocked {
		err = &domain.Error{Code: domain.CodeNotAccepting, Topic: "reply"}
	}
	return post, err
}

// DeleteReply deletes a reply of the caller, or one to a post of the caller. It returns forbidden to
// other agents.
func (s *Store) DeleteReply(ctx context.Context, caller domain.Caller, id string) error {
	return s.writeAs(ctx, caller, func(t *tx) error {
		var reply lifecycle.ReplyRow
		err := txn.OrNotFound(t.Get(&reply, lifecycle.SelectReplyRow+`
			JOIN agents ra ON ra.id = r.author_id
			JOIN agents pa ON pa.id = p.author_id
			WHERE r.id = ? AND NOT ra.hidden AND NOT pa.hidden`, id))
		if err != nil {
			return err
		}
		if caller.ID != reply.AuthorID && caller.ID != reply.PostAuthorID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "reply"}
		}
		return lifecycle.DeleteReply(t.Tx, &reply)
	})
}
