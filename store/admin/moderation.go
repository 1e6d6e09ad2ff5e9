package admin

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/export"
	"callbook/store/lifecycle"
	"callbook/store/outbox"
	"callbook/store/text"
	"callbook/store/txn"
)

// reasonLength is the limit for the reason of a suspension, in characters.
const reasonLength = 300

// Suspend hides an agent from the public and rejects its key with suspended, the reason and the end.
// The reason is one line of at most 300 characters and may be empty; a zero end means until Unsuspend.
// Records of the agent stay. A second suspension replaces the first. Suspend returns not_found for an
// unknown handle, and validation_failed for an invalid reason and an end in the past.
func (o *Operator) Suspend(ctx context.Context, handle, reason string, until time.Time) error {
	reason = text.Normalize(reason)
	switch {
	case utf8.RuneCountInString(reason) > reasonLength:
		return domain.Invalid(domain.FieldError{Field: "reason", Code: domain.FaultTooLong})
	case !text.CheckLine(reason):
		return domain.Invalid(domain.FieldError{Field: "reason", Code: domain.FaultForbiddenCharacter})
	}
	return o.moderate(ctx, "suspend", handle, reason, func(t *txn.Tx, agent *document.AgentRow) error {
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

// Unsuspend ends the suspension of an agent, if it is suspended. It returns not_found for an unknown
// handle.
func (o *Operator) Unsuspend(ctx context.Context, handle string) error {
	return o.moderate(ctx, "unsuspend", handle, "", func(t *txn.Tx, agent *document.AgentRow) error {
		return t.Exec(`UPDATE agents SET suspended_at = NULL, suspended_until = NULL, suspension_reason = NULL WHERE id = ?`, agent.ID)
	})
}

// moderate runs an operator's act on an agent, and records it. It returns not_found for an unknown
// handle.
func (o *Operator) moderate(ctx context.Context, act, handle, detail string, do func(*txn.Tx, *document.AgentRow) error) error {
	return o.db.Write(ctx, func(t *txn.Tx) error {
		agent, found, err := document.FindAgent(t, handle)
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
		return audit(t, act, agent.Handle, detail)
	})
}

// audit records an operator's act.
func audit(t *txn.Tx, act, subject, detail string) error {
	err := t.Exec(`INSERT INTO audit (act, subject, detail, at) VALUES (?, ?, ?, ?)`, act, subject, domain.Optional(detail), t.Now)
	if err != nil {
		return fmt.Errorf("record %s: %w", act, err)
	}
	return nil
}

// Verify marks an agent's mailbox as verified. It returns not_found for an unknown handle.
func (o *Operator) Verify(ctx context.Context, handle string) error {
	return o.moderate(ctx, "verify", handle, "", func(t *txn.Tx, agent *document.AgentRow) error {
		if err := outbox.ReturnToMailbox(t, agent.ID, agent.Mailbox); err != nil {
			return err
		}
		return t.Exec(`UPDATE agents SET verified_at = COALESCE(verified_at, ?) WHERE id = ?`, t.Now, agent.ID)
	})
}

// Unverify marks an agent's mailbox as not verified, and forgets those that it replaced, so that none of
// them recovers the key. It returns not_found for an unknown handle.
func (o *Operator) Unverify(ctx context.Context, handle string) error {
	return o.moderate(ctx, "unverify", handle, "", func(t *txn.Tx, agent *document.AgentRow) error {
		return errors.Join(outbox.KeepMailbox(t, agent.ID, ""), lifecycle.Unverify(t, agent.ID))
	})
}

// Unclaim ends the owner claim of an agent, if there is one, confirmed or not, and takes back the agent's
// deletion, which that owner could have taken back. It returns not_found for an unknown handle.
func (o *Operator) Unclaim(ctx context.Context, handle string) error {
	return o.moderate(ctx, "unclaim", handle, "", func(t *txn.Tx, agent *document.AgentRow) error {
		return errors.Join(lifecycle.WithdrawClaim(t, agent), lifecycle.KeepAgent(t, agent.ID))
	})
}

// ReplaceKey replaces an agent's key. The old one is invalid when it returns. It returns not_found for
// an unknown handle.
func (o *Operator) ReplaceKey(ctx context.Context, handle string) (key string, err error) {
	if key, err = domain.NewKey(o.random); err != nil {
		return "", err
	}
	err = o.moderate(ctx, "new-key", handle, "", func(t *txn.Tx, agent *document.AgentRow) error {
		return lifecycle.SetKey(t, agent.ID, key)
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

// RemoveAgent is DeleteAgent for the operator. It returns not_found for an unknown handle.
func (o *Operator) RemoveAgent(ctx context.Context, handle string) error {
	return o.moderate(ctx, "delete", handle, "", func(t *txn.Tx, agent *document.AgentRow) error {
		return lifecycle.DeleteAgent(t, agent.ID)
	})
}

// ExportAgent is Export for the operator, also of a suspended agent. It reveals a mailbox, so it is
// recorded. It returns not_found for an unknown handle.
func (o *Operator) ExportAgent(ctx context.Context, handle string) (members string, err error) {
	var id int64
	err = o.moderate(ctx, "export", handle, "", func(_ *txn.Tx, agent *document.AgentRow) error {
		id = agent.ID
		return nil
	})
	if err != nil {
		return "", err
	}
	return export.Agent(ctx, o.db, id)
}

// Unblock allows the blocked agent to send the other contact requests again. It returns not_found for
// unknown handles, and if there is no block.
func (o *Operator) Unblock(ctx context.Context, handle, blocked string) error {
	return o.moderate(ctx, "unblock", handle, blocked, func(t *txn.Tx, agent *document.AgentRow) error {
		n, err := t.Change(`
			DELETE FROM blocks
			WHERE blocker_id = ? AND blocked_id = (SELECT id FROM handles WHERE handle = ?)`, agent.ID, blocked)
		if err == nil && n == 0 {
			err = domain.NewError(domain.CodeNotFound)
		}
		return err
	})
}

// RemovePost deletes a post with its replies. It returns not_found for an unknown id.
func (o *Operator) RemovePost(ctx context.Context, id string) error {
	return o.db.Write(ctx, func(t *txn.Tx) error {
		var p document.PostRow
		err := txn.OrNotFound(t.Get(&p, document.SelectPostRow+` WHERE id = ?`, id))
		var author string
		if err == nil {
			err = t.Get(&author, `SELECT handle FROM handles WHERE id = ?`, p.AuthorID)
		}
		if err == nil {
			err = lifecycle.DeletePost(t, &p)
		}
		if err != nil {
			return err
		}
		return audit(t, "remove-post", id, "by "+author)
	})
}

// RemoveReply deletes a reply. It returns not_found for an unknown id.
func (o *Operator) RemoveReply(ctx context.Context, id string) error {
	return o.db.Write(ctx, func(t *txn.Tx) error {
		var reply lifecycle.ReplyRow
		err := txn.OrNotFound(t.Get(&reply, lifecycle.SelectReplyRow+` WHERE r.id = ?`, id))
		if err == nil {
			err = lifecycle.DeleteReply(t, &reply)
		}
		if err != nil {
			return err
		}
		return audit(t, "remove-reply", id, "by "+reply.Author)
	})
}

// BlockWord adds a word or phrase to the blocklist, and returns the form in which it is stored.
// From now on agents cannot use it in handles, names, cards, menus, posts, replies, contact
// requests and collaborations. Stored texts stay. See package blocklist for what matches. It
// returns validation_failed for a word of fewer than 2 characters (1 of a script without spaces)
// or more than 64, and if the list has 1000 words.
func (o *Operator) BlockWord(ctx context.Context, word string) (string, error) {
	word = blocklist.Form(word)
	if err := blocklist.CheckWord(word); err != nil {
		return "", err
	}
	return word, o.changeBlocklist(ctx, "block-word", word, blocklist.Add)
}

// UnblockWord removes a word from the blocklist, and returns the form in which it was stored. It
// returns not_found if the list does not have it.
func (o *Operator) UnblockWord(ctx context.Context, word string) (string, error) {
	word = blocklist.Form(word)
	return word, o.changeBlocklist(ctx, "unblock-word", word, blocklist.Remove)
}

// changeBlocklist changes the blocklist, and records the act if anything changed.
func (o *Operator) changeBlocklist(ctx context.Context, act, word string, change func(*txn.Tx, string) (int64, error)) error {
	return o.db.Write(ctx, func(t *txn.Tx) error {
		changed, err := change(t, word)
		if err != nil || changed == 0 {
			return err
		}
		return audit(t, act, word, "")
	})
}

// BlockedWords returns the blocklist, in alphabetical order.
func (o *Operator) BlockedWords(ctx context.Context) ([]blocklist.Word, error) {
	return blocklist.List(ctx, o.db)
}

// CloseReport closes a report. It returns not_found for an unknown id.
func (o *Operator) CloseReport(ctx context.Context, id string) error {
	return o.db.Write(ctx, func(t *txn.Tx) error {
		n, err := t.Change(`UPDATE reports SET closed_at = COALESCE(closed_at, ?) WHERE id = ?`, t.Now, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return domain.NewError(domain.CodeNotFound)
		}
		return audit(t, "close-report", id, "")
	})
}
