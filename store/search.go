package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"hash/crc32"
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

// mostOffset bounds how many records a page may skip: further on, next leads.
const mostOffset = 10_000

// Page says which part of a list is wanted.
type Page struct {
	Limit  int    // 1 to 100
	Offset int    // 0 to mostOffset; ignored when a cursor is given
	Cursor string // where the page before ended; empty for the first
}

// position is where a page ended: a cursor's content.
type position struct {
	list uint32 // which list and filter it belongs to: a checksum of its name
	tier int
	seq  int64 // the next page holds lower ones of this tier
	skip int   // and of these not the first, as its offset asked for
}

const wholeTier = int64(1) << 62

func (p position) cursor() string {
	text := fmt.Sprintf("%d.%d.%d", p.tier, p.seq, p.list)
	if p.skip > 0 {
		text += fmt.Sprintf(".%d", p.skip)
	}
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
	seq, rest, _ := strings.Cut(rest, ".")
	if _, skip, _ := strings.Cut(rest, "."); skip != "" {
		if p.skip, err = strconv.Atoi(skip); err != nil || p.skip < 1 || p.skip > mostOffset {
			return p, bad
		}
	}
	if p.tier, err = strconv.Atoi(tier); err != nil || p.tier < 0 || p.tier >= restOf+longestTierList {
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
	words   []word
	forms   []string // the known words that the last one is completed to, where it is longer than a beginning
	spelled bool     // rows hold it as a beginning too, those of words that it is not completed to
	cut     bool     // there may be more forms, which only a very long beginning has, so that no total is exact
	none    bool     // nothing can match: no word is known that begins so, or there is none to look for
}

// maxForms bounds how many words the last one of a query is completed to: each takes
// time. Most beginnings of more than three characters have fewer. The words past it are
// found by a beginning that their rows hold (longWord).
const maxForms = 60

// formBytes bounds what a very long beginning and its completions take together, but for
// the first: words may be as long as texts are, and each stands in many expressions.
const formBytes = 8 << 10

// manyWords is how many words and pairs a search with tiers has at the most: whatever
// holds so many is found by them alone, and asking for each in every kind of text takes
// milliseconds.
const manyWords = 100

// asked is how many words and pairs a query has.
func (q query) asked() (n int) {
	for _, w := range q.words {
		n += 1 + strings.Count(w.text, " ")
	}
	return n
}

// formsALook is how many completions of a word take as long as a look-up of it.
const formsALook = 10

// parse cuts a query and completes its last word. FTS5's own prefix search would
// put together all that a prefix matches before it gives the first row; the words
// by name are walked only as far as the page needs.
func (s *Store) parse(ctx context.Context, text string) (query, error) {
	q := query{words: queryWords(text)}
	q.none = len(q.words) == 0 && text != ""
	beginning, ok := q.beginning()
	if !ok {
		return q, nil
	}
	found, err := s.begun(ctx, fewBegun, beginning)
	if err == nil && len(found) > maxForms {
		found, err = s.begun(ctx, begunBy, beginning)
	}
	if err == nil {
		q.complete(beginning, found)
	}
	return q, err
}

// fewBegun selects the words that begunBy does, without looking for each length and
// sorting, where there are so few that none is left out: mostly.
const fewBegun = `
	SELECT word, completed_from FROM search_words
	WHERE word >= ? AND word < ?
	LIMIT ?`

// begun reads the long words with a beginning, in the order of begunBy: those that it is
// completed to, and one of the others, which tells that there are some.
func (s *Store) begun(ctx context.Context, query, beginning string) (found []longWord, err error) {
	bounds := []any{beginning, beginning + string(utf8.MaxRune), maxForms + 1}
	err = s.selectAll(ctx, &found, query, bounds...)
	slices.SortFunc(found, func(a, b longWord) int {
		return cmp.Or(cmp.Compare(a.CompletedFrom, b.CompletedFrom), strings.Compare(a.Word, b.Word))
	})
	return found, err
}

// beginning is the last word, if it must be completed.
func (q *query) beginning() (string, bool) {
	if len(q.words) == 0 {
		return "", false
	}
	last := q.words[len(q.words)-1]
	return last.text, last.prefix && completes(last.text)
}

// complete completes the last word to those that begin so.
func (q *query) complete(beginning string, found []longWord) {
	n := utf8.RuneCountInString(beginning)
	if q.none = len(found) == 0; q.none {
		return
	}
	if n > maxSpelled { // whatever others begin so, the word itself is found
		others := slices.DeleteFunc(found, func(w longWord) bool { return w.Word == beginning })
		found = slices.Insert(others, 0, longWord{Word: beginning})
	}
	size := 0
	for _, w := range found {
		size += len(w.Word)
		switch {
		case w.CompletedFrom > n: // and so are all that follow
			q.spelled = true
			return
		case len(q.forms) == maxForms, len(q.forms) > 1 && size > formBytes:
			q.cut = true
			return
		}
		q.forms = append(q.forms, w.Word)
	}
}

// tier is a part of a list that comes before the next.
type tier struct {
	match string   // an expression that its rows match; empty: all of them
	but   string   // another, which they must not match; empty: none
	empty bool     // it is known to hold nothing; the others keep their numbers, which cursors hold
	parts []string // what its rows must match all of, each an expression
	looks int      // look-ups that a row of it takes
}

// tiers are those of a search in order. Each scope holds the one before it, so a tier
// is its scope without that, and the rest from a tier on is the widest scope without
// it. Without words there is one tier, of all that the facets select.
type tiers struct {
	each []tier
	rest []tier // from each of them on
	all  tier   // matches what all of them match
}

func (q query) tiers(facets []string, exact string) (l tiers) {
	filter := make([]string, len(facets))
	for i, f := range facets {
		filter[i] = quote(f)
	}
	l.all = tier{match: allOf(filter), parts: filter, looks: len(filter)}
	if len(q.words) == 0 {
		return l.with(l.all, l.all)
	}
	l.all = q.scope(anywhere).within(filter)
	if q.asked() > manyWords {
		return l.with(l.all, l.all)
	}
	var before tier
	switch exact {
	case "":
	case noSuchHandle:
		l = l.with(tier{empty: true}, l.all)
	default:
		before = tier{match: quote(exact), parts: []string{quote(exact)}, looks: 1}.within(filter)
		l = l.with(before, l.all)
	}
	for _, mark := range marks {
		scope := q.scope(mark).within(filter)
		l = l.with(scope.without(before), l.all.without(before))
		before = scope
	}
	return l
}

// oneTier is the tier of a list that is no search. match is an expression of
// its rows, if it has one.
func oneTier(match string) tiers {
	all := tier{match: match, looks: 1}
	return tiers{all: all}.with(all, all)
}

func (l tiers) with(next, rest tier) tiers {
	l.each, l.rest = append(l.each, next), append(l.rest, rest)
	return l
}

func (t tier) within(filter []string) tier {
	t.match, t.parts = allOf(append(slices.Clone(filter), t.match)), append(t.parts, filter...)
	t.looks += len(filter)
	return t
}

// without takes rows away, those of a scope within the same filter.
func (t tier) without(other tier) tier {
	t.but, t.looks = other.match, t.looks+other.looks
	return t
}

// expression is that of the tier's rows within some bounds; empty: all of them. FTS5
// looks for the first row of either side of a NOT by itself, however far away it is,
// so the bounds hold for both.
func (t tier) expression(within string) string {
	if within == "" && t.but == "" {
		return t.match
	}
	match := allOf(nonEmpty(within, t.match))
	if t.but == "" {
		return match
	}
	return "(" + match + " NOT " + allOf(nonEmpty(within, t.but)) + ")"
}

func nonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}

