package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"callbook/store/domain"
)

// An agent that runs from time to time needs no state of its own: its inbox has a cursor, an event
// that is stored beside the agent.

// Inbox returns the records that wait for the caller. It returns unauthorized if the caller was
// deleted meanwhile.
func (s *Store) Inbox(ctx context.Context, caller domain.Caller) (box domain.Inbox, err error) {
	now := s.now()
	box = domain.Inbox{
		Requests: []domain.ContactRequest{},
		Replies:  []domain.Reply{},
		Collabs:  []domain.Collab{},
	}

	// The events first: a record that is stored meanwhile is in the lists, and again among the
	// events after Next.
	if err := s.readEvents(ctx, &box, caller.ID, now); err != nil {
		return box, err
	}
	if err := s.readRequests(ctx, &box, caller.ID, now); err != nil {
		return box, err
	}
	return box, s.readCollabs(ctx, &box, caller.ID)
}

// readEvents reads the unseen events and the replies that they report.
func (s *Store) readEvents(
	ctx context.Context,
	box *domain.Inbox,
	agentID int64,
	now domain.Time,
) error {
	var agent struct {
		Seen       int64       `db:"inbox_seen"`
		SeenAt     domain.Time `db:"seen_at"`
		Dropped    int64       `db:"events_dropped"`
		Unverified bool        `db:"unverified"`
		Leaving    bool        `db:"leaving"`
	}

	// The last event that was seen may be that of another agent, whose time is not revealed.
	err := s.db.Get(ctx, &agent, `
		SELECT a.inbox_seen, a.events_dropped,
			CASE WHEN e.agent_id = a.id THEN e.at WHEN e.seq IS NOT NULL THEN ?2 ELSE 0 END AS seen_at,
			a.verified_at IS NULL AS unverified, a.deletion_at IS NOT NULL AS leaving
		FROM agents a
		LEFT JOIN events e ON e.seq = a.inbox_seen
		WHERE a.id = ?1`, agentID, now)
	if errors.Is(err, sql.ErrNoRows) {
		return domain.NewError(domain.CodeUnauthorized)
	}
	if err != nil {
		return err
	}

	box.Missed = agent.Dropped > agent.Seen
	box.Unverified = agent.Unverified
	box.Leaving = agent.Leaving
	if agent.Seen > 0 {
		box.Seen = domain.EventID(agent.SeenAt, agent.Seen)
	}

	var unseen struct {
		Events int         `db:"events"`
		Others int         `db:"others"`
		Last   int64       `db:"last"`
		At     domain.Time `db:"at"`
	}

	// Next is no earlier than the event that it names, even if the clock was set back: Events
	// would take it for that of another file.
	err = s.db.Get(ctx, &unseen, `
		SELECT COUNT(*) AS events, COALESCE(MAX(seq), ?2) AS last, COALESCE(MAX(at), ?3) AS at,
			COUNT(CASE
				WHEN type NOT IN ('request.received', 'reply.received', 'collab.received') THEN 1
			END) AS others
		FROM (
			SELECT seq, type, at FROM events
			WHERE agent_id = ?1 AND seq > ?2
			ORDER BY seq
			LIMIT ?4)`,
		agentID, max(agent.Seen, agent.Dropped), max(now, agent.SeenAt), domain.MaxUnseen)
	if err != nil {
		return err
	}

	box.Unseen = unseen.Events
	box.Others = unseen.Others
	box.Next = domain.EventID(unseen.At, unseen.Last)
	return s.readReplies(ctx, box, agentID, agent.Seen, unseen.Last)
}

// maxReplyEvents is how many events of replies an inbox examines: the replies may have been
// deleted since.
const maxReplyEvents = 20

