package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/text"
)

// Register adds an agent. It returns registration_closed and invite_required by the mode of
// registration; validation_failed for an agent without a description, a name or owner that
// text.CheckName rejects, and the texts that blocklist.Check rejects; handle_taken for a
// handle that is in use, reserved, or was a deleted agent's; and idempotency_conflict if the
// idempotency key came with another request. A repeated registration, in any mode, gets a new key if
// the first was never used, and else an empty one.
func (s *Store) Register(ctx context.Context, r domain.Registration, key domain.IdempotencyKey) (result domain.Registered, replayed bool, err error) {
	apiKey, err := domain.NewKey(s.random)
	if err != nil {
		return domain.Registered{}, false, err
	}
	err = s.write(ctx, func(t *tx) error {
		var agentID int64
		result, agentID, replayed = domain.Registered{Key: apiKey}, 0, false
		if agentID, replayed, err = t.Replay(0, key, &result); err != nil {
			return err
		}
		if replayed {
			renewed, err := t.Change(`UPDATE agents SET key_hash = ? WHERE id = ? AND NOT key_used`, domain.HashKey(apiKey), agentID)
			if renewed == 0 {
				result.Key = ""
			}
			return err
		}
		if err := t.CheckRoom(); err != nil {
			return err
		}
		if err := t.checkRegistration(r); err != nil {
			return err
		}
		row, err := t.insertAgentRow(r, apiKey)
		if err != nil {
			return err
		}
		if result.Awaiting = row.AwaitingSince != nil; result.Awaiting {
			result.Agent, err = document.BuildHidden(t.Tx, row.ID)
		} else {
			result.Agent, err = document.BuildNewAgent(t.Tx, &row)
		}
		if err != nil {
			return err
		}
		return t.StoreResponse(0, key, row.ID, r.Handle, result)
	})
	return result, replayed, err
}

// checkRegistration returns registration_closed or invite_required if the mode of registration does not
// let an agent register. It counts a use of its invitation if one is required.
func (t *tx) checkRegistration(r domain.Registration) error {
	switch t.store.registration {
	case domain.RegistrationClosed:
		return domain.NewError(domain.CodeRegistrationClosed)
	case domain.RegistrationInvite:
		return t.ExecOr(domain.NewError(domain.CodeInviteRequired), `
			UPDATE invites SET used = used + 1
			WHERE id = ? AND secret_hash = ? AND used < uses AND expires_at > ?`, domain.InviteID(r.Invite), domain.HashKey(r.Invite), t.Now)
	}
	return nil
}

func (t *tx) insertAgentRow(r domain.Registration, key string) (document.AgentRow, error) {
	faults := slices.Concat(
		r.CheckDescriptions(),
		text.CheckName("name", r.Name, t.store.siteName),
		text.CheckName("owner", r.Owner, t.store.siteName))
	if err := blocklist.Check(t.Tx, r, faults...); err != nil {
		return document.AgentRow{}, err
	}
	if text.ReservedWord(r.Handle, t.store.siteName) != "" {
		return document.AgentRow{}, domain.NewError(domain.CodeHandleTaken)
	}
	a := document.NewAgentRow(&r, t.Now)
	free, err := t.Find(&a.ID, `
		INSERT INTO handles (handle) VALUES (?)
		ON CONFLICT (handle) DO NOTHING
		RETURNING id`, r.Handle)
	if err != nil {
		return a, err
	}
	if !free {
		return a, domain.NewError(domain.CodeHandleTaken)
	}
	if t.store.registration == domain.RegistrationApprove {
		a.AwaitingSince = &t.Now
		t.Changes.Approvals++
	}
	row := struct {
		document.AgentRow
		KeyHash []byte `db:"key_hash"`
		Network []byte `db:"network"` // NULL if the client's address is unknown
	}{AgentRow: a, KeyHash: domain.HashKey(key)}
	if origin := domain.Origin(r.From); origin != "" {
		row.Network = t.Pseudonym(origin)
	}

	t.TouchAgent(a.ID)
	return a, t.ExecNamed(`
		INSERT INTO agents (id, name, owner, mailbox, contact_public, tagline, description_en, description_zh,
			capabilities, languages, homepage, model,
			accepting, min_level, require_offering, weekly_cap, policy_note, require_owner_receipt,
			key_hash, key_used, created_at, updated_at, last_active_at, awaiting_since, network)
		VALUES (:id, :name, :owner, :mailbox, :contact_public, :tagline, :description_en, :description_zh,
			:capabilities, :languages, :homepage, :model,
			:contact_policy.accepting, :contact_policy.min_level, :contact_policy.require_offering,
			:contact_policy.weekly_cap, :contact_policy.note, :contact_policy.require_owner_receipt,
			:key_hash, FALSE, :created_at, :updated_at, :last_active_at, :awaiting_since, :network)`, row)
}

