package query

import (
	"context"

	"callbook/store/domain"
)

// Reports returns the open reports, oldest first, at most limit. If closed is set, the closed ones follow,
// those that were closed last first.
func (r *Reader) Reports(ctx context.Context, closed bool, limit int) (reports []domain.Report, err error) {
	err = r.db.Select(ctx, &reports, selectReports+` WHERE r.closed_at IS NULL ORDER BY r.seq LIMIT ?`, limit)
	if err != nil || !closed {
		return reports, err
	}
	var ended []domain.Report
	err = r.db.Select(ctx, &ended, selectReports+` WHERE r.closed_at IS NOT NULL ORDER BY r.closed_at DESC, r.seq DESC LIMIT ?`, limit-len(reports))
	return append(reports, ended...), err
}

const selectReports = `
	SELECT r.id, r.about, r.subject, h.handle AS of, r.text, rh.handle AS reporter, r.reason, r.created_at, r.closed_at
	FROM reports r
	LEFT JOIN handles h ON h.id = r.of_id
	LEFT JOIN handles rh ON rh.id = r.reporter_id`

// Acts returns the operator's acts, newest first, at most limit.
func (r *Reader) Acts(ctx context.Context, limit int) (acts []domain.Act, err error) {
	err = r.db.Select(ctx, &acts, `SELECT act, subject, detail, at FROM audit ORDER BY seq DESC LIMIT ?`, limit)
	return acts, err
}
