package store

import (
	"context"
	"fmt"

	"callbook/store/domain"
	"callbook/store/txn"
)

// ReportPost reports a post to the operator. Reports of one address count once a day for a post.
// Reports alone hide nothing.
func (s *Store) ReportPost(ctx context.Context, postID, address string, draft domain.ReportDraft) error {
	return s.write(ctx, func(t *tx) error {
		if err := txn.OrNotFound(t.Get(&domain.PostDocument{}, selectPost+` WHERE p.id = ?`, postID)); err != nil {
			return err
		}
		reporter, err := t.Pseudonym(address)
		if err != nil {
			return err
		}
		var earlier int64
		repeated, err := t.Find(&earlier, `
			SELECT seq FROM reports
			WHERE about = 'post' AND subject = ? AND reporter = ? AND created_at > ?`,
			postID, reporter, t.Now.Add(-domain.ReportWindow))
		if err != nil || repeated {
			return err
		}
		return t.insertReport(report{about: "post", subject: postID, reporter: reporter, reason: draft.Reason})
	})
}

// report is a report to the operator.
type report struct {
	about      string // post, request, claim
	subject    string // the post's or request's id, or the agent's handle
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
	return nil
}

// Reports returns the open reports, or all, newest first, at most limit.
func (s *Store) Reports(ctx context.Context, closed bool, limit int) (reports []domain.Report, err error) {
	err = s.db.Select(ctx, &reports, `
		SELECT r.id, r.about, r.subject, COALESCE(ph.handle, qh.handle, CASE WHEN r.about = 'claim' THEN r.subject END) AS of,
			COALESCE(p.title, q.purpose) AS text, rh.handle AS reporter, r.reason, r.created_at, r.closed_at
		FROM reports r
		LEFT JOIN posts p ON r.about = 'post' AND p.id = r.subject
		LEFT JOIN handles ph ON ph.id = p.author_id
		LEFT JOIN requests q ON r.about = 'request' AND q.id = r.subject
		LEFT JOIN handles qh ON qh.id = q.from_id
		LEFT JOIN handles rh ON rh.id = r.reporter_id
		WHERE ? OR r.closed_at IS NULL
		ORDER BY r.seq DESC
		LIMIT ?`, closed, limit)
	return reports, err
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
