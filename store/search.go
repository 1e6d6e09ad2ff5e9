package store

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"callbook/store/search"
)

// The kinds of facets.
const (
	facetHandle rune = iota
	facetCapability
	facetLanguage
	facetLevel
	facetKindOfPost
	facetTag
	facetAuthor
	facetOpen
)

// index is a full-text table with the queries that a search of it needs.
type index struct {
	ids    string // selects a page of matches as id; values: expression, id below, bounds, limit, offset
	count  string // counts the matches of an expression as n; values: expression, bounds, limit
	common string // counts the matches of an expression without bounds; values: expression, limit
	newest string // selects the highest id
	one    string // selects a match with an id; values: expression, id, bounds
	near   string // selects words between two texts, with how many records hold them
}

// newIndex makes the queries of a full-text table; where narrows its matches further.
func newIndex(table, words, documents, key, where string) index {
	matches := `FROM ` + table + ` WHERE ` + table + ` MATCH ?`
	return index{
		ids:    `SELECT rowid AS id ` + matches + ` AND rowid < ?` + where + ` ORDER BY rowid DESC LIMIT ? OFFSET ?`,
		count:  `SELECT COUNT(*) AS n FROM (SELECT rowid ` + matches + where + ` LIMIT ?)`,
		common: `SELECT COUNT(*) FROM (SELECT rowid ` + matches + ` LIMIT ?)`,
		one:    `SELECT rowid ` + matches + ` AND rowid = ?` + where,
		newest: `SELECT COALESCE(MAX(` + key + `), 0) FROM ` + documents,
		near:   `SELECT term AS word, doc AS count FROM ` + words + ` WHERE term >= ? AND term < ? LIMIT ?`,
	}
}

// Hint explains why no record matches every word of a query.
type Hint struct {
	Words      []HintWord
	DidYouMean string // the query with words that the index has in the place of those that it has not; empty for none
}

// HintWord is a word of a query that the index has.
type HintWord struct {
	Word  string
	Count int // records that match it, at most 1000
}

// searchContext returns the context of a list. That of a search, of a filtered list and of a page far down has a
// deadline, so that its queries can be ended.
func (s *Store) searchContext(ctx context.Context, plain bool) (context.Context, context.CancelFunc) {
	if plain {
		return ctx, func() {}
	}
	return s.db.WithDeadline(ctx)
}

// parseQuery parses a query, and keeps its rarest words where it has too many.
func (s *Store) parseQuery(ctx context.Context, x *index, text string) (search.Query, error) {
	q := search.Parse(text)
	if len(q.Words) <= search.MaxWords {
		return q, nil
	}
	counts, err := s.wordCounts(ctx, x, q)
	return q.Keep(counts), err
}

