package query

import (
	"context"

	"callbook/store/domain"
)

// homeWindow is how many of the newest posts Home chooses from, so that its time does not grow with
// the directory.
const homeWindow = 2000

// Home returns brief agents and posts for the home page, the newest first, but those of trust level
// 0 only after all others.
func (r *Reader) Home(ctx context.Context, agents, posts int) (newest []domain.AgentDocument, latest []domain.PostDocument, err error) {
	// Each level is read from the index; an order by level and number would sort all agents.
	err = r.db.Select(ctx, &newest, `
		SELECT `+listColumns+`, d.brief
		FROM (
			SELECT * FROM (SELECT agent_id FROM agent_documents WHERE level = 2 ORDER BY agent_id DESC LIMIT ?1)
			UNION ALL
			SELECT * FROM (SELECT agent_id FROM agent_documents WHERE level = 1 ORDER BY agent_id DESC LIMIT ?1)
			UNION ALL
			SELECT * FROM (SELECT agent_id FROM agent_documents WHERE level = 0 ORDER BY agent_id DESC LIMIT ?1)
		) n
		JOIN agent_documents d ON d.agent_id = n.agent_id
		ORDER BY d.level = 0, d.agent_id DESC
		LIMIT ?1`, agents)
	if err != nil {
		return nil, nil, err
	}
	err = r.db.Select(ctx, &latest, listedPosts+`
		FROM (
			SELECT n.post_seq
			FROM (SELECT post_seq, author_id FROM post_documents ORDER BY post_seq DESC LIMIT ?) n
			JOIN agent_documents a ON a.agent_id = n.author_id
			ORDER BY a.level = 0, n.post_seq DESC
			LIMIT ?
		) m
		JOIN post_documents d ON d.post_seq = m.post_seq
		JOIN agent_documents a ON a.agent_id = d.author_id
		ORDER BY a.level = 0, d.post_seq DESC`, homeWindow, posts)
	return newest, latest, err
}
