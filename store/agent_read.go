package store

import (
	"context"
	"fmt"
	"time"

	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/sqlitedb"
	"callbook/store/text"
)

// agentFields are the fields of domain.PublicAgent, for a SELECT from handles h and agents a.
var agentFields = `h.handle, ` + sqlitedb.ColumnsOf[domain.Agent]("handle").Select("a") +
	`, a.id, a.last_active_at,
	CASE WHEN a.contact_public AND a.verified_at IS NOT NULL THEN a.mailbox END AS email,
	CASE WHEN a.claimed_at IS NULL THEN 0 ELSE
		(SELECT COUNT(*) FROM collabs WHERE initiator_id = a.id AND counts)
			+ (SELECT COUNT(*) FROM collabs WHERE partner_id = a.id AND counts) END AS confirmed`

var selectPublicAgents = `SELECT ` + agentFields + ` FROM agents a JOIN handles h ON h.id = a.id`

// The list queries select a page of ids, which are narrow to read and to skip, and join the rows
// to it.
const (
	listedAgents = `
		SELECT id FROM agents
		WHERE hidden = 0 AND id < ? AND id >= ` + firstJoined + `
		ORDER BY id DESC LIMIT ? OFFSET ?`
	countAgents = `
		SELECT COUNT(*) AS n FROM (
			SELECT id FROM agents
			WHERE hidden = 0 AND id >= ` + firstJoined + `
			LIMIT ?)`
	// The first agent that joined at a time or later; the second value if there is none. For
	// MIN(id) SQLite would read all agents that joined before.
	firstJoined = `IFNULL((SELECT id FROM agents WHERE created_at >= ? ORDER BY created_at LIMIT 1), ?)`
)

var agentIndex = listing.NewIndex(agentSearch, "agent_tokens", ` AND rowid >= `+firstJoined)

// newWindow is how long an agent counts as new.
const newWindow = 30 * domain.Day

// Card returns the card of an agent. It returns not_found for a handle that no agent has, or a
// hidden one.
func (s *Store) Card(ctx context.Context, handle string) (domain.Card, error) {
	return s.card(ctx, ` WHERE h.handle = ? AND NOT a.hidden`, handle)
}

// OwnCard returns the card of the caller, also while it is hidden.
func (s *Store) OwnCard(ctx context.Context, caller domain.Caller) (domain.Card, error) {
	return s.card(ctx, ` WHERE h.id = ?`, caller.ID)
}

func (s *Store) card(ctx context.Context, where string, value any) (card domain.Card, err error) {
	err = orNotFound(s.db.Get(ctx, &card, `
		SELECT `+agentFields+`, (
			SELECT COUNT(DISTINCT o.claimed_by)
			FROM (
				SELECT partner_id AS other_id FROM collabs WHERE initiator_id = a.id AND counts
				UNION ALL
				SELECT initiator_id FROM collabs WHERE partner_id = a.id AND counts)
			JOIN agents o ON o.id = other_id) AS partners
		FROM handles h
		JOIN agents a ON a.id = h.id`+where, value))
	if err != nil {
		return card, err
	}
	card.SetTrust()
	card.RecentPosts = []domain.RecentPost{}
	err = s.db.Select(ctx, &card.RecentPosts, `
		SELECT id, kind, title, created_at
		FROM posts
		WHERE author_id = ?
		ORDER BY seq DESC
		LIMIT ?`, card.ID, recentPosts)
	if err != nil {
		return card, err
	}

	card.Requests, err = s.requestFacts(ctx, card.ID)
	return card, err
}

// recentPosts is how many posts a card lists.
const recentPosts = 5

