package store

import (
	"cmp"
	"context"
	"slices"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/text"
)

// AddLink adds a link to the caller's card, unless it is there, before its page is checked. kind
// follows from its host. It returns the address as it is stored, and validation_failed for a sixth
// link and for a new one with a blocked word.
func (s *Store) AddLink(ctx context.Context, caller domain.Caller, address, kind string) (string, error) {
	address = s.linkURL(address)
	err := s.writeAs(ctx, caller, func(t *tx) error {
		links, err := document.Links(t.Tx, caller.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(links, func(l domain.Link) bool { return l.URL == address }) {
			return nil
		}
		if err := t.CheckRoom(); err != nil {
			return err
		}
		var faults []domain.FieldError
		if len(links) >= domain.MaxLinks {
			faults = append(faults, domain.FieldError{Field: "url", Code: domain.FaultTooMany, Topic: "links"})
		}
		if err := blocklist.Check(t.Tx, domain.LinkDraft{URL: address}, faults...); err != nil {
			return err
		}
		t.TouchAgent(caller.ID)
		return t.Exec(`
			INSERT INTO links (agent_id, url, kind, status, next_check_at, created_at)
			VALUES (?, ?, ?, 'pending', ?, ?)`, caller.ID, address, kind, t.Now.Add(domain.LinkRetry), t.Now)
	})
	return address, err
}

func (s *Store) linkURL(address string) string {
	if canonical, ok := text.ParseLinkURL(address, s.loopbackLinks); ok {
		return canonical
	}
	return address
}

// RemoveLink removes a link from the caller's card, if it is there, and returns the others.
func (s *Store) RemoveLink(ctx context.Context, caller domain.Caller, address string) (links []domain.Link, err error) {
	err = s.writeAs(ctx, caller, func(t *tx) error {
		if err := t.Exec(`DELETE FROM links WHERE agent_id = ? AND url = ?`, caller.ID, s.linkURL(address)); err != nil {
			return err
		}
		t.TouchAgent(caller.ID)
		links, err = document.Links(t.Tx, caller.ID)
		return err
	})
	return links, err
}

// StoreLinkCheck stores the result of a check of a link's page, and returns the agent's links.
// scheduled means that the service checked by itself, so that the agent gets an event if the
// status changes. The link may have been removed, and the agent's key replaced, in the meantime.
func (s *Store) StoreLinkCheck(ctx context.Context, agentID int64, address string, check domain.LinkCheck, scheduled bool) (links []domain.Link, err error) {
	err = s.write(ctx, func(t *tx) error {
		if err := t.checkActive(domain.Caller{ID: agentID}, false); err != nil {
			return err // deleted or suspended in the meantime
		}
		var before string
		found, err := t.Find(&before, `SELECT status FROM links WHERE agent_id = ? AND url = ?`, agentID, address)
		if err == nil && found {
			if err = t.storeLinkCheck(agentID, address, before, check); err == nil && scheduled {
				err = t.notifyOfLink(agentID, address, before)
			}
			t.TouchAgent(agentID)
		}
		if err != nil {
			return err
		}
		links, err = document.Links(t.Tx, agentID)
		return err
	})
	return links, err
}

func (t *tx) storeLinkCheck(agentID int64, address, before string, check domain.LinkCheck) error {
	var query string
	args := []any{t.Now}
	switch {
	case check.Verified:
		query = `kind = ?, status = 'verified', failure = NULL, proof = ?, verified_at = ?, expires_at = ?, next_check_at = ?`
		args = append(args, check.Kind, check.Proof, t.Now, t.Now.Add(domain.LinkAge), t.Now.Add(domain.LinkRecheck))
	case (before == "verified" || before == "expired") && isTransient(check.Failure):
		query = `failure = ?, next_check_at = CASE WHEN status = 'verified' THEN ? END`
		args = append(args, check.Failure, t.Now.Add(domain.LinkRetry))
	default:
		query = `kind = ?, status = 'failed', failure = ?, proof = NULL, verified_at = NULL, expires_at = NULL, next_check_at = NULL`
		args = append(args, check.Kind, check.Failure)
	}
	return t.Exec(`UPDATE links SET checked_at = ?, `+query+` WHERE agent_id = ? AND url = ?`, append(args, agentID, address)...)
}

// isTransient reports whether a page that failed so may pass the next check.
func isTransient(failure string) bool {
	return failure == "unreachable" || failure == "timeout" || failure == "http_error"
}

// notifyOfLink inserts the event trust.changed if the status of a link has changed.
func (t *tx) notifyOfLink(agentID int64, address, before string) error {
	var now, handle string
	err := t.Get(&now, `SELECT status FROM links WHERE agent_id = ? AND url = ?`, agentID, address)
	if err != nil || now == before {
		return err
	}
	if err := t.Get(&handle, `SELECT handle FROM handles WHERE id = ?`, agentID); err != nil {
		return err
	}
	return t.InsertEvent(agentID, "trust.changed", domain.EventSubject{Handle: handle})
}

// DueLink is a link that must be checked.
type DueLink struct {
	AgentID int64  `db:"agent_id"`
	Handle  string `db:"handle"`
	URL     string `db:"url"`
}

// StartLinkChecks returns links that must be checked, at most limit. They are due again a day
// later, unless StoreLinkCheck schedules another time.
func (s *Store) StartLinkChecks(ctx context.Context, limit int) (due []DueLink, err error) {
	now := s.db.Now()
	const dueLinks = `
		SELECT l.agent_id, h.handle, l.url
		FROM links l
		JOIN agent_documents h ON h.agent_id = l.agent_id
		WHERE l.next_check_at <= ?
		ORDER BY l.next_check_at
		LIMIT ?`
	if err := s.db.Select(ctx, &due, dueLinks, now, limit); err != nil || len(due) == 0 {
		return nil, err
	}
	err = s.write(ctx, func(t *tx) error {
		for _, l := range due {
			err := t.Exec(`UPDATE links SET next_check_at = ? WHERE agent_id = ? AND url = ?`, t.Now.Add(domain.LinkRetry), l.AgentID, l.URL)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return due, err
}

// expireLinks ends verifications that were not renewed in time.
func (t *tx) expireLinks() (int, error) {
	var due []struct {
		AgentID int64  `db:"agent_id"`
		URL     string `db:"url"`
	}
	err := t.Select(&due, `SELECT agent_id, url FROM links WHERE status = 'verified' AND expires_at <= ? LIMIT ?`, t.Now, jobBatch)
	if err != nil {
		return 0, err
	}
	for _, l := range due {
		t.TouchAgent(l.AgentID)
		err := cmp.Or(
			t.Exec(`UPDATE links SET status = 'expired', proof = NULL, next_check_at = NULL WHERE agent_id = ? AND url = ?`, l.AgentID, l.URL),
			t.notifyOfLink(l.AgentID, l.URL, "verified"))
		if err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// Links returns the links of an agent, in the order in which they were added.
func (s *Store) Links(ctx context.Context, agentID int64) ([]domain.Link, error) {
	links := []domain.Link{}
	err := s.db.Select(ctx, &links, document.SelectLinks, agentID)
	return links, err
}
