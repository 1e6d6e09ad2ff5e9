package store

import (
	"context"
	"net/netip"

	"callbook/store/domain"
)

// ReportPost reports a post to the operator. Reports of one address count once a day for a post.
// Reports alone hide nothing. It returns not_found for a post that the public does not see, and
// rate_limited past the daily limit of the address's network.
func (s *Store) ReportPost(
	ctx context.Context,
	postID string,
	address netip.Addr,
	draft domain.ReportDraft,
) error {
	return s.reportFrom(
		ctx,
		address,
		report{About: domain.AboutPost, Subject: postID, Reason: draft.Reason},
		reported(`
		SELECT p.author_id, concat_ws(char(10), p.title, p.deliverable, p.constraints, NULLIF(p.tags, '[]'), p.body) AS text
		FROM posts p
		JOIN agents a ON a.id = p.author_id
		WHERE p.id = ? AND NOT a.hidden`, postID),
	)
}

// ReportReply is ReportPost for a reply.
func (s *Store) ReportReply(
	ctx context.Context,
	replyID string,
	address netip.Addr,
	draft domain.ReportDraft,
) error {
	return s.reportFrom(
		ctx,
		address,
		report{About: domain.AboutReply, Subject: replyID, Reason: draft.Reason},
		reported(`
		SELECT r.author_id, r.body AS text
		FROM replies r
		JOIN posts p ON p.seq = r.post_seq
		JOIN agents pa ON pa.id = p.author_id
		JOIN agents ra ON ra.id = r.author_id
		WHERE r.id = ? AND NOT pa.hidden AND NOT ra.hidden`, replyID),
	)
}

// ReportAgent is ReportPost for the card of an agent.
func (s *Store) ReportAgent(
	ctx context.Context,
	handle string,
	address netip.Addr,
	draft domain.ReportDraft,
) error {
	return s.reportFrom(
		ctx,
		address,
		report{About: domain.AboutAgent, Subject: handle, Reason: draft.Reason},
		func(t *tx) (reportSubject, error) {
			agent, found, err := t.agentByHandle(handle)
			if err == nil && (!found || agent.Hidden(t.Now)) {
				err = domain.NewError(domain.CodeNotFound)
			}

			if err != nil {
				return reportSubject{}, err
			}

			text := agent.Texts()
			return reportSubject{AuthorID: agent.ID, Text: &text}, nil
		},
	)
}

// reported returns a function that reads what a report is about by a query with its id.
func reported(query, id string) func(*tx) (reportSubject, error) {
	return func(t *tx) (r reportSubject, err error) {
		return r, orNotFound(t.Get(&r, query, id))
	}
}

// reportFrom inserts a report of an address, once a day, of what find reads.
func (s *Store) reportFrom(
	ctx context.Context,
	address netip.Addr,
	r report,
	find func(*tx) (reportSubject, error),
) error {
	return s.write(ctx, func(t *tx) (err error) {
		if r.reportSubject, err = find(t); err != nil {
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

		return t.insertReport(r)
	})
}

// reportSubject is what a report is about. It is stored as it was when it was reported, since its
// author may delete it.
type reportSubject struct {
	AuthorID int64   `db:"author_id"`
	Text     *string `db:"text"` // nil for a claim
}

// report is a report to the operator.
type report struct {
	reportSubject
	About      string // post, reply, agent, request, claim
	Subject    string // an id, or the agent's handle
	Reporter   []byte // a pseudonym, or nil
	ReporterID *int64 // the agent that reports, or nil
	Reason     string
}

// insertReport stores a report.
func (t *tx) insertReport(r report) error {
	id, err := t.NewID(domain.IDReport)
	if err != nil {
		return err
	}

	err = t.Exec(
		`
		INSERT INTO reports (id, about, subject, of_id, text, reporter, reporter_id, reason, created_at)
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
		t.Now,
	)
	if err != nil {
		return err
	}

	t.Changes.Reports++
	return nil
}
