package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"callbook/store/domain"
	"callbook/store/text"
)

// reasonLength is the limit for the reason of a suspension, in characters.
const reasonLength = 300

// Suspend hides an agent from the public and rejects its key with suspended, the reason and the
// end. The reason is one line of at most 300 characters and may be empty; a zero end means until
// Unsuspend. Records of the agent stay. A second suspension replaces the first. It closes the open
// reports of the agent and its texts. Suspend returns not_found for an unknown handle, and
// validation_failed for an invalid reason and an end in the past.
func (s *Store) Suspend(ctx context.Context, handle, reason string, until time.Time) error {
	act, err := suspension(reason, until)
	if err != nil {
		return err
	}
	return s.moderate(ctx, domain.OperatorSuspend, act, handle)
}

// suspension returns the act of Suspend.
func suspension(reason string, until time.Time) (agentAct, error) {
	reason = text.NormalizeLine(reason)
	fault := domain.FieldError{Field: "reason"}
	switch {
	case utf8.RuneCountInString(reason) > reasonLength:
		fault.Code = domain.FaultTooLong
		return agentAct{}, domain.Invalid(fault)

	case !text.CheckLine(reason):
		fault.Code = domain.FaultForbiddenCharacter
		return agentAct{}, domain.Invalid(fault)
	}

	return agentAct{detail: reason, settles: true, do: func(t *tx, agent *agentRow) error {
		var end *domain.Time
		if !until.IsZero() {
			end = new(domain.TimeOf(until))
			if *end <= t.Now {
				return domain.Invalid(domain.FieldError{Field: "until", Code: domain.FaultBadValue})
			}
		}

		agent.Suspension = domain.Suspension{
			SuspendedAt:    &t.Now,
			SuspendedUntil: end,
			Reason:         domain.Optional(reason),
		}
		return agent.Store(t)
	}}, nil
}

// agentAct is an operator's act on an agent.
type agentAct struct {
	detail  string // of the note
	waiting bool   // only for an agent that waits for approval
	// Closes the open reports of the agent and its texts, also of those that it has deleted.
	settles bool
	do      func(*tx, *agentRow) error
}

// agentActs are the acts that need no more than the agent, by the names under which they are
// recorded.
var agentActs = map[domain.OperatorAct]agentAct{
	domain.OperatorApprove: {waiting: true, do: func(t *tx, agent *agentRow) error {
		agent.AwaitingSince = nil
		return agent.Store(t)
	}},
	domain.OperatorReject: {waiting: true, settles: true, do: (*tx).deleteAgent},
	domain.OperatorDelete: {settles: true, do: (*tx).deleteAgent},
	domain.OperatorUnsuspend: {do: func(t *tx, agent *agentRow) error {
		agent.Suspension = domain.Suspension{}
		return agent.Store(t)
	}},
	domain.OperatorVerify: {do: func(t *tx, agent *agentRow) error {
		if agent.VerifiedAt == nil { // else the time of the verification would change
			t.verifyMailbox(agent)
		}
		return agent.Store(t)
	}},
	domain.OperatorUnverify: {do: func(t *tx, agent *agentRow) error {
		t.forgetFormerMailbox(agent)
		if err := t.unverify(agent); err != nil {
			return err
		}
		return agent.Store(t)
	}},
	domain.OperatorUnclaim: {do: func(t *tx, agent *agentRow) error {
		if err := t.withdrawClaim(agent); err != nil {
			return err
		}
		// Only the owner, who is unknown now, could take the deletion back.
		return t.keepAgent(agent)
	}},
}

// ActOnAgent does an act other than a suspension to an agent. It returns not_found for an unknown
// handle, and invalid_state for an approval or a rejection of an agent that does not wait for
// approval.
func (s *Store) ActOnAgent(ctx context.Context, act domain.OperatorAct, handle string) error {
	return s.moderate(ctx, act, agentActs[act], handle)
}

// moderate runs an operator's act on an agent, and records it. Most acts hide or delete, so they
// succeed on a full disk. It returns not_found for an unknown handle.
func (s *Store) moderate(
	ctx context.Context,
	name domain.OperatorAct,
	act agentAct,
	handle string,
) error {
	return s.write(ctx, func(t *tx) error {
		agent, found, err := t.agentByHandle(handle)
		if err != nil {
			return err
		}
		if !found {
			return domain.NewError(domain.CodeNotFound)
		}

		return act.run(t, name, agent)
	})
}

// run runs the act, and records it.
func (a agentAct) run(t *tx, name domain.OperatorAct, agent *agentRow) error {
	if a.waiting && agent.AwaitingSince == nil {
		return domain.NewError(domain.CodeInvalidState)
	}
	if err := a.do(t, agent); err != nil {
		return err
	}

	if !a.settles {
		return t.audit(name, agent.Handle, a.detail)
	}

	// of_id also finds the reports of texts that the agent has deleted.
	closed, err := t.closeReports(`of_id = ?2`, agent.ID)
	if err != nil {
		return err
	}
	return t.audit(name, agent.Handle, withClosed(a.detail, closed))
}

