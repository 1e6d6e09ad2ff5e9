// Package listing reads pages of records: cursors, totals, and lists that search full-text
// tables. It knows no entity: a Query holds the SQL of a list, and the type of its rows says
// how they are read. A Search describes a list of the matches of words in a full-text table.
//
// A page is read with one query, which continues below the last row of the page before, so
// that a page costs the same however far down it is and no record is listed twice. Totals are
// counted up to [CountLimit]. A search has tiers of strict matches and then partial matches; see
// package search.
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
	Brief  bool   // the records are shown in short, so that more of them fit
}

// first reports whether the page is the first of its list.
func (p Page) first() bool { return p.Cursor == "" && p.Offset == 0 }

// List is one page of records.
type List[T any] struct {
	Items []T
	// Strict is the number of leading items of a search that match every word; others match some.
	Strict       int
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

// Query describes a list by two SQL queries.
type Query struct {
	Name     string // identifies the list and its filter
	Rows     string // selects a page; values: Before, position below, Bounds, limit, offset
	Count    string // counts the records; values: Before, Bounds, limit
	Before   []any  // values of both queries
	Bounds   []any  // values of both queries
	MaxBytes int    // a page ends early when its records exceed this size, if they have one
}

// Read reads one page of a list. It returns invalid_query if the cursor is not one of this list.
func Read[T Record](ctx context.Context, r Reader, q *Query, page Page) (List[T], error) {
	list := List[T]{Items: []T{}}
	from, err := ParseCursor(q.Name, page.Cursor)
	if err != nil {
		return list, err
	}
	if page.Cursor != "" {
		page.Offset = 0
	}

	// One row more than the page has room for shows whether another page follows.
	var rows []T
	args := slices.Concat(q.Before, []any{from.Seq}, q.Bounds, []any{page.Limit + 1, page.Offset})
	if err := r.Select(ctx, &rows, q.Rows, args...); err != nil {
		return list, err
	}

	n := fitting(rows, page.Limit, q.MaxBytes)
	list.Items = append(list.Items, rows[:n]...)
	if n < len(rows) {
		from.Seq = rows[n-1].Position()
		list.Next = from.Cursor()
	}
	list.Strict = len(list.Items)

	// A list of one page, as most are, needs no second query.
	if page.first() && list.Next == "" {
		list.Total = len(list.Items)
		list.TotalIsExact = true
		return list, nil
	}

	var total int
	args = slices.Concat(q.Before, q.Bounds, []any{CountLimit + 1})
	err = r.Get(ctx, &total, q.Count, args...)
	list.TotalIsExact = total <= CountLimit
	// Between the two queries records may have been deleted.
	list.Total = max(min(total, CountLimit), len(list.Items))
	return list, err
}

// fitting returns how many of the records fit on a page: at least one.
func fitting[T any](records []T, limit, maxBytes int) int {
	size := 0
	for i := range records {
		size += sizeOf(records[i : i+1])
		if i == limit || i > 0 && size > maxBytes { // one fits always, or the list would never end
			return i
		}
	}

	return len(records)
}

// Map returns a list with each item converted by f.
func Map[T, U any](list List[T], f func(*T) U) List[U] {
	items := make([]U, len(list.Items))
	for i := range list.Items {
		items[i] = f(&list.Items[i])
	}

	return List[U]{
		Items:        items,
		Total:        list.Total,
		TotalIsExact: list.TotalIsExact,
		Next:         list.Next,
	}
}
