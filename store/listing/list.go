// Package listing reads pages of records: cursors, totals, and lists that search full-text
// tables. It knows no entity: a Query holds the SQL of a list, and the type of its rows says
// how they are read.
//
// A page is read with one query, which continues below the last row of the page before, so
// that a page costs the same however far down it is and no record is listed twice. Totals are
// counted up to [CountLimit] and cached in Totals. A search has tiers of strict matches and
// then partial matches; see package search.
package listing

import (
	"context"
	"slices"

	"callbook/store/search"
)

// CountLimit is how far totals are counted.
const CountLimit = search.CountLimit

// PageBytes is the usual limit for the size of the records of one page.
const PageBytes = 250 << 10

// Reader runs queries on the database.
type Reader interface {
	// Get reads one row into dest. It returns sql.ErrNoRows if there is none.
	Get(ctx context.Context, dest any, query string, args ...any) error
	// Find reads one row into dest, and reports whether there is one.
	Find(ctx context.Context, dest any, query string, args ...any) (bool, error)
	// Select reads every row into the slice dest.
	Select(ctx context.Context, dest any, query string, args ...any) error
}

// Page selects a part of a list.
type Page struct {
	Limit  int    // 1 to 100
	Offset int    // 0 to 10000; ignored if there is a cursor
	Cursor string // List.Next of the page before; empty for the first page
}

// List is one page of records.
type List[T any] struct {
	Items        []T
	Strict       int    // search only: number of leading items that match every word; the others match some
	Total        int    // counted up to CountLimit; of a search, the records that match every word
	TotalIsExact bool   // false if there are more than Total
	TotalSome    int    // search only: records that match some words, 0 to 100
	Hint         *Hint  // search only: set if no record matches every word
	Next         string // cursor of the following page; empty on the last
}

// Record is a row that knows its position in the order of its list. The highest comes first.
type Record interface{ Position() int64 }

// sized is a record that can be large. Size is approximately its number of bytes in a response.
type sized interface{ Size() int }

// sizeOf returns the size of records; 0 for records that are never large.
func sizeOf[T any](records []T) (size int) {
	for i := range records {
		if long, ok := any(records[i]).(sized); ok {
			size += long.Size()
		}
	}
	return size
}

// Query describes a list by two SQL queries. If SetMatch was called, the list has tiers, which
// are read one after the other, and the queries get the full-text expression of the tier.
type Query struct {
	Name     string  // identifies the list and its filter
	Rows     string  // selects a page; values: Before, the expression if any, position below, Bounds, limit, offset
	Count    string  // counts the records; values: Before, the expression if any, Bounds, limit
	Before   []any   // values of both queries
	Bounds   []any   // values of both queries
	MaxBytes int     // a page ends early when its records exceed this size; 0 for no limit
	Totals   *Totals // caches the total; nil to count it every time
	Changes  uint64  // Totals.Changes before anything of the list was read

	tiers []string // expressions, which exclude each other; "" for an empty tier; nil for a list without
	all   string   // expression of all tiers together
}

// args returns the values of a query: those before the tier's expression, the expression if
// there is one, and more.
func (q *Query) args(expression string, more ...any) []any {
	args := slices.Clone(q.Before)
	if expression != "" {
		args = append(args, expression)
	}
	return append(args, more...)
}

func (q *Query) expression(tier int) string {
	if tier < len(q.tiers) {
		return q.tiers[tier]
	}
	return ""
}

// Read reads one page of a list; of a search, only the strict matches. It returns invalid_query
// if the cursor is not one of this list.
func Read[T Record](ctx context.Context, r Reader, q *Query, page Page) (List[T], error) {
	list := List[T]{Items: []T{}}
	from, err := ParseCursor(q.Name, page.Cursor)
	if err != nil {
		return list, err
	}
	skip := page.Offset
	if page.Cursor != "" {
		skip = 0
	}
	tiers := max(1, len(q.tiers))
	last, size := from, 0
	for tier := from.tier; tier < tiers && list.Next == ""; tier++ {
		expression := q.expression(tier)
		if expression == "" && q.tiers != nil {
			from.Seq = Last
			continue
		}
		if skip > 0 && tiers > 1 {
			var passed int
			if passed, err = q.count(ctx, r, expression, skip); err != nil {
				return list, err
			}
			if passed < skip {
				skip -= passed
				continue
			}
		}
		args := append(q.args(expression, from.Seq), q.Bounds...)
		var rows []T
		if err := r.Select(ctx, &rows, q.Rows, append(args, page.Limit+1-len(list.Items), skip)...); err != nil {
			return list, err
		}
		skip = 0
		for i := range rows {
			size += sizeOf(rows[i : i+1])
			if n := len(list.Items); n == page.Limit || n > 0 && q.MaxBytes > 0 && size > q.MaxBytes {
				list.Next = last.Cursor()
				break
			}
			list.Items = append(list.Items, rows[i])
			last = Position{list: from.list, tier: tier, Seq: rows[i].Position()}
		}
		from.Seq = Last
	}
	list.Strict = len(list.Items)
	if page.Cursor == "" && page.Offset == 0 && list.Next == "" {
		list.Total, list.TotalIsExact = len(list.Items), true
		return list, nil
	}
	list.Total, list.TotalIsExact, err = q.total(ctx, r)
	list.Total = max(list.Total, len(list.Items))
	return list, err
}

// Map returns a list with each item converted by f.
func Map[T, U any](list List[T], f func(*T) (U, error)) (List[U], error) {
	mapped := List[U]{
		Items: make([]U, len(list.Items)), Strict: list.Strict, Total: list.Total, TotalIsExact: list.TotalIsExact,
		TotalSome: list.TotalSome, Hint: list.Hint, Next: list.Next,
	}
	for i := range list.Items {
		var err error
		if mapped.Items[i], err = f(&list.Items[i]); err != nil {
			return mapped, err
		}
	}
	return mapped, nil
}

// count counts the matches of an expression, up to limit.
func (q *Query) count(ctx context.Context, r Reader, expression string, limit int) (n int, err error) {
	err = r.Get(ctx, &n, q.Count, append(append(q.args(expression), q.Bounds...), limit)...)
	return n, err
}
