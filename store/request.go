package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/txn"
)

// requestRow is a contact request as a query reads it.
type requestRow struct {
	domain.ContactRequest
	Seq         int64   `db:"seq"`
	FromID      int64   `db:"from_id"`
	ToID        int64   `db:"to_id"`
	Snapshot    *string `db:"offering"` // JSON
	FromMailbox *string `db:"from_mailbox"`
	ToMailbox   *string `db:"to_mailbox"`
}

// The state of a request at ?1, even if it is not stored yet.
const (
	overdue   = `r.status IN ('pending', 'awaiting_owner') AND r.expires_at <= ?1`
	statusNow = `CASE WHEN ` + overdue + ` THEN 'expired' ELSE r.status END`
)

// selectRequest reads requests as they are at ?1: expired past their time, even if that is not stored
// yet. Nothing else reads exchanged mailboxes.
var selectRequest = `
	SELECT r.seq, r.id, r.from_id, r.to_id,
		` + statusNow + ` AS status,
		f.handle AS "from.handle", fa.name AS "from.name", ` + document.SelectLevel("fa") + ` AS "from.level",
		o.handle AS "to.handle", oa.name AS "to.name", ` + document.SelectLevel("oa") + ` AS "to.level",
		r.purpose, r.deliverable, r.compensation, r.offering, r.deadline, r.context, r.decline_reason,
		r.from_mailbox, r.to_mailbox, r.created_at,
		CASE WHEN ` + overdue + ` THEN r.expires_at ELSE r.updated_at END AS updated_at,
		r.expires_at,
		CASE WHEN ` + overdue + ` THEN r.expires_at ELSE r.decided_at END AS decided_at
	FROM requests r
	JOIN handles f ON f.id = r.from_id
	JOIN handles o ON o.id = r.to_id
	LEFT JOIN agents fa ON fa.id = r.from_id
	LEFT JOIN agents oa ON oa.id = r.to_id`

// record returns the request as its parties see it.
func (r *requestRow) record() (domain.ContactRequest, error) {
	record := r.ContactRequest
	if r.Status == domain.RequestAccepted {
		record.Mailboxes = &domain.Mailboxes{From: r.FromMailbox, To: r.ToMailbox}
	}
	if r.Snapshot == nil {
		return record, nil
	}
	if err := json.Unmarshal([]byte(*r.Snapshot), &record.Offering); err != nil {
		return record, fmt.Errorf("read the offering of a request: %w", err)
	}
	return record, nil
}

// roleOf returns an agent's role; false if it is no party.
func (r *requestRow) roleOf(agentID int64) (domain.Role, bool) {
	switch agentID {
	case r.FromID:
		return domain.RoleSender, true
	case r.ToID:
		return domain.RoleRecipient, true
	}
	return 0, false
}