// readReplies reads the first replies that unseen events report. If there are more of them than
// fit, the inbox covers the events up to the last of those that do.
func (s *Store) readReplies(
	ctx context.Context,
	box *domain.Inbox,
	agentID, seen, last int64,
) error {
	var events []domain.Event
	err := s.db.Select(ctx, &events, `
		SELECT seq, type, subject, at
		FROM events
		WHERE agent_id = ? AND seq > ? AND seq <= ? AND type = 'reply.received'
		ORDER BY seq
		LIMIT ?`, agentID, seen, last, maxReplyEvents)
	if err != nil || len(events) == 0 {
		return err
	}

	// A fixed number of values, so that the statement is prepared once: the rest is NULL, and finds
	// nothing.
	ids := make([]any, maxReplyEvents)
	for i, e := range events {
		ids[i] = e.Subject.ID
	}
	query := selectReply + ` WHERE r.id IN (?` + strings.Repeat(`, ?`, maxReplyEvents-1) + `)`
	var replies []domain.Reply
	if err := s.db.Select(ctx, &replies, query, ids...); err != nil {
		return err
	}

	stored := map[string]domain.Reply{}
	for _, r := range replies {
		stored[r.ID] = r
	}

	var covered domain.Event // the last one, with all before it
	size := 0
	for _, e := range events {
		if reply, found := stored[*e.Subject.ID]; found {
			size += reply.Size()
			n := len(box.Replies)
			if n == domain.InboxRecords || n > 0 && size > domain.InboxBytes {
				box.Next = domain.EventID(covered.At, covered.Seq)
				return nil
			}
			box.Replies = append(box.Replies, reply)
		}
		covered = e
	}

	if len(events) == maxReplyEvents { // there may be more
		box.Next = domain.EventID(covered.At, covered.Seq)
	}
	return nil
}

// readRequests reads the open requests that the agent received: those that it may accept or
// decline, and those that wait for its owner. None of them is older than domain.RequestAge.
func (s *Store) readRequests(
	ctx context.Context,
	box *domain.Inbox,
	agentID int64,
	now domain.Time,
) error {
	var rows []requestRow
	err := s.db.Select(ctx, &rows, selectRequest+`
		WHERE r.to_id = ?2 AND r.created_at > ?3 AND r.status = 'pending' AND r.expires_at > ?1
		ORDER BY r.created_at, r.seq
		LIMIT ?4`, now, agentID, now.Add(-domain.RequestAge), domain.InboxRecords)
	if err != nil {
		return err
	}

	size := 0
	for i := range rows {
		request := rows[i].Record()
		size += len(request.Purpose) + len(request.Deliverable)
		if request.Context != nil {
			size += len(*request.Context)
		}
		if i > 0 && size > domain.InboxBytes {
			break
		}

		box.Requests = append(box.Requests, request)
	}

	return s.db.Select(ctx, &box.Awaiting, `
		SELECT id FROM requests
		WHERE to_id = ? AND created_at > ? AND status = 'awaiting_owner' AND expires_at > ?
		ORDER BY created_at, seq`, agentID, now.Add(-domain.RequestAge), now)
}

// readCollabs reads the collaborations that others have recorded with the agent and that it has
// not decided.
func (s *Store) readCollabs(ctx context.Context, box *domain.Inbox, agentID int64) error {
	var rows []collabRow
	err := s.db.Select(ctx, &rows, selectCollab+`
		WHERE c.partner_id = ? AND c.status = 'pending'
		ORDER BY c.seq
		LIMIT ?`, agentID, domain.InboxRecords)
	if err != nil {
		return err
	}

	for _, row := range rows {
		box.Collabs = append(box.Collabs, row.Collab)
	}
	return nil
}

// MarkSeen records that the caller has seen its inbox up to an event: Inbox.Next. The cursor never
// moves back, nor beyond the newest event of the file, as an id from before a restored backup may
// be; nor to an id whose number a later event has. MarkSeen returns validation_failed for anything
// but the id of an event.
func (s *Store) MarkSeen(ctx context.Context, caller domain.Caller, event string) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.AuthorizeOwn(caller); err != nil {
			return err
		}

		at, seq, ok := domain.ParseEventID(event)
		if !ok {
			fault := domain.FieldError{Field: "next", Code: domain.FaultBadValue, Topic: "inbox"}
			return domain.Invalid(fault)
		}

		// A number beyond the newest would hide the events that get the numbers up to it.
		var newest int64
		err := t.Get(&newest, `
			SELECT COALESCE(MAX(seq), 0)
			FROM sqlite_sequence
			WHERE name = 'events'`)
		if err != nil {
			return err
		}
		seq = min(seq, newest)

		return t.Exec(`
			UPDATE agents SET inbox_seen = ?1
			WHERE id = ?2 AND inbox_seen < ?1
				AND NOT EXISTS (SELECT 1 FROM events WHERE seq = ?1 AND at > ?3)`, seq, caller.ID, at)
	})
}
