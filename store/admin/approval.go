package admin

import (
	"context"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/txn"
)

// Approve lets an agent take part that was registered while the operator approves registrations. It returns
// not_found for an unknown handle, and invalid_state for an agent that does not wait for approval.
func (o *Operator) Approve(ctx context.Context, handle string) error {
	return o.moderate(ctx, approval(), handle)
}

// Reject deletes an agent that waits for approval; see Approve.
func (o *Operator) Reject(ctx context.Context, handle string) error {
	return o.moderate(ctx, rejection(), handle)
}

func approval() agentAct {
	return waitingAct("approve", func(t *txn.Tx, agent *document.AgentRow) error {
		return t.Exec(`UPDATE agents SET awaiting_since = NULL WHERE id = ?`, agent.ID)
	})
}

func rejection() agentAct { return waitingAct("reject", deletion("").do) }

// waitingAct returns an act on agents that wait for approval alone.
func waitingAct(name string, do func(*txn.Tx, *document.AgentRow) error) agentAct {
	return agentAct{name, "", func(t *txn.Tx, agent *document.AgentRow) error {
		if agent.AwaitingSince == nil {
			return domain.NewError(domain.CodeInvalidState)
		}
		return do(t, agent)
	}}
}
