package store

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"callbook/store/domain"
	"callbook/store/listing"
)

var placeholder = regexp.MustCompile(`\?(\d*)`)

// values are as many as a SQL text asks for.
func values(query string) []any {
	n := 0 // one without a number follows the highest so far
	for _, p := range placeholder.FindAllStringSubmatch(query, -1) {
		number, err := strconv.Atoi(p[1])
		if err != nil {
			number = n + 1
		}
		n = max(n, number)
	}
	return make([]any, n)
}

// plan is how SQLite goes about a query, a step a line.
func plan(t testing.TB, db *sqlx.DB, query string) string {
	t.Helper()
	var steps []struct {
		ID      int    `db:"id"`
		Parent  int    `db:"parent"`
		NotUsed int    `db:"notused"`
		Detail  string `db:"detail"`
	}
	if err := db.Select(&steps, "EXPLAIN QUERY PLAN "+query, values(query)...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var b strings.Builder
	for _, step := range steps {
		b.WriteString(step.Detail + "\n")
	}
	return b.String()
}

var (
	explainable = regexp.MustCompile(`^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)`)
	// A walk: through a table or an index from its start, or from one row on.
	walk = regexp.MustCompile(`(?m)^(SCAN \S+.*|SEARCH \S+$|.*\(rowid[<>].*)$`)
	// What looks like one: a look-up in a search table, a subquery's own rows.
	noWalk = regexp.MustCompile(`VIRTUAL TABLE INDEX (\d+:(M|=)|513:|192:$)|^SCAN (m|exact|page|questions|most|found|\d+ CONSTANT ROWS|\(subquery-\d+\)|CONSTANT ROW)$`)
)

// boundedWalks are the queries that may walk, by a part of their text.
var boundedWalks = []string{
	"FROM agents WHERE hidden = 0 AND id <",                    // a page of all agents
	"FROM agents WHERE hidden = 0 AND id >=",                   // their total, up to 1000, and the first one of a part of the sitemap
	"FROM posts WHERE author_id NOT IN",                        // a page of all posts, and their total, up to 1000
	"WHERE NOT a.hidden AND p.seq >= ? ORDER BY p.seq LIMIT 1", // the first one of a part of the sitemap
	"WHERE NOT a.hidden AND a.id >= ? AND a.id < ?",            // a part of the sitemap, of 1,000 numbers
	"WHERE NOT a.hidden AND p.seq >= ? AND p.seq < ?",          // likewise
	"WHERE p.seq > ? AND NOT a.hidden",                         // the next new post
	"WHERE a.id > ? AND NOT a.hidden ORDER BY a.id LIMIT ?",    // a batch of those whose search rows are made anew
	"WHERE NOT a.hidden AND p.seq > ? ORDER BY p.seq LIMIT ?",  // likewise
	"FROM watches WHERE agent_id > ?",                          // those of a batch of agents
	"FROM agent_values WHERE term >= ? AND term < ?",           // the facets of a kind, at most every minute
	"FROM pragma_page_count",                                   // one row
	"COALESCE(MAX(",                                            // the last row
	"(SELECT 1 FROM collabs c LEFT JOIN",                       // the total of all collaborations, up to 1000
	"AS agents_verified",                                       // counts, at most every ten seconds
	"UPDATE reports SET reporter = NULL",                       // the reports of a day
	"FROM site",                                                // a handful of rows
	"FROM blocklist",                                           // 1000 entries of each list at the most
	"AND a.links LIKE '%'",                                     // the verified links, when the operator blocks a host
	"FROM invites",                                             // those that the operator made
	"FROM operator_links",                                      // likewise, of half a day
	"FROM abuse_days",                                          // 31 days at the most
	"SELECT COUNT(*) FROM outbox",                              // the mails that wait, for metrics
	"FROM outbox WHERE secret = ?",                             // likewise, when an owner opens a link
	"SELECT seq, recipient FROM outbox",                        // the mails that wait, when a person ends those to an address
	"FROM reports WHERE closed_at IS NULL",                     // the open reports, for metrics
	"ORDER BY r.seq LIMIT",                                     // the oldest open reports, for the operator
	"ORDER BY r.closed_at DESC",                                // the reports closed last, for the operator
	"FROM audit ORDER BY seq DESC LIMIT",                       // the newest acts, for the operator
	"ORDER BY a.level = 0, a.id",                               // the agents of the home page, of each level
	"ORDER BY a.level = 0, n.seq",                              // its posts, of the newest 2000
}

var (
	tables    = regexp.MustCompile(`(?m)^(SCAN|SEARCH) (agents|posts|p|replies|r|requests)\b.*$`)
	indexOnly = regexp.MustCompile(`COVERING INDEX|\(rowid=\?\)|posts_author |agents_(hidden|level) `) // the posts of hidden authors
)

// planRules are what the plans of some queries must or must not contain.
var planRules = []struct {
	name, query string // a part of the text
	least       int    // queries that there are
	ok          func(plan string) bool
}{
	// What a recipient ever got may be very much.
	{"a pair is found by its sender", "AS open_until", 1, func(plan string) bool {
		return strings.Contains(plan, "SEARCH r USING INDEX requests_from (from_id=?)")
	}},
	// Sorting would copy all their documents.
	{"the rows of a page come in the order of the index", ") m ", 3, func(plan string) bool { return !strings.Contains(plan, "TEMP B-TREE") }},
	{"posts of a kind use their index", "WHERE kind = ? AND author_id", 2, func(plan string) bool {
		return !strings.Contains(plan, "TEMP B-TREE") && strings.Contains(plan, "USING COVERING INDEX posts_kind (kind=?")
	}},
	// A table has all texts. SQLite reads whole tables to merge the sides of a UNION, and all posts of a kind to find
	// those of few authors.
	{"counts read indexes only", "AS agents_verified", 1, func(plan string) bool {
		return !slices.ContainsFunc(tables.FindAllString(plan, -1), func(step string) bool { return !indexOnly.MatchString(step) })
	}},
}

// planned are the queries whose plans were checked, by any test.
var planned sync.Map

// checkPlans checks the plans of the queries that a store has run and no store before it: none walks through a table that
// grows, and planRules hold. Each test does this when it stops its store, so that it covers what the tests run.
func (s *testStore) checkPlans() {
	s.Helper()
	fresh := slices.DeleteFunc(s.db.Statements(), func(query string) bool {
		_, checked := planned.LoadOrStore(query, true)
		return checked || !explainable.MatchString(query)
	})
	if len(fresh) == 0 || s.Failure() != nil {
		return
	}
	db := s.connection("ro")
	defer db.Close()
	for _, query := range fresh {
		line, steps := strings.Join(strings.Fields(query), " "), plan(s, db, query)
		bounded := slices.ContainsFunc(boundedWalks, func(part string) bool { return strings.Contains(line, part) })
		for _, step := range walk.FindAllString(steps, -1) {
			if !bounded && !noWalk.MatchString(step) {
				s.Errorf("%s\n  %s", line, step)
			}
		}
		for _, rule := range planRules {
			if strings.Contains(query, rule.query) && !rule.ok(steps) {
				s.Errorf("not so: %s: %s", rule.name, line)
			}
		}
	}
}

// TestQueries_Plans runs the queries that planRules are about, and those that only the pages of package server run.
func TestQueries_Plans(t *testing.T) {
	s, ctx := newStore(t), context.Background()
	s.sendRequest(s.reachable("asker"), s.reachable("harbour-pilot"))
	s.ok(errOf(s.Stats(ctx)))
	s.ok(errOf3(s.Home(ctx, 1, 1)))
	for _, kind := range []PageKind{AgentPages, PostPages} {
		s.ok(errOf(s.Pages(ctx, kind, 0, 100)))
		s.ok(errOf3(s.FirstPage(ctx, kind, 0)))
	}
	for i := range 4 {
		words, page := []string{"", "pilot"}[i/2], listing.Page{Limit: 1, Offset: 5 * (i % 2)} // past its end only the total is read
		for _, f := range []domain.AgentFilter{{Query: words}, {Query: words, Language: "en"}} {
			s.ok(errOf(s.Agents(ctx, f, page)))
		}
		s.ok(errOf(s.Posts(ctx, domain.PostFilter{Query: words, Kind: "seeking"}, page)))
	}
	for _, rule := range planRules {
		n := 0
		for _, query := range s.db.Statements() {
			if strings.Contains(query, rule.query) {
				n++
			}
		}
		if n < rule.least {
			t.Errorf("%s: only %d queries", rule.name, n)
		}
	}
}
