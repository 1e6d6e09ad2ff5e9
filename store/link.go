package store

import (
	"context"
	"fmt"
	"slices"

	"callbook/store/text"
)

// maxLinks is how many links a card shows.
const maxLinks = 5

// How long a verified link stays so without a further look, how often the service
// looks again, and how soon after a failure that may pass or was never finished.
const (
	linkAge     = 180 * Day
	linkRecheck = 30 * Day
	linkRetry   = Day
)

// Link is a public profile link and what the last check found.
type Link struct {
	URL        string  `json:"url" db:"url"`
	Kind       string  `json:"kind" db:"kind" enum:"website,github,gitlab,codeberg,huggingface,mastodon,xiaohongshu"`
	Status     string  `json:"status" db:"status" enum:"pending,verified,failed,expired"`
	Proof      *string `json:"proof" db:"proof" enum:"rel_me,mention"`
	Failure    *string `json:"failure" db:"failure" enum:"blocked,unreachable,http_error,too_large,timeout,not_found_on_page" doc:"What the last check failed by; a verified link outlasts a failure that may pass."`
	CheckedAt  *Time   `json:"checked_at" db:"checked_at" nullable:"true"`
	VerifiedAt *Time   `json:"verified_at" db:"verified_at" nullable:"true"`
	ExpiresAt  *Time   `json:"expires_at" db:"expires_at" nullable:"true"`
}

// LinkFinding is what a look at a link's page found.
type LinkFinding struct {
	Kind     string
	Verified bool
	Proof    string // rel_me, mention; empty unless verified
	Failure  string // empty when verified
}

// linkDraft is a new link.
type linkDraft struct {
	URL string `json:"url" format:"uri"`
}

// AddLink adds a link to the caller's card, or finds it there, before its page is
// looked at; kind is by its host. It refuses with validation_failed one too many,
// and a new one with a blocked word. It returns the address as it is stored.
func (s *Store) AddLink(ctx context.Context, caller Caller, address, kind string) (string, error) {
	address = s.linkURL(address)
	err := s.writeAs(ctx, caller, func(t *tx) error {
		links, err := t.links(caller.ID)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(links, func(l Link) bool { return l.URL == address }) {
			return nil
		}
		var faults []Fault
		if len(links) >= maxLinks {
			faults = append(faults, Fault{Field: "url", Code: FaultTooMany, Topic: "links"})
		}
		if err := t.checkTexts(linkDraft{address}, faults...); err != nil {
			return err
		}
		t.touch(caller.ID)
		return t.Exec(`
			INSERT INTO links (agent_id, url, kind, status, next_check_at, created_at)
			VALUES (?, ?, ?, 'pending', ?, ?)`, caller.ID, address, kind, t.now.add(linkRetry), t.now)
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
func (s *Store) RemoveLink(ctx context.Context, caller Caller, address string) (links []Link, err error) {
	err = s.writeAs(ctx, caller, func(t *tx) error {
		if err := t.Exec(`DELETE FROM links WHERE agent_id = ? AND url = ?`, caller.ID, s.linkURL(address)); err != nil {
			return err
		}
		t.touch(caller.ID)
		links, err = t.links(caller.ID)
		return err
	})
	return links, err
}

// KeepFinding keeps what a look at a link's page found, and returns the agent's
// links. byService says that the service looked by itself, so that the agent is
// told of a change. A link that was removed meanwhile stays so; a look that an agent
// asked for is kept whether or not its key was replaced meanwhile.
func (s *Store) KeepFinding(ctx context.Context, agentID int64, address string, found LinkFinding, byService bool) (links []Link, err error) {
	err = s.write(ctx, func(t *tx) error {
		if err := t.mayAct(Caller{ID: agentID}); err != nil {
			return err // gone or suspended meanwhile
		}
		var was string
		there, err := t.Find(&was, `SELECT status FROM links WHERE agent_id = ? AND url = ?`, agentID, address)
		if err == nil && there {
			if err = t.keepFinding(agentID, address, was, found); err == nil && byService {
				err = t.tellOfLink(agentID, address, was)
			}
			t.touch(agentID)
		}
		if err != nil {
			return err
		}
		links, err = t.links(agentID)
		return err
	})
	return links, err
}

func (t *tx) keepFinding(agentID int64, address, was string, found LinkFinding) error {
	var query string
	args := []any{t.now}
	switch {
	case found.Verified:
		query = `kind = ?, status = 'verified', failure = NULL, proof = ?, verified_at = ?, expires_at = ?, next_check_at = ?`
		args = append(args, found.Kind, found.Proof, t.now, t.now.add(linkAge), t.now.add(linkRecheck))
	case (was == "verified" || was == "expired") && mayPass(found.Failure): // of where it leads, no more than before is known
		query = `failure = ?, next_check_at = CASE WHEN status = 'verified' THEN ? END`
		args = append(args, found.Failure, t.now.add(linkRetry))
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
	return t.tell(agentID, "trust.changed", EventSubject{Handle: handle})
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
	now := at(s.clock())
	const dueLinks = `
		SELECT l.agent_id, h.handle, l.url
		FROM links l
		JOIN agent_documents h ON h.agent_id = l.agent_id
		WHERE l.next_check_at <= ?
		ORDER BY l.next_check_at
		LIMIT ?`
	if err := s.selectAll(ctx, &due, dueLinks, now, limit); err != nil || len(due) == 0 {
		return nil, err
	}
	err = s.write(ctx, func(t *tx) error {
		for _, l := range due {
			err := t.Exec(`UPDATE links SET next_check_at = ? WHERE agent_id = ? AND url = ?`, t.now.add(linkRetry), l.AgentID, l.URL)
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
	err := t.Select(&due, `SELECT agent_id, url FROM links WHERE status = 'verified' AND expires_at <= ? LIMIT ?`, t.now, dueStep)
	if err != nil {
		return 0, err
	}
	for _, l := range due {
		err := t.Exec(`UPDATE links SET status = 'expired', proof = NULL, next_check_at = NULL WHERE agent_id = ? AND url = ?`, l.AgentID, l.URL)
		if err != nil {
			return 0, err
		}
		t.touch(l.AgentID)
		if err := t.tellOfLink(l.AgentID, l.URL, "verified"); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// Links returns an agent's links, in the order in which they were added.
func (s *Store) Links(ctx context.Context, agentID int64) ([]Link, error) {
	links := []Link{}
	err := s.selectAll(ctx, &links, selectLinks, agentID)
	return links, err
}

const selectLinks = `
	SELECT url, kind, status, proof, failure, checked_at, verified_at, expires_at
	FROM links
	WHERE agent_id = ?
	ORDER BY seq`

func (t *tx) links(agentID int64) ([]Link, error) {
	links := []Link{}
	err := t.Select(&links, selectLinks, agentID)
	return links, err
}