// scope matches all words in one kind of text. They are always quoted, so that no
// input is a syntax error.
func (q query) scope(mark string) tier {
	var t tier
	all := make([]string, len(q.words))
	for i, w := range q.words {
		switch {
		case w.prefix && !completes(w.text):
			all[i] = quote(mark + beginningMark + w.text)
			t.parts, t.looks = append(t.parts, all[i]), t.looks+1
		case w.prefix:
			forms := make([]string, 0, len(q.forms)+1)
			for _, form := range q.forms {
				forms = append(forms, quote(mark+form))
			}
			if q.spelled {
				forms = append(forms, quote(mark+beginningMark+w.text))
			}
			all[i] = "(" + strings.Join(forms, " OR ") + ")"
			t.parts, t.looks = append(t.parts, all[i]), t.looks+1+len(forms)/formsALook
		default: // a whole word, or the pairs of a run
			pairs := strings.Split(w.text, " ")
			for j, pair := range pairs {
				pairs[j] = quote(mark + pair)
			}
			t.parts = append(t.parts, pairs...)
			all[i], t.looks = allOf(pairs), t.looks+len(pairs)
		}
	}
	t.match = allOf(all)
	return t
}

func quote(words string) string { return `"` + words + `"` }

func allOf(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, " AND ") + ")"
}

// noSuchHandle stands for a handle that no agent has.
const noSuchHandle = "-"

// listing is one list query: its SQL texts differ by what they join, the walk
// through tiers is the same. In both texts the first value is the tier's
// expression, but for a listing of everything, which has none.
type listing struct {
	name   string  // tells the list and its filter from others
	rows   string  // selects a page; after the expression: seq below, a search's lowest, bounds…, limit, and offset but for a search
	count  string  // counts matches, and a search tells the number of the last; after the expression: for a search seq below and its lowest, bounds…, limit
	bounds []any   // further values of both
	before []any   // values of both before all others
	most   int     // bytes of the records of a page, from which on it ends early; 0 for any
	tiers          // one without an expression lists everything
	search *search // nil: the list is no search, and has no bound of its own
	totals *totals // remembers its total; nil: it is counted each time
	// how far the changes of its records had come before anything of it was read: what
	// comes after only has it counted again
	changes uint64
}

