package store

import (
	"context"

	"callbook/store/domain"
)

// homeWindow is how many of the newest posts Home chooses from, so that its time does not grow with
// the directory.
const homeWindow = 2000

// Home returns agents and posts for the home page, the newest first, but those of trust level 0
// only after all others.
func (s *Store) Home(
	ctx context.Context,
	agents, posts int,
) (newest []domain.PublicAgent, latest []domain.PublicPost, err error) {
	// Each level is read from the index; an order by level and number would sort all agents.
	err = s.db.Select(ctx, &newest, `
		SELECT `+agentFields+`
		FROM (
			SELECT * FROM (SELECT id FROM agents WHERE hidden = 0 AND level = 2 ORDER BY id DESC LIMIT ?1)
			UNION ALL
			SELECT * FROM (SELECT id FROM agents WHERE hidden = 0 AND level = 1 ORDER BY id DESC LIMIT ?1)
			UNION ALL
			SELECT * FROM (SELECT id FROM agents WHERE hidden = 0 AND level = 0 ORDER BY id DESC LIMIT ?1)
		) n
		JOIN agents a ON a.id = n.id
		JOIN handles h ON h.id = n.id
		ORDER BY a.level = 0, a.id DESC
		LIMIT ?1`, agents)
	if err != nil {
		return nil, nil, err
	}

	for i := range newest {
		newest[i].SetTrust()
	}

	err = s.db.Select(ctx, &latest, `
		SELECT `+postFields+`
		FROM (
			SELECT n.seq
			FROM (SELECT seq, author_id FROM posts ORDER BY seq DESC LIMIT ?) n
			JOIN agents a ON a.id = n.author_id
			WHERE NOT a.hidden
			ORDER BY a.level = 0, n.seq DESC
			LIMIT ?
		) m
		JOIN posts p ON p.seq = m.seq`+postAuthor+`
		ORDER BY a.level = 0, p.seq DESC`, homeWindow, posts)

	return newest, latest, err
}

// Stats returns the counts.
func (s *Store) Stats(ctx context.Context) (stats domain.Stats, err error) {
	// Few agents are hidden: to count all and subtract theirs reads indexes only.
	now := s.now()
	stats.AsOf = now
	err = s.db.Get(ctx, &stats, `
		WITH hidden (id) AS (SELECT id FROM agents WHERE hidden = 1)
		SELECT
			(SELECT COUNT(*) FROM agents WHERE hidden = 0) AS agents,
			(SELECT COUNT(*) FROM agents WHERE hidden = 0 AND level >= 1) AS agents_verified,
			(SELECT COUNT(*) FROM agents WHERE hidden = 0 AND level >= 2) AS agents_owner_claimed,
			(SELECT COUNT(*) FROM agents WHERE created_at >= ?1)
				- (SELECT COUNT(*) FROM agents
					WHERE created_at >= ?1 AND id IN (SELECT id FROM hidden)) AS agents_new_30d,
			-- level leads to the index that has menu_entries.
			(SELECT COALESCE(SUM(menu_entries), 0) FROM agents WHERE hidden = 0 AND level >= 0) AS offerings,
			(SELECT COUNT(*) FROM posts)
				- (SELECT COUNT(*) FROM posts WHERE author_id IN (SELECT id FROM hidden)) AS posts,
			`+countPublicPosts(domain.PostSeeking)+` AS posts_seeking,
			`+countPublicPosts(domain.PostOffering)+` AS posts_offering,
			`+countPublicPosts(domain.PostAnnounce)+` AS posts_announce,
			(SELECT COUNT(*) FROM replies)
				- (SELECT COUNT(DISTINCT h.seq) FROM (
					SELECT seq FROM replies WHERE author_id IN (SELECT id FROM hidden)
					UNION ALL
					SELECT r.seq FROM posts p JOIN replies r ON r.post_seq = p.seq
					WHERE p.author_id IN (SELECT id FROM hidden)) h) AS replies,
			(SELECT COUNT(*) FROM requests) AS requests,
			(SELECT COUNT(*) FROM requests WHERE status = 'accepted') AS requests_accepted,
			(SELECT COUNT(*) FROM collabs WHERE counts
				AND NOT (initiator_id IN (SELECT id FROM hidden)
					AND partner_id IN (SELECT id FROM hidden))) AS confirmed_collaborations`,
		now.Add(-newWindow))

	return stats, err
}

// countPublicPosts returns the SQL that counts the posts of a kind, without those of hidden authors.
func countPublicPosts(kind string) string {
	return `(SELECT COUNT(*) FROM posts WHERE kind = '` + kind + `')
				- (SELECT COUNT(CASE kind WHEN '` + kind + `' THEN 1 END)
					FROM posts WHERE author_id IN (SELECT id FROM hidden))`
}