// SendRequest sends another agent a contact request. It returns validation_failed for a deadline that
// has passed and for a text with a blocked word, not_found for an unknown recipient, the errors of
// ContactPolicy.Allow in its order, and idempotency_conflict if the key came with another request.
func (s *Store) SendRequest(ctx context.Context, caller domain.Caller, handle string, draft domain.ContactRequestDraft, key domain.IdempotencyKey) (request domain.ContactRequest, replayed bool, err error) {
	return createOnce(ctx, s.writeOrRejectAs, caller, key, func(t *tx) (domain.ContactRequest, error) { return t.sendRequest(caller, handle, draft) })
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("tried only")

// TryRequest is a dry run of SendRequest: it returns the same errors, and stores nothing.
func (s *Store) TryRequest(ctx context.Context, caller domain.Caller, handle string, draft domain.ContactRequestDraft) error {
	err := s.writeAs(ctx, caller, func(t *tx) error {
		_, err := t.sendRequest(caller, handle, draft)
		return cmp.Or(err, errDryRun)
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

func (t *tx) sendRequest(caller domain.Caller, handle string, draft domain.ContactRequestDraft) (domain.ContactRequest, error) {
	sender, err := document.Agent(t.Tx, caller.ID)
	if err != nil {
		return domain.ContactRequest{}, err
	}
	if err := blocklist.Check(t.Tx, draft, t.checkDeadline(draft.Deadline)...); err != nil {
		return domain.ContactRequest{}, err
	}
	recipient, found, err := document.FindAgent(t.Tx, handle)
	if err != nil {
		return domain.ContactRequest{}, err
	}
	if !found || recipient.Hidden(t.Now) {
		return domain.ContactRequest{}, domain.NewError(domain.CodeNotFound)
	}
	offering, attempt, err := t.contactAttempt(&sender, &recipient, draft)
	if err != nil {
		return domain.ContactRequest{}, err
	}
	if rejection := recipient.ContactPolicy.Allow(attempt); rejection != nil {
		return domain.ContactRequest{}, rejection
	}
	return t.insertRequest(&sender, &recipient, draft, offering)
}

// contactAttempt reads what the recipient's policy depends on.
func (t *tx) contactAttempt(sender, recipient *document.AgentRow, draft domain.ContactRequestDraft) (offering *domain.Offering, a domain.ContactAttempt, err error) {
	a = domain.ContactAttempt{
		Now: t.Now, Self: sender.ID == recipient.ID, Level: sender.Level(), OfferingGiven: draft.OfferingID != "",
		Daily: t.store.quotas.RequestsAtAge(t.Now.Time().Sub(sender.CreatedAt.Time())),
	}
	if a.Blocked, err = t.blocked(recipient.ID, sender.ID); err != nil {
		return nil, a, err
	}
	if offering, err = t.offering(recipient.ID, draft.OfferingID); err != nil {
		return nil, a, err
	}
	a.OfferingKnown = offering != nil
	var pair struct {
		Open     bool         `db:"open"`
		Overdue  bool         `db:"overdue"`
		Declined *domain.Time `db:"declined"`
	}
	// The plus makes SQLite search the requests of the sender, whose number the daily limit
	// bounds, and not all requests to the recipient.
	err = t.Get(&pair, `
		SELECT COALESCE(MAX(r.status IN ('pending', 'awaiting_owner') AND r.expires_at > ?1), 0) AS open,
			COALESCE(MAX(`+overdue+`), 0) AS overdue,
			MAX(CASE WHEN r.status = 'declined' THEN r.decided_at END) AS declined
		FROM requests r
		WHERE r.from_id = ?2 AND +r.to_id = ?3`, t.Now, sender.ID, recipient.ID)
	if err == nil && pair.Overdue {
		err = t.expirePair(sender.ID, recipient.ID)
	}
	if err != nil {
		return nil, a, err
	}
	a.Open, a.DeclinedAt = pair.Open, pair.Declined
	if a.Sent, err = t.Usage(sender.ID, domain.ActRequest, a.Daily); err != nil {
		return nil, a, err
	}
	a.Received, err = t.receivedThisWeek(recipient.ID, recipient.ContactPolicy.CapFor(a.Level))
	return offering, a, err
}

// receivedThisWeek returns the times of the requests that count against a weekly cap, newest first, at
// most limit; none if they are fewer than limit.
func (t *tx) receivedThisWeek(agentID int64, limit int) (received []domain.Time, err error) {
	since := t.Now.Add(-domain.Week)
	var all int // also those that do not count: mostly too few to reach the limit, and fast to count
	err = t.Get(&all, `SELECT COUNT(*) FROM (SELECT 1 FROM requests WHERE to_id = ? AND created_at > ? LIMIT ?)`, agentID, since, limit)
	if err != nil || all < limit {
		return nil, err
	}
	err = t.Select(&received, receivedSince+` ORDER BY at DESC LIMIT ?`, agentID, since, limit)
	return received, err
}

// receivedSince selects the times of the requests that count against the weekly cap of agent ?1 since
// ?2. Withdrawn requests of one sender count once, reported ones and what a reported sender withdrew not at
// all.
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

func (t *tx) insertRequest(sender, recipient *document.AgentRow, d domain.ContactRequestDraft, offering *domain.Offering) (domain.ContactRequest, error) {
	if err := t.CountUsage(sender.ID, domain.ActRequest); err != nil {
		return domain.ContactRequest{}, err
	}
	id, err := t.NewID(domain.IdRequest)
	if err != nil {
		return domain.ContactRequest{}, err
	}
	var snapshot *string
	if offering != nil {
		b, err := json.Marshal(offering)
		if err != nil {
			return domain.ContactRequest{}, err
		}
		text := string(b)
		snapshot = &text
	}
	err = t.Exec(`
		INSERT INTO requests (id, from_id, to_id, status, purpose, deliverable, compensation, offering, deadline,
			context, created_at, updated_at, expires_at)
		VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, sender.ID, recipient.ID, d.Purpose, d.Deliverable, d.Compensation, snapshot, domain.Optional(d.Deadline),
		domain.Optional(d.Context), t.Now, t.Now, t.Now.Add(domain.RequestAge))
	if err != nil {
		return domain.ContactRequest{}, fmt.Errorf("insert the request: %w", err)
	}
	t.TouchFacts(recipient.ID)
	if err := t.InsertEvent(recipient.ID, "request.received", domain.EventSubject{ID: &id, Handle: sender.Handle}); err != nil {
		return domain.ContactRequest{}, err
	}
	return domain.ContactRequest{ // as t.request reads it
		ID: id, Status: domain.RequestPending, From: sender.Party(), To: recipient.Party(),
		Purpose: d.Purpose, Deliverable: d.Deliverable, Compensation: d.Compensation,
		Offering: offering, Deadline: domain.Optional(d.Deadline), Context: domain.Optional(d.Context),
		CreatedAt: t.Now, UpdatedAt: t.Now, ExpiresAt: t.Now.Add(domain.RequestAge),
	}, nil
}

func (t *tx) request(id string) (domain.ContactRequest, error) {
	var row requestRow
	if err := t.Get(&row, selectRequest+` WHERE r.id = ?2`, t.Now, id); err != nil {
		return domain.ContactRequest{}, err
	}
	return row.record()
}

// Request returns a request to one of its parties. It refuses everybody else with
// not_found.
func (s *Store) Request(ctx context.Context, caller domain.Caller, id string) (domain.ContactRequest, error) {
	var row requestRow
	err := txn.OrNotFound(s.db.Get(ctx, &row, selectRequest+` WHERE r.id = ?2 AND ?3 IN (r.from_id, r.to_id)`, s.db.Now(), id, caller.ID))
	if err != nil {
		return domain.ContactRequest{}, err
	}
	return row.record()
}

// RequestFilter selects the caller's requests.
type RequestFilter struct {
	Sent   bool   // those it sent; else those it received
	Status string // empty for all
}

// Requests lists the caller's requests, newest first.
func (s *Store) Requests(ctx context.Context, caller domain.Caller, f RequestFilter, page listing.Page) (listing.List[domain.ContactRequest], error) {
	side := "to_id"
	if f.Sent {
		side = "from_id"
	}
	// ?1 is the time, ?2 the place in the list, ?3 the caller, ?4 the status.
	const current = `(?4 = '' OR ?4 = ` + statusNow + `)`
	rows, err := listing.Read[requestRow](ctx, s.db, &listing.Query{
		Name:   fmt.Sprintf("requests %d %s %s", caller.ID, side, f.Status),
		Before: []any{s.db.Now()},
		Rows:   selectRequest + ` WHERE r.seq < ?2 AND r.` + side + ` = ?3 AND ` + current + ` ORDER BY r.seq DESC LIMIT ?5 OFFSET ?6`,
		Count:  `SELECT COUNT(*) AS n FROM (SELECT 1 FROM requests r WHERE r.` + side + ` = ?2 AND (?3 = '' OR ?3 = ` + statusNow + `) LIMIT ?4)`,
		Bounds: []any{caller.ID, f.Status},
	}, page)
	if err != nil {
		return listing.List[domain.ContactRequest]{}, err
	}
	return listing.Map(rows, (*requestRow).record)
}

func (r requestRow) Position() int64 { return r.Seq }

// AcceptRequest accepts a request to the caller. Both mailboxes are exchanged as they are now or, if
// the caller's policy requires the owner's receipt, when the owner agrees. AcceptRequest returns
// invalid_state unless both are verified at that moment. It and the following three methods return the
// same when the same party repeats them. They return not_found for an agent that is no party,
// forbidden for the other party, and invalid_state if the state of the request does not allow the act.
func (s *Store) AcceptRequest(ctx context.Context, caller domain.Caller, id string) (domain.ContactRequest, error) {
	return s.actOnRequest(ctx, caller, id, domain.ActAccept, "")
}

// DeclineRequest declines a request to the caller; see AcceptRequest.
func (s *Store) DeclineRequest(ctx context.Context, caller domain.Caller, id string, draft domain.DeclineDraft) (domain.ContactRequest, error) {
	return s.actOnRequest(ctx, caller, id, domain.ActDecline, draft.Reason)
}

// WithdrawRequest withdraws a request that the caller sent; see AcceptRequest.
func (s *Store) WithdrawRequest(ctx context.Context, caller domain.Caller, id string) (domain.ContactRequest, error) {
	return s.actOnRequest(ctx, caller, id, domain.ActWithdraw, "")
}

// ReportRequest reports a request to the operator in any state and blocks its sender for the caller.
// An open request is declined, which is all that the sender sees; see AcceptRequest.
func (s *Store) ReportRequest(ctx context.Context, caller domain.Caller, id string, draft domain.ReportDraft) (domain.ContactRequest, error) {
	return s.actOnRequest(ctx, caller, id, domain.ActReport, draft.Reason)
}

func (s *Store) actOnRequest(ctx context.Context, caller domain.Caller, id string, act domain.RequestAction, reason string) (request domain.ContactRequest, err error) {
	err = s.writeOrRejectAs(ctx, caller, func(t *tx) (err error) {
		if err := t.actOnRequest(caller.ID, id, act, reason); err != nil {
			return err
		}
		request, err = t.request(id)
		return err
	})
	return request, err
}

// actOnRequest applies the state machine. agentID is the party that acts; for the
// owner's acts, the recipient.
func (t *tx) actOnRequest(agentID int64, id string, act domain.RequestAction, reason string) error {
	var row requestRow
	if err := txn.OrNotFound(t.Get(&row, selectRequest+` WHERE r.id = ?2`, t.Now, id)); err != nil {
		return err
	}
	side, party := row.roleOf(agentID)
	if !party {
		return domain.NewError(domain.CodeNotFound)
	}
	if err := t.expirePair(row.FromID, row.ToID); err != nil {
		return err
	}
	if act == domain.ActAccept && side == domain.RoleRecipient {
		var err error
		if act, err = t.acceptance(&row); err != nil {
			return err
		}
	}
	if by := domain.RequestTransitions[act].By; by != side && !(by == domain.RoleOwner && side == domain.RoleRecipient) {
		return &domain.Error{Code: domain.CodeForbidden, Topic: "request"}
	}
	if act == domain.ActReport {
		if err := t.blockSender(&row, reason); err != nil {
			return err
		}
	}
	return t.moveRequest(&row, act, reason)
}

// acceptance returns the act by which the recipient accepts a request: at once, or when the owner
// agrees.
func (t *tx) acceptance(row *requestRow) (domain.RequestAction, error) {
	var receipt bool
	err := t.Get(&receipt, `SELECT require_owner_receipt FROM agents WHERE id = ?`, row.ToID)
	// A request that waits for the owner, or that the owner agreed to, stays so.
	if row.Status == domain.RequestAwaiting || receipt && row.Status != domain.RequestAccepted {
		return domain.ActAcceptLater, err
	}
	return domain.ActAccept, err
}

// moveRequest moves a request to another state and notifies the parties, unless it is in that state.
func (t *tx) moveRequest(row *requestRow, act domain.RequestAction, reason string) error {
	move := domain.RequestTransitions[act]
	switch {
	case slices.Contains(move.From, row.Status):
		if move.To == domain.RequestAccepted || move.To == domain.RequestAwaiting {
			if err := t.checkMailboxes(row); err != nil {
				return err
			}
		}
	case row.Status == move.To, act == domain.ActReport:
		return nil
	default:
		return &domain.Error{Code: domain.CodeInvalidState, Topic: "request"}
	}
	decided := &t.Now
	if move.To == domain.RequestAwaiting {
		decided = nil
	}
	if act != domain.ActDecline {
		reason = ""
	}
	err := t.Exec(`UPDATE requests SET status = ?, decline_reason = ?, updated_at = ?, decided_at = ? WHERE id = ?`,
		move.To, domain.Optional(reason), t.Now, decided, row.ID)
	if err != nil {
		return fmt.Errorf("%s a request: %w", act, err)
	}
	t.TouchFacts(row.ToID)
	if move.To == domain.RequestAccepted {
		if err := t.exchangeMailboxes(row.ID); err != nil {
			return err
		}
	}
	return t.notifyOfRequest(row, move)
}

// checkMailboxes returns invalid_state if a side of a request has no verified mailbox now, or is about
// to be deleted. The mailbox may have changed since the request was sent, and an acceptance reveals the
// current one.
func (t *tx) checkMailboxes(row *requestRow) error {
	var verified int
	err := t.Get(&verified, `SELECT COUNT(*) FROM agents WHERE id IN (?, ?) AND verified_at IS NOT NULL AND deletion_at IS NULL`, row.FromID, row.ToID)
	if err == nil && verified < 2 {
		err = &domain.Error{Code: domain.CodeInvalidState, Topic: "mailbox"}
	}
	return err
}

// exchangeMailboxes stores the current mailboxes of both parties with an accepted request.
func (t *tx) exchangeMailboxes(id string) error {
	return t.Exec(`
		UPDATE requests SET
			from_mailbox = (SELECT mailbox FROM agents WHERE agents.id = requests.from_id),
			to_mailbox = (SELECT mailbox FROM agents WHERE agents.id = requests.to_id)
		WHERE id = ? AND status = 'accepted'`, id)
}

// notifyOfRequest inserts the events of a transition.
func (t *tx) notifyOfRequest(row *requestRow, move domain.RequestTransition) error {
	for _, role := range move.Tells {
		agent, other := row.FromID, row.To.Handle
		if role == domain.RoleRecipient {
			agent, other = row.ToID, row.From.Handle
		}
		if err := t.InsertEvent(agent, move.Event, domain.EventSubject{ID: &row.ID, Handle: other}); err != nil {
			return err
		}
	}
	return nil
}

// blockSender rejects further requests of the sender to the recipient, and reports the request to the
// operator once.
func (t *tx) blockSender(row *requestRow, reason string) error {
	err := t.Exec(`
		INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES (?, ?, ?)
		ON CONFLICT (blocker_id, blocked_id) DO NOTHING`, row.ToID, row.FromID, t.Now)
	if err != nil {
		return fmt.Errorf("block the sender: %w", err)
	}
	var earlier int64
	repeated, err := t.Find(&earlier, `SELECT seq FROM reports WHERE reporter_id = ? AND about = 'request' AND subject = ?`, row.ToID, row.ID)
	if err != nil || repeated {
		return err
	}
	text := domain.Optional(strings.TrimSpace(row.Purpose + "\n" + domain.Deref(row.Context)))
	return t.insertReport(report{
		about: "request", subject: row.ID, reported: reported{AuthorID: row.FromID, Text: text}, reporterID: &row.ToID, reason: reason,
	})
}

func (t *tx) blocked(blocker, blocked int64) (bool, error) {
	var since domain.Time
	return t.Find(&since, `SELECT created_at FROM blocks WHERE blocker_id = ? AND blocked_id = ?`, blocker, blocked)
}

// expirePair stores that open requests between two agents have expired.
func (t *tx) expirePair(fromID, toID int64) error {
	_, err := t.expireRequests(` AND r.from_id = ?2 AND r.to_id = ?3`, fromID, toID)
	return err
}

// expireRequests stores that requests have expired, and notifies both sides. where narrows them; its
// values are ?2 and on.
func (t *tx) expireRequests(where string, args ...any) (int, error) {
	var expired []requestRow
	err := t.Select(&expired, selectRequest+`
		WHERE r.status IN ('pending', 'awaiting_owner') AND r.expires_at <= ?1`+where+`
		ORDER BY r.expires_at
		LIMIT `+strconv.Itoa(jobBatch), append([]any{t.Now}, args...)...)
	if err != nil {
		return 0, err
	}
	for i := range expired {
		row := &expired[i]
		err := t.Exec(`UPDATE requests SET status = 'expired', updated_at = expires_at, decided_at = expires_at WHERE seq = ?`, row.Seq)
		if err != nil {
			return 0, fmt.Errorf("expire a request: %w", err)
		}
		if err := t.notifyOfRequest(row, domain.RequestTransitions[domain.ActExpire]); err != nil {
			return 0, err
		}
	}
	return len(expired), nil
}

// endRequestsOf closes the open requests of an agent that is about to be deleted, and erases its
// mailbox from accepted ones.
func (t *tx) endRequestsOf(id int64) error {
	if _, err := t.expireRequests(` AND (r.from_id = ?2 OR r.to_id = ?2)`, id); err != nil {
		return err
	}
	var open []requestRow
	err := t.Select(&open, selectRequest+`
		WHERE r.status IN ('pending', 'awaiting_owner') AND (r.from_id = ?2 OR r.to_id = ?2)`, t.Now, id)
	if err != nil {
		return err
	}
	for i := range open {
		act := domain.ActWithdraw
		if open[i].ToID == id {
			act = domain.ActDecline
		}
		if err := t.moveRequest(&open[i], act, ""); err != nil {
			return err
		}
	}
	if err := t.EraseResponses(`SELECT id FROM requests WHERE from_id = ?1 OR to_id = ?1`, id); err != nil {
		return err
	}
	for _, query := range []string{
		`UPDATE requests SET from_mailbox = NULL WHERE from_id = ?1`,
		`UPDATE requests SET to_mailbox = NULL WHERE to_id = ?1`,
		`DELETE FROM blocks WHERE blocker_id = ?1 OR blocked_id = ?1`,
	} {
		if err := t.Exec(query, id); err != nil {
			return fmt.Errorf("close the requests: %w", err)
		}
	}
	return nil
}
