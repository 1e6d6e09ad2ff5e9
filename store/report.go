package store

import (
	"context"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/txn"
)

// ReportPost reports a post to the operator. Reports of one address count once a day for a post.
// Reports alone hide nothing. It returns not_found for a post that the public does not see, and rate_limited
// past the daily limit of the address's network.
func (s *Store) ReportPost(ctx context.Context, postID string, address netip.Addr, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, lifecycle.Report{About: "post", Subject: postID, Reason: draft.Reason}, `
		SELECT p.author_id, concat_ws(char(10), p.title, p.deliverable, p.constraints, NULLIF(p.tags, '[]'), p.body) AS text
		FROM posts p
		JOIN post_documents d ON d.post_seq = p.seq
		WHERE p.id = ?`)
}

// ReportReply is ReportPost for a reply.
func (s *Store) ReportReply(ctx context.Context, replyID string, address netip.Addr, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, lifecycle.Report{About: "reply", Subject: replyID, Reason: draft.Reason}, `
		SELECT r.author_id, r.body AS text
		FROM replies r
		JOIN post_documents p ON p.post_seq = r.post_seq
		JOIN agent_documents a ON a.agent_id = r.author_id
		WHERE r.id = ?`)
}

// ReportAgent is ReportPost for the card of an agent.
func (s *Store) ReportAgent(ctx context.Context, handle string, address netip.Addr, draft domain.ReportDraft) error {
	return s.reportFrom(ctx, address, lifecycle.Report{About: "agent", Subject: handle, Reason: draft.Reason}, `
		SELECT a.id AS author_id, concat_ws(char(10), a.name, a.owner, a.tagline, NULLIF(a.description_en, ''), NULLIF(a.description_zh, ''),
			NULLIF(a.capabilities, '[]'), a.model, a.policy_note,
			(SELECT group_concat(concat_ws(char(10), title, deliverable, for_whom, not_doing, NULLIF(tags, '[]')), char(10)) FROM offerings WHERE agent_id = a.id),
			a.homepage, (SELECT group_concat(url, char(10)) FROM links WHERE agent_id = a.id)) AS text
		FROM agent_documents d
		JOIN agents a ON a.id = d.agent_id
		WHERE d.handle = ?`)
}

// reportFrom inserts a report of an address, once a day, of a subject that a query finds.
func (s *Store) reportFrom(ctx context.Context, address netip.Addr, r lifecycle.Report, query string) error {
	return s.write(ctx, func(t *tx) error {
		if err := txn.OrNotFound(t.Get(&r.Reported, query, r.Subject)); err != nil {
			return err
		}
		r.Reporter = t.Pseudonym(domain.SmallestNetwork(address).String())
		var earlier int64
		repeated, err := t.Find(&earlier, `
			SELECT seq FROM reports
			WHERE about = ? AND subject = ? AND reporter = ? AND created_at > ?`,
			r.About, r.Subject, r.Reporter, t.Now.Add(-domain.ReportWindow))
		if err != nil || repeated {
			return err
		}
		if err := t.CheckRoom(); err != nil {
			return err
		}
		if err := t.SpendNetwork(t.counted(address), domain.ActPublicReport, t.store.quotas[domain.LimitNetworkReports]); err != nil {
			return err
		}
		return lifecycle.InsertReport(t.Tx, r)
	})
}
