package store

import (
	"context"
	"errors"
	"fmt"

	"callbook/store/domain"
	"callbook/store/listing"
)

// requestRow is a contact request as a query reads it.
type requestRow struct {
	domain.ContactRequest
	Seq         int64   `db:"seq"`
	FromID      int64   `db:"from_id"`
	ToID        int64   `db:"to_id"`
	FromMailbox *string `db:"from_mailbox"`
	ToMailbox   *string `db:"to_mailbox"`
}

// The state of a request at ?1, even if it is not stored yet.
const (
	isOpen    = `r.status IN ('` + domain.RequestPending + `', '` + domain.RequestAwaiting + `')`
	overdue   = isOpen + ` AND r.expires_at <= ?1`
	statusNow = `CASE WHEN ` + overdue + ` THEN '` + domain.RequestExpired + `' ELSE r.status END`
)

// selectRequest reads requests as they are at ?1: expired past their time, even if that is not
// stored yet. Nothing else reads exchanged mailboxes.
const selectRequest = `
	SELECT r.seq, r.id, r.from_id, r.to_id,
		` + statusNow + ` AS status,
		f.handle AS "from.handle", fa.name AS "from.name", fa.level AS "from.level",
		o.handle AS "to.handle", oa.name AS "to.name", oa.level AS "to.level",
		r.purpose, r.deliverable, r.compensation, r.offering, r.deadline, r.context,
		r.decline_reason, r.from_mailbox, r.to_mailbox, r.created_at,
		CASE WHEN ` + overdue + ` THEN r.expires_at ELSE r.updated_at END AS updated_at,
		r.expires_at,
		CASE WHEN ` + overdue + ` THEN r.expires_at ELSE r.decided_at END AS decided_at
	FROM requests r
	JOIN handles f ON f.id = r.from_id
	JOIN handles o ON o.id = r.to_id
	LEFT JOIN agents fa ON fa.id = r.from_id
	LEFT JOIN agents oa ON oa.id = r.to_id`

// Position returns the place of the request in lists.
func (r requestRow) Position() int64 { return r.Seq }

// Record returns the request as its parties see it.
func (r *requestRow) Record() domain.ContactRequest {
	record := r.ContactRequest
	if r.Status == domain.RequestAccepted {
		record.Mailboxes = &domain.Mailboxes{From: r.FromMailbox, To: r.ToMailbox}
	}
	return record
}

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

		request, err = t.sendRequest(sender, handle, draft)
		if err != nil {
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

// sendRequest stores a request if its texts and the recipient's policy allow it.
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

	recipient, err := t.visibleAgent(handle)
	if err != nil {
		return request, err
	}

	attempt, err := t.contactAttempt(sender, recipient)
	if err != nil {
		return request, err
	}
	offering := recipient.Offering(draft.OfferingID)
	attempt.OfferingGiven = draft.OfferingID != ""
	attempt.OfferingKnown = offering != nil

	if rejection := recipient.ContactPolicy.Allow(attempt); rejection != nil {
		return request, rejection
	}
	return t.insertRequest(sender, recipient, draft, offering)
}

