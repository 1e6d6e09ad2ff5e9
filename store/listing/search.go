package listing

import (
	"context"
	"slices"
	"strings"

	"callbook/store/search"
)

// Search describes a list of the records that match words.
type Search struct {
	Name   string // identifies the list and its filter
	Index  *Index
	Text   string   // the query as the caller wrote it
	Facets []string // that each match has
	Exact  string   // expression of a record that comes before all others; empty for none
	Bounds []any    // values of the index's condition
	Strict bool     // without partial matches
	Newest bool     // newest first instead of by relevance
	Rows   string   // selects the records of the table page, which has their numbers as id

	MaxBytes int // as in Query
}

// Hint explains why no record matches every word of a query.
type Hint struct {
	Words []HintWord // words of the query that the index has
	// DidYouMean is the query with its unknown words replaced by indexed ones; empty for none.
	DidYouMean string
}

// HintWord is a word of a query that the index has.
type HintWord struct {
	Word  string
	Count int // records that match it, at most CountLimit
}

// searchRun is the state of one search.
type searchRun struct {
	Search
	r       Reader
	query   search.Query
	unheld  bool    // nothing holds some word
	nowhere bool    // no record has all facets
	ids     []int64 // of the strict matches of the page, and the one behind it
	tiers   []int   // of these
	total   int     // strict matches of the whole list, at most CountLimit
	exact   bool    // there are no more
	partial []int64 // records, the best first
	hint    *Hint
}

// ReadSearch reads one page of a search: strict matches and, if these are fewer than a page holds,
// partial matches behind them, on the first page alone. It takes at most four statements: for the
// words, the strict matches or words near to unknown ones, the partial matches, and the records. It
// returns invalid_query if the cursor is not one of this list.
func ReadSearch[T Record](ctx context.Context, r Reader, s Search, page Page) (List[T], error) {
	nothing := List[T]{Items: []T{}, TotalIsExact: true, Hint: &Hint{}}
	from, err := ParseCursor(s.Name, page.Cursor)
	query := search.Parse(s.Text)
	if err != nil || query.Empty() { // nothing matches a query without letters and digits
		return nothing, err
	}
	if page.Cursor != "" {
		page.Offset = 0
	}

	run := searchRun{Search: s, r: r, query: query}
	if err := run.readWords(ctx); err != nil {
		return nothing, err
	}
	if err := run.readStrict(ctx, from, page); err != nil {
		return nothing, err
	}
	if err := run.readPartial(ctx, page); err != nil {
		return nothing, err
	}
	return readRecords[T](ctx, &run, from, page)
}

// readWords asks for the facts that the strict matches need: the completions of the last word,
// which words to choose, and whether any record has all facets. If none has, neither a tier nor a
// part of the query has a match, and each of them would read the rows of a facet to their end to
// find that out.
func (s *searchRun) readWords(ctx context.Context) error {
	completions := s.query.Incomplete()
	many := len(s.query.Words) > search.MaxWords
	// A query of a few whole words with one facet at most, as most are, needs no facts.
	if completions == (search.TokenRange{}) && !many && len(s.Facets) < 2 {
		return nil
	}

	questions := []question{{tokens: completions}}
	for _, expression := range s.query.Held() {
		questions = append(questions, question{count: expression})
	}
	if len(s.Facets) > 1 {
		questions = append(questions, question{count: search.Within("", s.Facets)})
	}
	counted := 1
	if many {
		counted = CountLimit
	}
	answers, err := s.Index.answers(ctx, s.r, questions, s.Bounds, counted, search.MaxCompletions)
	if err != nil {
		return err
	}

	counts := make([]int, len(answers)-1)
	for i := range counts {
		counts[i] = answers[i+1].Count
	}
	s.query = s.query.Learn(counts, answers[0].Tokens)
	s.unheld = len(s.query.Unknown()) > 0
	s.nowhere = len(s.Facets) > 1 && counts[len(counts)-1] == 0
	return nil
}

// readStrict reads the strict matches of the page and the one behind it, and counts them all.
func (s *searchRun) readStrict(ctx context.Context, from Position, page Page) error {
	s.exact = true // of none, unless they are counted below
	if s.unheld || s.nowhere {
		return nil
	}

	all := s.query.All(s.Facets)
	tiers := s.query.Tiers(s.Facets, s.Exact)
	if s.Newest { // all strict matches in one tier, which FTS5 reads newest first
		tiers = [search.Tiers]string{all}
	}
	args := []any{s.Exact}
	for tier, expression := range tiers {
		below := Last
		switch {
		case tier < from.tier:
			expression = "" // the pages before have shown it
		case tier == from.tier:
			below = from.Seq
		}
		args = append(args, expression, below)
		args = append(args, s.Bounds...)
		args = append(args, page.Offset+page.Limit+2) // and the exact match
	}
	counted := 0 // records on the page from which on all are counted
	if page.first() {
		counted = page.Limit + 1
	}
	args = append(args, page.Limit+1, page.Offset, counted, all)
	args = append(args, s.Bounds...)
	args = append(args, CountLimit+1)

	var found struct {
		Places []int64
		Total  int
	}
	err := getJSON(ctx, s.r, &found, s.Index.strict, args...)
	for _, place := range found.Places {
		s.ids = append(s.ids, place/search.Tiers)
		s.tiers = append(s.tiers, int(place%search.Tiers))
	}
	s.total = min(found.Total, CountLimit)
	s.exact = found.Total <= CountLimit
	return err
}

