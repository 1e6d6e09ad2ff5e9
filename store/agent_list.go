package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"callbook/store/document"
	"callbook/store/domain"
	"callbook/store/listing"
	"callbook/store/search"
	"callbook/store/text"
	"callbook/store/txn"
)

// AgentFilter selects agents. Filters combine; zero values do not filter.
type AgentFilter struct {
	Query      string // every word must match, the last one also as a prefix
	Capability string // one list item, case ignored
	Language   string // one list item, case ignored, or its beginning: zh finds zh-CN
	Verified   *bool  // the mailbox is verified, or is not
	MinLevel   int    // 0 to 2
	New        bool   // joined in the last 30 days
	Strict     bool   // leave out agents that match only some words
	Brief      bool   // selects none: of the documents found, only what a brief item shows
}

// The list queries: a page of ids, which are narrow to walk and to skip, with the documents joined to it.
const (
	listedAgents = `
		SELECT rowid AS id FROM agent_documents
		WHERE rowid < ? AND rowid >= ?
		ORDER BY rowid DESC LIMIT ? OFFSET ?`
	countAgents = `
		SELECT COUNT(*) AS n FROM (SELECT rowid FROM agent_documents WHERE rowid >= ? LIMIT ?)`
	listColumns = `d.agent_id, d.handle, d.level, d.confirmed, d.email, d.last_active_at`
	agentByID   = ` FROM agent_documents d WHERE d.agent_id = ?`
)

var agentIndex = listing.NewIndex(txn.AgentSearch, "agent_words", "agent_documents", "agent_id", ` AND rowid >= ?`)

// agentColumns selects what a page shows of a document: the first index tells whether the items are brief, the second
// whether menus are read for what matched.
var agentColumns = [2][2]string{
	{listColumns + `, d.profile`, listColumns + `, d.profile, d.menu, d.menu_words`},
	{listColumns + `, d.brief`, listColumns + `, d.brief, d.menu, d.menu_words`},
}