func (s *Store) wordCounts(ctx context.Context, x *index, q search.Query) ([]int, error) {
	counts := make([]int, len(q.Words))
	for i, w := range q.Words {
		var err error
		if counts[i], err = s.common(ctx, x, w.Expression()); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// common counts the records that match an expression, up to search.CountLimit.
func (s *Store) common(ctx context.Context, x *index, expression string) (n int, err error) {
	err = s.get(ctx, &n, x.common, expression, search.CountLimit)
	return n, err
}

// partial returns the records that match some words of a query within facets and bounds, in their order, without those
// that match all of them.
func (s *Store) partial(ctx context.Context, x *index, l *listing, q searched) ([]int64, error) {
	var records int
	if err := s.get(ctx, &records, x.newest); err != nil {
		return nil, err
	}
	matches := func(expression string, limit int) (ids []int64, err error) {
		args := append(l.args(expression, highestSeq), l.bounds...)
		err = s.selectAll(ctx, &ids, x.ids, append(args, limit, 0)...)
		return ids, err
	}
	strict, err := matches(l.all, search.MaxPartial)
	if err != nil {
		return nil, err
	}
	var found []search.Found
	for _, part := range q.Parts() {
		f := search.Found{Part: part}
		if f.Count, err = s.common(ctx, x, part.Expression); err != nil {
			return nil, err
		}
		if f.Count == 0 && part.Word != "" {
			near, err := s.nearWord(ctx, x, q.near, part.Word)
			if err != nil {
				return nil, err
			}
			if near != "" {
				f.Part = part.Near(near)
				if f.Count, err = s.common(ctx, x, f.Expression); err != nil {
					return nil, err
				}
			}
		}
		if f.Count > 0 {
			if f.IDs, err = matches(search.Within(f.Expression, q.facets), search.PartMatches); err != nil {
				return nil, err
			}
			if f.Upper, err = matches(search.Within(f.Part.Upper(), q.facets), search.PartMatches); err != nil {
				return nil, err
			}
		}
		found = append(found, f)
	}
	return search.Rank(found, records, strict), nil
}

// hint explains a search without strict matches.
func (s *Store) hint(ctx context.Context, x *index, q searched) (*Hint, error) {
	counts, err := s.wordCounts(ctx, x, q.Query)
	if err != nil {
		return nil, err
	}
	h := &Hint{Words: []HintWord{}}
	meant, replaced, known := make([]string, 0, len(q.Words)), false, true
	for i, w := range q.Words {
		indexed := 0
		if exact, ok := w.Exact(); ok { // else the hint would repeat what the caller made up
			if indexed, err = s.common(ctx, x, exact); err != nil {
				return nil, err
			}
		}
		if indexed > 0 {
			h.Words = append(h.Words, HintWord{w.Text, counts[i]})
			meant = append(meant, w.Text)
			continue
		}
		near, err := s.nearWord(ctx, x, q.near, w.Text)
		if err != nil {
			return nil, err
		}
		known = known && near != ""
		meant, replaced = append(meant, near), true
	}
	if replaced && known {
		h.DidYouMean = strings.Join(meant, " ")
	}
	return h, nil
}

// A word that the index does not have is compared with at most mostNear words, within nearTimeout: the index reads the
// rows of each word to list it.
const (
	mostNear    = 2000
	nearTimeout = 20 * time.Millisecond
)

// nearWord returns the indexed word that is nearest to another and begins like it; empty if none is near, or none was
// found in time. known holds the words that were searched for before.
func (s *Store) nearWord(ctx context.Context, x *index, known map[string]string, word string) (string, error) {
	if near, ok := known[word]; ok {
		return near, nil
	}
	limited, cancel := context.WithTimeout(ctx, nearTimeout)
	defer cancel()
	near := search.NewNear(word)
	for _, beginning := range near.Beginnings() {
		var words []struct {
			Word  string
			Count int
		}
		err := s.selectAll(limited, &words, x.near, beginning, beginning+string(utf8.MaxRune), mostNear)
		if limited.Err() != nil && ctx.Err() == nil {
			break // without those that are missing
		}
		if err != nil {
			return "", err
		}
		for _, w := range words {
			near.Add(w.Word, w.Count)
		}
	}
	known[word] = near.Word
	return near.Word, nil
}

// search makes the listing one of the records that match every word of a query within facets, in tiers. exact is the
// facet of a record that comes before all others; empty for none. everything is the expression where there is neither.
func (l *listing) search(q search.Query, facets []string, exact, everything string) {
	switch {
	case !q.Empty():
		l.all = q.All(facets)
		l.match = []string{""} // the number of a tier never depends on whether there is an exact match
		before := ""
		if exact != "" {
			l.match[0] = search.Within("", append(facets, exact))
			before = " NOT " + search.Within("", []string{exact})
		}
		for n := range search.Tiers {
			l.match = append(l.match, "("+q.Tier(n, facets)+before+")")
		}
	case len(facets) > 0:
		l.all = search.Within("", facets)
		l.match = []string{l.all}
	default:
		l.all, l.match = everything, []string{everything}
	}
}

// searched is what a list searches for.
type searched struct {
	search.Query
	text   string // as the caller wrote it
	facets []string
	strict bool   // without records that match only some words
	byID   string // selects one record of a page; value: its id

	near map[string]string // words of the index that are near to those of the query
}

// searchList reads one page: strict matches first, then, where these do not fill a page, records that match some words.
func searchList[T placed](ctx context.Context, s *Store, x *index, l *listing, q searched, page Page) (List[T], error) {
	if q.Empty() && q.text == "" {
		return list[T](ctx, s, l, page)
	}
	from, err := parseCursor(l.name, page.Cursor)
	if err != nil || q.Empty() { // nothing matches a query without letters and digits
		return List[T]{Items: []T{}, TotalIsExact: true, Hint: &Hint{}}, err
	}
	q.near = map[string]string{}
	result, err := list[T](ctx, s, l, page)
	if err != nil {
		return result, err
	}
	if page.Cursor == "" && !q.strict && result.TotalIsExact && result.Total < page.Limit && result.Next == "" {
		if from.rest, err = s.partial(ctx, x, l, q); err != nil {
			return result, err
		}
		from.some = len(from.rest)
	}
	if q.strict {
		from.rest, from.some = nil, 0
	}
	result.TotalSome = from.some
	if err := appendByID(ctx, s, x, l, q, &result, from, page.Limit); err != nil {
		return result, err
	}
	if result.Total == 0 {
		result.Hint, err = s.hint(ctx, x, q)
	}
	return result, err
}

// appendByID appends the partial matches that a page has room for, and sets the cursor of the rest. Records that are gone
// are passed over.
func appendByID[T placed](ctx context.Context, s *Store, x *index, l *listing, q searched, result *List[T], from position, limit int) error {
	size, filter := 0, ""
	if len(q.facets) > 0 {
		filter = search.Within("", q.facets)
	}
	for i, id := range from.rest {
		var item T
		found, err := s.find(ctx, &item, q.byID, id)
		if err == nil && found && filter != "" { // which a cursor that a stranger made up may pass by
			found, err = s.find(ctx, new(int64), x.one, append([]any{filter, id}, l.bounds...)...)
		}
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if long, ok := any(item).(sized); ok {
			size += long.Size()
		}
		if n := len(result.Items); n == limit || n > 0 && size > l.most {
			from.rest, from.seq = from.rest[i:], 1
			result.Next = from.cursor()
			return nil
		}
		result.Items = append(result.Items, item)
	}
	return nil
}
