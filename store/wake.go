package store

import (
	"context"
	"io"

	"callbook/store/domain"
	"callbook/store/text"
)

// An event marks the wake-up of its agent as due (InsertEvent). StartWakes marks it as sent for
// the time of a lease, so that a request is repeated if the program ends before FinishWake. Events
// that are inserted meanwhile are found by FinishWake. The limit of one request in
// domain.WakePause is kept beside the agent, so that another URL does not lift it.

// wakeNonceBytes is the length of the random part of a secret.
const wakeNonceBytes = 32

// SetWake stores the URL at which the caller is woken, in place of the one before, and returns the
// secret of its signatures. It returns validation_failed for a blocked host, and trust_too_low
// below level 1.
func (s *Store) SetWake(
	ctx context.Context,
	caller domain.Caller,
	url string,
) (address string, secret []byte, err error) {
	address, ok := text.ParseWebhookURL(url, s.loopbackLinks)
	if !ok {
		fault := domain.FieldError{Field: "url", Code: domain.FaultBadFormat, Topic: "webhook"}
		return "", nil, domain.Invalid(fault)
	}

	err = s.write(ctx, func(t *tx) error {
		agent, err := t.Authorize(caller)
		if err != nil {
			return err
		}
		if err := t.CheckRoom(); err != nil {
			return err
		}
		if err := t.checkBlocks(domain.WakeDraft{URL: address}); err != nil {
			return err
		}
		// Only who is known by a mailbox may have this server send requests.
		if agent.VerifiedAt == nil {
			return &domain.Error{Code: domain.CodeTrustTooLow, Topic: "verify"}
		}

		secret, err = t.setWake(agent.ID, address)
		return err
	})
	return address, secret, err
}

// setWake replaces the URL of an agent, and returns the secret of its signatures.
func (t *tx) setWake(agentID int64, url string) (secret []byte, err error) {
	// Events may wait for a request: to the new URL, not as long as for one that failed.
	var due *domain.Time
	_, err = t.Find(&due, `
		SELECT MAX(?, COALESCE(a.woken_at, 0) + ?)
		FROM wakes w
		JOIN agents a ON a.id = w.agent_id
		WHERE w.agent_id = ? AND w.due_at IS NOT NULL`,
		t.Now, domain.WakePause.Milliseconds(), agentID)
	if err != nil {
		return nil, err
	}
	if err := t.removeWake(agentID); err != nil {
		return nil, err
	}

	nonce := make([]byte, wakeNonceBytes)
	if _, err := io.ReadFull(t.Random, nonce); err != nil {
		return nil, err
	}
	err = t.Exec(`
		INSERT INTO wakes (agent_id, url, nonce, due_at)
		VALUES (?, ?, ?, ?)`, agentID, url, nonce, due)
	return t.wakeSecret(nonce), err
}

// wakeSecret derives the secret of signatures, so that the database alone does not have it if the
// key of codes comes from elsewhere.
func (t *tx) wakeSecret(nonce []byte) []byte {
	return t.CodeHash(append([]byte("wake\x00"), nonce...))
}

// RemoveWake deletes the URL at which the caller is woken, if there is one.
func (s *Store) RemoveWake(ctx context.Context, caller domain.Caller) error {
	return s.write(ctx, func(t *tx) error {
		if _, err := t.AuthorizeOwn(caller); err != nil {
			return err
		}
		return t.removeWake(caller.ID)
	})
}

// Wake returns the wake-ups of the caller. It returns unauthorized if the caller was deleted.
func (s *Store) Wake(ctx context.Context, caller domain.Caller) (w domain.Wake, err error) {
	found, err := s.db.Find(ctx, &w, `
		SELECT w.url, COALESCE(w.status, 'off') AS status, a.woken_at
		FROM agents a
		LEFT JOIN wakes w ON w.agent_id = a.id
		WHERE a.id = ?`, caller.ID)
	if err != nil {
		return w, err
	}
	if !found {
		return w, domain.NewError(domain.CodeUnauthorized)
	}
	return w, nil
}

// NextWakeAt returns when the next request that wakes an agent is due; 0 if none is.
func (s *Store) NextWakeAt(ctx context.Context) (next domain.Time, err error) {
	err = s.db.Get(ctx, &next, `
		SELECT COALESCE(MIN(due_at), 0)
		FROM wakes
		WHERE due_at IS NOT NULL`)
	return next, err
}

// StartWakes returns requests to send now, at most limit, and records that they are on their way.
// Each must be followed by FinishWake; if it is not, as when the program is killed, the request is
// repeated.
func (s *Store) StartWakes(ctx context.Context, limit int) (due []domain.DueWake, err error) {
	next, err := s.NextWakeAt(ctx)
	if err != nil || next == 0 || next > s.now() {
		return nil, err
	}

	err = s.write(ctx, func(t *tx) (err error) {
		due, err = t.startWakes(limit)
		return err
	})
	return due, err
}

