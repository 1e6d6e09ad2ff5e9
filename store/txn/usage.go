package txn

import (
	"net/netip"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
)

// InsertEvent stores an event for an agent. Requests that wait for it return after the commit.
// If the agent is deleted, nothing is stored.
func (t *Tx) InsertEvent(agentID int64, event string, subject domain.EventSubject) error {
	text, err := json.Marshal(subject)
	if err != nil {
		return err
	}
	n, err := t.Change(`
		INSERT INTO events (agent_id, type, subject, at)
		SELECT id, ?, ?, ? FROM agents WHERE id = ?`, event, string(text), t.Now, agentID)
	if err != nil || n == 0 {
		return err
	}
	t.Changes.NewEvents.Add(agentID)
	// At once, or WakePause after the last request.
	woken, err := t.Change(`
		UPDATE wakes SET due_at = (
			SELECT CASE WHEN woken_at > ?2 AND woken_at <= ?3 THEN woken_at + ?4 ELSE ?3 END FROM agents WHERE id = wakes.agent_id)
		WHERE agent_id = ?1 AND due_at IS NULL AND status <> 'off'`,
		agentID, t.Now.Add(-domain.WakePause), t.Now, domain.WakePause.Milliseconds())
	t.Changes.Wake = t.Changes.Wake || woken > 0
	return err
}

// Spend counts one action of an agent. It returns rate_limited if the agent has used up the
// day's limit; 0 is no limit.
func (t *Tx) Spend(agentID int64, action domain.QuotaAction, limit int) error {
	times, err := t.Usage(agentID, action, limit)
	if err != nil {
		return err
	}
	if limit > 0 && len(times) == limit {
		return &domain.Error{Code: domain.CodeRateLimited, Topic: string(action), Limit: limit, RetryAt: times[limit-1].Add(domain.Day).Time()}
	}
	return t.CountUsage(agentID, action)
}

// SpendNetwork counts one action of a client in each of its networks. It returns rate_limited if
// one of them has used up the day's limit; 0 is no limit.
func (t *Tx) SpendNetwork(from netip.Addr, action domain.QuotaAction, limit int) error {
	if limit == 0 {
		return nil
	}
	for _, network := range domain.Networks(from) {
		hash := t.NetworkHash(network)
		var oldest domain.Time
		reached, err := t.Find(&oldest, `
			SELECT at FROM network_usage
			WHERE network = ?1 AND act = ?2 AND at > ?3
				AND number = (SELECT MAX(number) FROM network_usage WHERE network = ?1 AND act = ?2) + 1 - ?4`,
			hash, action, t.Now.Add(-domain.Day), limit)
		if err != nil {
			return err
		}
		if reached {
			return &domain.Error{
				Code: domain.CodeRateLimited, Topic: string(action) + "_network", Limit: limit, RetryAt: oldest.Add(domain.Day).Time(),
			}
		}
		err = t.Exec(`
			INSERT INTO network_usage (network, act, number, at)
			SELECT ?1, ?2, COALESCE(MAX(number), 0) + 1, ?3 FROM network_usage WHERE network = ?1 AND act = ?2`, hash, action, t.Now)
		if err != nil {
			return err
		}
	}
	return nil
}

// Usage returns the times of an agent's actions in the last day, newest first, at most limit.
func (t *Tx) Usage(agentID int64, action domain.QuotaAction, limit int) (times []domain.Time, err error) {
	if limit == 0 {
		return nil, nil
	}
	err = t.Select(&times, `
		SELECT at FROM usage
		WHERE agent_id = ? AND act = ? AND at > ?
		ORDER BY at DESC
		LIMIT ?`, agentID, action, t.Now.Add(-domain.Day), limit)
	return times, err
}

// CountUsage counts one action of an agent, without a limit.
func (t *Tx) CountUsage(agentID int64, action domain.QuotaAction) error {
	return t.Exec(`INSERT INTO usage (agent_id, act, at) VALUES (?, ?, ?)`, agentID, action, t.Now)
}
