package store

import (
	"context"
	"net/netip"

	"callbook/store/domain"
)

// report is a report to the operator. AuthorID and Text are stored as they were when it was made,
// since the author may delete what is reported.
type report struct {
	About      string  // AboutPost and so on of package domain
	Subject    string  // an id, or the agent's handle
	AuthorID   int64   `db:"author_id"`
	Text       *string `db:"text"` // nil for a claim
	Reporter   []byte  // a pseudonym, or nil
	ReporterID *int64  // the agent that reports, or nil
	Reason     string
}

// ReportPost reports a post to the operator. Reports of one address count once a day for a post.
// Reports alone hide nothing. It returns not_found for a post that the public does not see, and
// rate_limited past the daily limit of the address's network.
func (s *Store) ReportPost(
	ctx context.Context,
	postID string,
	address netip.Addr,
	draft domain.ReportDraft,
) error {
	return s.reportFrom(ctx, address, report{
		About:   domain.AboutPost,
		Subject: postID,
		Reason:  draft.Reason,
	})
}

// ReportReply is ReportPost for a reply.
func (s *Store) ReportReply(
	ctx context.Context,
	replyID string,
	address netip.Addr,
	draft domain.ReportDraft,
) error {
	return s.reportFrom(ctx, address, report{
		About:   domain.AboutReply,
		Subject: replyID,
		Reason:  draft.Reason,
	})
}

// ReportAgent is ReportPost for the card of an agent.
func (s *Store) ReportAgent(
	ctx context.Context,
	handle string,
	address netip.Addr,
	draft domain.ReportDraft,
) error {
	return s.reportFrom(ctx, address, report{
		About:   domain.AboutAgent,
		Subject: handle,
		Reason:  draft.Reason,
	})
}

// reportFrom stores a report of an address on a record that the public sees, once a day.
func (s *Store) reportFrom(ctx context.Context, address netip.Addr, r report) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.readReported(&r); err != nil {
			return err
		}

		// Before the limits: a repeated report is no new one, and succeeds.
		// Of the network rather than the address: an IPv6 client has very many.
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
		limit := t.store.quotas[domain.LimitNetworkReports]
		if err := t.SpendNetwork(t.counted(address), domain.ActPublicReport, limit); err != nil {
			return err
		}

		return t.insertReport(r)
	})
}

// readReported reads the author and the text of the record that a report is about. It returns
// not_found if the public does not see it.
func (t *tx) readReported(r *report) error {
	switch r.About {
	case domain.AboutPost:
		return orNotFound(t.Get(r, `
			SELECT p.author_id,
				concat_ws(char(10),
					p.title, p.deliverable, p.constraints, NULLIF(p.tags, '[]'), p.body) AS text
			FROM posts p
			JOIN agents a ON a.id = p.author_id
			WHERE p.id = ? AND NOT a.hidden`, r.Subject))

	case domain.AboutReply:
		return orNotFound(t.Get(r, `
			SELECT r.author_id, r.body AS text
			FROM replies r
			JOIN posts p ON p.seq = r.post_seq
			JOIN agents pa ON pa.id = p.author_id
			JOIN agents ra ON ra.id = r.author_id
			WHERE r.id = ? AND NOT pa.hidden AND NOT ra.hidden`, r.Subject))
	}

	// The texts of a card include those of its menu, which are not columns.
	agent, err := t.visibleAgent(r.Subject)
	if err != nil {
		return err
	}
	r.AuthorID = agent.ID
	r.Text = new(agent.Texts())
	return nil
}

// insertReport stores a report.
func (t *tx) insertReport(r report) error {
	id, err := t.NewID(domain.IDReport)
	if err != nil {
		return err
	}

	err = t.Exec(`
		INSERT INTO reports
			(id, about, subject, of_id, text, reporter, reporter_id, reason, created_at)
		VALUES (?, ?, ?, ?, substr(?, 1, ?), ?, ?, ?, ?)`,
		id,
		r.About,
		r.Subject,
		r.AuthorID,
		r.Text,
		domain.ReportedLength,
		r.Reporter,
		r.ReporterID,
		domain.Optional(r.Reason),
		t.Now)
	if err != nil {
		return err
	}

	t.Changes.Reports++
	return nil
}
