package store

import (
	"net/netip"

	"callbook/store/domain"
)

// Spend counts one action of an agent. It returns rate_limited if the agent has used up the
// day's limit; 0 is no limit.
func (t *tx) Spend(agentID int64, action domain.QuotaAction, limit int) error {
	counted, err := t.Change(`
		INSERT INTO usage (agent_id, act, at)
		SELECT ?1, ?2, ?3
		WHERE ?5 = 0 OR ?5 > (
			SELECT COUNT(*) FROM usage WHERE agent_id = ?1 AND act = ?2 AND at > ?4
		)`,
		agentID, action, t.Now, t.Now.Add(-domain.Day), limit)
	if err != nil || counted > 0 {
		return err
	}

	// The next action is allowed when the oldest of those that use up the limit is a day old.
	var oldest domain.Time
	err = t.Get(&oldest, `
		SELECT at FROM usage
		WHERE agent_id = ? AND act = ?
		ORDER BY at DESC
		LIMIT 1 OFFSET ?`, agentID, action, limit-1)
	if err != nil {
		return err
	}
	return &domain.Error{
		Code:    domain.CodeRateLimited,
		Topic:   string(action),
		Limit:   limit,
		RetryAt: oldest.Add(domain.Day).Time(),
	}
}

// SpendNetwork counts one action of a client in each of its networks. It returns rate_limited if
// one of them has used up the day's limit; 0 is no limit.
func (t *tx) SpendNetwork(from netip.Addr, action domain.QuotaAction, limit int) error {
	if limit == 0 {
		return nil
	}

	for _, network := range domain.Networks(from) {
		if err := t.spendNetwork(t.NetworkHash(network), action, limit); err != nil {
			return err
		}
	}

	return nil
}

func (t *tx) spendNetwork(network []byte, action domain.QuotaAction, limit int) error {
	// The action that the limit depends on is found by its number: a network may have very many.
	counted, err := t.Change(`
		INSERT INTO network_usage (network, act, number, at)
		SELECT ?1, ?2, last.number + 1, ?3
		FROM (
			SELECT COALESCE(MAX(number), 0) AS number
			FROM network_usage
			WHERE network = ?1 AND act = ?2
		) AS last
		WHERE NOT EXISTS (
			SELECT 1 FROM network_usage
			WHERE network = ?1 AND act = ?2 AND number = last.number + 1 - ?5 AND at > ?4)`,
		network, action, t.Now, t.Now.Add(-domain.Day), limit)
	if err != nil || counted > 0 {
		return err
	}

	var oldest domain.Time
	err = t.Get(&oldest, `
		SELECT at FROM network_usage
		WHERE network = ?1 AND act = ?2
			AND number = 1 - ?3 + (
				SELECT MAX(number) FROM network_usage WHERE network = ?1 AND act = ?2
			)`,
		network, action, limit)
	if err != nil {
		return err
	}
	return &domain.Error{
		Code:    domain.CodeRateLimited,
		Topic:   string(action) + "_network",
		Limit:   limit,
		RetryAt: oldest.Add(domain.Day).Time(),
	}
}
