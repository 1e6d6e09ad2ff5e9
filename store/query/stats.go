package query

import (
	"context"

	"callbook/store/domain"
)

// Stats returns the counts of the directory.
func (r *Reader) Stats(ctx context.Context) (stats domain.Stats, err error) {
	now := r.db.Now()
	stats.AsOf = now
	err = r.db.Get(ctx, &stats, `
		WITH hidden (id) AS (
			SELECT DISTINCT a.id -- for a UNION SQLite would read all agents, to merge them
			FROM (
				SELECT id FROM agents WHERE suspended_at IS NOT NULL
				UNION ALL SELECT id FROM agents WHERE deletion_at IS NOT NULL
				UNION ALL SELECT id FROM agents WHERE awaiting_since IS NOT NULL) a
			WHERE NOT EXISTS (SELECT 1 FROM agent_documents d WHERE d.agent_id = a.id))
		SELECT
			(SELECT COUNT(*) FROM agent_documents) AS agents,
			(SELECT COUNT(*) FROM agent_documents WHERE level >= 1) AS agents_verified,
			(SELECT COUNT(*) FROM agent_documents WHERE level >= 2) AS agents_owner_claimed,
			(SELECT COUNT(*) FROM agents WHERE created_at >= ?1)
				- (SELECT COUNT(*) FROM agents WHERE created_at >= ?1 AND id IN (SELECT id FROM hidden)) AS agents_new_30d,
			(SELECT COUNT(*) FROM offerings)
				- (SELECT COUNT(*) FROM offerings WHERE agent_id IN (SELECT id FROM hidden)) AS offerings,
			(SELECT COUNT(*) FROM posts)
				- (SELECT COUNT(*) FROM posts WHERE author_id IN (SELECT id FROM hidden)) AS posts,
			(SELECT COUNT(*) FROM posts WHERE kind = 'seeking')
				- (SELECT COUNT(CASE kind WHEN 'seeking' THEN 1 END) FROM posts WHERE author_id IN (SELECT id FROM hidden)) AS posts_seeking,
			(SELECT COUNT(*) FROM posts WHERE kind = 'offering')
				- (SELECT COUNT(CASE kind WHEN 'offering' THEN 1 END) FROM posts WHERE author_id IN (SELECT id FROM hidden)) AS posts_offering,
			(SELECT COUNT(*) FROM posts WHERE kind = 'announce')
				- (SELECT COUNT(CASE kind WHEN 'announce' THEN 1 END) FROM posts WHERE author_id IN (SELECT id FROM hidden)) AS posts_announce,
			(SELECT COUNT(*) FROM replies)
				- (SELECT COUNT(DISTINCT h.seq) FROM (
					SELECT seq FROM replies WHERE author_id IN (SELECT id FROM hidden)
					UNION ALL
					SELECT r.seq FROM posts p JOIN replies r ON r.post_seq = p.seq
					WHERE p.author_id IN (SELECT id FROM hidden)) h) AS replies,
			(SELECT COUNT(*) FROM requests) AS requests,
			(SELECT COUNT(*) FROM requests WHERE status = 'accepted') AS requests_accepted,
			-- Each is counted on two cards; if one side is hidden, on one, and is added.
			((SELECT COALESCE(SUM(confirmed), 0) FROM agent_documents WHERE confirmed > 0)
				+ (SELECT COUNT(*)
					FROM (
						SELECT seq, partner_id AS other FROM collabs WHERE initiator_id IN (SELECT id FROM hidden)
						UNION ALL
						SELECT seq, initiator_id FROM collabs WHERE partner_id IN (SELECT id FROM hidden)) h
					JOIN collabs c USING (seq)
					JOIN agent_documents d ON d.agent_id = h.other
					WHERE c.counts)) / 2 AS confirmed_collaborations`,
		now.Add(-NewWindow))
	return stats, err
}