// page are the values of rows. A search has a lowest number, and passes by counting.
func (l *listing) page(t tier, below int64, r reach, limit, offset int) []any {
	args := append(l.matching(t, r), below)
	if l.search == nil {
		return append(append(args, l.bounds...), limit, offset)
	}
	return append(append(append(args, r.low), l.bounds...), limit)
}

// counted are the values of count.
func (l *listing) counted(t tier, below int64, r reach, limit int) []any {
	args := l.matching(t, r)
	if l.search != nil {
		args = append(args, below, r.low)
	}
	return append(append(args, l.bounds...), limit)
}

func (l *listing) matching(t tier, r reach) []any {
	args := slices.Clone(l.before)
	if t.match != "" {
		args = append(args, t.expression(r.within))
	}
	return args
}

// placed is a row that knows its place in the order of its list.
type placed interface{ place() int64 }

// sized is one that may be long, and knows about how many bytes of an answer it
// takes.
type sized interface{ size() int }

// pageBytes bounds what the records of one page hold together, so that no answer
// holds megabytes: a page of very long ones ends early, and next goes on.
const pageBytes = 250 << 10

// fewItems is how many records a list makes room for before it has found any.
const fewItems = 32

// list reads one page.
func list[T placed](ctx context.Context, s *Store, l listing, page Page) (List[T], error) {
	result := List[T]{Items: make([]T, 0, min(page.Limit+1, fewItems))}
	from, err := parseCursor(l.name, page.Cursor)
	if err != nil {
		return result, err
	}
	skip := page.Offset
	if page.Cursor != "" {
		skip = from.skip
	}
	counted := skip > 0
	if counted {
		result.Total, result.TotalIsExact, err = s.total(ctx, l)
		if err != nil || result.TotalIsExact && result.Total <= skip {
			return result, err // nothing is left, and finding that tier by tier takes much longer
		}
	}
	// One row more than wanted tells whether another page follows.
	var last position
	size, cut := 0, false
	for n := from.tier; result.Next == ""; n = after(n) {
		t, ok := l.at(n)
		if !ok {
			break
		}
		if t.empty { // which it may be since the page before
			from.seq = wholeTier
			continue
		}
		r, err := s.reach(ctx, l, t, from.seq)
		if err == nil && n < restOf && !r.whole && from.seq == wholeTier {
			n += restOf // from here on, a tier is too long to be told from the next
			t, _ = l.at(n)
			r, err = s.reach(ctx, l, t, from.seq)
		}
		if err != nil {
			return result, err
		}
		if skip > 0 && l.search != nil {
			var passed int
			if passed, from.seq, err = s.count(ctx, l, t, from.seq, r, skip); err != nil {
				return result, err
			}
			skip -= passed
		}
		before := len(result.Items)
		if skip == 0 || l.search == nil { // else the page begins further on
			rows := result.Items[before:] // nothing, with the room that is left
			err = s.selectAll(ctx, &rows, l.rows, l.page(t, from.seq, r, page.Limit+1-before, skip)...)
			if err != nil {
				return result, err
			}
			result.Items = append(result.Items, rows...)
		}
		for i := before; i < len(result.Items); i++ {
			row := &result.Items[i]
			if long, ok := any(row).(sized); ok {
				size += long.size()
			}
			if i == page.Limit || i > 0 && l.most > 0 && size > l.most {
				result.Items, result.Next = result.Items[:i], last.cursor()
				break
			}
			last = position{list: from.list, tier: n, seq: (*row).place()}
		}
		if result.Next == "" && !r.whole {
			result.Next, cut = position{list: from.list, tier: n, seq: r.low, skip: skip}.cursor(), true
		}
		from.seq = wholeTier
	}
	if page.Cursor == "" && page.Offset == 0 && (result.Next == "" || cut) {
		result.Total, result.TotalIsExact = len(result.Items), !cut // the page is all that was looked at
		return result, nil
	}
	if !counted {
		result.Total, result.TotalIsExact, err = s.total(ctx, l)
	}
	result.Total = max(result.Total, len(result.Items))
	return result, err
}

// restOf stands before the number of a tier in the place of all from it on.
const restOf = longestTierList

// after is the number of what follows a tier; nothing follows the rest of them.
func after(n int) int {
	if n+1 >= restOf {
		return restOf + longestTierList
	}
	return n + 1
}

// at is the tier of a number, or the rest from one on.
func (l tiers) at(n int) (tier, bool) {
	switch {
	case n < len(l.each):
		return l.each[n], true
	case n >= restOf && n-restOf < len(l.rest):
		return l.rest[n-restOf], true
	}
	return tier{}, false
}

// count counts the matches of a tier below a number, up to limit, and tells the number
// of the last. Only a search has such numbers.
func (s *Store) count(ctx context.Context, l listing, t tier, below int64, r reach, limit int) (n int, last int64, err error) {
	var found struct {
		N    int    `db:"n"`
		Last *int64 `db:"last"`
	}
	err = s.get(ctx, &found, l.count, l.counted(t, below, r, limit)...)
	if found.Last != nil {
		last = *found.Last
	}
	return found.N, last, err
}
