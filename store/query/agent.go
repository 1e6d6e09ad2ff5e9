package query

import (
	"context"
	"time"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/text"
	"callbook/store/txn"
)

// The list queries select a page of ids, which are narrow to read and to skip, and join the documents to it.
const (
	listedAgents = `
		SELECT rowid AS id FROM agent_documents
		WHERE rowid < ? AND rowid >= ?
		ORDER BY rowid DESC LIMIT ? OFFSET ?`
	countAgents = `
		SELECT COUNT(*) AS n FROM (SELECT rowid FROM agent_documents WHERE rowid >= ? LIMIT ?)`
	listColumns = `d.agent_id, d.handle, d.level, d.confirmed, d.email, d.last_active_at`
)

var agentIndex = listing.NewIndex(txn.AgentSearch, "agent_tokens", ` AND rowid >= ?`)

// deepOffset is the offset from which on a list reads the full-text table, whose rows are narrower
// than the documents, to skip.
const deepOffset = 100

// allAgents is the name of the list without filters.
var allAgents = document.AgentFilter{}.Name()

// NewWindow is how long an agent counts as new.
const NewWindow = 30 * domain.Day

// Card returns the public document of an agent, valid until the date changes. It returns not_found for a
// handle that no agent has, or a hidden one.
func (r *Reader) Card(ctx context.Context, handle string) (domain.AgentDocument, error) {
	d := domain.AgentDocument{Handle: handle}
	err := txn.OrNotFound(r.db.Get(ctx, &d, `
		SELECT agent_id, level, confirmed, confirmed_partners, email, created_at, last_active_at, profile, recent_posts
		FROM agent_documents
		WHERE handle = ?`, handle))
	if err != nil {
		return d, err
	}
	d.Requests, err = r.RequestFacts(ctx, d.ID)
	return d, err
}

// RequestFacts reads the facts about an agent's requests, of whole days, so that a card can be cached.
func (r *Reader) RequestFacts(ctx context.Context, agentID int64) (domain.RequestFacts, error) {
	var rows []struct {
		CreatedAt domain.Time  `db:"created_at"`
		DecidedAt *domain.Time `db:"answered_at"`
	}
	since := domain.NextDay(r.db.Now().Time()).Add(-domain.Day - domain.FactsAge)
	err := r.db.Select(ctx, &rows, `
		SELECT created_at, CASE WHEN status IN ('accepted', 'declined') THEN decided_at END AS answered_at
		FROM requests
		WHERE to_id = ? AND created_at >= ? AND status <> 'withdrawn'`, agentID, domain.TimeOf(since))
	var answers []time.Duration
	for _, r := range rows {
		if r.DecidedAt != nil {
			answers = append(answers, r.DecidedAt.Time().Sub(r.CreatedAt.Time()))
		}
	}
	return domain.NewRequestFacts(len(rows), answers), err
}

// listContext returns the context of a list. Unless the list is plain, which means the start of one without filters, it
// has a deadline that interrupts slow queries.
func (r *Reader) listContext(ctx context.Context, plain bool) (context.Context, context.CancelFunc) {
	if plain {
		return ctx, func() {}
	}
	return r.db.WithDeadline(ctx)
}

// Agents lists agents, newest first; a search by relevance. It returns invalid_query if the cursor is
// not one of this list.
func (r *Reader) Agents(ctx context.Context, f document.AgentFilter, page listing.Page) (found listing.List[domain.AgentDocument], err error) {
	ctx, cancel := r.listContext(ctx, f.Name() == allAgents && page.Offset == 0)
	defer cancel()
	changes := r.agentTotals.Changes()
	first := int64(0)
	if f.New {
		if first, err = r.firstSince(ctx, r.db.Now().Add(-NewWindow)); err != nil {
			return found, err
		}
	}
	facets := f.Facets()
	columns := listColumns + `, d.profile`
	if f.Brief {
		columns = listColumns + `, d.brief`
	}
	if f.Query != "" {
		found, err = listing.ReadSearch[domain.AgentDocument](ctx, r.db, listing.Search{
			Name:   f.Name(),
			Index:  &agentIndex,
			Text:   f.Query,
			Facets: facets,
			Exact:  exactHandle(f.Query),
			Bounds: []any{first},
			Strict: f.Strict,
			Rows:   `SELECT ` + columns + `, d.menu, d.menu_words FROM agent_documents d WHERE d.agent_id IN `,
		}, page)
		hits := search.Parse(f.Query).Matcher()
		for i := range found.Items {
			found.Items[i].MatchMenu(hits)
		}
		return found, err
	}

	q := &listing.Query{
		Name: f.Name(), Count: countAgents, Bounds: []any{first}, MaxBytes: listing.PageBytes, Totals: r.agentTotals, Changes: changes,
	}
	ids := listedAgents
	if len(facets) > 0 || page.Cursor == "" && page.Offset > deepOffset {
		ids, q.Count = agentIndex.IDs, agentIndex.Count
		q.Before = []any{document.AnyAgent}
		if len(facets) > 0 {
			q.Before = []any{search.Within("", facets)}
		}
	}
	q.Rows = `SELECT ` + columns + ` FROM (` + ids + `) m JOIN agent_documents d ON d.agent_id = m.id ORDER BY m.id DESC`
	return listing.Read[domain.AgentDocument](ctx, r.db, q, page)
}

// firstSince returns the number of the first agent that joined at a time or later.
func (r *Reader) firstSince(ctx context.Context, since domain.Time) (first int64, err error) {
	// For MIN(id) SQLite would read all agents that joined before.
	found, err := r.db.Find(ctx, &first, `SELECT id FROM agents WHERE created_at >= ? ORDER BY created_at LIMIT 1`, since)
	if err == nil && !found {
		return listing.Last, nil
	}
	return first, err
}

// exactHandle returns the facet of the agent whose handle is the query; empty if none can be.
func exactHandle(query string) string {
	handle := search.Fold(query)
	if !text.ParseHandle(handle) {
		return ""
	}
	return search.Facet(document.FacetHandle, handle)
}