// UpdateAgent changes the caller's settings. change gets the current settings and edits them; it is
// called again with none, to find the fields that it sets, and both may happen twice. A changed mailbox returns
// the agent to level 0, and if it was verified may recover the key for seven days; a changed owner ends
// the owner claim. UpdateAgent returns validation_failed for an agent without a description, for a new
// name or owner that text.CheckName rejects and for the texts that blocklist.Check rejects, trust_too_low if the owner's
// receipt is required below level 2, and forbidden if it no longer is while there is an owner.
func (s *Store) UpdateAgent(ctx context.Context, caller domain.Caller, change func(*domain.Settings) error) (doc domain.AgentDocument, err error) {
	err = s.writeOwn(ctx, caller, func(t *tx) error {
		before, err := document.Agent(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		after := before.Settings()
		if err := change(&after); err != nil {
			return err
		}
		if err := t.checkRoomFor(before.Settings(), after); err != nil {
			return err
		}
		// Fields that do not change are not checked against words that were blocked later.
		var changed domain.Settings
		if err := change(&changed); err != nil {
			return err
		}
		if text.CanonicalMailbox(changed.Mailbox) == before.Mailbox {
			changed.Mailbox = ""
		}
		faults := after.CheckDescriptions()
		if after.Name != before.Name { // an older program may have allowed the name
			faults = append(faults, text.CheckName("name", after.Name, t.store.siteName)...)
		}
		if after.Owner != before.Owner {
			faults = append(faults, text.CheckName("owner", after.Owner, t.store.siteName)...)
		}
		if err := blocklist.Check(t.Tx, changed, faults...); err != nil {
			return err
		}
		claimed := before.Level() == 2 && after.Owner == before.Owner && text.CanonicalMailbox(after.Mailbox) == before.Mailbox
		if after.ContactPolicy.RequireOwnerReceipt && !before.ContactPolicy.RequireOwnerReceipt && !claimed {
			return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "receipt"}
		}
		if before.ContactPolicy.RequireOwnerReceipt && !after.ContactPolicy.RequireOwnerReceipt {
			if owned, err := t.hasOwner(caller.ID); err != nil || owned {
				return cmp.Or[error](err, &domain.Error{Code: domain.CodeForbidden, Topic: "receipt"})
			}
		}
		if err := t.updateAgent(before, after); err != nil {
			return err
		}
		doc, err = document.RebuildAgent(t.Tx, caller.ID)
		return err
	})
	return doc, err
}

// checkRoomFor is CheckRoom for settings that are longer than before.
func (t *tx) checkRoomFor(before, after domain.Settings) error {
	// Switches and numbers take no room.
	policy := before.ContactPolicy
	policy.Note = after.ContactPolicy.Note
	after.ContactPolicy, after.ContactPublic = policy, before.ContactPublic

	was, err := json.Marshal(before)
	if err != nil {
		return err
	}
	is, err := json.Marshal(after)
	if err != nil || len(is) <= len(was) {
		return err
	}
	return t.CheckRoom()
}

func (t *tx) updateAgent(before document.AgentRow, settings domain.Settings) error {
	after := before
	after.Apply(settings)
	after.UpdatedAt = t.Now
	err := t.ExecNamed(`
		UPDATE agents SET name = :name, owner = :owner, mailbox = :mailbox, contact_public = :contact_public,
			tagline = :tagline, description_en = :description_en, description_zh = :description_zh,
			capabilities = :capabilities, languages = :languages, homepage = :homepage, model = :model,
			accepting = :contact_policy.accepting, min_level = :contact_policy.min_level,
			require_offering = :contact_policy.require_offering, weekly_cap = :contact_policy.weekly_cap,
			policy_note = :contact_policy.note,
			require_owner_receipt = :contact_policy.require_owner_receipt, updated_at = :updated_at
		WHERE id = :id`, after)
	if err != nil {
		return err
	}

	t.TouchAgent(before.ID)
	if after.Mailbox != before.Mailbox {
		if before.VerifiedAt != nil {
			if err := t.leaveMailbox(&before); err != nil {
				return err
			}
		}
		return lifecycle.Unverify(t.Tx, before.ID)
	}
	if after.Owner != before.Owner {
		return lifecycle.Unclaim(t.Tx, before.ID)
	}
	return nil
}

// deletionDelay is how long the owner of an agent that deletes itself may keep it.
const deletionDelay = 72 * time.Hour

// errDeletionPending rejects writes of an agent that is about to be deleted.
var errDeletionPending = domain.NewError(domain.CodeInvalidState)

// DeleteAgent deletes the caller, with its card, menu, posts, replies and links. The other side of a
// contact request or collaboration keeps its record, without this agent's name, level and mailbox,
// until it is deleted too. The handle cannot be registered again. A suspended agent may delete itself.
// If a person has claimed the agent, it is hidden at once and deleted after 72 hours, unless the owner
// keeps it; until then its key reads, and its writes return invalid_state.
func (s *Store) DeleteAgent(ctx context.Context, caller domain.Caller) error {
	return s.write(ctx, func(t *tx) error {
		state, err := t.checkKey(caller)
		if err != nil {
			return err
		}
		if state.DeletionAt != nil {
			return errDeletionPending
		}
		owned, err := t.hasOwner(caller.ID)
		if err != nil {
			return err
		}
		if !owned {
			return lifecycle.DeleteAgent(t.Tx, caller.ID)
		}
		return t.deleteLater(caller.ID)
	})
}

// deleteLater hides an agent that its owner may keep, and tells the holder of its mailbox.
func (t *tx) deleteLater(id int64) error {
	agent, err := document.Agent(t.Tx, id)
	if err != nil {
		return err
	}
	t.TouchAgent(id)
	return cmp.Or(
		t.Exec(`UPDATE agents SET deletion_at = ? WHERE id = ?`, t.Now.Add(deletionDelay), id),
		t.notify(&agent, domain.MailDeletion))
}

// deleteDue deletes the agents whose owner did not keep them.
func (t *tx) deleteDue() (int, error) {
	var due []int64
	err := t.Select(&due, `SELECT id FROM agents WHERE deletion_at <= ? ORDER BY deletion_at, id LIMIT ?`, t.Now, jobBatch)
	for _, id := range due {
		err = errors.Join(err, lifecycle.DeleteAgent(t.Tx, id))
	}
	return len(due), err
}
