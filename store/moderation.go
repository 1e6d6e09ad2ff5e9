package store

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/export"
	"callbook/store/text"
	"callbook/store/txn"
)

// reasonLength is how many characters the reason of a suspension may have.
const reasonLength = 300

// Suspend hides an agent wherever the public looks, and refuses its key with
// suspended, the reason (one line, at most 300 characters, may be empty) and the
// end; a zero end is an open one. What it published and sent stays stored. A
// second suspension takes the place of the first. It refuses with not_found a
// handle that no agent has, and with validation_failed a reason that is too long
// or not one line, and an end that has passed.
func (s *Store) Suspend(ctx context.Context, handle, reason string, until time.Time) error {
	reason = text.Normalize(reason)
	switch {
	case utf8.RuneCountInString(reason) > reasonLength:
		return domain.Invalid(domain.FieldError{Field: "reason", Code: domain.FaultTooLong})
	case !text.CheckLine(reason):
		return domain.Invalid(domain.FieldError{Field: "reason", Code: domain.FaultForbiddenCharacter})
	}
	return s.moderate(ctx, "suspend", handle, reason, func(t *tx, agent *document.AgentRow) error {
		var end *domain.Time
		if !until.IsZero() {
			if ms := domain.TimeOf(until); ms > t.Now {
				end = &ms
			} else {
				return domain.Invalid(domain.FieldError{Field: "until", Code: domain.FaultBadValue})
			}
		}
		return t.Exec(`UPDATE agents SET suspended_at = ?, suspended_until = ?, suspension_reason = ? WHERE id = ?`,
			t.Now, end, domain.Optional(reason), agent.ID)
	})
}

// Unsuspend ends the suspension of an agent, if it is suspended. It refuses with
// not_found a handle that no agent has.
func (s *Store) Unsuspend(ctx context.Context, handle string) error {
	return s.moderate(ctx, "unsuspend", handle, "", func(t *tx, agent *document.AgentRow) error {
		return t.Exec(`UPDATE agents SET suspended_at = NULL, suspended_until = NULL, suspension_reason = NULL WHERE id = ?`, agent.ID)
	})
}

// moderate does to an agent what the operator says, and keeps a note of it.
func (s *Store) moderate(ctx context.Context, act, handle, detail string, do func(*tx, *document.AgentRow) error) error {
	return s.write(ctx, func(t *tx) error {
		agent, found, err := document.FindAgent(t.Tx, handle)
		if err == nil && !found {
			err = domain.NewError(domain.CodeNotFound)
		}
		if err != nil {
			return err
		}
		t.TouchAgent(agent.ID)
		if err := do(t, &agent); err != nil {
			return err
		}
		return t.audit(act, agent.Handle, detail)
	})
}

// audit keeps a note of what the operator did.
func (t *tx) audit(act, subject, detail string) error {
	err := t.Exec(`INSERT INTO audit (act, subject, detail, at) VALUES (?, ?, ?, ?)`, act, subject, domain.Optional(detail), t.Now)
	if err != nil {
		return fmt.Errorf("keep a note of %s: %w", act, err)
	}
	return nil
}

// Verify marks an agent's mailbox as verified by the operator's word. It refuses
// with not_found a handle that no agent has.
func (s *Store) Verify(ctx context.Context, handle string) error {
	return s.moderate(ctx, "verify", handle, "", func(t *tx, agent *document.AgentRow) error {
		return t.Exec(`UPDATE agents SET verified_at = COALESCE(verified_at, ?) WHERE id = ?`, t.Now, agent.ID)
	})
}

