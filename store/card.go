package store

import (
	"callbook/store/domain"
	"context"
)

// Card returns an agent as the public sees it. It refuses with not_found a handle
// that no agent has, or a hidden one.
func (s *Store) Card(ctx context.Context, handle string) (domain.AgentDocument, error) {
	d := domain.AgentDocument{Handle: handle}
	err := orNotFound(s.get(ctx, &d, `
		SELECT agent_id, level, confirmed, email, created_at, last_active_at, profile, recent_posts
		FROM agent_documents
		WHERE handle = ?`, handle))
	return d, err
}
