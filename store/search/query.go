package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a query. Further words and pairs are ignored.
const (
	MaxWords = 8
	MaxPairs = 32

	maxParsed = 100 // words that are compared with each other
)

// Word is one word of a query, or one unbroken run of a script without spaces.
type Word struct {
	Text string // folded

	unspaced bool
	pairs    []string // of a run: each once; its only character if it has just one
	prefix   bool     // longer words that begin with it match, too

	completions []string // tokens that begin with it, in the place of prefix
	held        int      // records of the index that are known to hold it, in some form
}

// Query is a parsed query.
type Query struct {
	Words []Word // without stop words, each once, in the order of the query
}

// Parse reads a query. Stop words are ignored unless the query has nothing else. Any text is a
// query; one without letters and digits has no words. The caller chooses MaxWords of its words
// with Keep.
func Parse(text string) Query {
	var all, content []Word
	left := MaxPairs
	last := "" // the text of the last run, if it is a word of the query
	for r := range runs(Fold(text)) {
		last = ""
		w := Word{Text: r.text, unspaced: r.unspaced}
		if r.unspaced {
			w.pairs = runTokens(r.text)
			w.pairs = w.pairs[:min(len(w.pairs), left)]
			left -= len(w.pairs)
			if len(w.pairs) == 0 {
				break
			}
		}

		// The comparison below is quadratic.
		if len(all) == maxParsed {
			break
		}
		if slices.ContainsFunc(all, func(o Word) bool { return o.Text == w.Text }) {
			continue
		}

		all = append(all, w)
		last = w.Text
		if !stopWords[w.Text] {
			content = append(content, w)
		}
	}

	if len(content) == 0 {
		content = all
	}

	// Only what is being typed is a beginning: the last word, unless a stop word or a repeated word
	// follows it.
	if n := len(content); n > 0 && content[n-1].Text == last {
		content[n-1].prefix = !content[n-1].unspaced
	}

	return Query{content}
}

// runTokens returns the tokens that a record with a run has: its pairs, each once, or its only
// character.
func runTokens(run string) (tokens []string) {
	for _, pair := range pairs(run) {
		if !slices.Contains(tokens, pair) {
			tokens = append(tokens, pair)
		}
	}

	if len(tokens) == 0 {
		return []string{bare(run)}
	}

	return tokens
}

// The index has the beginnings of words of two and four letters. For another one FTS5 would merge
// the rows of all words that begin with it before it returns the first, so the beginnings that the
// index has or, for more letters, the words are listed, up to MaxCompletions.
const (
	maxIndexedPrefix = 4
	MaxCompletions   = 48

	wholeToken = 1000 // characters, more than any token has
)

// TokenRange is a range of the tokens of an index, each cut to Length characters.
type TokenRange struct {
	From, To string // inclusive, exclusive
	Length   int
}

// tokensFrom returns the range of the tokens that begin like a token, anywhere in a record.
func tokensFrom(beginning string, length int) TokenRange {
	from := tierMark(anywhere) + beginning
	return TokenRange{
		From:   from,
		To:     from + string(utf8.MaxRune),
		Length: length,
	}
}

// Incomplete returns the range of the tokens that the last word begins, if the caller should list
// them, up to MaxCompletions.
func (q Query) Incomplete() (tokens TokenRange) {
	last := q.Words[len(q.Words)-1]
	n := utf8.RuneCountInString(last.Text)
	switch {
	case !last.prefix, n == 2, n == maxIndexedPrefix:
		return tokens

	case n > maxIndexedPrefix:
		return tokensFrom(token(last.Text), wholeToken)
	}

	return tokensFrom(token(last.Text), utf8.RuneCountInString(tierMark(anywhere))+n+1)
}

// Held returns, for each word, the FTS5 expression of the records that hold it, without its
// completions.
func (q Query) Held() []string {
	held := make([]string, len(q.Words))
	for i, w := range q.Words {
		if i == len(q.Words)-1 && q.Incomplete() != (TokenRange{}) {
			w.prefix = false
		}

		held[i] = w.Expression()
	}

	return held
}

// Learn returns the query with facts from the index: the numbers of records that match each
// expression of Held, and the tokens in the range of Incomplete. If these are MaxCompletions, there
// may be more, and the word stays a prefix. The query has at most MaxWords words: those that the
// fewest records hold, of equal ones the first.
func (q Query) Learn(counts []int, completions []string) Query {
	for i := range q.Words {
		q.Words[i].held = counts[i]
	}
	last := &q.Words[len(q.Words)-1]
	last.held += len(completions)
	if q.Incomplete() != (TokenRange{}) && len(completions) < MaxCompletions {
		last.prefix = false
		last.completions = completions
	}

	// Common words decide least: with too many words, they are left out, in the order of the query.
	rarest := slices.SortedStableFunc(slices.Values(q.Words), func(a, b Word) int {
		return a.held - b.held
	})
	for _, common := range rarest[min(len(rarest), MaxWords):] {
		q.Words = slices.DeleteFunc(q.Words, func(w Word) bool { return w.Text == common.Text })
	}
	return q
}