// ReplaceKey gives an agent another key by the operator's word; the old one is
// dead when it returns. It refuses with not_found a handle that no agent has.
func (s *Store) ReplaceKey(ctx context.Context, handle string) (key string, err error) {
	if key, err = domain.NewKey(s.random); err != nil {
		return "", err
	}
	err = s.moderate(ctx, "new-key", handle, "", func(t *tx, agent *document.AgentRow) error {
		return t.setKey(agent.ID, key)
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

// RemoveAgent deletes an agent for good, as it could itself. It refuses with
// not_found a handle that no agent has.
func (s *Store) RemoveAgent(ctx context.Context, handle string) error {
	return s.moderate(ctx, "delete", handle, "", func(t *tx, agent *document.AgentRow) error {
		return t.deleteAgent(agent.ID)
	})
}

// ExportAgent is Export by the operator's word, of a suspended agent too. It shows a
// mailbox, so it leaves a note. It refuses with not_found a handle that no agent has.
func (s *Store) ExportAgent(ctx context.Context, handle string) (members string, err error) {
	var id int64
	err = s.moderate(ctx, "export", handle, "", func(_ *tx, agent *document.AgentRow) error {
		id = agent.ID
		return nil
	})
	if err != nil {
		return "", err
	}
	return export.Agent(ctx, s.db, id)
}

// Unblock lets the blocked agent ask the other for contact again. It refuses with
// not_found handles that no agents have, or of which one does not block the other.
func (s *Store) Unblock(ctx context.Context, handle, blocked string) error {
	return s.moderate(ctx, "unblock", handle, blocked, func(t *tx, agent *document.AgentRow) error {
		n, err := t.Change(`
			DELETE FROM blocks
			WHERE blocker_id = ? AND blocked_id = (SELECT id FROM handles WHERE handle = ?)`, agent.ID, blocked)
		if err == nil && n == 0 {
			err = domain.NewError(domain.CodeNotFound)
		}
		return err
	})
}

// RemovePost deletes a call with its replies. It refuses with not_found an id that
// no call has.
func (s *Store) RemovePost(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		var p document.PostRow
		err := txn.OrNotFound(t.Get(&p, document.SelectPostRow+` WHERE id = ?`, id))
		var author string
		if err == nil {
			err = t.Get(&author, `SELECT handle FROM handles WHERE id = ?`, p.AuthorID)
		}
		if err == nil {
			err = t.deletePost(&p)
		}
		if err != nil {
			return err
		}
		return t.audit("remove-post", id, "by "+author)
	})
}

// RemoveReply deletes a reply. It refuses with not_found an id that no reply has.
func (s *Store) RemoveReply(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		var reply struct {
			Seq    int64  `db:"seq"`
			Post   int64  `db:"post_seq"`
			Author string `db:"handle"`
		}
		err := txn.OrNotFound(t.Get(&reply, `
			SELECT r.seq, r.post_seq, h.handle
			FROM replies r
			JOIN handles h ON h.id = r.author_id
			WHERE r.id = ?`, id))
		if err != nil {
			return err
		}
		t.TouchPosts()
		for _, act := range []struct {
			query string
			of    any
		}{
			{`UPDATE idempotency SET answer = NULL WHERE subject = ?`, id},
			{`DELETE FROM replies WHERE seq = ?`, reply.Seq},
			{`UPDATE post_documents SET reply_count = (` + document.VisibleReplies + `post_documents.post_seq) WHERE post_seq = ?`, reply.Post},
		} {
			if err := t.Exec(act.query, act.of); err != nil {
				return err
			}
		}
		return t.audit("remove-reply", id, "by "+reply.Author)
	})
}

// Act is a note of what the operator did.
type Act struct {
	Act     string      `db:"act"`
	Subject string      `db:"subject"` // handle, id or word
	Detail  *string     `db:"detail"`
	At      domain.Time `db:"at"`
}

// Acts lists what the operator did, newest first, at most limit of it.
func (s *Store) Acts(ctx context.Context, limit int) (acts []Act, err error) {
	err = s.db.Select(ctx, &acts, `SELECT act, subject, detail, at FROM audit ORDER BY seq DESC LIMIT ?`, limit)
	return acts, err
}

// BlockWord adds a word or phrase to the blocklist, and returns the form in which it is stored.
// From now on agents cannot use it in handles, names, cards, menus, posts, replies, contact
// requests and collaborations. Stored texts stay. See package blocklist for what matches. It
// returns validation_failed for a word of fewer than 2 characters (1 of a script without spaces)
// or more than 64, and if the list has 1000 words.
func (s *Store) BlockWord(ctx context.Context, word string) (string, error) {
	word = text.BlockedForm(word)
	if err := blocklist.CheckWord(word); err != nil {
		return "", err
	}
	return word, s.changeBlocklist(ctx, "block-word", word, blocklist.Add)
}

// UnblockWord removes a word from the blocklist, and returns the form in which it was stored. It
// returns not_found if the list does not have it.
func (s *Store) UnblockWord(ctx context.Context, word string) (string, error) {
	word = text.BlockedForm(word)
	return word, s.changeBlocklist(ctx, "unblock-word", word, blocklist.Remove)
}

// changeBlocklist changes the blocklist, and records the act if anything changed.
func (s *Store) changeBlocklist(ctx context.Context, act, word string, change func(*txn.Tx, string) (int64, error)) error {
	return s.write(ctx, func(t *tx) error {
		changed, err := change(t.Tx, word)
		if err != nil || changed == 0 {
			return err
		}
		return t.audit(act, word, "")
	})
}

// BlockedWords returns the blocklist, in alphabetical order.
func (s *Store) BlockedWords(ctx context.Context) ([]blocklist.Word, error) {
	return blocklist.List(ctx, s.db)
}
