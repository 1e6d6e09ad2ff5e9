package store

import (
	"context"

	"callbook/store/domain"
)

// Me returns the caller's own view of itself.
func (s *Store) Me(ctx context.Context, caller domain.Caller) (domain.OwnAgent, error) {
	var own struct {
		domain.OwnAgent
		WeeklyCap int `db:"weekly_cap"`
	}

	err := s.db.Get(ctx, &own, `
		SELECT a.mailbox, a.weekly_cap, a.deletion_at,
			a.awaiting_since IS NOT NULL AS awaiting_approval,
			(
				SELECT COUNT(*) FROM requests
				WHERE to_id = a.id AND status = 'pending' AND expires_at > ?1
			) AS pending_requests,
			(
				SELECT COUNT(*) FROM requests
				WHERE to_id = a.id AND status = 'awaiting_owner' AND expires_at > ?1
			) AS awaiting_receipts
		FROM agents a
		WHERE a.id = ?2`, s.now(), caller.ID)
	if err != nil {
		return own.OwnAgent, orNotFound(err)
	}

	own.Card, err = s.OwnCard(ctx, caller)
	if err != nil {
		return own.OwnAgent, err
	}
	own.Claim, err = s.ownerClaim(ctx, caller.ID)
	if err != nil {
		return own.OwnAgent, err
	}
	own.Limits, err = s.allowances(ctx, caller, own.Card.Level(), own.Card.CreatedAt, own.WeeklyCap)
	return own.OwnAgent, err
}

// allowances returns the caller's limits and how much of each is left.
func (s *Store) allowances(
	ctx context.Context,
	caller domain.Caller,
	level int,
	joined domain.Time,
	weeklyCap int,
) (domain.Allowances, error) {
	now := s.now()
	var used struct {
		Posts    int `db:"posts"`
		Replies  int `db:"replies"`
		Requests int `db:"requests"`
		Received int `db:"received"`
		Collabs  int `db:"collabs"`
		Mails    int `db:"mails"`
	}

	// ?1 is the caller, ?2 a week ago, as receivedSince wants it, and ?3 a day ago.
	err := s.db.Get(ctx, &used, `
		SELECT
			(SELECT COUNT(*) FROM usage WHERE agent_id = ?1 AND act = 'post' AND at > ?3) AS posts,
			(SELECT COUNT(*) FROM usage WHERE agent_id = ?1 AND act = 'reply' AND at > ?3) AS replies,
			(SELECT COUNT(*) FROM usage WHERE agent_id = ?1 AND act = 'request' AND at > ?3) AS requests,
			(SELECT COUNT(*) FROM (`+receivedSince+`)) AS received,
			(SELECT COUNT(*) FROM usage WHERE agent_id = ?1 AND act = 'collab' AND at > ?3) AS collabs,
			(SELECT COUNT(*) FROM mail_log WHERE agent_id = ?1 AND at > ?3) AS mails`,
		caller.ID, now.Add(-domain.Week), now.Add(-domain.Day))

	age := now.Time().Sub(joined.Time())
	return domain.Allowances{
		Posts:            domain.NewAllowance(s.quotas.PostsAt(level), used.Posts),
		Replies:          domain.NewAllowance(s.quotas.RepliesAt(level), used.Replies),
		RequestsSent:     domain.NewAllowance(s.quotas.RequestsAtAge(age), used.Requests),
		RequestsReceived: domain.NewAllowance(weeklyCap, used.Received),
		Collabs:          domain.NewAllowance(s.quotas[domain.LimitCollabs], used.Collabs),
		Mails:            domain.NewAllowance(s.mails.Agent, used.Mails),
	}, err
}

// Export returns everything stored about the caller; see exportAgent.
func (s *Store) Export(ctx context.Context, caller domain.Caller) (ExportTables, error) {
	return exportAgent(ctx, s.db, caller.ID)
}

// MailCaps returns the caps on mails.
func (s *Store) MailCaps() domain.MailCaps { return s.mails }

// Quotas returns the daily limits.
func (s *Store) Quotas() domain.Quotas { return s.quotas }

// Registration returns who may register.
func (s *Store) Registration() domain.RegistrationMode { return s.registration }
