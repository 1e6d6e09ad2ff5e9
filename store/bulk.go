package store

import (
	"context"
	"errors"
	"slices"

	"callbook/store/domain"
)

// bulkBatch is how many agents one transaction of ActOnAgents handles, so that requests do not wait for long.
const bulkBatch = 20

// ActOnAgents does an act to many agents, a few in each transaction, and records each as the same act on one
// agent. Handles count once. It skips those without an agent, and those whose agent does not wait for
// approval if the act is about that, and returns them as rejected. It returns validation_failed for an
// invalid reason and an end in the past. After another error the result has the agents before it.
func (s *Store) ActOnAgents(ctx context.Context, bulk domain.BulkAct) (result domain.BulkResult, err error) {
	act := agentActs[bulk.Act]
	if bulk.Act == domain.OperatorSuspend {
		if act, err = suspension(bulk.Reason, bulk.Until); err != nil {
			return result, err
		}
	}

	handles := slices.Compact(slices.Sorted(slices.Values(bulk.Handles)))
	for batch := range slices.Chunk(handles, bulkBatch) {
		var done domain.BulkResult
		err := s.write(ctx, func(t *tx) error {
			done = domain.BulkResult{}
			for _, handle := range batch {
				if err := act.runOn(t, bulk.Act, handle, &done); err != nil {
					return err
				}
			}
			if bulk.DryRun {
				return errDryRun
			}
			return nil
		})
		if err != nil && !errors.Is(err, errDryRun) {
			return result, err
		}
		result.Add(done)
	}
	return result, nil
}

// runOn runs the act on one of many agents, and adds it to the result.
func (a agentAct) runOn(t *tx, name domain.OperatorAct, handle string, result *domain.BulkResult) error {
	agent, found, err := agentByHandle(t, handle)
	if err != nil {
		return err
	}
	var counts struct {
		Posts   int `db:"posts"`
		Replies int `db:"replies"`
		Reports int `db:"reports"`
	}
	if found {
		err = t.Get(&counts, `
			SELECT
				(SELECT COUNT(*) FROM posts WHERE author_id = ?1) AS posts,
				(SELECT COUNT(*) FROM replies WHERE author_id = ?1) AS replies,
				(SELECT COUNT(*) FROM reports WHERE of_id = ?1 AND closed_at IS NULL) AS reports`, agent.ID)
		if err == nil {
			err = a.run(t, name, agent)
		}
	}
	switch {
	case !found, errors.Is(err, domain.NewError(domain.CodeInvalidState)):
		result.Rejected = append(result.Rejected, handle)
		return nil
	case err != nil:
		return err
	}
	result.Add(domain.BulkResult{Agents: []string{handle}, Posts: counts.Posts, Replies: counts.Replies, Reports: counts.Reports})
	return nil
}