// Empty reports whether the query has no words.
func (q Query) Empty() bool { return len(q.Words) == 0 }

// Unknown returns the words of which it is not known that any record holds them.
func (q Query) Unknown() []Word {
	return slices.DeleteFunc(slices.Clone(q.Words), func(w Word) bool { return w.held > 0 })
}

// Strict matches have a tier for an exact one, and one for each weight of texts. Records of the
// last have the words anywhere.
const (
	textTiers = 3
	anywhere  = textTiers - 1
	Tiers     = 1 + textTiers
)

// Expression returns the FTS5 expression of a word anywhere in a record.
func (w Word) Expression() string { return w.in(anywhere) }

// in returns the FTS5 expression of a word in the texts of a tier.
func (w Word) in(tier int) string {
	if w.unspaced {
		return allOf(quoteEach(tier, w.pairs))
	}

	all := spellings(tier, w.Text, w.prefix)
	n := utf8.RuneCountInString(w.Text)
	for _, c := range w.completions {
		c = strings.TrimPrefix(c, tierMark(anywhere))
		completion := quote(tier, c)
		if n < maxIndexedPrefix && utf8.RuneCountInString(c) > n {
			completion += " *" // a beginning
		}

		all = append(all, completion)
	}

	return anyOf(all)
}

// spellings returns the expressions that a word of a script with spaces matches by in the texts of
// a tier.
func spellings(tier int, word string, prefix bool) []string {
	var all []string
	for _, tok := range wordTokens(word) {
		all = append(all, quote(tier, tok))
	}

	if prefix {
		all[0] += " *"
	}

	return all
}

// wordTokens returns the tokens by any of which a record has a word of a script with spaces:
// itself first, and its stem, both as a word and as the stem of another one.
func wordTokens(word string) []string {
	word = token(word)
	s := stem(word)
	if s == word {
		return []string{word, stemMark + s}
	}
	return []string{word, s, stemMark + s}
}

// Tiers returns the FTS5 expressions of the strict matches within facets, the best first. exact is
// that of a record that comes before all others, and may match later expressions, too; empty for
// none.
func (q Query) Tiers(facets []string, exact string) (tiers [Tiers]string) {
	if exact != "" {
		tiers[0] = Within(exact, facets)
	}

	tiers[1] = q.within(0, facets)
	// Each tier without the matches of the one before: a record is listed once.
	for n := 1; n < textTiers; n++ {
		tiers[1+n] = "(" + q.within(n, facets) + " NOT " + q.within(n-1, facets) + ")"
	}

	return tiers
}

// All returns the FTS5 expression of all strict matches within facets.
func (q Query) All(facets []string) string { return q.within(anywhere, facets) }

func (q Query) within(n int, facets []string) string {
	words := make([]string, len(q.Words))
	for i, w := range q.Words {
		words[i] = w.in(n)
	}
	return Within(allOf(words), facets)
}

// Within returns the FTS5 expression of the matches of match within facets. match may be empty if
// there are facets.
func Within(match string, facets []string) string {
	parts := make([]string, 0, len(facets)+1)
	for _, f := range facets {
		parts = append(parts, `("`+strings.ReplaceAll(f, " ", `" OR "`)+`")`)
	}

	if match != "" {
		parts = append(parts, match)
	}

	return allOf(parts)
}

// quote returns the FTS5 expression of a token in the texts of a tier.
func quote(tier int, tok string) string { return `"` + tierMark(tier) + tok + `"` }

// tierMark returns what the tokens of a tier begin with.
func tierMark(tier int) string { return string(rune(firstTier + tier)) }

func quoteEach(tier int, toks []string) []string {
	quoted := make([]string, len(toks))
	for i, tok := range toks {
		quoted[i] = quote(tier, tok)
	}
	return quoted
}

func allOf(expressions []string) string { return "(" + strings.Join(expressions, " AND ") + ")" }

func anyOf(expressions []string) string { return "(" + strings.Join(expressions, " OR ") + ")" }

// stopWords are words that do not describe the object of a search for agents.
var stopWords = wordSet(`
	a about an and any anybody anyone are as at be by can could do does for from get give have help how i in is it its
	looking me my need needs of on or our please someone something that the their them there this to us want wants we
	what where which who will with would you your
	agent agents ai bot bots
	的 了 和 与 及 或 在 是 有 我 我们 你 你们 他们 请 请问 吗 呢 吧 能 会 可以 能够 想 想要 要 需要 找 寻找 帮 帮我 帮忙 帮助 一个 什么 怎么 如何 谁 哪个 哪里
	代理 智能体`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}
