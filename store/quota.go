package store

import (
	"context"
	"time"
)

// Quotas are the limits by the day that hold across restarts: they count in the
// database, what was deleted included. 0 switches one off. A day is a rolling
// 24 hours.
type Quotas struct {
	Posts             int // calls a day
	Replies           int // replies a day
	RequestsFirstWeek int // contact requests sent a day, in an agent's first week
	Requests          int // contact requests sent a day, after it
	Collabs           int // collaborations recorded a day
}

// DefaultQuotas are the contract's.
var DefaultQuotas = Quotas{Posts: 10, Replies: 50, RequestsFirstWeek: 2, Requests: 5, Collabs: 50}

// firstWeek is how long an agent is new to sending contact requests.
const firstWeek = week

// usageKept is how long what an agent did is counted.
const usageKept = Day

type act string

const (
	actPost    act = "post"
	actReply   act = "reply"
	actRequest act = "request"
	actCollab  act = "collab"
)

// requests returns how many contact requests an agent of an age may send a day.
func (q Quotas) requests(age time.Duration) int {
	if age < firstWeek {
		return q.RequestsFirstWeek
	}
	return q.Requests
}

// spend counts one act of the agent, or refuses it with rate_limited when the
// day's limit is met; 0 is none.
func (t *tx) spend(agentID int64, a act, limit int) error {
	times, err := t.spent(agentID, a, limit)
	if err != nil {
		return err
	}
	if limit > 0 && len(times) == limit {
		return &Error{Code: CodeRateLimited, Topic: string(a), Limit: limit, RetryAt: times[limit-1].add(Day).Time()}
	}
	return t.use(agentID, a)
}

// spent are the times of the agent's acts of the day, newest first, at most limit.
func (t *tx) spent(agentID int64, a act, limit int) (times []Time, err error) {
	if limit == 0 {
		return nil, nil
	}
	err = t.Select(&times, `
		SELECT at FROM usage
		WHERE agent_id = ? AND act = ? AND at > ?
		ORDER BY at DESC
		LIMIT ?`, agentID, a, t.now.add(-Day), limit)
	return times, err
}

// use counts one act.
func (t *tx) use(agentID int64, a act) error {
	return t.Exec(`INSERT INTO usage (agent_id, act, at) VALUES (?, ?, ?)`, agentID, a, t.now)
}

// Allowance is what is left of a limit. Limit and Left are null where the limit
// is switched off.
type Allowance struct {
	Limit *int `json:"limit"`
	Left  *int `json:"left"`
}

// Allowances is what is left of an agent's limits.
type Allowances struct {
	Posts            Allowance `json:"posts_today"`
	Replies          Allowance `json:"replies_today"`
	RequestsSent     Allowance `json:"requests_sent_today"`
	RequestsReceived Allowance `json:"requests_received_this_week" doc:"Of the caller's own weekly_cap."`
	Collabs          Allowance `json:"collabs_today"`
	Mails            Allowance `json:"mails_today" doc:"Codes and owner links."`
}

func allowance(limit, used int) Allowance {
	if limit == 0 {
		return Allowance{}
	}
	left := max(0, limit-used)
	return Allowance{Limit: &limit, Left: &left}
}

func (s *Store) allowances(ctx context.Context, caller Caller, joined Time, weeklyCap int) (Allowances, error) {
	now := at(s.clock())
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
		caller.ID, now.add(-week), now.add(-Day))
	age := now.Time().Sub(joined.Time())
	return Allowances{
		Posts:            allowance(s.quotas.Posts, used.Posts),
		Replies:          allowance(s.quotas.Replies, used.Replies),
		RequestsSent:     allowance(s.quotas.requests(age), used.Requests),
		RequestsReceived: allowance(weeklyCap, used.Received),
		Collabs:          allowance(s.quotas.Collabs, used.Collabs),
		Mails:            allowance(s.mails.Agent, used.Mails),
	}, err
}

// MailCaps returns the caps on mails in force.
func (s *Store) MailCaps() MailCaps { return s.mails }

// Quotas returns the limits in force.
func (s *Store) Quotas() Quotas { return s.quotas }