// readPartial reads the partial matches if there is room for them behind the strict ones, and the
// hint if there are none of these.
func (s *searchRun) readPartial(ctx context.Context, page Page) error {
	partial := page.first() && !s.Strict && !s.nowhere && s.total < page.Limit
	if !partial && s.total > 0 {
		return nil
	}
	near, err := s.nearWords(ctx)
	if err != nil {
		return err
	}

	parts := s.query.Parts(near)
	questions := make([]question, len(parts))
	for i, part := range parts {
		questions[i] = question{count: part.Expression, exact: part.Exact}
		if partial {
			questions[i].list = search.Within(part.Expression, s.Facets)
			questions[i].upper = search.Within(part.Upper, s.Facets)
		}
	}
	answers, err := s.Index.answers(ctx, s.r, questions, s.Bounds, CountLimit, 0)
	if err != nil {
		return err
	}

	var found []search.Found
	for i, answer := range answers {
		found = append(found, search.Found{Part: parts[i], Answer: answer})
	}
	// Only now is known how many records match each of the near words.
	found = search.KeepNearest(found)
	if s.total == 0 {
		s.hint = s.newHint(found)
	}
	if partial {
		s.partial = search.Rank(found, s.ids)
	}
	return nil
}

// maxNear is how many tokens of a beginning the words that nothing holds are compared with in all:
// listing one takes up to 0.08 ms. A limit of time instead would let the result depend on the load.
const maxNear = 300

// nearWords returns the indexed words that are spelled almost like those that nothing holds.
func (s *searchRun) nearWords(ctx context.Context) (words []*search.Near, err error) {
	if s.total > 0 {
		return nil, nil
	}

	unknown := s.query.Unknown()
	var questions []question
	for _, w := range unknown {
		// A word may have several ranges: each is a question, and all add to one Near.
		near := search.NewNear(w.Text)
		for _, tokens := range near.Tokens() {
			words = append(words, near)
			questions = append(questions, question{count: w.Expression(), tokens: tokens})
		}
	}
	limit := maxNear / max(1, len(unknown))
	answers, err := s.Index.answers(ctx, s.r, questions, s.Bounds, 1, limit)
	for i, a := range answers {
		words[i].Add(a.Tokens)
	}
	return slices.Compact(words), err // one of each
}

// newHint explains why no record matches every word. It repeats words of the query only if the
// index has them.
func (s *searchRun) newHint(found []search.Found) *Hint {
	h := &Hint{Words: []HintWord{}}
	var meant []string
	for _, f := range found {
		switch {
		case f.Indexed:
			h.Words = append(h.Words, HintWord{Word: f.Word, Count: f.Count})
			meant = append(meant, f.Word)

		case f.Near != "":
			meant = append(meant, f.Near)
		}
	}

	if len(h.Words) < len(meant) && len(meant) == len(s.query.Words) {
		h.DidYouMean = strings.Join(meant, " ")
	}

	return h
}

// readRecords reads the records of the page.
func readRecords[T Record](
	ctx context.Context,
	s *searchRun,
	from Position,
	page Page,
) (List[T], error) {
	found := List[T]{
		Items:        []T{},
		Total:        s.total,
		TotalIsExact: s.exact,
		TotalSome:    len(s.partial),
		Hint:         s.hint,
	}
	var values []any
	order := map[int64]int{}
	ids := slices.Concat(s.ids, s.partial)
	for i, id := range ids[:min(len(ids), page.Limit+1)] {
		values = append(values, id)
		order[id] = i
	}
	if len(values) == 0 {
		return found, nil
	}

	placeholders, values := padded(values, 1)
	var rows []T
	query := `WITH page (id) AS (VALUES ` + placeholders + `) ` + s.Rows
	if err := s.r.Select(ctx, &rows, query, values...); err != nil {
		return found, err
	}
	slices.SortFunc(rows, func(a, b T) int { return order[a.Position()] - order[b.Position()] })

	n := fitting(rows, page.Limit, s.MaxBytes)
	found.Items = append(found.Items, rows[:n]...)
	// The cursor continues the strict matches: partial ones have no second page.
	strict := func(row T) bool { return order[row.Position()] < len(s.ids) }
	for found.Strict < n && strict(rows[found.Strict]) {
		found.Strict++
	}
	if n < len(rows) && strict(rows[n]) {
		from.Seq = rows[n-1].Position()
		from.tier = s.tiers[order[from.Seq]]
		found.Next = from.Cursor()
		found.TotalSome = 0
	}
	return found, nil
}
