package store

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
)

// This file is the only one that speaks to the full-text index.
//
// Results come in tiers, newest first within each, so that a page never needs
// more than its own rows however many there are: words found in the weightiest
// texts alone, then those that need the second kind of text, then the rest. A
// row is in the first tier that holds it.

// countLimit is how far totals are counted.
const countLimit = 1000

// maxOffset bounds how many rows an offset may skip.
const maxOffset = 10000

// List is one page of records.
type List[T any] struct {
	Items        []T
	Total        int    // counted up to 1000
	TotalIsExact bool   // false when there are more than Total
	Next         string // cursor of the following page; empty on the last
}

// Page says which part of a list is wanted.
type Page struct {
	Limit  int    // 1 to 100
	Offset int    // 0 to 10000; ignored when a cursor is given
	Cursor string // where the page before ended; empty for the first
}

// position is where a page ended: a cursor's content.
type position struct {
	tier int
	seq  int64 // the next page holds lower ones of this tier
}

const wholeTier = int64(1) << 62

func (p position) cursor() string {
	text := strconv.Itoa(p.tier) + "." + strconv.FormatInt(p.seq, 10)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseCursor(cursor string) (position, error) {
	if cursor == "" {
		return position{seq: wholeTier}, nil
	}
	bad := &Error{Code: CodeInvalidQuery, Faults: []Fault{{Field: "cursor", Code: FaultBadValue, Topic: "cursor"}}}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return position{}, bad
	}
	tier, seq, _ := strings.Cut(string(text), ".")
	var p position
	if p.tier, err = strconv.Atoi(tier); err != nil || p.tier < 0 || p.tier > 3 {
		return position{}, bad
	}
	if p.seq, err = strconv.ParseInt(seq, 10, 64); err != nil || p.seq < 1 || p.cursor() != cursor {
		return position{}, bad
	}
	return p, nil
}

// tiers returns the expressions of a search's tiers in order, and the one that
// matches all of them. Each scope holds the one before it, so a tier is its scope
// without that. Without words there is one tier, of all that the facets select.
func tiers(words []word, facets []string, exact string) (each []string, whole string) {
	filter := ""
	if len(facets) > 0 {
		filter = "{facet} : " + allOf(quoted(facets))
	}
	if len(words) == 0 {
		return []string{filter}, filter
	}
	if filter != "" {
		filter += " AND "
	}
	parts := make([]string, len(words))
	for i, w := range words {
		parts[i] = w.expression()
	}
	found := allOf(parts)
	var scopes []string
	if exact != "" {
		scopes = append(scopes, `({facet} : "`+exact+`")`)
	}
	for _, columns := range []string{"{first}", "{first second}", "{first second third}"} {
		scopes = append(scopes, "("+columns+" : "+found+")")
	}
	for i, scope := range scopes {
		if i > 0 {
			scope = "(" + scope + " NOT " + scopes[i-1] + ")"
		}
		each = append(each, filter+scope)
	}
	return each, filter + scopes[len(scopes)-1]
}

// expression is a word as FTS5 reads it: quoted always, so that no input can be
// a syntax error.
func (w word) expression() string {
	if w.prefix {
		return `"` + w.text + `" *`
	}
	return `"` + w.text + `"`
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = `"` + w + `"`
	}
	return out
}

func allOf(parts []string) string { return "(" + strings.Join(parts, " AND ") + ")" }

// listing is one list query: its SQL texts differ by what they join, the walk
// through tiers is the same. In both texts the first value is the tier's
// expression, but for a listing of everything, which has none.
type listing struct {
	rows   string   // selects a page; after the expression: seq below, bounds…, limit, offset
	count  string   // counts matches; after the expression: bounds…, limit
	bounds []any    // further values of both
	tiers  []string // the expressions in order; one empty one lists everything
	whole  string   // matches what all tiers match
}

// arguments puts the expression, if there is one, before the other values.
func arguments(expression string, bounds []any, others ...any) []any {
	var args []any
	if expression != "" {
		args = append(args, expression)
	}
	if len(others) == 3 { // seq stands before the bounds, limit and offset behind them
		return append(append(append(args, others[0]), bounds...), others[1:]...)
	}
	return append(append(args, bounds...), others...)
}

// placed is a row that knows its place in the order of its list.
type placed interface{ place() int64 }

// list reads one page.
func list[T placed](ctx context.Context, s *Store, l listing, page Page) (List[T], error) {
	result := List[T]{Items: []T{}}
	from, err := parseCursor(page.Cursor)
	if err != nil {
		return result, err
	}
	skip := page.Offset
	if page.Cursor != "" {
		skip = 0
	}
	// One row more than wanted tells whether another page follows.
	var last position
	for tier := from.tier; tier < len(l.tiers) && len(result.Items) <= page.Limit; tier++ {
		if skip > 0 && len(l.tiers) > 1 {
			n, err := s.count(ctx, l, l.tiers[tier], skip)
			if err != nil {
				return result, err
			}
			if n < skip {
				skip -= n
				continue
			}
		}
		var rows []T
		wanted := page.Limit + 1 - len(result.Items)
		args := arguments(l.tiers[tier], l.bounds, from.seq, wanted, skip)
		if err := s.all(ctx, &rows, l.rows, args...); err != nil {
			return result, err
		}
		for _, row := range rows {
			if len(result.Items) < page.Limit {
				last = position{tier: tier, seq: row.place()}
			}
			result.Items = append(result.Items, row)
		}
		skip, from.seq = 0, wholeTier
	}
	if len(result.Items) > page.Limit {
		result.Items = result.Items[:page.Limit]
		result.Next = last.cursor()
	}
	total, err := s.count(ctx, l, l.whole, countLimit+1)
	result.Total, result.TotalIsExact = min(total, countLimit), total <= countLimit
	return result, err
}

// count counts the matches of an expression, up to limit.
func (s *Store) count(ctx context.Context, l listing, expression string, limit int) (int, error) {
	var n int
	err := s.get(ctx, &n, l.count, arguments(expression, l.bounds, limit)...)
	return n, err
}
