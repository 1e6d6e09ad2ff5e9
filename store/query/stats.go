package query

import (
	"context"
	"sync"

	"callbook/store/domain"
)

func (c *statsCache) reset() {
	c.Lock()
	defer c.Unlock()
	c.last = domain.Stats{}
}

// statsCache holds the counts that were last read.
type statsCache struct {
	sync.Mutex
	last domain.Stats
}

// Stats returns the counts, at most 10 seconds old.
func (r *Reader) Stats(ctx context.Context) (domain.Stats, error) {
	r.stats.Lock()
	defer r.stats.Unlock()
	now := r.db.Now()
	if last := r.stats.last; last.AsOf != 0 && last.AsOf <= now && now < last.AsOf.Add(domain.StatsAge) {
		return last, nil
	}
	stats := domain.Stats{}
	err := r.db.Get(ctx, &stats, `
		WITH hidden (id) AS (
			SELECT a.id
			FROM (
				SELECT id FROM agents WHERE suspended_at IS NOT NULL
				UNION SELECT id FROM agents WHERE deletion_at IS NOT NULL
				UNION SELECT id FROM agents WHERE awaiting_since IS NOT NULL) a
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
				- (SELECT COUNT(*) FROM posts WHERE kind = 'seeking' AND author_id IN (SELECT id FROM hidden)) AS posts_seeking,
			(SELECT COUNT(*) FROM posts WHERE kind = 'offering')
				- (SELECT COUNT(*) FROM posts WHERE kind = 'offering' AND author_id IN (SELECT id FROM hidden)) AS posts_offering,
			(SELECT COUNT(*) FROM posts WHERE kind = 'announce')
				- (SELECT COUNT(*) FROM posts WHERE kind = 'announce' AND author_id IN (SELECT id FROM hidden)) AS posts_announce,
			(SELECT COUNT(*) FROM replies)
				- (SELECT COUNT(*) FROM (
					SELECT seq FROM replies WHERE author_id IN (SELECT id FROM hidden)
					UNION
					SELECT r.seq FROM posts p JOIN replies r ON r.post_seq = p.seq
					WHERE p.author_id IN (SELECT id FROM hidden))) AS replies,
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
	if err != nil {
		return domain.Stats{}, err
	}
	stats.AsOf = now
	r.stats.last = stats
	return stats, nil
}
