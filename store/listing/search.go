package listing

import (
	"context"
	"strings"
	"unicode/utf8"

	"callbook/store/search"
)

// Index is a full-text table with the queries that a search of it needs.
type Index struct {
	IDs    string // selects a page of matches as id; values: expression, id below, bounds, limit, offset
	Count  string // counts the matches as n; values: expression, bounds, limit
	common string // counts the matches without bounds; values: expression, limit
	newest string // selects the highest id
	tokens string // selects the tokens between two texts; values: from, to, length, limit
}

// NewIndex returns the queries of a full-text table. tokens is its fts5vocab table of
// the type instance, documents and key are the table and column of the records that
// it indexes, and where is a condition that all matches meet, whose values are the bounds.
func NewIndex(table, tokens, documents, key, where string) Index {
	matches := `FROM ` + table + ` WHERE ` + table + ` MATCH ?`
	return Index{
		IDs:    `SELECT rowid AS id ` + matches + ` AND rowid < ?` + where + ` ORDER BY rowid DESC LIMIT ? OFFSET ?`,
		Count:  `SELECT COUNT(*) AS n FROM (SELECT rowid ` + matches + where + ` LIMIT ?)`,
		common: `SELECT COUNT(*) FROM (SELECT rowid ` + matches + ` LIMIT ?)`,
		newest: `SELECT COALESCE(MAX(` + key + `), 0) FROM ` + documents,
		// Each step seeks the next token, behind those that are cut to the same beginning, and does not read the rows of the
		// one before.
		tokens: `
			WITH RECURSIVE found (token) AS (
				SELECT (SELECT substr(term, 1, ?3) FROM ` + tokens + ` WHERE term >= ?1 LIMIT 1)
				UNION ALL
				SELECT (SELECT substr(term, 1, ?3) FROM ` + tokens + `
					WHERE term >= token || CASE WHEN length(token) < ?3 THEN char(1) ELSE char(1114111) END LIMIT 1) FROM found WHERE token < ?2
			)
			SELECT token FROM found WHERE token < ?2 LIMIT ?4`,
	}
}

// countMatches counts the records that match an expression, up to CountLimit.
func (x *Index) countMatches(ctx context.Context, r Reader, expression string) (n int, err error) {
	err = r.Get(ctx, &n, x.common, expression, CountLimit)
	return n, err
}

