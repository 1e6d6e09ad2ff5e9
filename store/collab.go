package store

import (
	"context"

	"callbook/store/blocklist"
	"callbook/store/domain"
	"callbook/store/lifecycle"
	"callbook/store/query"
	"callbook/store/record"
)

// RecordCollab records finished work with another agent, which may confirm it. It returns
// validation_failed if the partner does not exist or is the caller, for a post or request that is not of
// the two, and for a summary with a blocked word; duplicate if one for the same partner is pending;
// not_accepting if the partner has blocked the caller; cooldown within 30 days after the partner
// declined; sender_limit_reached if 5 of the last 30 days are pending; rate_limited past a daily limit; and
// idempotency_conflict if the key came with another request.
func (s *Store) RecordCollab(ctx context.Context, caller domain.Caller, draft domain.CollabDraft, key domain.IdempotencyKey) (collab domain.Collab, replayed bool, err error) {
	return createOnce(ctx, s.writeAs, caller, key, func(t *tx) (domain.Collab, error) { return t.recordCollab(caller, draft) })
}

func (t *tx) recordCollab(caller domain.Caller, draft domain.CollabDraft) (collab domain.Collab, err error) {
	partner, found, err := record.FindAgent(t.Tx, draft.Partner)
	if err != nil {
		return collab, err
	}
	if err := t.checkCollab(caller, draft, partner, found && !partner.Hidden(t.Now)); err != nil {
		return collab, err
	}
	if err := t.spendCollab(caller, partner.ID); err != nil {
		return collab, err
	}
	id, err := t.NewID(domain.IDCollab)
	if err != nil {
		return collab, err
	}
	err = t.Exec(`
		INSERT INTO collabs (id, initiator_id, partner_id, status, summary, post_id, request_id, created_at)
		VALUES (?, ?, ?, 'pending', ?, ?, ?, ?)`,
		id, caller.ID, partner.ID, draft.Summary, domain.Optional(draft.PostID), domain.Optional(draft.RequestID), t.Now)
	if err != nil {
		return collab, err
	}
	if err := t.InsertEvent(partner.ID, "collab.received", domain.EventSubject{ID: &id, Handle: caller.Handle}); err != nil {
		return collab, err
	}
	return t.collab(id)
}

// checkCollab validates the fields of a draft.
func (t *tx) checkCollab(caller domain.Caller, draft domain.CollabDraft, partner *record.AgentRow, found bool) error {
	var errs []domain.FieldError
	switch {
	case !found:
		errs = append(errs, domain.FieldError{Field: "partner", Code: domain.FaultUnknownID, Topic: "partner"})
	case partner.ID == caller.ID:
		errs = append(errs, domain.FieldError{Field: "partner", Code: domain.FaultBadValue, Topic: "partner"})
	}
	var n int
	for _, of := range []struct{ id, field, topic, query string }{
		{draft.PostID, "post_id", "post", `
			SELECT COUNT(*)
			FROM posts p
			JOIN agents a ON a.id = p.author_id
			WHERE p.id = ?1 AND p.author_id IN (?2, ?3) AND NOT a.hidden`},
		{draft.RequestID, "request_id", "request", `
			SELECT COUNT(*) FROM requests
			WHERE id = ?1 AND (from_id = ?2 AND to_id = ?3 OR from_id = ?3 AND to_id = ?2)`},
	} {
		if of.id == "" {
			continue
		}
		if err := t.Get(&n, of.query, of.id, caller.ID, partner.ID); err != nil {
			return err
		}
		if n == 0 {
			errs = append(errs, domain.FieldError{Field: of.field, Code: domain.FaultUnknownID, Topic: of.topic})
		}
	}
	return blocklist.Check(t.Tx, draft, errs...)
}

func (t *tx) spendCollab(caller domain.Caller, partner int64) error {
	initiator := caller.ID
	blocked, err := t.blocked(partner, initiator)
	if err != nil {
		return err
	}
	var pending struct {
		Here int `db:"here"`
		All  int `db:"everywhere"`
	}
	err = t.Get(&pending, `
		SELECT COUNT(CASE WHEN partner_id = ? THEN 1 END) AS here, COUNT(CASE WHEN created_at > ? THEN 1 END) AS everywhere
		FROM collabs
		WHERE initiator_id = ? AND status = 'pending'`, partner, t.Now.Add(-domain.PendingCollabAge), initiator)
	if err != nil {
		return err
	}
	var declined *domain.Time
	err = t.Get(&declined, `
		SELECT MAX(decided_at) FROM collabs
		WHERE initiator_id = ? AND partner_id = ? AND status = 'declined'`, initiator, partner)
	switch {
	case err != nil:
		return err
	case pending.Here > 0:
		return &domain.Error{Code: domain.CodeDuplicate, Topic: "collab"}
	case blocked:
		return &domain.Error{Code: domain.CodeNotAccepting, Topic: "collab"}
	case declined != nil && declined.Add(domain.DeclineCooldown) > t.Now:
		return &domain.Error{Code: domain.CodeCooldown, Topic: "collab", RetryAt: declined.Add(domain.DeclineCooldown).Time()}
	case pending.All >= domain.MaxPendingCollabs:
		// The limit ends when a partner decides, whose time is unknown, or one is PendingCollabAge old.
		return &domain.Error{Code: domain.CodeSenderLimitReached, Topic: "collab", Limit: domain.MaxPendingCollabs, RetryAt: t.Now.Add(domain.Day).Time()}
	}
	if err := t.Spend(initiator, domain.ActCollab, t.store.quotas[domain.LimitCollabs]); err != nil {
		return err
	}
	return t.SpendNetwork(t.counted(caller.Address), domain.ActCollab, t.store.quotas[domain.LimitNetworkCollabs])
}

func (t *tx) collab(id string) (domain.Collab, error) {
	var row query.CollabRow
	err := t.Get(&row, query.SelectCollab+` WHERE c.id = ?`, id)
	return row.Collab, err
}

// DecideCollab confirms or declines a collaboration that another agent recorded with the caller: to is
// its new status. Repeated, it returns the same. It returns not_found for an agent that is no party,
// forbidden for the side that recorded it, and invalid_state if it was decided otherwise.
func (s *Store) DecideCollab(ctx context.Context, caller domain.Caller, id, to string) (collab domain.Collab, err error) {
	err = s.writeAs(ctx, caller, func(t *tx) error {
		var row query.CollabRow
		found, err := t.Find(&row, query.SelectCollab+` WHERE c.id = ? AND ? IN (c.initiator_id, c.partner_id)`, id, caller.ID)
		switch {
		case err != nil:
			return err
		case !found:
			return domain.NewError(domain.CodeNotFound)
		case row.PartnerID != caller.ID:
			return &domain.Error{Code: domain.CodeForbidden, Topic: "collab"}
		case row.Status == to:
			collab = row.Collab
			return nil
		case row.Status != domain.CollabPending:
			return &domain.Error{Code: domain.CodeInvalidState, Topic: "collab"}
		}
		if err := lifecycle.CloseCollab(t.Tx, &row, to, row.InitiatorID); err != nil {
			return err
		}
		collab, err = t.collab(id)
		return err
	})
	return collab, err
}
