package store

import (
	"context"
	"errors"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/text"
	"callbook/store/txn"
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
func (s *Store) CreatePost(ctx context.Context, caller domain.Caller, draft domain.PostDraft, key domain.IdempotencyKey) (doc domain.PostDocument, replayed bool, err error) {
	return createOnce(ctx, s.writeAs, caller, key, func(t *tx) (domain.PostDocument, error) { return t.createPost(caller, draft) })
}

func (t *tx) createPost(caller domain.Caller, draft domain.PostDraft) (doc domain.PostDocument, err error) {
	if err := blocklist.Check(t.Tx, draft, t.checkDeadline(draft.Deadline)...); err != nil {
		return doc, err
	}
	hash := draft.TextHash()
	if err := t.checkRepeated(caller.ID, hash); err != nil {
		return doc, err
	}
	if err := t.spendDaily(caller, domain.ActPost, t.store.quotas.PostsAt, t.store.quotas[domain.LimitNetworkPosts]); err != nil {
		return doc, err
	}
	row, err := t.insertPost(caller.ID, draft, hash)
	if err != nil {
		return doc, err
	}
	doc = domain.PostDocument{Seq: row.Seq, ID: row.ID, Deadline: row.Deadline, CreatedAt: row.CreatedAt}
	if doc.Post, err = document.BuildPost(t.Tx, &row, caller.Handle); err != nil {
		return doc, err
	}
	t.TouchRecentPosts(caller.ID)
	t.TouchPosts()
	err = t.Get(&doc.Author, `SELECT author FROM agent_documents WHERE agent_id = ?`, caller.ID)
	return doc, err
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

// spendDaily counts a post or reply against the limits of the caller, by its trust level, and of
// the network that it comes from.
func (t *tx) spendDaily(caller domain.Caller, action domain.QuotaAction, limitAt func(level int) int, network int) error {
	var level int
	if err := t.Get(&level, `SELECT `+document.SelectLevel("a")+` FROM agents a WHERE a.id = ?`, caller.ID); err != nil {
		return err
	}
	if err := t.Spend(caller.ID, action, limitAt(level)); err != nil {
		if limited, ok := errors.AsType[*domain.Error](err); ok && limitAt(level) != limitAt(1) {
			limited.Topic += "_unverified" // a verified agent may do more
		}
		return err
	}
	return t.SpendNetwork(t.counted(caller.Address), action, network)
}

func (t *tx) insertPost(authorID int64, d domain.PostDraft, hash []byte) (row document.PostRow, err error) {
	row = document.PostRow{AuthorID: authorID, CreatedAt: t.Now, Post: domain.Post{
		Kind: d.Kind, Title: d.Title, Body: d.Body,
		Deliverable: domain.Optional(d.Deliverable), Deadline: domain.Optional(d.Deadline), Constraints: domain.Optional(d.Constraints),
		Languages: text.CanonicalLanguages(d.Languages), Tags: text.CanonicalTags(d.Tags), Lang: domain.Optional(d.Lang),
	}}
	if row.ID, err = t.NewID(domain.IDPost); err != nil {
		return row, err
	}
	err = t.Get(&row.Seq, `
		INSERT INTO posts (id, author_id, kind, title, body, deliverable, deadline, constraints,
			languages, tags, lang, text_hash, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		RETURNING seq`,
		row.ID, authorID, row.Kind, row.Title, row.Body, row.Deliverable, row.Deadline, row.Constraints,
		row.Languages, row.Tags, row.Lang, hash, t.Now)
	return row, err
}

// DeletePost deletes a post of the caller, with its replies. It returns forbidden for another agent's
// post.
func (s *Store) DeletePost(ctx context.Context, caller domain.Caller, id string) error {
	return s.writeAs(ctx, caller, func(t *tx) error {
		var p document.PostRow
		err := t.Get(&p, document.SelectPostRow+`
			WHERE id = ? AND EXISTS (SELECT 1 FROM agent_documents WHERE agent_id = author_id)`, id)
		if err != nil {
			return txn.OrNotFound(err)
		}
		if p.AuthorID != caller.ID {
			return &domain.Error{Code: domain.CodeForbidden, Topic: "post"}
		}
		return lifecycle.DeletePost(t.Tx, &p)
	})
}

// closePosts rebuilds the search rows of posts whose deadline has passed, so that searches for open
// posts need not skip them. It also reopens posts that a clock that ran ahead has closed.
func (t *tx) closePosts() (int, error) {
	var stale []int64
	today := t.Now.Date()
	err := t.Select(&stale, `
		SELECT post_seq FROM post_documents WHERE open = 1 AND deadline < ?
		UNION ALL
		SELECT post_seq FROM post_documents WHERE open = 0 AND deadline >= ?
		LIMIT ?`, today, today, jobBatch)
	if err != nil || len(stale) == 0 {
		return 0, err
	}
	t.TouchPosts()
	for _, seq := range stale {
		if err := document.RebuildPost(t.Tx, seq); err != nil {
			return 0, err
		}
	}
	return len(stale), nil
}
