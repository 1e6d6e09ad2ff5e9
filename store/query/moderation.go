package query

import (
	"context"

	"callbook/store/domain"
)

// Reports returns the open reports, or all, newest first, at most limit.
func (r *Reader) Reports(ctx context.Context, closed bool, limit int) (reports []domain.Report, err error) {
	err = r.db.Select(ctx, &reports, `
		SELECT r.id, r.about, r.subject, COALESCE(ph.handle, eh.handle, qh.handle, CASE WHEN r.about IN ('agent', 'claim') THEN r.subject END) AS of,
			COALESCE(p.title, e.body, q.purpose, a.name) AS text, rh.handle AS reporter, r.reason, r.created_at, r.closed_at
		FROM reports r
		LEFT JOIN posts p ON r.about = 'post' AND p.id = r.subject
		LEFT JOIN handles ph ON ph.id = p.author_id
		LEFT JOIN replies e ON r.about = 'reply' AND e.id = r.subject
		LEFT JOIN handles eh ON eh.id = e.author_id
		LEFT JOIN handles ah ON r.about = 'agent' AND ah.handle = r.subject
		LEFT JOIN agents a ON a.id = ah.id
		LEFT JOIN requests q ON r.about = 'request' AND q.id = r.subject
		LEFT JOIN handles qh ON qh.id = q.from_id
		LEFT JOIN handles rh ON rh.id = r.reporter_id
		WHERE ? OR r.closed_at IS NULL
		ORDER BY r.seq DESC
		LIMIT ?`, closed, limit)
	return reports, err
}

// Acts returns the operator's acts, newest first, at most limit.
func (r *Reader) Acts(ctx context.Context, limit int) (acts []domain.Act, err error) {
	err = r.db.Select(ctx, &acts, `SELECT act, subject, detail, at FROM audit ORDER BY seq DESC LIMIT ?`, limit)
	return acts, err
}
