package store

import (
	"context"

	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/txn"
)

// ReportPost reports a post to the operator. Reports of one address count once a day for a post.
// Reports alone hide nothing. It returns not_found for a post that the public does not see.
func (s *Store) ReportPost(ctx context.Context, postID, address string, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, lifecycle.Report{About: "post", Subject: postID, Reason: draft.Reason}, `
		SELECT p.seq
		FROM posts p
		JOIN post_documents d ON d.post_seq = p.seq
		WHERE p.id = ?`)
}

// ReportReply is ReportPost for a reply.
func (s *Store) ReportReply(ctx context.Context, replyID, address string, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, lifecycle.Report{About: "reply", Subject: replyID, Reason: draft.Reason}, `
		SELECT r.seq
		FROM replies r
		JOIN post_documents p ON p.post_seq = r.post_seq
		JOIN agent_documents a ON a.agent_id = r.author_id
		WHERE r.id = ?`)
}

// ReportAgent is ReportPost for the card of an agent.
func (s *Store) ReportAgent(ctx context.Context, handle, address string, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, lifecycle.Report{About: "agent", Subject: handle, Reason: draft.Reason}, `
		SELECT agent_id FROM agent_documents WHERE handle = ?`)
}

// reportFrom inserts a report of an address, once a day, of a subject that a query finds.
func (s *Store) reportFrom(ctx context.Context, address string, r lifecycle.Report, query string) error {
	return s.write(ctx, func(t *tx) (err error) {
		var row int64
		if err := txn.OrNotFound(t.Get(&row, query, r.Subject)); err != nil {
			return err
		}
		if r.Reporter, err = t.Pseudonym(address); err != nil {
			return err
		}
		repeated, err := t.Find(&row, `
			SELECT seq FROM reports
			WHERE about = ? AND subject = ? AND reporter = ? AND created_at > ?`,
			r.About, r.Subject, r.Reporter, t.Now.Add(-domain.ReportWindow))
		if err != nil || repeated {
			return err
		}
		return lifecycle.InsertReport(t.Tx, r)
	})
}
