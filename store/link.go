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
		if err != nil || agent.Link(address) != nil { // it is there
			return err
		}
		if err := t.CheckRoom(); err != nil {
			return err
		}

		var faults []domain.FieldError
		if len(agent.Trust.Links) >= domain.MaxLinks {
			faults = []domain.FieldError{{Field: "url", Code: domain.FaultTooMany, Topic: "links"}}
		}
		if err := t.checkBlocks(domain.LinkDraft{URL: address}, faults...); err != nil {
			return err
		}

		link := domain.Link{URL: address, Kind: kind, Status: domain.LinkPending}
		agent.Trust.Links = append(agent.Trust.Links, link)
		return agent.StoreLinks(t)
	})
	return address, err
}

// linkURL returns the address of a link as it is stored. One that is no link's stays as it is: no
// link has it.
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

		hasAddress := func(l domain.Link) bool { return l.URL == address }
		agent.Trust.Links = slices.DeleteFunc(agent.Trust.Links, hasAddress)
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
		if err := agent.StoreLinks(t); err != nil {
			return err
		}

		// Who asked for the check gets its result in the response.
		if !scheduled || link.Status == before {
			return nil
		}
		return agent.notifyOfTrust(t)
	})
	return links, err
}

// DueLink is a link that must be checked.
type DueLink struct {
	AgentID int64
	Handle  string
	URL     string
}

// agentsWithDueLinks selects the agents of whom a link must be checked, or its verification ends,
// now. Hidden agents, whose links are not checked and whose turn would never pass, follow once they
// are shown.
const agentsWithDueLinks = `
	SELECT id FROM agents
	WHERE links_due_at <= ? AND hidden = 0
	ORDER BY links_due_at
	LIMIT ?`

// StartLinkChecks returns the links of at most limit agents of whom one must be checked. They are
// due again a day later, unless StoreLinkCheck schedules another time.
func (s *Store) StartLinkChecks(ctx context.Context, limit int) (due []DueLink, err error) {
	// Usually there is none, and a read does not wait for the writer.
	var waiting []int64
	err = s.db.Select(ctx, &waiting, agentsWithDueLinks, s.now(), limit)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}

	err = s.write(ctx, func(t *tx) (err error) {
		due, err = t.startLinkChecks(limit)
		return err
	})
	return due, err
}

func (t *tx) startLinkChecks(limit int) (due []DueLink, err error) {
	start := func(_ *tx, agent *agentRow) error {
		for _, l := range agent.Trust.Links {
			if at, checked := l.NextCheck(); checked && at <= t.Now {
				due = append(due, DueLink{AgentID: agent.ID, Handle: agent.Handle, URL: l.URL})
			}
		}
		return agent.StoreLinks(t)
	}
	_, err = t.eachAgent(start, agentsWithDueLinks, t.Now, limit)
	return due, err
}

// expireLinks ends verifications that were not renewed in time, and returns their number.
func (t *tx) expireLinks() (expired int, err error) {
	expire := func(_ *tx, agent *agentRow) error {
		n, err := t.expireLinksOf(agent)
		expired += n
		return err
	}
	_, err = t.eachAgent(expire, agentsWithDueLinks, t.Now, jobBatch)
	return expired, err
}

func (t *tx) expireLinksOf(agent *agentRow) (expired int, err error) {
	for i := range agent.Trust.Links {
		link := &agent.Trust.Links[i]
		if link.Expired(t.Now) {
			link.Status = domain.LinkExpired
			link.Proof = nil
			expired++
		}
	}
	// Without one, a link is only to be checked. To store the links would put that off by a day.
	if expired == 0 {
		return 0, nil
	}

	if err := agent.StoreLinks(t); err != nil {
		return 0, err
	}
	return expired, agent.notifyOfTrust(t)
}

// Links returns the links of an agent, in the order in which they were added.
func (s *Store) Links(
	ctx context.Context,
	agentID int64,
) (links domain.List[domain.Link], err error) {
	_, err = s.db.Find(ctx, &links, `SELECT links FROM agents WHERE id = ?`, agentID)
	return links, err
}
