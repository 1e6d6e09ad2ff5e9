package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// AgentFilter selects agents. Filters combine; zero values do not filter.
type AgentFilter struct {
	Query      string // every word must match, the last one also as a prefix
	Capability string // one list item, case ignored
	Language   string // one list item, case ignored, or its beginning: zh finds zh-CN
	Verified   *bool  // the mailbox is verified, or is not
	MinLevel   int    // 0 to 2
	New        bool   // joined in the last 30 days
}

// The list queries. The inner one walks the narrow rows, so that skipping does
// not load documents.
const (
	allAgents = `
		SELECT ` + documentColumns + `
		FROM (SELECT agent_id AS id FROM agent_documents
			WHERE agent_id < ? AND agent_id >= ?
			ORDER BY agent_id DESC LIMIT ? OFFSET ?) m
		JOIN agent_documents d ON d.agent_id = m.id
		JOIN agents a ON a.id = m.id
		ORDER BY m.id DESC`
	countAgents = `
		SELECT COUNT(*) FROM (SELECT 1 FROM agent_documents WHERE agent_id >= ? LIMIT ?)`
	searchAgents = `
		SELECT ` + documentColumns + `
		FROM (SELECT rowid AS id FROM agent_search
			WHERE agent_search MATCH ? AND rowid < ? AND rowid >= ?
			ORDER BY rowid DESC LIMIT ? OFFSET ?) m
		JOIN agent_documents d ON d.agent_id = m.id
		JOIN agents a ON a.id = m.id
		ORDER BY m.id DESC`
	countSearchedAgents = `
		SELECT COUNT(*) FROM (SELECT 1 FROM agent_search
			WHERE agent_search MATCH ? AND rowid >= ? LIMIT ?)`
)

// newWindow is how long an agent counts as new (specification: Limits).
const newWindow = 30 * Day

// Agents lists agents, newest first; a search by relevance. It refuses with
// invalid_query a cursor that is none.
func (s *Store) Agents(ctx context.Context, f AgentFilter, page Page) (List[AgentDocument], error) {
	q, err := s.parse(ctx, f.Query)
	if err != nil {
		return List[AgentDocument]{}, err
	}
	if q.none {
		_, err := parseCursor(f.name(), page.Cursor)
		return List[AgentDocument]{Items: []AgentDocument{}, TotalIsExact: true}, err
	}
	// Agents are paged by offset too, so only a page of outrageous ones ends early.
	l := listing{name: f.name(), rows: allAgents, count: countAgents, bounds: []any{int64(0)}, most: 4 * pageBytes}
	l.tiers, l.whole = q.tiers(f.facets(), f.exactHandle())
	if l.whole != "" {
		l.rows, l.count = searchAgents, countSearchedAgents
	}
	if f.New {
		first, err := s.firstSince(ctx, at(s.clock()).add(-newWindow))
		if err != nil {
			return List[AgentDocument]{}, err
		}
		l.bounds = []any{first}
	}
	found, err := list[AgentDocument](ctx, s, l, page)
	if err != nil || len(q.words) == 0 {
		return found, err
	}
	for i := range found.Items {
		found.Items[i].matchMenu(q.words)
	}
	return found, nil
}

// firstSince is the number of the first agent that joined at that time or later.
func (s *Store) firstSince(ctx context.Context, since Time) (first int64, err error) {
	// For MIN(id) SQLite would walk past all who joined before.
	err = s.get(ctx, &first, `SELECT id FROM agents WHERE created_at >= ? ORDER BY created_at LIMIT 1`, since)
	if errors.Is(err, sql.ErrNoRows) {
		return wholeTier, nil
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
		facets = append(facets, facet(facetCapability, f.Capability))
	}
	if f.Language != "" {
		facets = append(facets, facet(facetLanguage, canonicalLanguages([]string{f.Language})[0]))
	}
	if f.Verified != nil && !*f.Verified {
		facets = append(facets, facet(facetLevel, "0"))
	}
	least := f.MinLevel
	if f.Verified != nil && *f.Verified {
		least = max(least, 1)
	}
	if least > 0 {
		facets = append(facets, facet(facetLevel, "from"+string(rune('0'+least))))
	}
	return facets
}

// exactHandle is the facet of the agent whose handle the query is, if it could be one.
func (f AgentFilter) exactHandle() string {
	handle := fold(f.Query)
	if !ParseHandle(handle) {
		return ""
	}
	return facet(facetHandle, handle)
}
