package store

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"

	"callbook/store/domain"
	"callbook/store/search"
)

// countLimit is how far totals are counted.
const countLimit = search.CountLimit

// List is one page of records.
type List[T any] struct {
	Items        []T
	Strict       int    // of a search: how many items, from the first on, match every word; the others match some
	Total        int    // counted up to 1000; of a search: records that match every word
	TotalIsExact bool   // false when there are more than Total
	TotalSome    int    // of a search: records that match some words, 0 to 100
	Hint         *Hint  // of a search that no record matches strictly
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
	list uint32 // checksum of the name of the list and its filter
	tier int
	seq  int64 // the next page holds lower ones of this tier
	// Partial matches are ranked when the first page is read. Later pages take them from the cursor, so that each is
	// visited once, whatever is written meanwhile.
	some int     // how many there are
	rest []int64 // those that the next page begins with
}

// highestSeq is above every sequence number.
const highestSeq = int64(1) << 62

func (p position) cursor() string {
	b := binary.AppendUvarint(nil, uint64(p.list))
	b = binary.AppendUvarint(b, uint64(p.tier))
	b = binary.AppendUvarint(b, uint64(p.seq))
	b = binary.AppendUvarint(b, uint64(p.some))
	for _, id := range p.rest {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads a cursor of the named list. It returns invalid_query for one that no page of that list gave.
func parseCursor(name, cursor string) (position, error) {
	first := position{list: crc32.ChecksumIEEE([]byte(name)), seq: highestSeq}
	if cursor == "" {
		return first, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	var numbers []uint64
	for len(b) > 0 && err == nil {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > math.MaxInt64 {
			err = errors.New("it is cut off")
			break
		}
		numbers, b = append(numbers, n), b[size:]
	}
	if err == nil && len(numbers) >= 4 {
		p := position{list: first.list, tier: int(numbers[1]), seq: int64(numbers[2]), some: int(numbers[3])}
		for _, id := range numbers[4:] {
			if slices.Contains(p.rest, int64(id)) || len(p.rest) == search.MaxPartial {
				p.some = -1 // which no cursor has
				break
			}
			p.rest = append(p.rest, int64(id))
		}
		if p.tier <= search.Tiers && p.seq > 0 && len(p.rest) <= p.some && p.some <= search.MaxPartial && p.cursor() == cursor {
			return p, nil
		}
	}
	return first, &domain.Error{Code: domain.CodeInvalidQuery, Fields: []domain.FieldError{{Field: "cursor", Code: domain.FaultBadValue, Topic: "cursor"}}}
}

// listing describes a list to list: two queries, and for a search the expressions of its tiers.
type listing struct {
	name   string // tells the list and its filter from others
	rows   string // selects a page; values: before, the tier's expression if it has one, seq below, bounds, limit, offset
	count  string // counts as n; values: before, the expression if it has one, bounds, limit
	before []any
	bounds []any
	match  []string // expressions of the tiers, which exclude each other, empty for an empty tier; nil for a list without
	all    string   // expression of all tiers
	most   int      // bytes of the records of a page, from which on it ends early; 0 for any
	totals *totals  // caches its total; nil: it is counted each time
	// changes is how far the changes of its records had come before anything of it was read.
	changes uint64
}

// placed is a row that knows its place in the order of its list.
type placed interface{ Position() int64 }

// sized is one that may be long, and knows about how many bytes of a response it takes.
type sized interface{ Size() int }

// pageBytes bounds what the records of one page hold together. A page of very long ones ends early, and next goes on.
const pageBytes = 250 << 10

// fewItems is the capacity of a page before any record is read.
const fewItems = 32

func (l *listing) tiers() int { return max(1, len(l.match)) }

// args returns the values of a query of the list: those before the tier's expression, the expression, and more.
func (l *listing) args(expression string, more ...any) []any {
	args := append(make([]any, 0, 8), l.before...)
	if expression != "" {
		args = append(args, expression)
	}
	return append(args, more...)
}

func (l *listing) expression(tier int) string {
	if tier < len(l.match) {
		return l.match[tier]
	}
	return ""
}

// list reads one page. Of a search it reads strict matches only.
func list[T placed](ctx context.Context, s *Store, l *listing, page Page) (List[T], error) {
	result := List[T]{Items: make([]T, 0, min(page.Limit+1, fewItems))}
	from, err := parseCursor(l.name, page.Cursor)
	if err != nil {
		return result, err
	}
	skip := page.Offset
	if page.Cursor != "" {
		skip = 0
	}
	last, size := position{list: from.list}, 0
	for tier := from.tier; tier < l.tiers() && result.Next == "" && len(from.rest) == 0; tier++ {
		expression := l.expression(tier)
		if expression == "" && l.match != nil { // a tier that no record is in
			from.seq = highestSeq
			continue
		}
		if skip > 0 && l.tiers() > 1 {
			var passed int
			if passed, err = s.count(ctx, l, expression, skip); err != nil {
				return result, err
			}
			if passed < skip {
				skip -= passed
				continue
			}
		}
		args := append(l.args(expression, from.seq), l.bounds...)
		var rows []T
		if err := s.selectAll(ctx, &rows, l.rows, append(args, page.Limit+1-len(result.Items), skip)...); err != nil {
			return result, err
		}
		skip = 0
		for i := range rows {
			if long, ok := any(rows[i]).(sized); ok {
				size += long.Size()
			}
			if n := len(result.Items); n == page.Limit || n > 0 && l.most > 0 && size > l.most {
				result.Next = last.cursor()
				break
			}
			result.Items = append(result.Items, rows[i])
			last = position{list: from.list, tier: tier, seq: rows[i].Position()}
		}
		from.seq = highestSeq
	}
	result.Strict = len(result.Items)
	if page.Cursor == "" && page.Offset == 0 && result.Next == "" {
		result.Total, result.TotalIsExact = len(result.Items), true
		return result, nil
	}
	result.Total, result.TotalIsExact, err = s.total(ctx, l)
	result.Total = max(result.Total, len(result.Items))
	return result, err
}

// count counts the matches of an expression, up to limit.
func (s *Store) count(ctx context.Context, l *listing, expression string, limit int) (n int, err error) {
	err = s.get(ctx, &n, l.count, append(append(l.args(expression), l.bounds...), limit)...)
	return n, err
}
