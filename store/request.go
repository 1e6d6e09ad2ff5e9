package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
	"callbook/store/listing"
)

// SendRequest sends another agent a contact request. It returns validation_failed for a deadline
// that has passed and for a text with a blocked word, not_found for an unknown recipient, the
// errors of ContactPolicy.Allow in its order, and idempotency_conflict if the key came with
// another request.
func (s *Store) SendRequest(
	ctx context.Context,
	caller domain.Caller,
	handle string,
	draft domain.ContactRequestDraft,
	key domain.IdempotencyKey,
) (request domain.ContactRequest, replayed bool, err error) {
	err = s.writeOrReject(ctx, func(t *tx) error {
		sender, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		// A repeated request gets its first response again, before any rule is checked.
		if replayed, err = t.Replay(caller.ID, key, &request); err != nil || replayed {
			return err
		}

		if request, err = t.sendRequest(sender, handle, draft); err != nil {
			return err
		}
		return t.StoreResponse(caller.ID, key, caller.ID, request.ID, request)
	})
	return request, replayed, err
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// TryRequest is a dry run of SendRequest: it returns the same errors, and stores nothing.
func (s *Store) TryRequest(
	ctx context.Context,
	caller domain.Caller,
	handle string,
	draft domain.ContactRequestDraft,
) error {
	err := s.write(ctx, func(t *tx) error {
		sender, err := t.Authorize(caller)
		if err != nil {
			return err
		}
		if _, err := t.sendRequest(sender, handle, draft); err != nil {
			return err
		}

		return errDryRun
	})
	if errors.Is(err, errDryRun) {
		return nil
	}

	return err
}

func (t *tx) sendRequest(
	sender *agentRow,
	handle string,
	draft domain.ContactRequestDraft,
) (request domain.ContactRequest, err error) {
	if err := t.CheckRoom(); err != nil {
		return request, err
	}
	if err := t.checkBlocks(draft, t.checkDeadline(draft.Deadline)...); err != nil {
		return request, err
	}
	recipient, found, err := t.agentByHandle(handle)
	if err != nil {
		return request, err
	}
	if !found || recipient.Hidden(t.Now) {
		return request, domain.NewError(domain.CodeNotFound)
	}

	offering, attempt, err := t.contactAttempt(sender, recipient, draft)
	if err != nil {
		return request, err
	}
	if rejection := recipient.ContactPolicy.Allow(attempt); rejection != nil {
		return request, rejection
	}
	return t.insertRequest(sender, recipient, draft, offering)
}

// contactAttempt reads the facts for the recipient's policy.
func (t *tx) contactAttempt(
	sender, recipient *agentRow,
	draft domain.ContactRequestDraft,
) (offering *domain.Offering, a domain.ContactAttempt, err error) {
	offering = recipient.Offering(draft.OfferingID)
	a = domain.ContactAttempt{
		Now:           t.Now,
		Self:          sender.ID == recipient.ID,
		Level:         sender.Level(),
		OfferingGiven: draft.OfferingID != "",
		OfferingKnown: offering != nil,
		Daily:         t.store.quotas.RequestsAtAge(t.Now.Time().Sub(sender.CreatedAt.Time())),
	}

	// The plus makes SQLite search the requests of the sender, whose number the daily limit
	// bounds, and not all requests to the recipient.
	err = t.Get(&a, `
		SELECT
			EXISTS (SELECT 1 FROM blocks WHERE blocker_id = ?1 AND blocked_id = ?3) AS blocked,
			MAX(CASE WHEN r.status IN ('pending', 'awaiting_owner') THEN r.expires_at END) AS open_until,
			MAX(CASE WHEN r.status = 'declined' THEN r.decided_at END) AS declined_at,
			(
				SELECT at FROM usage
				WHERE agent_id = ?3 AND act = 'request' AND at > ?4
				ORDER BY at DESC
				LIMIT ?5 > 0 OFFSET ?5 - 1
			) AS full_at,
			(`+receivedSince+` ORDER BY at DESC LIMIT 1 OFFSET ?6 - 1) AS capped_at
		FROM requests r
		WHERE r.from_id = ?3 AND +r.to_id = ?1`,
		recipient.ID,
		t.Now.Add(-domain.Week),
		sender.ID,
		t.Now.Add(-domain.Day),
		a.Daily,
		recipient.ContactPolicy.WeeklyCap)
	if err == nil && a.OpenUntil != nil && *a.OpenUntil <= t.Now {
		err = t.expirePair(sender.ID, recipient.ID)
	}
	return offering, a, err
}

// receivedSince selects the times of the requests that count against the weekly cap of agent ?1
// since ?2. Withdrawn requests of one sender count once, reported ones and what a reported sender
// withdrew not at all.
const (
	receivedSince = `
		SELECT at FROM (
			SELECT created_at AS at FROM requests WHERE to_id = ?1 AND created_at > ?2 AND status <> 'withdrawn' AND ` + unreported + `
			UNION ALL
			SELECT MAX(created_at) FROM requests WHERE to_id = ?1 AND created_at > ?2 AND status = 'withdrawn'
				AND NOT EXISTS (SELECT 1 FROM reports WHERE about = 'request' AND of_id = requests.from_id AND reporter_id = requests.to_id)
			GROUP BY from_id)`
	unreported = `NOT EXISTS (SELECT 1 FROM reports WHERE about = 'request' AND subject = requests.id AND reporter_id = requests.to_id)`
)

const insertRequest = `
	INSERT INTO requests (id, from_id, to_id, status, purpose, deliverable, compensation, offering, deadline,
		context, created_at, updated_at, expires_at)
	VALUES (:id, :from_id, :to_id, :status, :purpose, :deliverable, :compensation, :offering, :deadline,
		:context, :created_at, :updated_at, :expires_at)`

func (t *tx) insertRequest(
	sender, recipient *agentRow,
	draft domain.ContactRequestDraft,
	offering *domain.Offering,
) (request domain.ContactRequest, err error) {
	// The policy has checked the limit.
	if err := t.Spend(sender.ID, domain.ActRequest, 0); err != nil {
		return request, err
	}
	var snapshot *string
	if offering != nil {
		b, err := json.Marshal(offering)
		if err != nil {
			return request, err
		}
		text := string(b)
		snapshot = &text
	}

	request = domain.ContactRequest{ // as SelectRequest reads it
		Status:       domain.RequestPending,
		From:         sender.Party(),
		To:           recipient.Party(),
		Purpose:      draft.Purpose,
		Deliverable:  draft.Deliverable,
		Compensation: draft.Compensation,
		Offering:     offering,
		Deadline:     domain.Optional(draft.Deadline),
		Context:      domain.Optional(draft.Context),
		CreatedAt:    t.Now,
		UpdatedAt:    t.Now,
		ExpiresAt:    t.Now.Add(domain.RequestAge),
	}
	if request.ID, err = t.NewID(domain.IDRequest); err != nil {
		return request, err
	}
	err = t.ExecNamed(insertRequest, requestRow{
		ContactRequest: request,
		FromID:         sender.ID,
		ToID:           recipient.ID,
		Snapshot:       snapshot,
	})
	if err != nil {
		return request, err
	}
	t.Changes.Public = true // the recipient's card counts it
	return request, t.InsertEvent(recipient.ID, domain.EventRequestReceived, domain.EventSubject{
		ID:     &request.ID,
		Handle: sender.Handle,
	})
}

// Request returns a request to one of its parties. For other agents it returns
// not_found.
func (s *Store) Request(
	ctx context.Context,
	caller domain.Caller,
	id string,
) (request domain.ContactRequest, err error) {
	var row requestRow
	err = orNotFound(
		s.db.Get(
			ctx,
			&row,
			selectRequest+` WHERE r.id = ?2 AND ?3 IN (r.from_id, r.to_id)`,
			s.now(),
			id,
			caller.ID,
		),
	)
	if err != nil {
		return request, err
	}
	return row.Record()
}

// RequestFilter selects the caller's requests.
type RequestFilter struct {
	Sent   bool   // those it sent; else those it received
	Status string // empty for all
}

// Requests lists the caller's requests, newest first.
func (s *Store) Requests(
	ctx context.Context,
	caller domain.Caller,
	f RequestFilter,
	page listing.Page,
) (list listing.List[domain.ContactRequest], err error) {
	side := "to_id"
	if f.Sent {
		side = "from_id"
	}

	// ?1 is the time, ?2 the place in the list, ?3 the caller, ?4 the status.
	const current = `(?4 = '' OR ?4 = ` + statusNow + `)`
	rows, err := listing.Read[requestRow](ctx, s.db, &listing.Query{
		Name:   fmt.Sprintf("requests %d %s %s", caller.ID, side, f.Status),
		Before: []any{s.now()},
		Rows:   selectRequest + ` WHERE r.seq < ?2 AND r.` + side + ` = ?3 AND ` + current + ` ORDER BY r.seq DESC LIMIT ?5 OFFSET ?6`,
		Count:  `SELECT COUNT(*) AS n FROM (SELECT 1 FROM requests r WHERE r.` + side + ` = ?2 AND (?3 = '' OR ?3 = ` + statusNow + `) LIMIT ?4)`,
		Bounds: []any{caller.ID, f.Status},
	}, page)
	if err != nil {
		return list, err
	}

	return listing.Map(rows, (*requestRow).Record)
}

// ActOnRequest accepts, declines or reports a request to the caller, or withdraws one that the
// caller sent. The reason is that of a decline or a report.
//
// When a request is accepted, both mailboxes are exchanged as they are then or, if the caller's
// policy requires the owner's receipt, when the owner agrees; without two verified mailboxes at
// that moment it is invalid_state. A report goes to the operator in any state and blocks the
// sender for the caller; an open request is declined, which is all that the sender sees.
//
// ActOnRequest returns the same when the same party repeats the act. It returns not_found for an
// agent that is no party, forbidden for the other party, and invalid_state if the state of the
// request does not allow the act.
func (s *Store) ActOnRequest(
	ctx context.Context,
	caller domain.Caller,
	id string,
	act domain.RequestAction,
	reason string,
) (request domain.ContactRequest, err error) {
	err = s.writeOrReject(ctx, func(t *tx) error {
		agent, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		request, err = t.actOnRequest(agent, id, act, reason)
		return err
	})

	return request, err
}
