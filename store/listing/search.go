package listing

import (
	"context"
	"slices"
	"strings"

	"callbook/store/search"
)

// Search is what a list searches for.
type Search struct {
	Name   string // identifies the list and its filter
	Index  *Index
	Text   string   // the query as the caller wrote it
	Facets []string // that each match has
	Exact  string   // facet of a record that comes before all others; empty for none
	Bounds []any    // values of the index's condition
	Strict bool     // without partial matches
	Newest bool     // newest first instead of by relevance
	Rows   string   // selects records; ends before the list of their numbers

	MaxBytes int // as in Query
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

// ReadSearch reads one page of a search: strict matches and, if these are fewer than a page holds, partial matches
// behind them, on the first page alone. It takes at most four statements: for the words, the strict matches or words
// near to unknown ones, the partial matches, and the records. It returns invalid_query if the cursor is not one of this
// list.
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

// readWords reads what must be known before the strict matches: the completions of the last word, which words to choose,
// and whether any record has all facets. If none has, neither a tier nor a part of the query has a match, and each of
// them would read the rows of a facet to their end to find that out.
func (s *searchRun) readWords(ctx context.Context) error {
	completions := s.query.Incomplete()
	many, facets := len(s.query.Words) > search.MaxWords, question{}
	if len(s.Facets) > 1 {
		facets.count = search.Within("", s.Facets)
	}
	if completions == (search.TokenRange{}) && !many && facets == (question{}) {
		return nil
	}

	questions := []question{facets, {tokens: completions}}
	for _, expression := range s.query.Held() {
		questions = append(questions, question{count: expression})
	}
	counted := 1
	if many {
		counted = CountLimit
	}
	answers, err := s.Index.answers(ctx, s.r, questions, s.Bounds, counted, search.MaxCompletions)
	if err != nil {
		return err
	}

	var counts []int
	for _, a := range answers[2:] {
		counts = append(counts, a.Count)
	}
	s.query = s.query.Learn(counts, answers[1].Tokens)
	s.unheld = len(s.query.Unknown()) > 0
	s.nowhere = facets.count != "" && answers[0].Count == 0
	return nil
}

// readStrict reads the strict matches of the page and the one behind it, and counts them all.
func (s *searchRun) readStrict(ctx context.Context, from Position, page Page) error {
	s.exact = true
	if s.unheld || s.nowhere {
		return nil
	}

	all := s.query.All(s.Facets)
	tiers := append([]string{search.Nothing}, s.query.Tiers(s.Facets)...)
	exact := search.Nothing
	if s.Exact != "" {
		exact = search.Within("", []string{s.Exact})
		tiers[0] = search.Within("", append(slices.Clone(s.Facets), s.Exact))
	}
	if s.Newest {
		tiers = []string{all}
	}

	args := []any{exact}
	for tier := range search.Tiers {
		expression, below := search.Nothing, Last
		if from.tier <= tier && tier < len(tiers) {
			expression = tiers[tier]
		}
		if from.tier == tier {
			below = from.Seq
		}
		args = append(append(args, expression, below), s.Bounds...)
		args = append(args, page.Offset+page.Limit+1)
	}
	counted := 0 // records on the page from which on all are counted
	if page.first() {
		counted = page.Limit + 1
	}
	args = append(args, page.Limit+1, page.Offset, counted, all)
	args = append(append(args, s.Bounds...), CountLimit+1)

	var found struct {
		Places list[int64] `db:"places"`
		Total  int         `db:"total"`
	}
	err := s.r.Get(ctx, &found, s.Index.strict, args...)
	for _, place := range found.Places {
		s.ids, s.tiers = append(s.ids, place/search.Tiers), append(s.tiers, int(place%search.Tiers))
	}
	s.total, s.exact = min(found.Total, CountLimit), found.Total <= CountLimit
	return err
}

// readPartial reads the partial matches if there is room for them behind the strict ones, and the hint if there are none
// of these.
func (s *searchRun) readPartial(ctx context.Context, page Page) error {
	partial := page.first() && !s.Strict && !s.nowhere && s.total < page.Limit
	if !partial && s.total > 0 {
		return nil
	}
	near, err := s.nearWords(ctx)
	if err != nil {
		return err
	}

	var found []search.Found
	var questions []question
	for _, part := range s.query.Parts(near) {
		q := question{count: part.Expression}
		if partial {
			q.list, q.upper = search.Within(part.Expression, s.Facets), search.Within(part.Upper, s.Facets)
		}
		found, questions = append(found, search.Found{Part: part}), append(questions, q)
	}
	if s.total == 0 {
		for _, w := range s.query.Words {
			questions = append(questions, question{count: w.Expression()}, question{count: w.Exact()})
		}
	}
	answers, err := s.Index.answers(ctx, s.r, questions, s.Bounds, CountLimit, 0)
	if err != nil {
		return err
	}

	records := 0
	for i, a := range answers[:len(found)] {
		found[i].Count, found[i].IDs, found[i].InUpper, records = a.Count, a.IDs, a.InUpper, a.Newest
	}
	hinted := answers[len(found):]
	found, nearest := search.Nearest(found)
	if s.total == 0 {
		s.hint = s.newHint(nearest, hinted)
	}
	if partial {
		s.partial = search.Rank(found, records, s.ids)
	}
	return nil
}

// maxNear is how many tokens of a beginning the words that nothing holds are compared with in all: listing one takes up to
// 0.08 ms. A limit of time instead would let the result depend on the load.
const maxNear = 300

// nearWords returns the indexed words that are spelled almost like those that nothing holds, by these.
func (s *searchRun) nearWords(ctx context.Context) (map[string][]string, error) {
	if s.total > 0 {
		return nil, nil
	}

	unknown := s.query.Unknown()
	var questions []question
	var of []*search.Near // each question
	for _, w := range unknown {
		near := search.NewNear(w.Text)
		for _, tokens := range near.Tokens() {
			questions = append(questions, question{count: w.Expression(), tokens: tokens})
			of = append(of, near)
		}
	}
	answers, err := s.Index.answers(ctx, s.r, questions, s.Bounds, 1, maxNear/max(1, len(unknown)))
	if err != nil {
		return nil, err
	}

	words := map[string][]string{}
	for i, near := range of {
		for _, tok := range answers[i].Tokens {
			near.Add(tok)
		}
		words[near.Word] = near.Words
	}
	return words, nil
}

// newHint explains why no record matches every word. nearest are the indexed words by those that nothing holds, and
// counts are answers: for each word, how many records match it, and how many have exactly this word.
func (s *searchRun) newHint(nearest map[string]string, counts []answer) *Hint {
	h := &Hint{Words: []HintWord{}}
	var meant []string
	for i, w := range s.query.Words {
		// Otherwise the hint would repeat words that the caller invented.
		if indexed := counts[2*i+1].Count > 0; !indexed {
			meant = append(meant, nearest[w.Text])
			continue
		}
		meant = append(meant, w.Text)
		h.Words = append(h.Words, HintWord{Word: w.Text, Count: counts[2*i].Count})
	}
	if len(h.Words) < len(meant) && !slices.Contains(meant, "") {
		h.DidYouMean = strings.Join(meant, " ")
	}
	return h
}

// readRecords reads the records of the page.
func readRecords[T Record](ctx context.Context, s *searchRun, from Position, page Page) (List[T], error) {
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
	if err := s.r.Select(ctx, &rows, s.Rows+`(`+placeholders+`)`, values...); err != nil {
		return found, err
	}
	slices.SortFunc(rows, func(a, b T) int { return order[a.Position()] - order[b.Position()] })

	n := fitting(rows, page.Limit, s.MaxBytes)
	found.Items = rows[:n]
	for found.Strict < n && order[rows[found.Strict].Position()] < len(s.ids) {
		found.Strict++
	}
	if n < len(rows) && order[rows[n].Position()] < len(s.ids) {
		from.Seq = rows[n-1].Position()
		from.tier = s.tiers[order[from.Seq]]
		found.Next, found.TotalSome = from.Cursor(), 0
	}
	return found, nil
}
