package store

import (
	"callbook/store/domain"
	"context"
)

// spend counts one act of the agent, or refuses it with rate_limited when the
// day's limit is met; 0 is none.
func (t *tx) spend(agentID int64, a domain.QuotaAction, limit int) error {
	times, err := t.spent(agentID, a, limit)
	if err != nil {
		return err
	}
	if limit > 0 && len(times) == limit {
		return &domain.Error{Code: domain.CodeRateLimited, Topic: string(a), Limit: limit, RetryAt: times[limit-1].Add(domain.Day).Time()}
	}
	return t.use(agentID, a)
}

// spent are the times of the agent's acts of the day, newest first, at most limit.
func (t *tx) spent(agentID int64, a domain.QuotaAction, limit int) (times []domain.Time, err error) {
	if limit == 0 {
		return nil, nil
	}
	err = t.Select(&times, `
		SELECT at FROM usage
		WHERE agent_id = ? AND act = ? AND at > ?
		ORDER BY at DESC
		LIMIT ?`, agentID, a, t.now.Add(-domain.Day), limit)
	return times, err
}

// use counts one act.
func (t *tx) use(agentID int64, a domain.QuotaAction) error {
	return t.Exec(`INSERT INTO usage (agent_id, act, at) VALUES (?, ?, ?)`, agentID, a, t.now)
}

func (s *Store) allowances(ctx context.Context, caller domain.Caller, joined domain.Time, weeklyCap int) (domain.Allowances, error) {
	now := domain.TimeOf(s.clock())
	var used struct {
		Posts    int `db:"posts"`
		Replies  int `db:"replies"`
		Requests int `db:"requests"`
		Received int `db:"received"`
		Collabs  int `db:"collabs"`
		Mails    int `db:"mails"`
	}
	err := s.get(ctx, &used, `
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
		Posts:            domain.NewAllowance(s.quotas.Posts, used.Posts),
		Replies:          domain.NewAllowance(s.quotas.Replies, used.Replies),
		RequestsSent:     domain.NewAllowance(s.quotas.RequestsAtAge(age), used.Requests),
		RequestsReceived: domain.NewAllowance(weeklyCap, used.Received),
		Collabs:          domain.NewAllowance(s.quotas.Collabs, used.Collabs),
		Mails:            domain.NewAllowance(s.mails.Agent, used.Mails),
	}, err
}

// MailCaps returns the caps on mails in force.
func (s *Store) MailCaps() domain.MailCaps { return s.mails }

// Quotas returns the limits in force.
func (s *Store) Quotas() domain.Quotas { return s.quotas }
