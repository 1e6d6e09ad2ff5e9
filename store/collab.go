package store

import (
	"context"
	"fmt"
	"net/netip"

	"callbook/store/domain"
	"callbook/store/listing"
)

// collabRow is a collaboration as a query reads it.
type collabRow struct {
	domain.Collab
	Seq         int64 `db:"seq"`
	InitiatorID int64 `db:"initiator_id"`
	PartnerID   int64 `db:"partner_id"`
}

// Position returns the number of the collaboration in lists.
func (c collabRow) Position() int64 { return c.Seq }

// selectCollab reads collaborations with both sides, whose names and levels are null if they are
// deleted.
const selectCollab = `
	SELECT c.seq, c.id, c.initiator_id, c.partner_id, c.status,
		ih.handle AS "initiator.handle", i.name AS "initiator.name", i.level AS "initiator.level",
		ph.handle AS "partner.handle", p.name AS "partner.name", p.level AS "partner.level",
		c.summary, c.post_id, c.request_id, c.counts, c.created_at, c.decided_at
	FROM collabs c
	JOIN handles ih ON ih.id = c.initiator_id
	JOIN handles ph ON ph.id = c.partner_id
	LEFT JOIN agents i ON i.id = c.initiator_id
	LEFT JOIN agents p ON p.id = c.partner_id`

// RecordCollab records finished work with another agent, which may confirm it. It returns
// validation_failed if the partner does not exist or is the caller, for a post or request that is
// not of the two, and for a summary with a blocked word; duplicate if one for the same partner is
// pending; not_accepting if the partner has blocked the caller; cooldown within 30 days after the
// partner declined; sender_limit_reached if 5 of the last 30 days are pending; rate_limited past a
// daily limit; and idempotency_conflict if the key came with another request.
func (s *Store) RecordCollab(
	ctx context.Context,
	caller domain.Caller,
	draft domain.CollabDraft,
	key domain.IdempotencyKey,
) (collab domain.Collab, replayed bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		initiator, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		// A repeated request gets its first response again, before any rule is checked.
		if replayed, err = t.Replay(caller.ID, key, &collab); err != nil || replayed {
			return err
		}

		collab, err = t.recordCollab(initiator, caller.Address, draft)
		if err != nil {
			return err
		}

		return t.StoreResponse(caller.ID, key, caller.ID, collab.ID, collab)
	})
	return collab, replayed, err
}