func (x *Index) countWords(ctx context.Context, r Reader, words []search.Word) (counts []int, err error) {
	counts = make([]int, len(words))
	for i, w := range words {
		if counts[i], err = x.countMatches(ctx, r, w.Expression()); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// ParseQuery parses a query, and completes its last word. If it has more than search.MaxWords
// words, the rarest are used.
func (x *Index) ParseQuery(ctx context.Context, r Reader, text string) (search.Query, error) {
	q := search.Parse(text)
	if from, to, length, ok := q.Incomplete(); ok {
		var tokens []string
		if err := r.Select(ctx, &tokens, x.tokens, from, to, length, search.MaxCompletions); err != nil {
			return q, err
		}
		q.Complete(tokens)
	}
	if len(q.Words) <= search.MaxWords {
		return q, nil
	}
	counts, err := x.countWords(ctx, r, q.Words)
	return q.Keep(counts), err
}

// SetMatch makes the list one of the records that match every word of words within facets, in
// tiers. exact is the facet of a record that comes before all others; empty for none.
// everything is the expression if there are neither words nor facets.
func (q *Query) SetMatch(words search.Query, facets []string, exact, everything string) {
	switch {
	case !words.Empty():
		q.all = words.All(facets)
		q.tiers = []string{""} // so that the number of a tier does not depend on exact
		before := ""
		if exact != "" {
			q.tiers[0] = search.Within("", append(facets, exact))
			before = " NOT " + search.Within("", []string{exact})
		}
		for n := range search.Tiers {
			q.tiers = append(q.tiers, "("+words.Tier(n, facets)+before+")")
		}
	case len(facets) > 0:
		q.all = search.Within("", facets)
		q.tiers = []string{q.all}
	default:
		q.all, q.tiers = everything, []string{everything}
	}
}

// OneTier makes a list with an expression newest first instead of by relevance.
func (q *Query) OneTier() { q.tiers = []string{q.all} }

// Search is what a list searches for.
type Search struct {
	search.Query
	Index  *Index
	Text   string // the query as the caller wrote it
	Facets []string
	Strict bool   // without partial matches
	ByID   string // selects one record of a page; value: its id
}

// Hint explains why no record matches every word of a query.
type Hint struct {
	Words      []HintWord // words of the query that the index has
	DidYouMean string     // the query with its unknown words replaced by indexed ones; empty for none
}

// HintWord is a word of a query that the index has.
type HintWord struct {
	Word  string
	Count int // records that match it, at most CountLimit
}

// ReadSearch reads one page of a search: strict matches and, if these are fewer than a page holds,
// partial matches behind them, on the first page alone. q has its expressions by SetMatch. Without a
// query it is Read. It returns invalid_query if the cursor is not one of this list.
func ReadSearch[T Record](ctx context.Context, r Reader, q *Query, s Search, page Page) (List[T], error) {
	if s.Empty() && s.Text == "" {
		return Read[T](ctx, r, q, page)
	}
	nothing := List[T]{Items: []T{}, TotalIsExact: true, Hint: &Hint{}}
	if _, err := ParseCursor(q.Name, page.Cursor); err != nil || s.Empty() { // nothing matches a query without letters and digits
		return nothing, err
	}

	run := searchRun{Search: s, r: r, q: q, near: map[string]string{}}
	none, err := run.noneWithinFacets(ctx)
	if err != nil {
		return nothing, err
	}
	if none {
		nothing.Hint, err = run.hint(ctx)
		return nothing, err
	}

	list, err := Read[T](ctx, r, q, page)
	if err != nil {
		return list, err
	}
	if first := page.Cursor == "" && page.Offset == 0; first && !s.Strict && list.Next == "" && list.Total < page.Limit {
		if err := appendPartial(ctx, &run, &list, page.Limit); err != nil {
			return list, err
		}
	}
	if list.Total == 0 {
		list.Hint, err = run.hint(ctx)
	}
	return list, err
}

// searchRun is the state of one search.
type searchRun struct {
	Search
	r    Reader
	q    *Query
	near map[string]string // nearest indexed words by words of the query
}

// partialMatches returns the records that match some words of the query within facets and
// bounds, ranked, without those that match all words.
func (s *searchRun) partialMatches(ctx context.Context) ([]int64, error) {
	var records int
	if err := s.r.Get(ctx, &records, s.Index.newest); err != nil {
		return nil, err
	}
	strict, err := s.matches(ctx, s.q.all, search.MaxPartial)
	if err != nil {
		return nil, err
	}
	var found []search.Found
	for _, part := range s.Parts() {
		f, err := s.findPart(ctx, part)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	return search.Rank(found, records, strict), nil
}

// noneWithinFacets reports whether no record meets all facets. Then neither a tier nor a part of the query has a match,
// and each of them would read the rows of a facet to their end to find that out.
func (s *searchRun) noneWithinFacets(ctx context.Context) (bool, error) {
	if len(s.Facets) < 2 {
		return false, nil
	}
	ids, err := s.matches(ctx, search.Within("", s.Facets), 1)
	return len(ids) == 0, err
}

func (s *searchRun) matches(ctx context.Context, expression string, limit int) (ids []int64, err error) {
	args := append(s.q.args(expression, Last), s.q.Bounds...)
	err = s.r.Select(ctx, &ids, s.Index.IDs, append(args, limit, 0)...)
	return ids, err
}

// findPart returns the matches of a part of the query, or of the nearest word if the index does
// not have that of the part.
func (s *searchRun) findPart(ctx context.Context, part search.Part) (f search.Found, err error) {
	f.Part = part
	if f.Count, err = s.Index.countMatches(ctx, s.r, part.Expression); err != nil {
		return f, err
	}
	if f.Count == 0 && part.Word != "" {
		near, err := s.nearWord(ctx, part.Word)
		if err != nil || near == "" {
			return f, err
		}
		f.Part = part.Near(near)
		if f.Count, err = s.Index.countMatches(ctx, s.r, f.Expression); err != nil {
			return f, err
		}
	}
	if f.Count == 0 {
		return f, nil
	}
	if f.IDs, err = s.matches(ctx, search.Within(f.Expression, s.Facets), search.PartMatches); err != nil {
		return f, err
	}
	f.InUpper, err = s.matches(ctx, search.Within(f.Upper, s.Facets), search.PartMatches)
	return f, err
}

// hint explains a search without strict matches.
func (s *searchRun) hint(ctx context.Context) (*Hint, error) {
	counts, err := s.Index.countWords(ctx, s.r, s.Words)
	if err != nil {
		return nil, err
	}
	h := &Hint{Words: []HintWord{}}
	suggestion, replaced, complete := make([]string, 0, len(s.Words)), false, true
	for i, w := range s.Words {
		indexed := 0
		if exact, ok := w.Exact(); ok { // otherwise the hint would repeat words that the caller invented
			if indexed, err = s.Index.countMatches(ctx, s.r, exact); err != nil {
				return nil, err
			}
		}
		if indexed > 0 {
			h.Words = append(h.Words, HintWord{Word: w.Text, Count: counts[i]})
			suggestion = append(suggestion, w.Text)
			continue
		}
		near, err := s.nearWord(ctx, w.Text)
		if err != nil {
			return nil, err
		}
		complete = complete && near != ""
		suggestion, replaced = append(suggestion, near), true
	}
	if replaced && complete {
		h.DidYouMean = strings.Join(suggestion, " ")
	}
	return h, nil
}

// maxNear is how many tokens the words of one search that the index does not have are compared
// with: listing one takes up to 0.08 ms. A limit of time instead would let the result depend on the load.
const maxNear = 300

// nearWord returns the indexed word that is nearest to word and begins like it, of several the one
// that most records contain; empty if there is none among the tokens that are compared.
func (s *searchRun) nearWord(ctx context.Context, word string) (string, error) {
	if near, ok := s.near[word]; ok {
		return near, nil
	}
	near, limit := search.NewNear(word), maxNear/len(s.Words)
	for _, beginning := range near.Beginnings() {
		var tokens []string
		if err := s.r.Select(ctx, &tokens, s.Index.tokens, beginning, beginning+string(utf8.MaxRune), search.WholeToken, limit); err != nil {
			return "", err
		}
		for _, tok := range tokens {
			near.Add(tok)
		}
		limit -= len(tokens)
	}
	nearest, most := "", 0
	for _, w := range near.Words {
		exact, _ := search.Word{Text: w}.Exact()
		count, err := s.Index.countMatches(ctx, s.r, exact)
		if err != nil {
			return "", err
		}
		if count > most {
			nearest, most = w, count
		}
	}
	s.near[word] = nearest
	return nearest, nil
}

// appendPartial appends the best partial matches, as many as fit on a page.
func appendPartial[T Record](ctx context.Context, s *searchRun, list *List[T], limit int) error {
	ids, err := s.partialMatches(ctx)
	if err != nil {
		return err
	}

	list.TotalSome = len(ids)
	size := sizeOf(list.Items)
	for _, id := range ids {
		var item T
		found, err := s.r.Find(ctx, &item, s.ByID, id)
		if err != nil {
			return err
		}
		if !found { // deleted meanwhile
			continue
		}
		size += sizeOf([]T{item})
		if n := len(list.Items); n == limit || n > 0 && size > s.q.MaxBytes {
			return nil
		}
		list.Items = append(list.Items, item)
	}
	return nil
}
