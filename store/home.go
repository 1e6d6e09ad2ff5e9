package store

import (
	"context"

	"callbook/store/domain"
)

// homeWindow is how many of the newest posts Home chooses from, so that its time does not grow with
// the directory.
const homeWindow = 2000

// Home returns agents and posts for the home page, the newest first, but those of trust level 0 only
// after all others.
func (s *Store) Home(ctx context.Context, agents, posts int) (newest []domain.PublicAgent, latest []domain.PublicPost, err error) {
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
