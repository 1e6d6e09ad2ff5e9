package store

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	"callbook/store/text"
)

// Register adds an agent. It returns registration_closed and invite_required by the mode of
// registration; validation_failed for an agent without a description, a name or owner that
// text.CheckName rejects, and the texts that checkBlocks rejects; handle_taken for a handle
// that is in use, reserved, or was a deleted agent's; and idempotency_conflict if the idempotency
// key came with another request. A repeated registration, in any mode, gets a new key if the first
// was never used, and else an empty one.
func (s *Store) Register(
	ctx context.Context,
	r domain.Registration,
	key domain.IdempotencyKey,
) (result domain.Registered, replayed bool, err error) {
	apiKey, err := domain.NewKey(s.random)
	if err != nil {
		return domain.Registered{}, false, err
	}

	// Before the transaction, since it takes long and needs nothing of the database.
	planned := newAgentRow(&r, s.now())
	tokens := agentTokens(&planned.Agent)

	err = s.write(ctx, func(t *tx) error {
		result = domain.Registered{Key: apiKey}
		if replayed, err = t.Replay(0, key, &result); err != nil {
			return err
		}
		if replayed {
			result.Key, err = t.replaceUnusedKey(r.Handle, apiKey)
			return err
		}

		if err := t.CheckRoom(); err != nil {
			return err
		}
		if err := t.checkRegistration(r); err != nil {
			return err
		}

		agent, err := t.insertAgent(r, apiKey, tokens)
		if err != nil {
			return err
		}

		result.Agent = agent.Public()
		result.Awaiting = agent.AwaitingSince != nil
		return t.StoreResponse(0, key, agent.ID, r.Handle, result)
	})
	return result, replayed, err
}

// replaceUnusedKey gives a registered agent another key if the first was never used, and returns
// it; else it returns an empty one.
func (t *tx) replaceUnusedKey(handle, key string) (string, error) {
	// The first key is not stored, so that a client that lost the response needs another. A key
	// that was used is in somebody's hands, and whoever repeats the request may be another.
	replaced, err := t.Change(`
		UPDATE agents SET key_hash = ?
		WHERE id = (SELECT id FROM handles WHERE handle = ?) AND NOT key_used`,
		domain.HashKey(key), handle)
	if err != nil || replaced == 0 {
		return "", err
	}
	return key, nil
}

// checkRegistration returns registration_closed or invite_required if the mode of registration
// does not let an agent register. It counts a use of its invitation if one is required.
func (t *tx) checkRegistration(r domain.Registration) error {
	switch t.store.registration {
	case domain.RegistrationClosed:
		return domain.NewError(domain.CodeRegistrationClosed)

	case domain.RegistrationInvite:
		return t.ExecOr(domain.NewError(domain.CodeInviteRequired), `
			UPDATE invites SET used = used + 1
			WHERE id = ? AND secret_hash = ? AND used < uses AND expires_at > ?`,
			domain.InviteID(r.Invite), domain.HashKey(r.Invite), t.Now)
	}

	return nil
}

// insertAgent stores a new agent, whose agentTokens are tokens. See Register for its errors.
func (t *tx) insertAgent(r domain.Registration, key, tokens string) (*agentRow, error) {
	faults := slices.Concat(
		r.CheckDescriptions(),
		text.CheckName("name", r.Name, t.store.siteName),
		text.CheckName("owner", r.Owner, t.store.siteName),
	)
	if err := t.checkBlocks(r, faults...); err != nil {
		return nil, err
	}
	if text.ReservedWord(r.Handle, t.store.siteName) != "" {
		return nil, domain.NewError(domain.CodeHandleTaken)
	}

	// A row of handles stays for ever, so that the handle of a deleted agent is taken, too.
	a := newAgentRow(&r, t.Now)
	free, err := t.Find(&a.ID, `
		INSERT INTO handles (handle) VALUES (?)
		ON CONFLICT (handle) DO NOTHING
		RETURNING id`, r.Handle)
	if err != nil {
		return nil, err
	}
	if !free {
		return nil, domain.NewError(domain.CodeHandleTaken)
	}

	if t.store.registration == domain.RegistrationApprove {
		a.AwaitingSince = &t.Now
		t.Changes.Approvals++
	}

	var network []byte // unknown if the program acts
	if origin := domain.Origin(r.From); origin != "" {
		network = t.Pseudonym(origin)
	}

	return &a, a.Insert(t, domain.HashKey(key), network, tokens)
}

