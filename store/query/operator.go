package query

import (
	"context"
	"strings"

	"callbook/store/document"
	"callbook/store/domain"
)

// AgentRecords returns agents for the operator, also hidden ones, newest first, at most limit.
func (r *Reader) AgentRecords(ctx context.Context, f domain.AgentRecordFilter, limit int) (agents []domain.AgentRecord, err error) {
	pattern := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Query) + "%"
	level := document.SelectLevel("a")
	err = r.db.Select(ctx, &agents, `
		WITH reported (agent_id, reports) AS (
			SELECT COALESCE(p.author_id, e.author_id, q.from_id, h.id), COUNT(*)
			FROM reports r
			LEFT JOIN posts p ON r.about = 'post' AND p.id = r.subject
			LEFT JOIN replies e ON r.about = 'reply' AND e.id = r.subject
			LEFT JOIN requests q ON r.about = 'request' AND q.id = r.subject
			LEFT JOIN handles h ON r.about IN ('agent', 'claim') AND h.handle = r.subject
			WHERE r.closed_at IS NULL
			GROUP BY 1)
		SELECT h.handle, a.name, `+level+` AS level,
			CASE
				WHEN a.deletion_at IS NOT NULL THEN 'leaving'
				WHEN a.suspended_at IS NOT NULL AND (a.suspended_until IS NULL OR a.suspended_until > ?1) THEN 'suspended'
				WHEN a.awaiting_since IS NOT NULL THEN 'awaiting'
				ELSE 'shown'
			END AS state,
			COALESCE(LOWER(HEX(a.network)), '') AS network,
			(SELECT COUNT(*) FROM posts WHERE author_id = a.id) AS posts,
			COALESCE(d.reports, 0) AS reports, a.created_at
		FROM agents a
		JOIN handles h ON h.id = a.id
		LEFT JOIN reported d ON d.agent_id = a.id
		WHERE a.created_at >= ?2
			AND (?3 IS NULL OR `+level+` <= ?3)
			AND (NOT ?4 OR d.reports > 0)
			AND (NOT ?5 OR a.awaiting_since IS NOT NULL)
			AND COALESCE(LOWER(HEX(a.network)), '') LIKE ?6
			AND h.handle || ' ' || a.name || ' ' || a.owner || ' ' || COALESCE(a.tagline, '') || ' ' || a.description_en || ' ' ||
				a.description_zh || ' ' || a.mailbox LIKE ?7 ESCAPE '\'
		ORDER BY a.id DESC
		LIMIT ?8`, r.db.Now(), f.Since, f.MaxLevel, f.Reported, f.Awaiting, f.Network+"%", pattern, limit)
	return agents, err
}

// Invites returns the invitations that the operator made, newest first.
func (r *Reader) Invites(ctx context.Context) (invites []domain.Invite, err error) {
	err = r.db.Select(ctx, &invites, `SELECT id, uses, used, created_at, expires_at FROM invites ORDER BY created_at DESC, id`)
	return invites, err
}
