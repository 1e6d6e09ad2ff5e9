package store

import (
	"context"
	"database/sql/driver"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file asks the full-text index, and search_row.go fills it.
//
// Results come in tiers, newest first within each, so that a page never needs
// more than its own rows however many there are: words found in the weightiest
// kind of text alone, then those that need the second kind too, then the rest. A
// row is in the first tier that holds it. For agents the kinds are handle, name
// and titles of offerings; tagline, owner, capabilities and deliverables;
// descriptions and the rest of the offerings. For calls: title; deliverable and
// tags; body and constraints.

// countLimit is how far totals are counted.
const countLimit = 1000

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
	list uint32 // which list and filter it belongs to: a checksum of its name
	tier int
	seq  int64 // the next page holds lower ones of this tier
}

const wholeTier = int64(1) << 62

func (p position) cursor() string {
	text := fmt.Sprintf("%d.%d.%d", p.tier, p.seq, p.list)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCursor reads a cursor of the named list. It refuses with invalid_query one
// that no page of that list gave.
func parseCursor(name, cursor string) (position, error) {
	p := position{list: crc32.ChecksumIEEE([]byte(name)), seq: wholeTier}
	if cursor == "" {
		return p, nil
	}
	bad := &Error{Code: CodeInvalidQuery, Faults: []Fault{{Field: "cursor", Code: FaultBadValue, Topic: "cursor"}}}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return p, bad
	}
	tier, rest, _ := strings.Cut(string(text), ".")
	seq, _, _ := strings.Cut(rest, ".")
	if p.tier, err = strconv.Atoi(tier); err != nil || p.tier < 0 || p.tier >= longestTierList {
		return p, bad
	}
	if p.seq, err = strconv.ParseInt(seq, 10, 64); err != nil || p.seq < 1 || p.cursor() != cursor {
		return p, bad
	}
	return p, nil
}

// completes tells whether a word is longer than the beginnings that are words of
// their own.
func completes(w string) bool {
	first, _ := utf8.DecodeRuneInString(w)
	return !isUnspaced(first) && utf8.RuneCountInString(w) > maxBeginning
}

// query is what a caller searches for.
type query struct {
	words []word
	forms []string // the known words that begin with the last one, where it is longer than a beginning
	none  bool     // nothing can match: no word is known that begins so, or there is none to look for
}

// maxForms bounds how many words the last one of a query is completed to, the
// shortest first. Beginnings of more than three characters that real words share
// have fewer; without a bound, made-up ones would make every such search slow.
const maxForms = 300

// parse cuts a query and completes its last word. FTS5's own prefix search would
// put together all that a prefix matches before it gives the first row; the words
// by name are walked only as far as the page needs.
func (s *Store) parse(ctx context.Context, text string) (query, error) {
	q := query{words: queryWords(text)}
	if len(q.words) == 0 {
		q.none = text != ""
		return q, nil
	}
	last := q.words[len(q.words)-1]
	if !last.prefix || !completes(last.text) {
		return q, nil
	}
	err := s.all(ctx, &q.forms, `
		SELECT word FROM search_words
		WHERE word >= ? AND word < ?
		ORDER BY length(word), word
		LIMIT +?`, last.text, last.text+string(utf8.MaxRune), maxForms)
	q.none = len(q.forms) == 0
	return q, err
}

// tiers returns the expressions of a search's tiers in order, and the one that
// matches all of them. Each scope holds the one before it, so a tier is its scope
// without that. Without words there is one tier, of all that the facets select.
func (q query) tiers(facets []string, exact string) (each []string, whole string) {
	parts := make([]string, len(facets))
	for i, f := range facets {
		parts[i] = quote(f)
	}
	filter := allOf(parts)
	if len(q.words) == 0 {
		return []string{filter}, filter
	}
	if filter != "" {
		filter += " AND "
	}
	scopes := make([]string, 0, longestTierList)
	if exact != "" && exact != emptyTier {
		scopes = append(scopes, quote(exact))
	}
	for _, mark := range []string{inFirst, inSecond, anywhere} {
		scopes = append(scopes, q.expression(mark))
	}
	for i, scope := range scopes {
		if i > 0 {
			scope = "(" + scope + " NOT " + scopes[i-1] + ")"
		}
		each = append(each, filter+scope)
	}
	if exact == emptyTier {
		each = append([]string{emptyTier}, each...)
	}
	return each, filter + scopes[len(scopes)-1]
}

// expression matches all words in one scope. Its words are always quoted, so that
// no input is a syntax error.
func (q query) expression(mark string) string {
	parts := make([]string, len(q.words))
	for i, w := range q.words {
		switch {
		case w.prefix && !completes(w.text):
			parts[i] = quote(mark + beginningMark + w.text)
		case w.prefix && len(q.forms) > 0:
			forms := make([]string, len(q.forms))
			for j, form := range q.forms {
				forms[j] = quote(mark + form)
			}
			parts[i] = "(" + strings.Join(forms, " OR ") + ")"
		default: // a whole word, or the pairs of a run as a phrase
			parts[i] = quote(mark + strings.ReplaceAll(w.text, " ", " "+mark))
		}
	}
	return allOf(parts)
}

