package store

import (
	"context"
	"net/netip"

	"callbook/store/domain"
)

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

		if reply, err = t.createReply(author, caller.Address, postID, draft); err != nil {
			return err
		}
		return t.StoreResponse(caller.ID, key, caller.ID, reply.ID, reply)
	})
	return reply, replayed, err
}

func (t *tx) createReply(
	author *agentRow,
	from netip.Addr,
	postID string,
	draft domain.ReplyDraft,
) (reply domain.Reply, err error) {
	if err := t.CheckRoom(); err != nil {
		return reply, err
	}
	if err := checkBlocks(t, draft); err != nil {
		return reply, err
	}

	var post struct {
		Seq      int64  `db:"seq"`
		AuthorID int64  `db:"author_id"`
		Title    string `db:"title"`
		Blocked  bool   `db:"blocked"`
	}
	err = orNotFound(t.Get(&post, `
		SELECT p.seq, p.author_id, p.title,
			EXISTS (SELECT 1 FROM blocks WHERE blocker_id = p.author_id AND blocked_id = ?2) AS blocked
		FROM posts p
		JOIN agents a ON a.id = p.author_id
		WHERE p.id = ?1 AND NOT a.hidden`, postID, author.ID))
	if err != nil {
		return reply, err
	}
	if post.Blocked {
		return reply, &domain.Error{Code: domain.CodeNotAccepting, Topic: "reply"}
	}
	quotas := t.store.quotas
	err = t.spendDaily(author, from, domain.ActReply, quotas.RepliesAt, quotas[domain.LimitNetworkReplies])
	if err != nil {
		return reply, err
	}

	reply = domain.Reply{
		PostID:    postID,
		PostTitle: post.Title,
		Author:    author.Author(),
		Body:      draft.Body,
		CreatedAt: t.Now,
	}
	if reply.ID, err = t.NewID(domain.IDReply); err != nil {
		return reply, err
	}
	t.Changes.Public = true
	err = t.Get(&reply.Seq, `
		INSERT INTO replies (id, post_seq, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)
		RETURNING seq`, reply.ID, post.Seq, author.ID, draft.Body, t.Now)
	if err != nil || post.AuthorID == author.ID {
		return reply, err
	}
	return reply, t.InsertEvent(post.AuthorID, "reply.received", domain.EventSubject{
		ID:     &reply.ID,
		Handle: author.Handle,
		PostID: &postID,
	})
}

// DeleteReply deletes a reply of the caller, or one to a post of the caller. It returns forbidden to
// other agents.
func (s *Store) DeleteReply(ctx context.Context, caller domain.Caller, id string) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.Authorize(caller); err != nil {
			return err
		}

		var reply replyRow
		err := orNotFound(t.Get(&reply, selectReplyRow+`
			JOIN agents ra ON ra.id = r.author_id
			JOIN agents pa ON pa.id = p.author_id
			WHERE r.id = ? AND NOT ra.hidden AND NOT pa.hidden`, id))
		if err != nil {
			return err
		}
		if caller.ID != reply.AuthorID && caller.ID != reply.PostAuthorID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "reply"}
		}
		return deleteReply(t, &reply)
	})
}
