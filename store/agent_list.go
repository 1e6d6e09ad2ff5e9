package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// AgentFilter selects agents. Filters combine; zero values do not filter.
type AgentFilter struct {
	Query      string // every word must match, the last one also as a prefix
	Capability string // one list item, case ignored
	Language   string // one list item, case ignored, or its beginning: zh finds zh-CN
	Verified   *bool  // the mailbox is verified, or is not
	MinLevel   int    // 0 to 2
	New        bool   // joined in the last 30 days
	Brief      bool   // selects none: of the documents found, only what a brief item shows
}

// The list queries. Those that count do not load documents, and a page that skips
// records begins where counting them ended.
const (
	walkAgents = `
		FROM agent_documents d
		WHERE d.agent_id < ? AND d.agent_id >= ?
		ORDER BY d.agent_id DESC LIMIT ?`
	countAgents = `
		SELECT COUNT(*) AS n, MIN(agent_id) AS last FROM (SELECT agent_id FROM agent_documents
			WHERE agent_id < ? AND agent_id >= ? ORDER BY agent_id DESC LIMIT ?)`
	// Ordered by the very column of the inner query, so that SQLite sees that the rows
	// come in that order: by an expression of it, it would sort them, documents and all.
	searchAgents = `
		FROM (SELECT rowid AS row FROM agent_search
			WHERE agent_search MATCH ? AND rowid > ` + mirror + ` - ? AND rowid <= ` + mirror + ` - ?
			ORDER BY rowid LIMIT ?) m
		JOIN agent_documents d ON d.agent_id = ` + mirror + ` - m.row
		ORDER BY m.row`
	countSearchedAgents = `
		SELECT COUNT(*) AS n, ` + mirror + ` - MAX(row) AS last FROM (SELECT rowid AS row FROM agent_search
			WHERE agent_search MATCH ? AND rowid > ` + mirror + ` - ? AND rowid <= ` + mirror + ` - ?
			ORDER BY rowid LIMIT ?)`
	newestAgent = `SELECT COALESCE(MAX(agent_id), 0) FROM agent_documents`
	listColumns = `d.agent_id, d.handle, d.level, d.confirmed, d.email, d.last_active_at`
)

var sampleAgents = sampleOf(agentSearch)

// The queries of a page by what it shows: the first index tells whether the items are
// brief, the second whether menus are read for what matched.
var agentWalks, agentSearches = agentQueries(walkAgents), agentQueries(searchAgents)

func agentQueries(from string) (queries [2][2]string) {
	for brief, document := range []string{`, d.profile`, `, d.brief`} {
		for menu, columns := range []string{``, `, d.menu, d.menu_words`} {
			queries[brief][menu] = `SELECT ` + listColumns + document + columns + from
		}
	}
	return queries
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
var ofAnyLevel = "(" + quote(facet(facetLevel, "0")) + " OR " + quote(facet(facetLevel, "from1")) + ")"

// newWindow is how long an agent counts as new (specification: Limits).
const newWindow = 30 * Day

// Agents lists agents, newest first; a search by relevance. It refuses with
// invalid_query a cursor that is none.
func (s *Store) Agents(ctx context.Context, f AgentFilter, page Page) (List[AgentDocument], error) {
	if f.Query != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.readTimeout)
		defer cancel()
	}
	changes := s.agentTotals.changes.Load()
	q, err := s.parse(ctx, f.Query)
	if err != nil {
		return List[AgentDocument]{}, err
	}
	if q.none {
		_, err := parseCursor(f.name(), page.Cursor)
		return List[AgentDocument]{Items: []AgentDocument{}, TotalIsExact: true}, err
	}
	// Agents are paged by offset too, so only a page of outrageous ones ends early.
	l := listing{name: f.name(), count: countAgents, most: 4 * pageBytes, search: &search{newest: newestAgent, sample: sampleAgents}, totals: s.agentTotals, changes: changes}
	exact, err := s.exactHandle(ctx, f)
	if err != nil {
		return List[AgentDocument]{}, err
	}
	facets := f.facets()
	l.tiers = q.tiers(facets, exact)
	if l.all.match == "" && page.Cursor == "" && page.Offset > deepOffset {
		l.tiers = oneTier(ofAnyLevel)
	}
	queries := &agentWalks
	if l.all.match != "" {
		queries, l.count = &agentSearches, countSearchedAgents
	}
	l.rows = queries[number(f.Brief)][number(len(q.words) > 0)]
	if f.New {
		first, err := s.firstSince(ctx, at(s.clock()).add(-newWindow))
		if err != nil {
			return List[AgentDocument]{}, err
		}
		l.search.lowest = first
	}
	found, err := list[AgentDocument](ctx, s, l, page)
	found.TotalIsExact = found.TotalIsExact && !q.cut
	for i := range found.Items {
		d := &found.Items[i]
		if len(q.words) > 0 {
			d.matchMenu(q.words)
		}
	}
	return found, err
}

// firstSince is the number of the first agent that joined at that time or later.
func (s *Store) firstSince(ctx context.Context, since Time) (first int64, err error) {
	// For MIN(id) SQLite would walk past all who joined before.
	found, err := s.find(ctx, &first, `SELECT id FROM agents WHERE created_at >= ? ORDER BY created_at LIMIT 1`, since)
	if err == nil && !found {
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

// exactHandle is the facet of the agent whose handle the query is, if it could be one;
// that there is none is found quicker by the handles than in the search.
func (s *Store) exactHandle(ctx context.Context, f AgentFilter) (string, error) {
	handle := fold(f.Query)
	if !ParseHandle(handle) {
		return "", nil
	}
	var taken bool
	found, err := s.find(ctx, &taken, `SELECT 1 FROM agent_documents WHERE handle = ?`, handle)
	if err != nil || !found {
		return noSuchHandle, err
	}
	return facet(facetHandle, handle), nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