// UpdateAgent changes the caller's settings. change gets the current settings and edits them; it
// is called again with none, to find the fields that it sets, and both may happen twice. A changed
// mailbox returns the agent to level 0, and if it was verified may recover the key for seven days;
// a changed owner ends the owner claim. UpdateAgent returns validation_failed for an agent without
// a description, for a new name or owner that text.CheckName rejects and for the texts that
// checkBlocks rejects, trust_too_low if the owner's receipt is required below level 2, and
// forbidden if it no longer is while there is an owner.
func (s *Store) UpdateAgent(
	ctx context.Context,
	caller domain.Caller,
	change func(*domain.Settings) error,
) (changed domain.PublicAgent, err error) {
	err = s.write(ctx, func(t *tx) error {
		agent, err := t.AuthorizeOwn(caller)
		if err != nil {
			return err
		}

		before := agent.Settings()
		after := agent.Settings()
		if err := change(&after); err != nil {
			return err
		}
		if err := t.checkRoomFor(before, after); err != nil {
			return err
		}

		// Fields that do not change are not checked against words that were blocked later.
		var patch domain.Settings
		if err := change(&patch); err != nil {
			return err
		}
		if err := t.checkSettings(agent, before, after, patch); err != nil {
			return err
		}
		if err := t.updateAgent(agent, after); err != nil {
			return err
		}

		changed = agent.Public()
		return nil
	})

	return changed, err
}

// checkSettings checks the new settings of an agent, of which a patch sets some.
func (t *tx) checkSettings(agent *agentRow, before, after, patch domain.Settings) error {
	if text.CanonicalMailbox(patch.Mailbox) == agent.Mailbox {
		patch.Mailbox = "" // sent, but not changed
	}

	faults := after.CheckDescriptions()
	if after.Name != before.Name { // an older program may have allowed the name
		faults = append(faults, text.CheckName("name", after.Name, t.store.siteName)...)
	}
	if after.Owner != before.Owner {
		faults = append(faults, text.CheckName("owner", after.Owner, t.store.siteName)...)
	}
	if err := t.checkBlocks(patch, faults...); err != nil {
		return err
	}

	return t.checkReceipts(agent, before, after)
}

// checkReceipts checks that an agent may change whether its owner's receipt is required.
func (t *tx) checkReceipts(agent *agentRow, before, after domain.Settings) error {
	required := before.ContactPolicy.RequireOwnerReceipt
	requires := after.ContactPolicy.RequireOwnerReceipt
	if required == requires {
		return nil
	}

	if requires {
		// Another owner or mailbox in the same update ends the claim: no owner could give receipts.
		sameMailbox := text.CanonicalMailbox(after.Mailbox) == agent.Mailbox
		if agent.Level() < 2 || after.Owner != before.Owner || !sameMailbox {
			return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "receipt"}
		}
		return nil
	}

	// The receipt protects the owner from the agent, so only the owner's page waives it.
	owned, err := t.hasOwner(agent.ID)
	if err != nil {
		return err
	}
	if owned {
		return &domain.Error{Code: domain.CodeForbidden, Topic: "receipt"}
	}
	return nil
}

// checkRoomFor is CheckRoom for settings that are longer than before.
func (t *tx) checkRoomFor(before, after domain.Settings) error {
	// Switches and numbers take no room, though false is longer than true.
	policy := before.ContactPolicy
	policy.Note = after.ContactPolicy.Note
	after.ContactPolicy = policy
	after.ContactPublic = before.ContactPublic

	was, err := json.Marshal(before)
	if err != nil {
		return err
	}
	is, err := json.Marshal(after)
	if err != nil || len(is) <= len(was) {
		return err // a full directory can still be emptied
	}
	return t.CheckRoom()
}

// updateAgent stores new settings of an agent. Another mailbox is not verified, and another owner
// has not claimed the agent.
func (t *tx) updateAgent(agent *agentRow, settings domain.Settings) error {
	if text.CanonicalMailbox(settings.Mailbox) != agent.Mailbox {
		// An unverified mailbox may be somebody else's: it gets no notice and recovers no key.
		if agent.VerifiedAt != nil {
			if err := t.leaveMailbox(agent); err != nil {
				return err
			}
		}
		if err := t.unverify(agent); err != nil {
			return err
		}
	}

	if settings.Owner != agent.Owner {
		agent.ClaimedAt = nil
	}
	agent.Apply(settings)
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}

// deletionDelay is how long the owner of an agent that deletes itself may keep it.
const deletionDelay = 72 * time.Hour

// errDeletionPending rejects writes of an agent that is about to be deleted.
var errDeletionPending = domain.NewError(domain.CodeInvalidState)

