package store

import (
	"context"
	"time"

	"callbook/store/domain"
)

// CreatePageLink makes a token for the operator's page, which is valid for PageLinkAge. Others stay valid.
func (s *Store) CreatePageLink(ctx context.Context) (token string, err error) {
	if token, err = domain.NewSecret(s.random); err != nil {
		return "", err
	}
	return token, s.write(ctx, func(t *tx) error {
		end := t.Now.Add(domain.PageLinkAge)
		err := t.Exec(`INSERT INTO operator_links (token_hash, created_at, expires_at) VALUES (?, ?, ?)`, domain.HashKey(token), t.Now, end)
		if err != nil {
			return err
		}
		return audit(t, "page", "until "+end.Time().Format(time.RFC3339), "")
	})
}

// RevokePageLinks ends all links to the operator's page.
func (s *Store) RevokePageLinks(ctx context.Context) error {
	return s.write(ctx, func(t *tx) error {
		if err := t.Exec(`DELETE FROM operator_links`); err != nil {
			return err
		}
		return audit(t, "page", "earlier links revoked", "")
	})
}

// CheckPageLink returns not_found unless a token opens the operator's page now.
func (s *Store) CheckPageLink(ctx context.Context, token string) error {
	var valid bool
	err := s.db.Get(ctx, &valid, `SELECT EXISTS (SELECT 1 FROM operator_links WHERE token_hash = ? AND expires_at > ?)`, domain.HashKey(token), s.now())
	if err == nil && !valid {
		err = domain.NewError(domain.CodeNotFound)
	}
	return err
}