// withClosed adds to the detail of a note how many reports the act has closed.
func withClosed(detail string, closed int64) string {
	if closed == 0 {
		return detail
	}
	return strings.TrimPrefix(fmt.Sprintf("%s; reports closed: %d", detail, closed), "; ")
}

// audit records an operator's act.
func (t *tx) audit(act domain.OperatorAct, subject, detail string) error {
	return t.Exec(
		`INSERT INTO audit (act, subject, detail, at) VALUES (?, ?, ?, ?)`,
		act,
		subject,
		domain.Optional(detail),
		t.Now,
	)
}

// ReplaceKey replaces an agent's key. The old one is invalid when it returns. It returns not_found
// for an unknown handle.
func (s *Store) ReplaceKey(ctx context.Context, handle string) (key string, err error) {
	if key, err = domain.NewKey(s.random); err != nil {
		return "", err
	}

	act := agentAct{do: func(t *tx, agent *agentRow) error {
		return t.restoreKey(agent.ID, key)
	}}
	if err := s.moderate(ctx, domain.OperatorNewKey, act, handle); err != nil {
		return "", err
	}
	return key, nil
}

// ExportAgent is Export for the operator, also of a suspended agent. It returns not_found for an
// unknown handle.
func (s *Store) ExportAgent(ctx context.Context, handle string) (tables ExportTables, err error) {
	// An act that does nothing to the agent: what reveals a mailbox is recorded.
	var id int64
	act := agentAct{do: func(_ *tx, agent *agentRow) error {
		id = agent.ID
		return nil
	}}
	if err := s.moderate(ctx, domain.OperatorExport, act, handle); err != nil {
		return nil, err
	}

	return exportAgent(ctx, s.db, id)
}

// Unblock allows the blocked agent to send the other contact requests again. It returns not_found
// for unknown handles, and if there is no block.
func (s *Store) Unblock(ctx context.Context, handle, blocked string) error {
	act := agentAct{detail: blocked, do: func(t *tx, agent *agentRow) error {
		return t.ExecOr(domain.NewError(domain.CodeNotFound), `
			DELETE FROM blocks
			WHERE blocker_id = ? AND blocked_id = (SELECT id FROM handles WHERE handle = ?)`,
			agent.ID, blocked)
	}}
	return s.moderate(ctx, domain.OperatorUnblock, act, handle)
}

// RemovePost deletes a post with its replies, and closes the open reports of them. It returns
// not_found for an unknown id.
func (s *Store) RemovePost(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		var p postRow
		if err := orNotFound(t.Get(&p, selectPostRow+` WHERE id = ?`, id)); err != nil {
			return err
		}

		var author string
		err := t.Get(&author, `SELECT handle FROM handles WHERE id = ?`, p.AuthorID)
		if err != nil {
			return err
		}

		// Before the post is deleted, by which the reports of its replies are found.
		closed, err := t.closeReports(`about = ?2 AND subject = ?3
			OR about = ?4 AND subject IN (SELECT id FROM replies WHERE post_seq = ?5)`,
			domain.AboutPost, id, domain.AboutReply, p.Seq)
		if err != nil {
			return err
		}
		if err := t.deletePost(&p); err != nil {
			return err
		}
		return t.audit(domain.OperatorRemovePost, id, withClosed("by "+author, closed))
	})
}

// RemoveReply deletes a reply, and closes the open reports of it. It returns not_found for an
// unknown id.
func (s *Store) RemoveReply(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		var reply replyRow
		if err := orNotFound(t.Get(&reply, selectReplyRow+` WHERE r.id = ?`, id)); err != nil {
			return err
		}

		closed, err := t.closeReports(`about = ?2 AND subject = ?3`, domain.AboutReply, id)
		if err != nil {
			return err
		}
		if err := t.deleteReply(&reply); err != nil {
			return err
		}
		return t.audit(domain.OperatorRemoveReply, id, withClosed("by "+reply.Author, closed))
	})
}

// ChangeBlocklist adds an entry to a list of the operator or removes one, by the name of the act,
// such as block-word or unblock-word, and returns the form in which it is stored; blocklist.go
// says which texts match. From then on agents cannot use a blocked word in handles,
// names, cards, menus, posts, replies, contact requests and collaborations, and no mailbox or
// owner's address at a blocked domain; links to a blocked host are not verified; and clients in a
// blocked network change nothing. Stored records stay. It returns validation_failed for an entry
// that does not have the form of its list, and if the list has 1000 entries; not_found for an entry
// to remove that the list does not have; and invalid_query for another act.
func (s *Store) ChangeBlocklist(
	ctx context.Context,
	act, written string,
) (entry string, err error) {
	kind, undo, ok := ParseBlockAct(act)
	if !ok {
		return "", domain.NewError(domain.CodeInvalidQuery)
	}

	// The rules for new entries may have changed since an entry was added.
	entry, err = parseBlock(kind, written)
	change := (*tx).addBlock
	if undo {
		change = (*tx).removeBlock
	} else if err != nil {
		return "", err
	}

	return entry, s.write(ctx, func(t *tx) error {
		changed, err := change(t, kind, entry)
		if err != nil || changed == 0 { // the list has the entry already
			return err
		}

		if kind == BlockHost && !undo {
			if err := t.failLinks(entry); err != nil {
				return err
			}
		}

		return t.audit(domain.OperatorAct(act), entry, "")
	})
}

