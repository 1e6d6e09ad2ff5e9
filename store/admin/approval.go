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
	return agentAct{name: "approve", do: ifWaiting(func(t *txn.Tx, agent *document.AgentRow) error {
		return t.Exec(`UPDATE agents SET awaiting_since = NULL WHERE id = ?`, agent.ID)
	})}
}

func rejection() agentAct {
	act := deletion("reject")
	act.do = ifWaiting(act.do)
	return act
}

// ifWaiting returns do for agents that wait for approval, and for no others.
func ifWaiting(do func(*txn.Tx, *document.AgentRow) error) func(*txn.Tx, *document.AgentRow) error {
	return func(t *txn.Tx, agent *document.AgentRow) error {
		if agent.AwaitingSince == nil {
			return domain.NewError(domain.CodeInvalidState)
		}
		return do(t, agent)
	}
}
