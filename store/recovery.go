package store

import (
	"callbook/store/domain"
)

// A recovery gives an agent back to the holder of its mailbox.

// youngClaim is the age up to which a recovery may end an owner claim.
const youngClaim = 30 * domain.Day

// formerMailboxAge is how long the verified mailbox that an agent left may recover its key.
const formerMailboxAge = 7 * domain.Day

// leaveMailbox tells the verified mailbox of an agent that another replaces it now, and remembers it.
// A mailbox that was left less than seven days ago stays the one that is remembered: a thief of the
// key could otherwise change the mailbox twice. The caller stores the agent.
func (t *tx) leaveMailbox(agent *agentRow) error {
	if agent.FormerMailbox == nil || agent.MailboxLeftAt.Add(formerMailboxAge) <= t.Now {
		former := agent.Mailbox
		agent.FormerMailbox, agent.MailboxLeftAt = &former, &t.Now
	}

	left := mailOrder{AgentID: agent.ID, To: agent.Mailbox}
	return notifyMailbox(t, t.store.mails, domain.MailChanged, left)
}

// forgetFormerMailboxes forgets the mailboxes that can no longer recover a key.
func (t *tx) forgetFormerMailboxes() error {
	n, err := t.Change(`
		UPDATE agents SET former_mailbox = NULL
		WHERE former_mailbox IS NOT NULL AND mailbox_left_at <= ?`, t.Now.Add(-formerMailboxAge))
	t.Erase(n)
	return err
}

// recoveryOrders returns the mails that an agent's recovery is about: to its mailbox, if that is
// verified, and to the one that it left in the last seven days.
func (t *tx) recoveryOrders(agent *agentRow) (orders []mailOrder) {
	if agent.VerifiedAt != nil {
		orders = append(orders, mailOrder{
			AgentID: agent.ID,
			Kind:    domain.MailRecover,
			To:      agent.Mailbox,
		})
	}
	if agent.FormerMailbox != nil && agent.MailboxLeftAt.Add(formerMailboxAge) > t.Now {
		orders = append(orders, mailOrder{
			AgentID: agent.ID,
			Kind:    domain.MailFormer,
			To:      *agent.FormerMailbox,
		})
	}
	return orders
}

// notify tells every mailbox that may recover the key of an agent.
func (t *tx) notify(agent *agentRow, kind string) error {
	return notifyMailbox(t, t.store.mails, kind, t.recoveryOrders(agent)...)
}

// recoverKey gives an agent the key that the holder of a mailbox asked for, and takes back what a
// thief of the key before may have done: a deletion, and a young claim. A former mailbox becomes the
// agent's again.
func (t *tx) recoverKey(agent *agentRow, by mailOrder, key string, endClaim bool) (ended bool, err error) {
	if err := t.notify(agent, domain.MailRecovered); err != nil {
		return false, err
	}
	if ended, err = t.endYoungClaim(agent, by, endClaim); err != nil {
		return false, err
	}
	if by.Kind == domain.MailFormer {
		if err := t.restoreMailbox(agent, by.To); err != nil {
			return false, err
		}
	}
	if err := keepAgent(t, agent); err != nil {
		return false, err
	}
	return ended, restoreKey(t, agent.ID, key)
}

// endYoungClaim ends the claim of an agent, unless the owner confirmed it 30 days ago or earlier, for the
// holder of a mailbox that the agent left before the claim was last confirmed: that may be a thief's. It
// does so for the claim's own mailbox if that is asked for. Later mailboxes may be a thief's themselves. A claim that
// nobody has confirmed always ends: it was requested with the old key.
func (t *tx) endYoungClaim(agent *agentRow, by mailOrder, asked bool) (ended bool, err error) {
	var claim claimRow
	found, err := t.Find(&claim, selectClaim+` WHERE agent_id = ?`, agent.ID)
	if err != nil || !found || claim.ConfirmedAt != nil && claim.ConfirmedAt.Add(youngClaim) <= t.Now {
		return false, err
	}
	earlier := by.Kind == domain.MailFormer && *agent.MailboxLeftAt <= claim.MailboxAt
	if claim.Status != statusPending && !earlier && !(asked && by.To == claim.Mailbox) {
		return false, nil
	}
	return true, withdrawClaim(t, agent)
}

// restoreMailbox makes a former mailbox the verified one again.
func (t *tx) restoreMailbox(agent *agentRow, mailbox string) error {
	forgetFormerMailbox(t, agent)
	if err := unverify(t, agent); err != nil {
		return err
	}
	agent.Mailbox = mailbox
	agent.VerifiedAt = &t.Now
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}
