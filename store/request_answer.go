package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"callbook/store/domain"
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

// selectRequest reads requests as they are at ?1: expired past their time, even if that is not
// stored yet. Nothing else reads exchanged mailboxes.
const selectRequest = `
	SELECT r.seq, r.id, r.from_id, r.to_id,
		` + statusNow + ` AS status,
		f.handle AS "from.handle", fa.name AS "from.name", fa.level AS "from.level",
		o.handle AS "to.handle", oa.name AS "to.name", oa.level AS "to.level",
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

// Record returns the request as its parties see it.
func (r *requestRow) Record() (domain.ContactRequest, error) {
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

// Position returns the place of the request in lists.
func (r requestRow) Position() int64 { return r.Seq }

// actOnRequest applies the state machine and returns the request as it is then. agent is the party
// that acts; for the owner's acts, the recipient.
func (t *tx) actOnRequest(
	agent *agentRow,
	id string,
	act domain.RequestAction,
	reason string,
) (request domain.ContactRequest, err error) {
	var row requestRow
	if err := orNotFound(t.Get(&row, selectRequest+` WHERE r.id = ?2`, t.Now, id)); err != nil {
		return request, err
	}
	side, party := row.roleOf(agent.ID)
	if !party {
		return request, domain.NewError(domain.CodeNotFound)
	}
	if row.Status == domain.RequestExpired { // it may not be stored yet
		if _, err := t.expireRequests(` AND r.seq = ?2`, row.Seq); err != nil {
			return request, err
		}
	}

	if act == domain.ActAccept && side == domain.RoleRecipient {
		act = acceptance(agent, &row)
	}
	by := domain.RequestTransitions[act].By
	if by != side && !(by == domain.RoleOwner && side == domain.RoleRecipient) {
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
	return row.Record()
}

// acceptance returns the act by which the recipient accepts a request: at once, or when the owner
// agrees.
func acceptance(recipient *agentRow, row *requestRow) domain.RequestAction {
	receipt := recipient.ContactPolicy.RequireOwnerReceipt
	// A request that waits for the owner, or that the owner agreed to, stays so.
	if row.Status == domain.RequestAwaiting || receipt && row.Status != domain.RequestAccepted {
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
		reason = ""
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

// blockSender rejects further requests of the sender to the recipient, and reports the request to
// the operator once.
func (t *tx) blockSender(row *requestRow, reason string) error {
	err := t.Exec(`
		INSERT INTO blocks (blocker_id, blocked_id, created_at) VALUES (?, ?, ?)
		ON CONFLICT (blocker_id, blocked_id) DO NOTHING`, row.ToID, row.FromID, t.Now)
	if err != nil {
		return err
	}

	var earlier int64
	repeated, err := t.Find(
		&earlier,
		`SELECT seq FROM reports WHERE reporter_id = ? AND about = 'request' AND subject = ?`,
		row.ToID,
		row.ID,
	)
	if err != nil || repeated {
		return err
	}

	text := domain.Optional(
		strings.TrimSpace(row.Purpose + "\n" + row.Deliverable + "\n" + domain.Deref(row.Context)),
	)
	return t.insertReport(report{
		About:         domain.AboutRequest,
		Subject:       row.ID,
		reportSubject: reportSubject{AuthorID: row.FromID, Text: text},
		ReporterID:    &row.ToID,
		Reason:        reason,
	})
}

// expirePair stores that open requests between two agents have expired.
func (t *tx) expirePair(fromID, toID int64) error {
	_, err := t.expireRequests(` AND r.from_id = ?2 AND r.to_id = ?3`, fromID, toID)
	return err
}

// expireRequests stores that requests have expired, a Batch at most, and notifies both sides. It
// returns their number. where narrows them; its values are ?2 and on.
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
		err := t.Exec(
			`UPDATE requests SET status = 'expired', updated_at = expires_at, decided_at = expires_at WHERE seq = ?`,
			row.Seq,
		)
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
	for n := jobBatch; n == jobBatch; {
		var err error
		if n, err = t.expireRequests(` AND (r.from_id = ?2 OR r.to_id = ?2)`, id); err != nil {
			return err
		}
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

	return t.ExecEach(id,
		`UPDATE requests SET from_mailbox = NULL WHERE from_id = ?1`,
		`UPDATE requests SET to_mailbox = NULL WHERE to_id = ?1`,
		`DELETE FROM blocks WHERE blocker_id = ?1 OR blocked_id = ?1`,
	)
}