// firstMember is the text that the members of a stored document begin with: a handle
// or an id, which has no character that JSON would escape. A column costs more.
func firstMember(members string) string {
	_, rest, _ := strings.Cut(members, `:"`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// deepOffset is from where on skipping walks the rows of the search, which are narrower
// than the documents.
const deepOffset = 100

// ofAnyLevel matches every agent.
var ofAnyLevel = "(" + search.Within("", []string{search.Facet(document.FacetLevel, "0")}) + " OR " + search.Within("", []string{search.Facet(document.FacetLevel, "from1")}) + ")"

// newWindow is how long an agent counts as new (specification: Limits).
const newWindow = 30 * domain.Day

// Card returns the public document of an agent. It returns not_found for a handle that no agent has, or a hidden one.
func (s *Store) Card(ctx context.Context, handle string) (domain.AgentDocument, error) {
	d := domain.AgentDocument{Handle: handle}
	err := txn.OrNotFound(s.db.Get(ctx, &d, `
		SELECT agent_id, level, confirmed, email, created_at, last_active_at, profile, recent_posts
		FROM agent_documents
		WHERE handle = ?`, handle))
	return d, err
}

// listContext returns the context of a list. Unless the list is plain, which means the start of one without filters, it
// has a deadline that interrupts slow queries.
func (s *Store) listContext(ctx context.Context, plain bool) (context.Context, context.CancelFunc) {
	if plain {
		return ctx, func() {}
	}
	return s.db.WithDeadline(ctx)
}

// Agents lists agents, newest first; a search by relevance. It returns invalid_query for a cursor that no page gave.
func (s *Store) Agents(ctx context.Context, f AgentFilter, page listing.Page) (listing.List[domain.AgentDocument], error) {
	ctx, cancel := s.listContext(ctx, f == (AgentFilter{Brief: f.Brief}) && page.Offset == 0)
	defer cancel()
	changes := s.agentTotals.Changes()
	words, err := agentIndex.ParseQuery(ctx, s.db, f.Query)
	if err != nil {
		return listing.List[domain.AgentDocument]{}, err
	}
	// Agents are paged by offset too, so only a page of very large ones ends early.
	q := &listing.Query{
		Name: f.name(), Count: countAgents, Bounds: []any{int64(0)}, MaxBytes: 4 * listing.PageBytes, Totals: s.agentTotals, Changes: changes,
	}
	if f.New {
		if q.Bounds[0], err = s.firstSince(ctx, s.db.Now().Add(-newWindow)); err != nil {
			return listing.List[domain.AgentDocument]{}, err
		}
	}
	facets := f.facets()
	columns := agentColumns[number(f.Brief)][number(!words.Empty())]
	ids := listedAgents
	if !words.Empty() || len(facets) > 0 || page.Cursor == "" && page.Offset > deepOffset {
		exact := ""
		if exact, err = s.exactHandle(ctx, f); err != nil {
			return listing.List[domain.AgentDocument]{}, err
		}
		q.SetMatch(words, facets, exact, ofAnyLevel)
		ids, q.Count = agentIndex.IDs, agentIndex.Count
	}
	q.Rows = `SELECT ` + columns + ` FROM (` + ids + `) m JOIN agent_documents d ON d.agent_id = m.id ORDER BY m.id DESC`
	found, err := listing.ReadSearch[domain.AgentDocument](ctx, s.db, q, listing.Search{
		Query: words, Index: &agentIndex, Text: f.Query, Facets: facets, Strict: f.Strict, ByID: `SELECT ` + columns + agentByID,
	}, page)
	if !words.Empty() {
		hits := words.Matcher()
		for i := range found.Items {
			found.Items[i].MatchMenu(hits)
		}
	}
	return found, err
}

// firstSince is the number of the first agent that joined at that time or later.
func (s *Store) firstSince(ctx context.Context, since domain.Time) (first int64, err error) {
	// For MIN(id) SQLite would walk past all who joined before.
	found, err := s.db.Find(ctx, &first, `SELECT id FROM agents WHERE created_at >= ? ORDER BY created_at LIMIT 1`, since)
	if err == nil && !found {
		return listing.Last, nil
	}
	return first, err
}

// name tells lists by different filters apart.
func (f AgentFilter) name() string {
	verified := "either"
	if f.Verified != nil {
		verified = strconv.FormatBool(*f.Verified)
	}
	return fmt.Sprintf("agents %q %q %q %s %d %t", f.Query, f.Capability, f.Language, verified, f.MinLevel, f.New)
}

func (f AgentFilter) facets() []string {
	var facets []string
	if f.Capability != "" {
		facets = append(facets, search.Facet(document.FacetCapability, f.Capability))
	}
	if f.Language != "" {
		facets = append(facets, search.Facet(document.FacetLanguage, canonicalLanguages([]string{f.Language})[0]))
	}
	if f.Verified != nil && !*f.Verified {
		facets = append(facets, search.Facet(document.FacetLevel, "0"))
	}
	least := f.MinLevel
	if f.Verified != nil && *f.Verified {
		least = max(least, 1)
	}
	if least > 0 {
		facets = append(facets, search.Facet(document.FacetLevel, "from"+string(rune('0'+least))))
	}
	return facets
}

// exactHandle is the facet of the agent whose handle the query is, if it could be one;
// that there is none is found quicker by the handles than in the search.
func (s *Store) exactHandle(ctx context.Context, f AgentFilter) (string, error) {
	handle := search.Fold(f.Query)
	if !text.ParseHandle(handle) {
		return "", nil
	}
	var taken bool
	found, err := s.db.Find(ctx, &taken, `SELECT 1 FROM agent_documents WHERE handle = ?`, handle)
	if err != nil || !found {
		return "", err
	}
	return search.Facet(document.FacetHandle, handle), nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
