package store

import (
	"context"
	"slices"

	"callbook/store/domain"
	"callbook/store/text"
)

// AddLink adds a link to the caller's card, unless it is there, before its page is checked. kind
// follows from its host. It returns the address as it is stored, and validation_failed for a sixth
// link and for a new one with a blocked word.
func (s *Store) AddLink(
	ctx context.Context,
	caller domain.Caller,
	address, kind string,
) (string, error) {
	address = s.linkURL(address)
	err := s.write(ctx, func(t *tx) error {
		agent, err := t.Authorize(caller)
		if err != nil || agent.Link(address) != nil {
			return err
		}
		if err := t.CheckRoom(); err != nil {
			return err
		}

		var faults []domain.FieldError
		if len(agent.Trust.Links) >= domain.MaxLinks {
			faults = append(
				faults,
				domain.FieldError{Field: "url", Code: domain.FaultTooMany, Topic: "links"},
			)
		}

		if err := t.checkBlocks(domain.LinkDraft{URL: address}, faults...); err != nil {
			return err
		}

		agent.Trust.Links = append(
			agent.Trust.Links,
			domain.Link{URL: address, Kind: kind, Status: domain.LinkPending},
		)
		return agent.StoreLinks(t)
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
func (s *Store) RemoveLink(
	ctx context.Context,
	caller domain.Caller,
	address string,
) (links []domain.Link, err error) {
	address = s.linkURL(address)
	err = s.write(ctx, func(t *tx) error {
		agent, err := t.Authorize(caller)
		if err != nil {
			return err
		}

		agent.Trust.Links = slices.DeleteFunc(
			agent.Trust.Links,
			func(l domain.Link) bool { return l.URL == address },
		)
		links = agent.Trust.Links
		return agent.StoreLinks(t)
	})

	return links, err
}

// StoreLinkCheck stores the result of a check of a link's page, and returns the agent's links.
// scheduled means that the service checked by itself, so that the agent gets an event if the
// status changes. The link may have been removed, and the agent's key replaced, in the meantime.
func (s *Store) StoreLinkCheck(
	ctx context.Context,
	agentID int64,
	address string,
	check domain.LinkCheck,
	scheduled bool,
) (links []domain.Link, err error) {
	err = s.write(ctx, func(t *tx) error {
		agent, err := t.Authorize(domain.Caller{ID: agentID})
		if err != nil {
			return err // deleted or suspended in the meantime
		}
		links = agent.Trust.Links
		link := agent.Link(address)
		if link == nil {
			return nil
		}

		before := link.Status
		link.Record(check, t.Now)
		if err := agent.StoreLinks(t); err != nil || !scheduled || link.Status == before {
			return err
		}
		return agent.NotifyOfLinks(t)
	})
	return links, err
}

// DueLink is a link that must be checked.
type DueLink struct {
	AgentID int64
	Handle  string
	URL     string
}

// StartLinkChecks returns the links of at most limit agents of whom one must be checked. They are
// due again a day later, unless StoreLinkCheck schedules another time.
func (s *Store) StartLinkChecks(ctx context.Context, limit int) (due []DueLink, err error) {
	const dueAgents = `
		SELECT id FROM agents
		WHERE links_due_at <= ? AND hidden = 0
		ORDER BY links_due_at
		LIMIT ?`

	var waiting []int64
	if err := s.db.Select(ctx, &waiting, dueAgents, s.now(), limit); err != nil ||
		len(waiting) == 0 {
		return nil, err
	}

	err = s.write(ctx, func(t *tx) error {
		due = nil
		_, err := t.eachAgent(func(_ *tx, agent *agentRow) error {
			for _, l := range agent.Trust.Links {
				if at, checked := l.NextCheck(); checked && at <= t.Now {
					due = append(due, DueLink{AgentID: agent.ID, Handle: agent.Handle, URL: l.URL})
				}
			}

			return agent.StoreLinks(t)
		}, dueAgents, t.Now, limit)

		return err
	})

	return due, err
}

// expireLinks ends verifications that were not renewed in time. Hidden agents, whose links nobody
// checks and whose turn would never pass, follow once they are shown.
func (t *tx) expireLinks() (expired int, err error) {
	_, err = t.eachAgent(func(_ *tx, agent *agentRow) error {
		before := expired
		for i := range agent.Trust.Links {
			if l := &agent.Trust.Links[i]; l.Expired(t.Now) {
				l.Status, l.Proof = domain.LinkExpired, nil
				expired++
			}
		}

		if expired == before {
			return nil
		}
		if err := agent.StoreLinks(t); err != nil {
			return err
		}

		return agent.NotifyOfLinks(t)
	}, `SELECT id FROM agents WHERE links_due_at <= ? AND hidden = 0 ORDER BY links_due_at LIMIT ?`, t.Now, jobBatch)

	return expired, err
}

// Links returns the links of an agent, in the order in which they were added.
func (s *Store) Links(
	ctx context.Context,
	agentID int64,
) (links domain.List[domain.Link], err error) {
	_, err = s.db.Find(ctx, &links, `SELECT links FROM agents WHERE id = ?`, agentID)
	return links, err
}