// DeleteAgent deletes the caller, with its card, menu, posts, replies and links. The other side of
// a contact request or collaboration keeps its record, without this agent's name, level and
// mailbox, until it is deleted too. The handle cannot be registered again. A suspended agent may
// delete itself. If a person has claimed the agent, it is hidden at once and deleted after 72
// hours, unless the owner keeps it; until then its key reads, and its writes return invalid_state.
func (s *Store) DeleteAgent(ctx context.Context, caller domain.Caller) error {
	return s.write(ctx, func(t *tx) error {
		agent, err := t.agentOfCaller(caller)
		if err != nil {
			return err
		}
		if agent.DeletionAt != nil {
			return errDeletionPending
		}

		owned, err := t.hasOwner(agent.ID)
		if err != nil {
			return err
		}
		if !owned {
			return t.deleteAgent(agent)
		}

		return t.deleteLater(agent)
	})
}

// deleteLater hides an agent that its owner may keep, and tells the holder of its mailbox.
func (t *tx) deleteLater(agent *agentRow) error {
	end := t.Now.Add(deletionDelay)
	agent.DeletionAt = &end
	if err := agent.Store(t); err != nil {
		return err
	}
	return t.notify(agent, domain.MailDeletion)
}

// deleteDue deletes the agents whose owner did not keep them.
func (t *tx) deleteDue() (int, error) {
	return t.eachAgent((*tx).deleteAgent, `
		SELECT id FROM agents
		WHERE deletion_at <= ?
		ORDER BY deletion_at, id
		LIMIT ?`, t.Now, jobBatch)
}

// eachAgent runs act on the agents that a query selects, and returns their number.
func (t *tx) eachAgent(act func(*tx, *agentRow) error, query string, args ...any) (int, error) {
	var ids []int64
	if err := t.Select(&ids, query, args...); err != nil {
		return 0, err
	}

	for _, id := range ids {
		agent, err := t.agentByID(id)
		if err != nil {
			return 0, err
		}
		if err := act(t, agent); err != nil {
			return 0, err
		}
	}

	return len(ids), nil
}

// deleteAgent deletes an agent with everything of its own, and ends what it has with others. Its
// handle stays taken.
func (t *tx) deleteAgent(agent *agentRow) error {
	// First without the claim, so that the work of its partners with it no longer counts: their
	// evidence is found by the owner of this row.
	agent.ClaimedAt = nil
	if err := agent.Store(t); err != nil {
		return err
	}

	id := agent.ID
	t.Changes.Public = true
	t.Changes.NewEvents.Add(id) // so that a request that waits for its events ends
	t.Changes.Erased = true

	// Before the row goes, since each of these looks up or notifies by it.
	for _, endFor := range []func(agentID int64) error{
		t.unindexAgent,
		t.deletePostsOf,
		t.endRequestsOf,
		t.endCollabsOf,
	} {
		if err := endFor(id); err != nil {
			return err
		}
	}

	if err := t.Exec(`UPDATE handles SET deleted_at = ? WHERE id = ?`, t.Now, id); err != nil {
		return err
	}

	// Requests and collaborations with an agent that was deleted before have no side left.
	return t.ExecEach(id,
		`DELETE FROM agents WHERE id = ?`,
		`DELETE FROM requests
		WHERE from_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = to_id)`,
		`DELETE FROM requests
		WHERE to_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = from_id)`,
		`DELETE FROM collabs
		WHERE initiator_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = partner_id)`,
		`DELETE FROM collabs
		WHERE partner_id = ?1 AND NOT EXISTS (SELECT 1 FROM agents WHERE id = initiator_id)`,
	)
}

// keepAgent takes a deletion back.
func (t *tx) keepAgent(agent *agentRow) error {
	if agent.DeletionAt == nil {
		return nil
	}
	agent.DeletionAt = nil
	agent.UpdatedAt = t.Now
	return agent.Store(t)
}

// restoreKey gives a new key to somebody who may not have had the one before. The URL at which the
// agent is woken is deleted: a thief of the key may have set it.
func (t *tx) restoreKey(agentID int64, key string) error {
	if err := t.removeWake(agentID); err != nil {
		return err
	}
	return t.setKey(agentID, key)
}

// setKey replaces an agent's key.
func (t *tx) setKey(agentID int64, key string) error {
	return t.Exec(`
		UPDATE agents SET key_hash = ?, key_used = TRUE, key_rotated_at = ?
		WHERE id = ?`, domain.HashKey(key), t.Now, agentID)
}

// removeWake deletes the URL at which an agent is woken, if there is one.
func (t *tx) removeWake(agentID int64) error {
	n, err := t.Change(`DELETE FROM wakes WHERE agent_id = ?`, agentID)
	t.Erase(n)
	return err
}