func (t *tx) startWakes(limit int) (started []domain.DueWake, err error) {
	// Of those that are due, perhaps none is sent. Others behind them may be.
	for len(started) == 0 {
		rows, err := t.selectDueWakes(limit)
		if err != nil || len(rows) == 0 {
			return nil, err
		}

		for i := range rows {
			sent, err := t.startWake(&rows[i])
			if err != nil {
				return nil, err
			}
			if sent {
				started = append(started, rows[i])
			}
		}
	}
	return started, nil
}

// selectDueWakes returns requests that are due, the oldest first.
func (t *tx) selectDueWakes(limit int) (rows []domain.DueWake, err error) {
	err = t.Select(&rows, `
		SELECT w.agent_id, h.handle, w.url, w.nonce, w.tries, COALESCE(w.message, '') AS message,
			(SELECT COUNT(*) FROM (
				SELECT 1 FROM events e
				WHERE e.agent_id = w.agent_id AND e.seq > a.inbox_seen
				LIMIT ?3)) AS pending,
			(SELECT COALESCE(MAX(seq), 0) FROM events e WHERE e.agent_id = w.agent_id) AS last_event,
			a.verified_at IS NULL OR a.deletion_at IS NOT NULL
				OR a.suspended_at IS NOT NULL AND COALESCE(a.suspended_until > ?1, TRUE) AS inactive
		FROM wakes w
		JOIN agents a ON a.id = w.agent_id
		JOIN handles h ON h.id = w.agent_id
		WHERE w.due_at <= ?1
		ORDER BY w.due_at
		LIMIT ?2`, t.Now, limit, domain.MaxUnseen)

	return rows, err
}

// startWake records that a request is on its way. It reports false if its agent has seen every
// event, so that nothing is due, or is inactive, so that nothing is due for a while.
func (t *tx) startWake(due *domain.DueWake) (sent bool, err error) {
	if due.Inactive {
		return false, t.Exec(`
			UPDATE wakes SET due_at = ?
			WHERE agent_id = ?`, t.Now.Add(domain.WakeRest), due.AgentID)
	}

	// The agent has seen its events by itself, before it was woken.
	if due.Pending == 0 {
		return false, t.Exec(`
			UPDATE wakes SET due_at = NULL, message = NULL
			WHERE agent_id = ?`, due.AgentID)
	}

	due.StartedAt = t.Now
	due.Secret = t.wakeSecret(due.Nonce)

	// A retry has the id of the first try, by which the receiver can tell that it is one.
	if due.MessageID == "" {
		if due.MessageID, err = t.NewID(domain.IDWake); err != nil {
			return false, err
		}
	}

	err = t.Exec(`
		UPDATE wakes SET due_at = ?, message = ?
		WHERE agent_id = ?`, t.Now.Add(domain.WakeLease), due.MessageID, due.AgentID)
	if err != nil {
		return false, err
	}
	return true, t.Exec(`UPDATE agents SET woken_at = ? WHERE id = ?`, t.Now, due.AgentID)
}

// ofWake selects the wake-ups of a request whose lease is the last one: the URL was not replaced
// or deleted meanwhile, and no other request was started because this one took too long.
const ofWake = ` WHERE agent_id = ? AND nonce = ? AND due_at = ?`

// FinishWake records the outcome of a request, unless another URL or request has taken its place
// meanwhile. After the last retry the agent gets an event.
func (s *Store) FinishWake(ctx context.Context, due domain.DueWake, delivered bool) error {
	return s.writeBackground(ctx, func(t *tx) error { return t.finishWake(due, delivered) })
}

// finishWake records the outcome of a request. See FinishWake.
func (t *tx) finishWake(due domain.DueWake, delivered bool) error {
	lease := due.StartedAt.Add(domain.WakeLease)

	// Events that came while the request was on its way are not in it.
	if delivered {
		return t.Exec(`
			UPDATE wakes SET status = 'ok', tries = 0, message = NULL,
				due_at = CASE WHEN EXISTS (
					SELECT 1 FROM events e
					WHERE e.agent_id = wakes.agent_id AND e.seq > ?) THEN ? END`+ofWake,
			due.LastEvent, due.StartedAt.Add(domain.WakePause), due.AgentID, due.Nonce, lease)
	}

	if due.Tries < len(domain.WakeRetries) {
		return t.Exec(`
			UPDATE wakes SET status = 'failing', tries = tries + 1, due_at = ?`+ofWake,
			t.Now.Add(domain.WakeRetries[due.Tries]), due.AgentID, due.Nonce, lease)
	}

	n, err := t.Change(`
		UPDATE wakes SET status = 'off', tries = tries + 1, message = NULL, due_at = NULL`+ofWake,
		due.AgentID, due.Nonce, lease)
	if err != nil || n == 0 {
		return err
	}
	return t.InsertEvent(
		due.AgentID,
		domain.EventWakeFailed,
		domain.EventSubject{Handle: due.Handle},
	)
}