// contactAttempt reads the facts on which the recipient's policy decides, but those of the draft.
// It stores that an earlier request to the same recipient has expired.
func (t *tx) contactAttempt(sender, recipient *agentRow) (a domain.ContactAttempt, err error) {
	age := t.Now.Time().Sub(sender.CreatedAt.Time())
	a = domain.ContactAttempt{
		Now:   t.Now,
		Self:  sender.ID == recipient.ID,
		Level: sender.Level(),
		Daily: t.store.quotas.RequestsAtAge(age),
	}

	// The plus makes SQLite search the requests of the sender, whose number the daily limit
	// bounds, and not all requests to the recipient.
	err = t.Get(&a, `
		SELECT
			EXISTS (SELECT 1 FROM blocks WHERE blocker_id = ?1 AND blocked_id = ?3) AS blocked,
			MAX(CASE WHEN `+isOpen+` THEN r.expires_at END) AS open_until,
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
	if err != nil {
		return a, err
	}

	// The job that expires requests may not have run yet. A pair has one open request at most.
	if a.OpenUntil != nil && *a.OpenUntil <= t.Now {
		_, err = t.expireRequests(` AND r.from_id = ?2 AND r.to_id = ?3`, sender.ID, recipient.ID)
	}
	return a, err
}

// receivedSince selects the times of the requests that count against the weekly cap of agent ?1
// since ?2. Withdrawn requests of one sender count once, reported ones and what a reported sender
// withdrew not at all.
const (
	receivedSince = `
		SELECT at FROM (
			SELECT created_at AS at
			FROM requests
			WHERE to_id = ?1 AND created_at > ?2 AND status <> 'withdrawn' AND ` + unreported + `
			UNION ALL
			SELECT MAX(created_at)
			FROM requests
			WHERE to_id = ?1 AND created_at > ?2 AND status = 'withdrawn' AND NOT EXISTS (
				SELECT 1 FROM reports
				WHERE about = 'request' AND of_id = requests.from_id AND reporter_id = requests.to_id)
			GROUP BY from_id)`
	unreported = `NOT EXISTS (
				SELECT 1 FROM reports
				WHERE about = 'request' AND subject = requests.id AND reporter_id = requests.to_id)`
)

const insertRequest = `
	INSERT INTO requests (id, from_id, to_id, status, purpose, deliverable, compensation, offering,
		deadline, context, created_at, updated_at, expires_at)
	VALUES (:id, :from_id, :to_id, :status, :purpose, :deliverable, :compensation, :offering,
		:deadline, :context, :created_at, :updated_at, :expires_at)`

// insertRequest stores a request that the recipient's policy allows, and notifies the recipient.
func (t *tx) insertRequest(
	sender, recipient *agentRow,
	draft domain.ContactRequestDraft,
	offering *domain.Offering,
) (request domain.ContactRequest, err error) {
	// No limit here: the policy has checked it, in its documented place among the other rules.
	if err := t.Spend(sender.ID, domain.ActRequest, 0); err != nil {
		return request, err
	}

	id, err := t.NewID(domain.IDRequest)
	if err != nil {
		return request, err
	}

	// The same as selectRequest reads: a repeated request must get the same response.
	request = domain.ContactRequest{
		ID:           id,
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
	row := requestRow{ContactRequest: request, FromID: sender.ID, ToID: recipient.ID}
	if err := t.ExecNamed(insertRequest, row); err != nil {
		return request, err
	}

	t.Changes.Public = true // the recipient's card counts it
	subject := domain.EventSubject{ID: &request.ID, Handle: sender.Handle}
	return request, t.InsertEvent(recipient.ID, domain.EventRequestReceived, subject)
}

// Request returns a request to one of its parties. For other agents it returns not_found.
func (s *Store) Request(
	ctx context.Context,
	caller domain.Caller,
	id string,
) (request domain.ContactRequest, err error) {
	const query = selectRequest + ` WHERE r.id = ?2 AND ?3 IN (r.from_id, r.to_id)`

	var row requestRow
	if err := s.db.Get(ctx, &row, query, s.now(), id, caller.ID); err != nil {
		return request, orNotFound(err)
	}
	return row.Record(), nil
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

	// ?1 is the time. Rows have the place in the list as ?2, so that Count has other numbers.
	rows, err := listing.Read[requestRow](ctx, s.db, &listing.Query{
		Name:   fmt.Sprintf("requests %d %s %s", caller.ID, side, f.Status),
		Before: []any{s.now()},
		Rows: selectRequest + `
			WHERE r.seq < ?2 AND r.` + side + ` = ?3 AND (?4 = '' OR ?4 = ` + statusNow + `)
			ORDER BY r.seq DESC
			LIMIT ?5 OFFSET ?6`,
		Count: `
			SELECT COUNT(*) AS n FROM (
				SELECT 1 FROM requests r
				WHERE r.` + side + ` = ?2 AND (?3 = '' OR ?3 = ` + statusNow + `)
				LIMIT ?4)`,
		Bounds: []any{caller.ID, f.Status},
	}, page)
	return listing.Map(rows, (*requestRow).Record), err
}