func quote(words string) string { return `"` + words + `"` }

func allOf(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, " AND ") + ")"
}

// emptyTier stands in the place of a tier that is known to hold nothing: the others
// keep their numbers, which cursors hold.
const emptyTier = "-"

// listing is one list query: its SQL texts differ by what they join, the walk
// through tiers is the same. In both texts the first value is the tier's
// expression, but for a listing of everything, which has none.
type listing struct {
	name   string   // tells the list and its filter from others
	rows   string   // selects a page; after the expression: seq below, bounds…, limit, offset
	count  string   // counts matches; after the expression: bounds…, limit
	bounds []any    // further values of both
	before []any    // values of both before all others
	most   int      // bytes of the records of a page, from which on it ends early; 0 for any
	tiers  []string // the expressions in order; one empty one lists everything
	whole  string   // matches what all tiers match
	short  bool     // a page is read straight from the end of one key or one word's rows
	totals *totals  // remembers its total; nil: it is counted each time
}

// arguments puts the expression, if there is one, before the other values.
func (l *listing) arguments(expression string, others ...any) []any {
	args := slices.Clone(l.before)
	if expression != "" {
		args = append(args, expression)
	}
	if len(others) == 3 { // seq stands before the bounds, limit and offset behind them
		return append(append(append(args, others[0]), l.bounds...), others[1:]...)
	}
	return append(append(args, l.bounds...), others...)
}

// placed is a row that knows its place in the order of its list.
type placed interface{ place() int64 }

// sized is one that may be long, and knows about how many bytes of an answer it
// takes.
type sized interface{ size() int }

// pageBytes bounds what the records of one page hold together, so that no answer
// holds megabytes: a page of very long ones ends early, and next goes on.
const pageBytes = 250 << 10

// list reads one page.
func list[T placed](ctx context.Context, s *Store, l listing, page Page) (List[T], error) {
	result := List[T]{Items: []T{}}
	from, err := parseCursor(l.name, page.Cursor)
	if err != nil {
		return result, err
	}
	skip := page.Offset
	if page.Cursor != "" {
		skip = 0
	}
	// One row more than wanted tells whether another page follows.
	var last position
	size := 0
	for tier := from.tier; tier < len(l.tiers) && result.Next == ""; tier++ {
		if l.tiers[tier] == emptyTier {
			continue
		}
		wanted := page.Limit + 1 - len(result.Items)
		rows, err := readRows[T](ctx, s, l, l.arguments(l.tiers[tier], from.seq, wanted, skip))
		if err != nil {
			return result, err
		}
		if len(rows) == 0 && skip > 0 && tier < len(l.tiers)-1 { // the tier ends before the page begins
			n, err := s.count(ctx, l, l.tiers[tier], skip)
			if err != nil {
				return result, err
			}
			skip -= n
			continue
		}
		for _, row := range rows {
			if long, ok := any(row).(sized); ok {
				size += long.size()
			}
			if n := len(result.Items); n == page.Limit || n > 0 && l.most > 0 && size > l.most {
				result.Next = last.cursor()
				break
			}
			last = position{list: from.list, tier: tier, seq: row.place()}
			result.Items = append(result.Items, row)
		}
		skip, from.seq = 0, wholeTier
	}
	if page.Cursor == "" && page.Offset == 0 && result.Next == "" {
		result.Total, result.TotalIsExact = len(result.Items), true // the page is the whole list
		return result, nil
	}
	total, err := s.total(ctx, l)
	result.Total, result.TotalIsExact = min(total, countLimit), total <= countLimit
	return result, err
}

// fromRow is a record that takes its columns in the order of its queries, which is
// quicker than by their names.
type fromRow interface{ fromRow(values []driver.Value) }

// readRows reads the rows of a page.
func readRows[T any](ctx context.Context, s *Store, l listing, args []any) (items []T, err error) {
	read := s.read
	if l.short {
		read = s.look
	}
	err = read(ctx, l.rows, args, func(stmt *statement, columns []string, values []driver.Value) (bool, error) {
		items = append(items, *new(T))
		item := &items[len(items)-1]
		if quick, ok := any(item).(fromRow); ok {
			quick.fromRow(values)
			return true, nil
		}
		return true, stmt.scan(reflect.ValueOf(item).Elem(), columns, values)
	})
	return items, err
}

// count counts the matches of an expression, up to limit.
func (s *Store) count(ctx context.Context, l listing, expression string, limit int) (int, error) {
	var n int
	err := s.get(ctx, &n, l.count, l.arguments(expression, limit)...)
	return n, err
}