// failLinks ends the verification of the links to a host that is now blocked.
func (t *tx) failLinks(host string) error {
	// LIKE finds too much, such as the host in a path: isAtHost decides.
	var handles []string
	err := t.Select(&handles, `
		SELECT h.handle
		FROM agents a
		JOIN handles h ON h.id = a.id
		WHERE a.links_due_at IS NOT NULL AND a.links LIKE '%' || ? || '%'`, host)
	if err != nil {
		return err
	}

	for _, handle := range handles {
		agent, _, err := t.agentByHandle(handle)
		if err != nil {
			return err
		}

		failed := false
		for i := range agent.Trust.Links {
			l := &agent.Trust.Links[i]
			if l.Status == domain.LinkVerified && isAtHost(l.URL, host) {
				l.Record(domain.LinkCheck{Kind: l.Kind, Failure: domain.LinkBlocked}, t.Now)
				failed = true
			}
		}

		if !failed {
			continue
		}
		if err := agent.StoreLinks(t); err != nil {
			return err
		}
		if err := agent.notifyOfTrust(t); err != nil {
			return err
		}
	}

	return nil
}

// Blocklist returns the entries of all lists of the operator, in alphabetical order of each list.
func (s *Store) Blocklist(ctx context.Context) ([]BlockEntry, error) {
	return listBlocks(ctx, s.db)
}

// CloseReport closes a report. It returns not_found for an unknown id.
func (s *Store) CloseReport(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		err := t.ExecOr(
			domain.NewError(domain.CodeNotFound),
			`UPDATE reports SET closed_at = COALESCE(closed_at, ?) WHERE id = ?`,
			t.Now,
			id,
		)
		if err != nil {
			return err
		}
		return t.audit(domain.OperatorCloseReport, id, "")
	})
}

// closeReports closes open reports, and returns how many. The values of where are ?2 and on.
func (t *tx) closeReports(where string, args ...any) (closed int64, err error) {
	return t.Change(
		`UPDATE reports SET closed_at = ?1 WHERE closed_at IS NULL AND (`+where+`)`,
		append([]any{t.Now}, args...)...)
}

// bulkBatch is how many agents one transaction of ActOnAgents handles, so that requests do not
// wait for long.
const bulkBatch = 20

// ActOnAgents does an act to many agents, a few in each transaction, and records each as the same
// act on one agent. Handles count once. It skips those without an agent, and those whose agent
// does not wait for approval if the act is about that, and returns them as rejected. It returns
// validation_failed for an invalid reason and an end in the past. After another error the result
// has the agents before it.
func (s *Store) ActOnAgents(
	ctx context.Context,
	bulk domain.BulkAct,
) (result domain.BulkResult, err error) {
	act := agentActs[bulk.Act]
	if bulk.Act == domain.OperatorSuspend {
		if act, err = suspension(bulk.Reason, bulk.Until); err != nil {
			return result, err
		}
	}

	handles := slices.Compact(slices.Sorted(slices.Values(bulk.Handles)))
	for batch := range slices.Chunk(handles, bulkBatch) {
		var done domain.BulkResult
		err := s.write(ctx, func(t *tx) error {
			done = domain.BulkResult{} // the function may run twice
			for _, handle := range batch {
				if err := act.runOn(t, bulk.Act, handle, &done); err != nil {
					return err
				}
			}
			if bulk.DryRun { // rolled back, but counted
				return errDryRun
			}
			return nil
		})
		if err != nil && !errors.Is(err, errDryRun) {
			return result, err
		}
		result.Add(done)
	}
	return result, nil
}

// runOn runs the act on one of many agents, and adds it to the result.
func (a agentAct) runOn(
	t *tx,
	name domain.OperatorAct,
	handle string,
	result *domain.BulkResult,
) error {
	agent, found, err := t.agentByHandle(handle)
	if err != nil {
		return err
	}
	if !found {
		result.Rejected = append(result.Rejected, handle)
		return nil
	}

	// Before the act, which may delete them.
	var counts struct {
		Posts   int `db:"posts"`
		Replies int `db:"replies"`
		Reports int `db:"reports"`
	}
	err = t.Get(&counts, `
		SELECT
			(SELECT COUNT(*) FROM posts WHERE author_id = ?1) AS posts,
			(SELECT COUNT(*) FROM replies WHERE author_id = ?1) AS replies,
			(SELECT COUNT(*) FROM reports WHERE of_id = ?1 AND closed_at IS NULL) AS reports`,
		agent.ID)
	if err != nil {
		return err
	}

	err = a.run(t, name, agent)
	if errors.Is(err, domain.NewError(domain.CodeInvalidState)) {
		result.Rejected = append(result.Rejected, handle)
		return nil
	}
	if err != nil {
		return err
	}

	result.Add(domain.BulkResult{
		Agents:  []string{handle},
		Posts:   counts.Posts,
		Replies: counts.Replies,
		Reports: counts.Reports,
	})

	return nil
}