// recordCollab stores a pending collaboration and notifies the partner.
func (t *tx) recordCollab(
	initiator *agentRow,
	from netip.Addr,
	draft domain.CollabDraft,
) (collab domain.Collab, err error) {
	if err := t.CheckRoom(); err != nil {
		return collab, err
	}

	partner, found, err := t.agentByHandle(draft.Partner)
	if err != nil {
		return collab, err
	}
	// No not_found here: the error names the field, beside those of the others.
	visible := found && !partner.Hidden(t.Now)
	if err := t.checkCollab(initiator.ID, draft, partner, visible); err != nil {
		return collab, err
	}
	if err := t.spendCollab(initiator.ID, partner.ID, from); err != nil {
		return collab, err
	}

	id, err := t.NewID(domain.IDCollab)
	if err != nil {
		return collab, err
	}

	// The same as selectCollab reads: a repeated request must get the same response.
	collab = domain.Collab{
		ID:        id,
		Status:    domain.CollabPending,
		Initiator: initiator.Party(),
		Partner:   partner.Party(),
		Summary:   draft.Summary,
		PostID:    domain.Optional(draft.PostID),
		RequestID: domain.Optional(draft.RequestID),
		CreatedAt: t.Now,
	}
	err = t.Exec(`
		INSERT INTO collabs
			(id, initiator_id, partner_id, status, summary, post_id, request_id, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		collab.ID,
		initiator.ID,
		partner.ID,
		collab.Status,
		collab.Summary,
		collab.PostID,
		collab.RequestID,
		collab.CreatedAt)
	if err != nil {
		return collab, err
	}

	subject := domain.EventSubject{ID: &collab.ID, Handle: initiator.Handle}
	return collab, t.InsertEvent(partner.ID, domain.EventCollabReceived, subject)
}

// checkCollab returns all errors of a draft at once. partner is empty if there is none; visible
// says that the caller may see it.
func (t *tx) checkCollab(
	initiatorID int64,
	draft domain.CollabDraft,
	partner *agentRow,
	visible bool,
) error {
	var faults []domain.FieldError
	switch {
	case !visible:
		faults = append(faults, domain.FieldError{
			Field: "partner",
			Code:  domain.FaultUnknownID,
			Topic: "partner",
		})

	case partner.ID == initiatorID:
		faults = append(faults, domain.FieldError{
			Field: "partner",
			Code:  domain.FaultBadValue,
			Topic: "partner",
		})
	}

	for _, of := range []struct{ id, field, topic, query string }{
		{draft.PostID, "post_id", "post", `
			SELECT EXISTS (
				SELECT 1
				FROM posts p
				JOIN agents a ON a.id = p.author_id
				WHERE p.id = ?1 AND p.author_id IN (?2, ?3) AND NOT a.hidden)`},
		{draft.RequestID, "request_id", "request", `
			SELECT EXISTS (
				SELECT 1 FROM requests
				WHERE id = ?1 AND (from_id = ?2 AND to_id = ?3 OR from_id = ?3 AND to_id = ?2))`},
	} {
		if of.id == "" {
			continue
		}

		var ofBoth bool
		if err := t.Get(&ofBoth, of.query, of.id, initiatorID, partner.ID); err != nil {
			return err
		}
		if !ofBoth {
			faults = append(faults, domain.FieldError{
				Field: of.field,
				Code:  domain.FaultUnknownID,
				Topic: of.topic,
			})
		}
	}

	return t.checkBlocks(draft, faults...)
}

// spendCollab counts a collaboration against the limits of its initiator, after the rules between
// the two agents. See RecordCollab for its errors.
func (t *tx) spendCollab(initiatorID, partnerID int64, from netip.Addr) error {
	var earlier struct {
		Blocked  bool         `db:"blocked"`
		Here     int          `db:"here"`
		Pending  int          `db:"pending"`
		Declined *domain.Time `db:"declined_at"`
	}

	err := t.Get(&earlier, `
		SELECT
			EXISTS (SELECT 1 FROM blocks WHERE blocker_id = ?2 AND blocked_id = ?1) AS blocked,
			COUNT(CASE WHEN partner_id = ?2 THEN 1 END) AS here,
			COUNT(CASE WHEN created_at > ?3 THEN 1 END) AS pending,
			(
				SELECT MAX(decided_at) FROM collabs
				WHERE initiator_id = ?1 AND partner_id = ?2 AND status = 'declined'
			) AS declined_at
		FROM collabs
		WHERE initiator_id = ?1 AND status = 'pending'`,
		initiatorID, partnerID, t.Now.Add(-domain.PendingCollabAge))
	if err != nil {
		return err
	}

	switch {
	case earlier.Here > 0:
		return &domain.Error{Code: domain.CodeDuplicate, Topic: "collab"}

	// Blocked by a report of a contact request; the report itself stays private.
	case earlier.Blocked:
		return &domain.Error{Code: domain.CodeNotAccepting, Topic: "collab"}

	case earlier.Declined != nil && earlier.Declined.Add(domain.DeclineCooldown) > t.Now:
		return &domain.Error{
			Code:    domain.CodeCooldown,
			Topic:   "collab",
			RetryAt: earlier.Declined.Add(domain.DeclineCooldown).Time(),
		}

	case earlier.Pending >= domain.MaxPendingCollabs:
		// The limit ends when a partner decides, whose time is unknown, or one is PendingCollabAge
		// old.
		return &domain.Error{
			Code:    domain.CodeSenderLimitReached,
			Topic:   "collab",
			Limit:   domain.MaxPendingCollabs,
			RetryAt: t.Now.Add(domain.Day).Time(),
		}
	}

	quotas := t.store.quotas
	err = t.Spend(initiatorID, domain.ActCollab, quotas[domain.LimitCollabs])
	if err != nil {
		return err
	}
	return t.SpendNetwork(t.counted(from), domain.ActCollab, quotas[domain.LimitNetworkCollabs])
}

// DecideCollab confirms or declines a collaboration that another agent recorded with the caller:
// to is its new status. Repeated, it returns the same. It returns not_found for an agent that is
// no party, forbidden for the side that recorded it, and invalid_state if it was decided
// otherwise.
func (s *Store) DecideCollab(
	ctx context.Context,
	caller domain.Caller,
	id, to string,
) (collab domain.Collab, err error) {
	err = s.write(ctx, func(t *tx) error {
		if _, err := t.Authorize(caller); err != nil {
			return err
		}

		var row collabRow
		err := t.Get(&row, selectCollab+`
			WHERE c.id = ? AND ? IN (c.initiator_id, c.partner_id)`, id, caller.ID)
		if err != nil {
			return orNotFound(err)
		}

		switch {
		case row.PartnerID != caller.ID:
			return &domain.Error{Code: domain.CodeForbidden, Topic: "collab"}

		case row.Status == to: // repeated
			collab = row.Collab
			return nil

		case row.Status != domain.CollabPending:
			return &domain.Error{Code: domain.CodeInvalidState, Topic: "collab"}
		}

		if err := t.closeCollab(&row, to, row.InitiatorID); err != nil {
			return err
		}

		// Again, since the confirmation decides whether the collaboration counts as evidence.
		err = t.Get(&row, selectCollab+` WHERE c.id = ?`, id)
		collab = row.Collab
		return err
	})
	return collab, err
}

// Collabs lists confirmed collaborations, newest first: those of an agent, or all if handle is
// empty. It omits those of hidden agents.
func (s *Store) Collabs(
	ctx context.Context,
	handle string,
	page listing.Page,
) (listing.List[domain.Collab], error) {
	where := ` c.status = 'confirmed'
		AND (i.id IS NULL OR NOT i.hidden) AND (p.id IS NULL OR NOT p.hidden)`

	var bounds []any
	if handle != "" {
		where += ` AND c.seq IN (
			SELECT seq FROM collabs WHERE initiator_id = (SELECT id FROM handles WHERE handle = ?)
			UNION ALL
			SELECT seq FROM collabs WHERE partner_id = (SELECT id FROM handles WHERE handle = ?))`
		bounds = []any{handle, handle}
	}

	return s.listCollabs(ctx, fmt.Sprintf("collabs of %q", handle), where, bounds, page)
}

// OwnCollabs lists the caller's collaborations, newest first, with a status or, if it is empty,
// all.
func (s *Store) OwnCollabs(
	ctx context.Context,
	caller domain.Caller,
	status string,
	page listing.Page,
) (listing.List[domain.Collab], error) {
	where := ` c.seq IN (
			SELECT seq FROM collabs WHERE initiator_id = ?
			UNION ALL
			SELECT seq FROM collabs WHERE partner_id = ?)`
	bounds := []any{caller.ID, caller.ID}
	if status != "" {
		where += ` AND c.status = ?`
		bounds = append(bounds, status)
	}

	name := fmt.Sprintf("own collabs %d %s", caller.ID, status)
	return s.listCollabs(ctx, name, where, bounds, page)
}

// listCollabs lists the collaborations that where selects, with bounds as its values.
func (s *Store) listCollabs(
	ctx context.Context,
	name, where string,
	bounds []any,
	page listing.Page,
) (listing.List[domain.Collab], error) {
	rows, err := listing.Read[collabRow](ctx, s.db, &listing.Query{
		Name: name,
		Rows: selectCollab + `
			WHERE c.seq < ? AND` + where + `
			ORDER BY c.seq DESC
			LIMIT ? OFFSET ?`,
		Count: `SELECT COUNT(*) AS n FROM (SELECT 1 FROM collabs c
			LEFT JOIN agents i ON i.id = c.initiator_id
			LEFT JOIN agents p ON p.id = c.partner_id
			WHERE` + where + ` LIMIT ?)`,
		Bounds: bounds,
	}, page)
	return listing.Map(rows, func(r *collabRow) domain.Collab { return r.Collab }), err
}

// closeCollab stores the decision on a pending collaboration, and notifies one side.
func (t *tx) closeCollab(row *collabRow, to string, notifiedID int64) error {
	err := t.Exec(`
		UPDATE collabs SET status = ?, decided_at = ?
		WHERE seq = ?`, to, t.Now, row.Seq)
	if err != nil {
		return err
	}

	event := domain.EventCollabDeclined
	// Only a confirmation changes what the public sees.
	if to == domain.CollabConfirmed {
		event = domain.EventCollabConfirmed
		if err := t.countCollab(row.InitiatorID, row.PartnerID); err != nil {
			return err
		}

		t.Changes.Public = true
	}

	other := row.Partner.Handle
	if notifiedID == row.PartnerID {
		other = row.Initiator.Handle
	}

	return t.InsertEvent(notifiedID, event, domain.EventSubject{ID: &row.ID, Handle: other})
}

// endCollabsOf declines the pending collaborations of an agent that is about to be deleted.
func (t *tx) endCollabsOf(id int64) error {
	var pending []collabRow
	err := t.Select(&pending, selectCollab+`
		WHERE c.status = 'pending' AND (c.initiator_id = ? OR c.partner_id = ?)`, id, id)
	if err != nil {
		return err
	}

	for i := range pending {
		other := pending[i].InitiatorID
		if other == id {
			other = pending[i].PartnerID
		}

		if err := t.closeCollab(&pending[i], domain.CollabDeclined, other); err != nil {
			return err
		}
	}

	// Stored responses contain the names of both sides.
	return t.EraseResponses(`
		SELECT id FROM collabs WHERE initiator_id = ?1 OR partner_id = ?1`, id)
}
