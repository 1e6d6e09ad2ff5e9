package store

import (
	"context"
	"fmt"
	"slices"

	"callbook/store/blocklist"
	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/text"
)

// AddLink adds a link to the caller's card, or finds it there, before its page is
// looked at; kind is by its host. It refuses with validation_failed one too many,
// and a new one with a blocked word. It returns the address as it is stored.
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

// RemoveLink takes a link off the caller's card, if it is there, and returns the
// others.
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

// KeepFinding keeps what a look at a link's page found, and returns the agent's
// links. byService says that the service looked by itself, so that the agent is
// told of a change. A link that was removed meanwhile stays so; a look that an agent
// asked for is kept whether or not its key was replaced meanwhile.
func (s *Store) KeepFinding(ctx context.Context, agentID int64, address string, found domain.LinkCheck, byService bool) (links []domain.Link, err error) {
	err = s.write(ctx, func(t *tx) error {
		if err := t.checkActive(domain.Caller{ID: agentID}); err != nil {
			return err // gone or suspended meanwhile
		}
		var was string
		there, err := t.Find(&was, `SELECT status FROM links WHERE agent_id = ? AND url = ?`, agentID, address)
		if err == nil && there {
			if err = t.keepFinding(agentID, address, was, found); err == nil && byService {
				err = t.tellOfLink(agentID, address, was)
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

func (t *tx) keepFinding(agentID int64, address, was string, found domain.LinkCheck) error {
	var query string
	args := []any{t.Now}
	switch {
	case found.Verified:
		query = `kind = ?, status = 'verified', failure = NULL, proof = ?, verified_at = ?, expires_at = ?, next_check_at = ?`
		args = append(args, found.Kind, found.Proof, t.Now, t.Now.Add(domain.LinkAge), t.Now.Add(domain.LinkRecheck))
	case (was == "verified" || was == "expired") && mayPass(found.Failure): // of where it leads, no more than before is known
		query = `failure = ?, next_check_at = CASE WHEN status = 'verified' THEN ? END`
		args = append(args, found.Failure, t.Now.Add(domain.LinkRetry))
	default:
		query = `kind = ?, status = 'failed', failure = ?, proof = NULL, verified_at = NULL, expires_at = NULL, next_check_at = NULL`
		args = append(args, found.Kind, found.Failure)
	}
	err := t.Exec(`UPDATE links SET checked_at = ?, `+query+` WHERE agent_id = ? AND url = ?`, append(args, agentID, address)...)
	if err != nil {
		return fmt.Errorf("keep what was found of a link: %w", err)
	}
	return nil
}

// mayPass tells whether a page that failed so may be right again by itself.
func mayPass(failure string) bool {
	return failure == "unreachable" || failure == "timeout" || failure == "http_error"
}

func (t *tx) tellOfLink(agentID int64, address, was string) error {
	var is, handle string
	err := t.Get(&is, `SELECT status FROM links WHERE agent_id = ? AND url = ?`, agentID, address)
	if err != nil || is == was {
		return err
	}
	if err := t.Get(&handle, `SELECT handle FROM handles WHERE id = ?`, agentID); err != nil {
		return err
	}
	return t.InsertEvent(agentID, "trust.changed", domain.EventSubject{Handle: handle})
}

// DueLink is a link that the service should look at again.
type DueLink struct {
	AgentID int64  `db:"agent_id"`
	Handle  string `db:"handle"`
	URL     string `db:"url"`
}

// TakeDueLinks returns links that are due for another look, at most limit. They
// are due again a day later, unless KeepFinding says otherwise.
func (s *Store) TakeDueLinks(ctx context.Context, limit int) (due []DueLink, err error) {
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
		err := t.Exec(`UPDATE links SET status = 'expired', proof = NULL, next_check_at = NULL WHERE agent_id = ? AND url = ?`, l.AgentID, l.URL)
		if err != nil {
			return 0, err
		}
		t.TouchAgent(l.AgentID)
		if err := t.tellOfLink(l.AgentID, l.URL, "verified"); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// Links returns an agent's links, in the order in which they were added.
func (s *Store) Links(ctx context.Context, agentID int64) ([]domain.Link, error) {
	links := []domain.Link{}
	err := s.db.Select(ctx, &links, document.SelectLinks, agentID)
	return links, err
}
