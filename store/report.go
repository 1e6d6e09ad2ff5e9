package store

import (
	"context"
	"fmt"

	"callbook/store/domain"
	"callbook/store/txn"
)

// ReportPost reports a post to the operator. Reports of one address count once a day for a post.
// Reports alone hide nothing. It returns not_found for a post that the public does not see.
func (s *Store) ReportPost(ctx context.Context, postID, address string, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, report{about: "post", subject: postID, reason: draft.Reason}, `
		SELECT p.seq
		FROM posts p
		JOIN post_documents d ON d.post_seq = p.seq
		WHERE p.id = ?`)
}

// ReportReply is ReportPost for a reply.
func (s *Store) ReportReply(ctx context.Context, replyID, address string, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, report{about: "reply", subject: replyID, reason: draft.Reason}, `
		SELECT r.seq
		FROM replies r
		JOIN post_documents p ON p.post_seq = r.post_seq
		JOIN agent_documents a ON a.agent_id = r.author_id
		WHERE r.id = ?`)
}

// ReportAgent is ReportPost for the card of an agent.
func (s *Store) ReportAgent(ctx context.Context, handle, address string, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, report{about: "agent", subject: handle, reason: draft.Reason}, `
		SELECT agent_id FROM agent_documents WHERE handle = ?`)
}

// reportFrom inserts a report of an address, once a day, of a subject that a query finds.
func (s *Store) reportFrom(ctx context.Context, address string, r report, query string) error {
	return s.write(ctx, func(t *tx) (err error) {
		var row int64
		if err := txn.OrNotFound(t.Get(&row, query, r.subject)); err != nil {
			return err
		}
		if r.reporter, err = t.Pseudonym(address); err != nil {
			return err
		}
		repeated, err := t.Find(&row, `
			SELECT seq FROM reports
			WHERE about = ? AND subject = ? AND reporter = ? AND created_at > ?`,
			r.about, r.subject, r.reporter, t.Now.Add(-domain.ReportWindow))
		if err != nil || repeated {
			return err
		}
		return t.insertReport(r)
	})
}

// report is a report to the operator.
type report struct {
	about      string // post, reply, agent, request, claim
	subject    string // an id, or the agent's handle
	reporter   []byte // a pseudonym, or nil
	reporterID *int64 // the agent that reports, or nil
	reason     string
}

func (t *tx) insertReport(r report) error {
	id, err := t.NewID(domain.IdReport)
	if err != nil {
		return err
	}
	err = t.Exec(`
		INSERT INTO reports (id, about, subject, reporter, reporter_id, reason, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, id, r.about, r.subject, r.reporter, r.reporterID, domain.Optional(r.reason), t.Now)
	if err != nil {
		return fmt.Errorf("insert the report: %w", err)
	}
	t.Changes.Reports++
	return nil
}

// CloseReport closes a report. It returns not_found for an unknown id.
func (s *Store) CloseReport(ctx context.Context, id string) error {
	return s.write(ctx, func(t *tx) error {
		n, err := t.Change(`UPDATE reports SET closed_at = COALESCE(closed_at, ?) WHERE id = ?`, t.Now, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return domain.NewError(domain.CodeNotFound)
		}
		return t.audit("close-report", id, "")
	})
}
