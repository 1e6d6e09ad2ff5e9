package store

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
)

// ReportDraft says, optionally, why something is reported.
type ReportDraft struct {
	Reason string `json:"reason,omitempty" format:"multiline" maxLength:"300" doc:"For the operator."`
}

// reportWindow is how long an address counts once for a call; after it the
// address's hash is dropped.
const reportWindow = Day

// ReportPost tells the operator of a call. An address counts once a day for a
// call; nothing is hidden by reports alone.
func (s *Store) ReportPost(ctx context.Context, postID, address string, draft ReportDraft) error {
	return s.write(ctx, func(t *tx) error {
		var post PostDocument
		found, err := t.find(&post, selectPost+` WHERE p.id = ?`, postID)
		if err != nil {
			return err
		}
		if !found {
			return refuse(CodeNotFound)
		}
		reporter, err := t.pseudonym(address)
		if err != nil {
			return err
		}
		var earlier int64
		repeated, err := t.find(&earlier, `
			SELECT seq FROM reports
			WHERE about = 'post' AND subject = ? AND reporter = ? AND created_at > ?`,
			postID, reporter, t.now.add(-reportWindow))
		if err != nil || repeated {
			return err
		}
		return t.insertReport(report{about: "post", subject: postID, reporter: reporter, reason: draft.Reason})
	})
}

// report is what the operator hears of.
type report struct {
	about      string // post, request, claim
	subject    string // the post's or request's id, or the agent's handle
	reporter   []byte // a pseudonym, or nil
	reporterID *int64 // the agent that reports, or nil
	reason     string
}

func (t *tx) insertReport(r report) error {
	id, err := t.newID(idReport)
	if err != nil {
		return err
	}
	err = t.exec(`
		INSERT INTO reports (id, about, subject, reporter, reporter_id, reason, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, id, r.about, r.subject, r.reporter, r.reporterID, optional(r.reason), t.now)
	if err != nil {
		return fmt.Errorf("insert the report: %w", err)
	}
	return nil
}

// reasonLength is how many characters the reason of a suspension may have.
const reasonLength = 300

// Suspend hides an agent wherever the public looks, and refuses its key with
// suspended, the reason (one line, at most 300 characters, may be empty) and the
// end; a zero end is an open one. What it published and sent stays stored. A
// second suspension takes the place of the first. It refuses with not_found a
// handle that no agent has, and with validation_failed a reason that is too long
// or not one line, and an end that has passed.
func (s *Store) Suspend(ctx context.Context, handle, reason string, until time.Time) error {
	reason = NormalizeText(reason)
	switch {
	case utf8.RuneCountInString(reason) > reasonLength:
		return invalid(Fault{Field: "reason", Code: FaultTooLong})
	case !CheckLine(reason):
		return invalid(Fault{Field: "reason", Code: FaultForbiddenCharacter})
	}
	return s.moderate(ctx, "suspend", handle, reason, func(t *tx, agent *agentRow) error {
		var end *Time
		if !until.IsZero() {
			if ms := at(until); ms > t.now {
				end = &ms
			} else {
				return invalid(Fault{Field: "until", Code: FaultBadValue})
			}
		}
		return t.exec(`UPDATE agents SET suspended_at = ?, suspended_until = ?, suspension_reason = ? WHERE id = ?`,
			t.now, end, optional(reason), agent.ID)
	})
}

// Unsuspend ends the suspension of an agent, if it is suspended. It refuses with
// not_found a handle that no agent has.
func (s *Store) Unsuspend(ctx context.Context, handle string) error {
	return s.moderate(ctx, "unsuspend", handle, "", func(t *tx, agent *agentRow) error {
		return t.exec(`UPDATE agents SET suspended_at = NULL, suspended_until = NULL, suspension_reason = NULL WHERE id = ?`, agent.ID)
	})
}

// moderate does to an agent what the operator says, and keeps a note of it.
func (s *Store) moderate(ctx context.Context, act, handle, detail string, do func(*tx, *agentRow) error) error {
	return s.write(ctx, func(t *tx) error {
		agent, found, err := t.agentByHandle(handle)
		if err == nil && !found {
			err = refuse(CodeNotFound)
		}
		if err == nil {
			err = do(t, &agent)
		}
		if err != nil {
			return err
		}
		t.touch(agent.ID)
		err = t.exec(`INSERT INTO audit (act, subject, detail, at) VALUES (?, ?, ?, ?)`, act, agent.Handle, optional(detail), t.now)
		if err != nil {
			return fmt.Errorf("keep a note of %s: %w", act, err)
		}
		return nil
	})
}
