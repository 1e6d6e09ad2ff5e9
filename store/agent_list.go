package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"callbook/store/domain"
	"callbook/store/search"
	"callbook/store/text"
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

var agentIndex = newIndex(agentSearch, "agent_words", "agent_documents", "agent_id", ` AND rowid >= ?`)

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
var ofAnyLevel = "(" + search.Within("", []string{search.Facet(facetLevel, "0")}) + " OR " + search.Within("", []string{search.Facet(facetLevel, "from1")}) + ")"

// newWindow is how long an agent counts as new (specification: Limits).
const newWindow = 30 * domain.Day

// Agents lists agents, newest first; a search by relevance. It returns invalid_query for a cursor that no page gave.
func (s *Store) Agents(ctx context.Context, f AgentFilter, page Page) (List[domain.AgentDocument], error) {
	ctx, cancel := s.searchContext(ctx, f == (AgentFilter{Brief: f.Brief}) && page.Offset == 0)
	defer cancel()
	changes := s.agentTotals.changes.Load()
	q, err := s.parseQuery(ctx, &agentIndex, f.Query)
	if err != nil {
		return List[domain.AgentDocument]{}, err
	}
	// Agents are paged by offset too, so only a page of outrageous ones ends early.
	l := &listing{name: f.name(), count: countAgents, most: 4 * pageBytes, totals: s.agentTotals, changes: changes, bounds: []any{int64(0)}}
	if f.New {
		if l.bounds[0], err = s.firstSince(ctx, domain.TimeOf(s.clock()).Add(-newWindow)); err != nil {
			return List[domain.AgentDocument]{}, err
		}
	}
	facets := f.facets()
	columns := agentColumns[number(f.Brief)][number(!q.Empty())]
	ids := listedAgents
	if !q.Empty() || len(facets) > 0 || page.Cursor == "" && page.Offset > deepOffset {
		exact := ""
		if exact, err = s.exactHandle(ctx, f); err != nil {
			return List[domain.AgentDocument]{}, err
		}
		l.search(q, facets, exact, ofAnyLevel)
		ids, l.count = agentIndex.ids, agentIndex.count
	}
	l.rows = `SELECT ` + columns + ` FROM (` + ids + `) m JOIN agent_documents d ON d.agent_id = m.id ORDER BY m.id DESC`
	found, err := searchList[domain.AgentDocument](ctx, s, &agentIndex, l, searched{Query: q, text: f.Query, facets: facets, strict: f.Strict, byID: `SELECT ` + columns + agentByID}, page)
	if !q.Empty() {
		hits := q.Matcher()
		for i := range found.Items {
			found.Items[i].MatchMenu(hits)
		}
	}
	return found, err
}

// firstSince is the number of the first agent that joined at that time or later.
func (s *Store) firstSince(ctx context.Context, since domain.Time) (first int64, err error) {
	// For MIN(id) SQLite would walk past all who joined before.
	found, err := s.find(ctx, &first, `SELECT id FROM agents WHERE created_at >= ? ORDER BY created_at LIMIT 1`, since)
	if err == nil && !found {
		return highestSeq, nil
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
		facets = append(facets, search.Facet(facetCapability, f.Capability))
	}
	if f.Language != "" {
		facets = append(facets, search.Facet(facetLanguage, canonicalLanguages([]string{f.Language})[0]))
	}
	if f.Verified != nil && !*f.Verified {
		facets = append(facets, search.Facet(facetLevel, "0"))
	}
	least := f.MinLevel
	if f.Verified != nil && *f.Verified {
		least = max(least, 1)
	}
	if least > 0 {
		facets = append(facets, search.Facet(facetLevel, "from"+string(rune('0'+least))))
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
	found, err := s.find(ctx, &taken, `SELECT 1 FROM agent_documents WHERE handle = ?`, handle)
	if err != nil || !found {
		return "", err
	}
	return search.Facet(facetHandle, handle), nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
