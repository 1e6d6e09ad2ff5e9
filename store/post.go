package store

import (
	"context"
	"errors"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/text"
)

// checkDeadline returns the error of a deadline that has passed.
func (t *tx) checkDeadline(date string) []domain.FieldError {
	if !domain.DeadlinePassed(date, t.Now.Time()) {
		return nil
	}
	return []domain.FieldError{{Field: "deadline", Code: domain.FaultBadValue, Topic: "deadline"}}
}

// CreatePost publishes a post of the caller. It returns validation_failed for a deadline that has
// passed and for a text with a blocked word, duplicate for the text of another post of the last day, rate_limited past a daily limit, and
// idempotency_conflict if the key came with another request.
func (s *Store) CreatePost(
	ctx context.Context,
	caller domain.Caller,
	draft domain.PostDraft,
	key domain.IdempotencyKey,
) (post domain.PublicPost, replayed bool, err error) {
	words := postWords(new(draftedPost(draft)))
	err = s.write(ctx, func(t *tx) error {
		author, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		// A repeated request gets its first response again, before any rule is checked.
		if replayed, err = t.Replay(caller.ID, key, &post); err != nil || replayed {
			return err
		}

		if post, err = t.createPost(author, caller.Address, draft, words); err != nil {
			return err
		}
		return t.StoreResponse(caller.ID, key, caller.ID, post.ID, post)
	})
	return post, replayed, err
}

// createPost publishes a post, whose record.PostWords are words.
func (t *tx) createPost(
	author *agentRow,
	from netip.Addr,
	draft domain.PostDraft,
	words string,
) (post domain.PublicPost, err error) {
	if err := t.CheckRoom(); err != nil {
		return post, err
	}
	if err := checkBlocks(t, draft, t.checkDeadline(draft.Deadline)...); err != nil {
		return post, err
	}
	hash := draft.TextHash()
	if err := t.checkRepeated(author.ID, hash); err != nil {
		return post, err
	}
	quotas := t.store.quotas
	err = t.spendDaily(author, from, domain.ActPost, quotas.PostsAt, quotas[domain.LimitNetworkPosts])
	if err != nil {
		return post, err
	}

	row := postRow{
		Post:      draftedPost(draft),
		AuthorID:  author.ID,
		Closed:    draft.Deadline != "" && draft.Deadline < t.Now.Date(),
		CreatedAt: t.Now,
	}
	if row.ID, err = t.NewID(domain.IDPost); err != nil {
		return post, err
	}
	if err := row.Insert(t, author.Handle, hash, words); err != nil {
		return post, err
	}
	return domain.PublicPost{Post: row.Post, Author: author.Author(), CreatedAt: row.CreatedAt, Seq: row.Seq}, nil
}

// checkRepeated returns duplicate, with the id of the first, if a post of an author with the same text is less than
// domain.RepeatWindow old. A deleted one does not count: posts cannot be edited, so an author corrects a post by deleting
// it and publishing it again, as often as the daily limit allows.
func (t *tx) checkRepeated(authorID int64, hash []byte) error {
	var first string
	found, err := t.Find(&first, `
		SELECT id FROM posts
		WHERE author_id = ? AND text_hash = ? AND created_at > ?
		ORDER BY seq
		LIMIT 1`, authorID, hash, t.Now.Add(-domain.RepeatWindow))
	if err == nil && found {
		err = &domain.Error{Code: domain.CodeDuplicate, Topic: "post", Names: []any{first}}
	}
	return err
}

// spendDaily counts a post or reply against the limits of its author, by its trust level, and of the
// network that it comes from.
func (t *tx) spendDaily(
	author *agentRow,
	from netip.Addr,
	action domain.QuotaAction,
	limitAt func(level int) int,
	network int,
) error {
	limit := limitAt(author.Level())
	if err := t.Spend(author.ID, action, limit); err != nil {
		if limited, ok := errors.AsType[*domain.Error](err); ok && limit != limitAt(1) {
			limited.Topic += "_unverified" // a verified agent may do more
		}
		return err
	}
	return t.SpendNetwork(t.counted(from), action, network)
}

// draftedPost returns the post of a draft, without its id.
func draftedPost(d domain.PostDraft) domain.Post {
	return domain.Post{
		Kind:        d.Kind,
		Title:       d.Title,
		Body:        d.Body,
		Deliverable: domain.Optional(d.Deliverable),
		Deadline:    domain.Optional(d.Deadline),
		Constraints: domain.Optional(d.Constraints),
		Languages:   text.CanonicalLanguages(d.Languages),
		Tags:        text.CanonicalTags(d.Tags),
		Lang:        domain.Optional(d.Lang),
	}
}

// DeletePost deletes a post of the caller, with its replies. It returns forbidden for another agent's
// post.
func (s *Store) DeletePost(ctx context.Context, caller domain.Caller, id string) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.Authorize(caller); err != nil {
			return err
		}

		var p postRow
		err := t.Get(&p, selectPostRow+`
			JOIN agents a ON a.id = p.author_id
			WHERE p.id = ? AND NOT a.hidden`, id)
		if err != nil {
			return orNotFound(err)
		}
		if p.AuthorID != caller.ID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "post"}
		}
		return deletePost(t, &p)
	})
}

// indexStalePosts is record.IndexStalePosts for a batch.
func (t *tx) indexStalePosts() (int, error) { return indexStalePosts(t, jobBatch) }