// requestFacts reads the facts about an agent's requests, of whole days.
func (s *Store) requestFacts(ctx context.Context, agentID int64) (domain.RequestFacts, error) {
	var rows []struct {
		CreatedAt domain.Time  `db:"created_at"`
		DecidedAt *domain.Time `db:"answered_at"`
	}

	// From the beginning of a day, so that the facts of a card change once a day, and a cached card
	// shows the same.
	since := domain.NextDay(s.now().Time()).Add(-domain.Day - domain.FactsAge)
	err := s.db.Select(ctx, &rows, `
		SELECT created_at, CASE WHEN status IN ('accepted', 'declined') THEN decided_at END AS answered_at
		FROM requests
		WHERE to_id = ? AND created_at >= ? AND status <> 'withdrawn'`, agentID, domain.TimeOf(since))
	if err != nil {
		return domain.RequestFacts{}, err
	}

	var answers []time.Duration
	for _, r := range rows {
		if r.DecidedAt != nil {
			answers = append(answers, r.DecidedAt.Time().Sub(r.CreatedAt.Time()))
		}
	}

	return domain.NewRequestFacts(len(rows), answers), nil
}

// listContext returns the context of a list. Unless the list is plain, which means the start of
// one without filters, it has a deadline that interrupts slow queries.
func (s *Store) listContext(ctx context.Context, plain bool) (context.Context, context.CancelFunc) {
	if plain {
		return ctx, func() {}
	}
	return s.db.WithDeadline(ctx)
}

// Agents lists agents, newest first; a search by relevance. It returns invalid_query if the cursor
// is not one of this list.
func (s *Store) Agents(
	ctx context.Context,
	f domain.AgentFilter,
	page listing.Page,
) (listing.List[domain.PublicAgent], error) {
	facets := askedOfAgents(f)
	plain := f.Query == "" && len(facets) == 0 && !f.New && page.Offset == 0
	ctx, cancel := s.listContext(ctx, plain)
	defer cancel()

	// The two values of firstJoined.
	joined := []any{listing.Last, 0} // no agent joined so late: all count
	if f.New {
		joined = []any{s.now().Add(-newWindow), listing.Last}
	}

	// Of the size of whole agents: brief items show less than half, also with the matching entries
	// of the menu. Other items of a search show these entries twice.
	maxBytes := listing.PageBytes
	switch {
	case page.Brief:
		maxBytes *= 2
	case f.Query != "":
		maxBytes = maxBytes * 2 / 3
	}

	name := fmt.Sprintf("agents %q %q %t", f.Query, facets, f.New)
	if f.Query != "" {
		return s.searchAgents(ctx, f.Query, listing.Search{
			Name:     name,
			Facets:   facets,
			Bounds:   joined,
			Strict:   f.Match == domain.MatchAll,
			MaxBytes: maxBytes,
		}, page)
	}

	q := &listing.Query{
		Name:     name,
		Count:    countAgents,
		Bounds:   joined,
		MaxBytes: maxBytes,
	}
	ids := listedAgents
	if len(facets) > 0 {
		ids = agentIndex.IDs
		q.Count = agentIndex.Count
		q.Before = []any{search.Within("", facets)}
	}
	q.Rows = selectPublicAgents + ` JOIN (` + ids + `) m ON m.id = a.id ORDER BY m.id DESC`

	found, err := listing.Read[domain.PublicAgent](ctx, s.db, q, page)
	for i := range found.Items {
		found.Items[i].SetTrust()
	}
	return found, err
}

// searchAgents completes a search for agents and runs it.
func (s *Store) searchAgents(
	ctx context.Context,
	query string,
	find listing.Search,
	page listing.Page,
) (listing.List[domain.PublicAgent], error) {
	find.Index = &agentIndex
	find.Text = query
	find.Exact = exactHandle(query)
	find.Rows = selectPublicAgents + ` JOIN page ON page.id = a.id WHERE NOT a.hidden`
	found, err := listing.ReadSearch[domain.PublicAgent](ctx, s.db, find, page)

	hits := search.Parse(query).Matcher()
	for i := range found.Items {
		agent := &found.Items[i]
		agent.SetTrust()
		agent.MatchMenu(func(o domain.Offering) int { return hits(menuTexts(o)...) })
	}
	return found, err
}

// exactHandle returns the expression of the agent whose handle is the query; empty if none can be.
func exactHandle(query string) string {
	handle := search.Fold(query)
	if !text.IsHandle(handle) {
		return ""
	}
	return search.Within("", []string{search.Facet(facetHandle, handle)})
}
