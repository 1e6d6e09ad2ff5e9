package store

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"callbook/store/domain"
)

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

// actOnRequest applies the state machine and returns the request as it is then. agent is the party
// that acts; for the owner's acts, the recipient.
func (t *tx) actOnRequest(
	agent *agentRow,
	id string,
	act domain.RequestAction,
	reason string,
) (request domain.ContactRequest, err error) {
	var row requestRow
	if err := t.Get(&row, selectRequest+` WHERE r.id = ?2`, t.Now, id); err != nil {
		return request, orNotFound(err)
	}

	role, party := row.roleOf(agent.ID)
	if !party {
		// To other agents the request does not exist: forbidden would reveal that the id is used.
		return request, domain.NewError(domain.CodeNotFound)
	}

	// The row says expired as soon as its time is over, but both sides get their event when that
	// is stored.
	if row.Status == domain.RequestExpired {
		if _, err := t.expireRequests(` AND r.seq = ?2`, row.Seq); err != nil {
			return request, err
		}
	}

	if act == domain.ActAccept && role == domain.RoleRecipient {
		act = acceptance(agent, &row)
	}

	by := domain.RequestTransitions[act].By
	forOwner := by == domain.RoleOwner && role == domain.RoleRecipient
	if by != role && !forOwner {
		return request, &domain.Error{Code: domain.CodeForbidden, Topic: "request"}
	}

	if act == domain.ActReport {
		if err := t.blockSender(&row, reason); err != nil {
			return request, err
		}
	}
	if err := t.moveRequest(&row, act, reason); err != nil {
		return request, err
	}
	return row.Record(), nil
}

// acceptance returns the act by which the recipient accepts a request: at once, or when the owner
// agrees.
func acceptance(recipient *agentRow, row *requestRow) domain.RequestAction {
	// The policy may have changed since: a request that waits for the owner, or that the owner
	// agreed to, stays so.
	switch row.Status {
	case domain.RequestAwaiting:
		return domain.ActAcceptLater
	case domain.RequestAccepted:
		return domain.ActAccept
	}

	if recipient.ContactPolicy.RequireOwnerReceipt {
		return domain.ActAcceptLater
	}
	return domain.ActAccept
}

// moveRequest moves a request to another state and notifies the parties, unless it is in that
// state. It returns invalid_state for an acceptance if a side has no verified mailbox now, or is
// about to be deleted.
func (t *tx) moveRequest(row *requestRow, act domain.RequestAction, reason string) error {
	move := domain.RequestTransitions[act]
	if !slices.Contains(move.From, row.Status) {
		// A repeated act succeeds, and a report has reached the operator in any state.
		if row.Status == move.To || act == domain.ActReport {
			return nil
		}
		return &domain.Error{Code: domain.CodeInvalidState, Topic: "request"}
	}

	decided := &t.Now
	if move.To == domain.RequestAwaiting {
		decided = nil
	}
	if act != domain.ActDecline {
		reason = "" // that of a report is for the operator alone
	}

	// A mailbox may have changed since the request was sent, and an acceptance reveals the current
	// one.
	moved, err := t.Find(row, `
		UPDATE requests SET
			status = ?1,
			decline_reason = ?2,
			updated_at = ?3,
			decided_at = ?4,
			from_mailbox = CASE ?1 WHEN 'accepted' THEN (SELECT mailbox FROM agents WHERE id = from_id) END,
			to_mailbox = CASE ?1 WHEN 'accepted' THEN (SELECT mailbox FROM agents WHERE id = to_id) END
		WHERE seq = ?5 AND (?1 NOT IN ('accepted', 'awaiting_owner') OR 2 = (
			SELECT COUNT(*) FROM agents
			WHERE id IN (from_id, to_id) AND verified_at IS NOT NULL AND deletion_at IS NULL))
		RETURNING status, decline_reason, updated_at, decided_at, from_mailbox, to_mailbox`,
		move.To, domain.Optional(reason), t.Now, decided, row.Seq)
	if err != nil {
		return err
	}
	if !moved {
		return &domain.Error{Code: domain.CodeInvalidState, Topic: "mailbox"}
	}

	t.Changes.Public = true // the recipient's card counts its answers
	return t.notifyOfRequest(row, move)
}

// notifyOfRequest inserts the events of a transition.
func (t *tx) notifyOfRequest(row *requestRow, move domain.RequestTransition) error {
	for _, role := range move.Tells {
		agentID := row.FromID
		subject := domain.EventSubject{ID: &row.ID, Handle: row.To.Handle}
		if role == domain.RoleRecipient {
			agentID = row.ToID
			subject.Handle = row.From.Handle
		}

		if err := t.InsertEvent(agentID, move.Event, subject); err != nil {
			return err
		}
	}

	return nil
}

// blockSender rejects further requests of the sender to the recipient, and reports the request to
// the operator once.
func (t *tx) blockSender(row *requestRow, reason string) error {
	err := t.Exec(`
		INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES (?, ?, ?)
		ON CONFLICT (blocker_id, blocked_id) DO NOTHING`, row.ToID, row.FromID, t.Now)
	if err != nil {
		return err
	}

	// The reason of the first report stays, however often the recipient repeats it.
	var earlier int64
	repeated, err := t.Find(&earlier, `
		SELECT seq FROM reports
		WHERE reporter_id = ? AND about = 'request' AND subject = ?`, row.ToID, row.ID)
	if err != nil || repeated {
		return err
	}

	text := row.Purpose + "\n" + row.Deliverable + "\n" + domain.Deref(row.Context)
	return t.insertReport(report{
		About:      domain.AboutRequest,
		Subject:    row.ID,
		AuthorID:   row.FromID,
		Text:       domain.Optional(strings.TrimSpace(text)),
		ReporterID: &row.ToID,
		Reason:     reason,
	})
}

// expireRequests stores that requests have expired, jobBatch at most, and notifies both sides. It
// returns their number. where narrows them; its values are ?2 and on.
func (t *tx) expireRequests(where string, args ...any) (int, error) {
	var expired []requestRow
	err := t.Select(&expired, selectRequest+`
		WHERE `+overdue+where+`
		ORDER BY r.expires_at
		LIMIT `+strconv.Itoa(jobBatch), append([]any{t.Now}, args...)...)
	if err != nil {
		return 0, err
	}

	for i := range expired {
		row := &expired[i]
		err := t.Exec(`
			UPDATE requests SET status = 'expired', updated_at = expires_at, decided_at = expires_at
			WHERE seq = ?`, row.Seq)
		if err != nil {
			return 0, err
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
	// First those that have expired: to say that they were declined or withdrawn would be wrong.
	for {
		n, err := t.expireRequests(` AND (r.from_id = ?2 OR r.to_id = ?2)`, id)
		if err != nil {
			return err
		}
		if n < jobBatch {
			break
		}
	}

	var open []requestRow
	err := t.Select(&open, selectRequest+`
		WHERE `+isOpen+` AND (r.from_id = ?2 OR r.to_id = ?2)`, t.Now, id)
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

	// Stored responses contain the names of both sides.
	err = t.EraseResponses(`SELECT id FROM requests WHERE from_id = ?1 OR to_id = ?1`, id)
	if err != nil {
		return err
	}

	return t.ExecEach(id,
		`UPDATE requests SET from_mailbox = NULL WHERE from_id = ?1`,
		`UPDATE requests SET to_mailbox = NULL WHERE to_id = ?1`,
		`DELETE FROM blocks WHERE blocker_id = ?1 OR blocked_id = ?1`,
	)
}
