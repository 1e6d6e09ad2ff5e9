package search

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// Limits of partial matches.
const (
	MaxPartial  = 100 // records
	PartMatches = 200 // the newest of a part's matches that are considered
	CountLimit  = 1000
	maxParts    = 24
)

// Part is a part of a query that a record may match by itself.
type Part struct {
	Expression string // FTS5, anywhere in a record
	Upper      string // FTS5, in the first two texts
	Exact      string // FTS5, anywhere: the very word of the query; empty if it is no single token
	Word       string // of the query; empty for parts of a run and of the glossary
	Near       string // an indexed word in the place of Word, which nothing holds; usually empty
	// Number of the word of the query: of the parts of a word, the best one counts.
	word   int
	pair   bool    // of a run of characters that the glossary does not know
	factor float64 // of its rarity
}

// glossaryFactor makes a word that the query has itself count more than one that means the same.
const glossaryFactor = 0.8

// thirdFactor makes a word that occurs only in the third texts count less than one in the first
// two.
const thirdFactor = 0.8

// nearFactor makes a word count less that is spelled almost like one that the index does not have.
const nearFactor = 0.6

// Parts returns the parts of the query: each word, and the words that the glossary has for it. A
// run of a script without spaces is divided into words of the glossary and the pairs between them,
// without stop words. near has words that are spelled almost like unknown ones, each of which is a
// part, too.
func (q Query) Parts(near []*Near) []Part {
	list := partList{near: near}
	for _, w := range q.Words {
		if w.unspaced {
			list.addRun(w, len(q.Words) == 1)
			continue
		}

		own := partOf(w.in)
		own.Word = w.Text
		own.Exact = quote(anywhere, token(w.Text))
		list.add(w.Text, own)
	}
	return list.parts
}

// partList gathers the parts of a query.
type partList struct {
	near  []*Near
	parts []Part
	words int // so far
	used  int // parts so far, without those of near words
}

// add adds the part of a word, with those of near words and of the glossary.
func (l *partList) add(word string, own Part) {
	if l.used+2 > maxParts { // the word, and what the glossary has for it
		return
	}

	own.word = l.words
	own.factor = 1
	l.parts = append(l.parts, own)
	l.used++

	for _, n := range l.near {
		if n.Word == own.Word {
			l.parts = append(l.parts, own.near(n.Words)...)
		}
	}

	if same := theGlossary().same(word); len(same) > 0 {
		synonyms := partOf(func(tier int) string { return anyOf(wholeWords(tier, same...)) })
		synonyms.word = l.words
		synonyms.factor = glossaryFactor
		l.parts = append(l.parts, synonyms)
		l.used++
	}

	l.words++
}

// addRun adds the parts of a run. A stop word is one only if it is alone in the query.
func (l *partList) addRun(w Word, alone bool) {
	g := theGlossary()
	for _, piece := range g.cut(w.Text) {
		if stopWords[piece] && !(alone && piece == w.Text) {
			continue
		}

		// What the glossary does not know may be several words: only its pairs are sure to match.
		if g.byWord[piece] != nil || utf8.RuneCountInString(piece) <= 2 {
			own := partOf(func(tier int) string { return anyOf(wholeWords(tier, piece)) })
			if piece == w.Text && len(w.pairs) == 1 {
				// A run of one token can be looked up, and repeated in a hint, like a word.
				own.Word = piece
				own.Exact = own.Expression
			}
			l.add(piece, own)
			continue
		}

		for _, pair := range pairs(piece) {
			own := partOf(func(tier int) string { return "(" + quote(tier, pair) + ")" })
			own.pair = true
			l.add(pair, own)
		}
	}
}

// upper is the tier of the first two texts.
const upper = 1

// partOf returns a part with the expressions that in returns for a tier.
func partOf(in func(tier int) string) Part {
	return Part{Expression: in(anywhere), Upper: in(upper)}
}

// wholeWords returns the expressions by which whole words match in the texts of a tier.
func wholeWords(tier int, words ...string) (all []string) {
	for _, word := range words {
		if beginsUnspaced(word) {
			all = append(all, allOf(quoteEach(tier, runTokens(word))))
		} else {
			all = append(all, spellings(tier, word, false)...)
		}
	}

	return all
}

// near returns the parts for words that are spelled almost like that of p.
func (p Part) near(words []string) (parts []Part) {
	for _, word := range words {
		near := partOf(func(tier int) string { return anyOf(spellings(tier, word, false)) })
		near.Word = p.Word
		near.Near = word
		near.word = p.word
		near.factor = nearFactor
		parts = append(parts, near)
	}
	return parts
}

// Answer has the matches of a part or a word of a query in an index.
type Answer struct {
	Count   int      // records that match it, at most CountLimit
	Indexed bool     // some record matches Part.Exact
	IDs     []int64  // the newest of the records that match it, at most PartMatches
	InUpper []int64  // the newest of those that have it in the first two texts, at most PartMatches
	Newest  int      // the highest number of a record, whether it matches or not
	Tokens  []string // of a range
}

// Found is a part with its matches.
type Found struct {
	Part
	Answer
}

// KeepNearest leaves out all parts for words that are spelled almost like an unknown word but the
// one that most records match.
func KeepNearest(found []Found) []Found {
	nearest := map[string]Found{} // by the unknown words
	for _, f := range found {
		if f.Near != "" && f.Count > nearest[f.Word].Count {
			nearest[f.Word] = f
		}
	}

	return slices.DeleteFunc(found, func(f Found) bool {
		return f.Near != "" && f.Near != nearest[f.Word].Near
	})
}

// leastShare is the share of the rarest word's rarity that a partial match must reach, so that a
// record that matches only a common word does not count where another word is rare.
const leastShare = 0.4

// Rank orders the records that match some parts of a query by the summed rarity of these parts,
// the newest first among equals. It leaves out those below leastShare and those in strict, and
// returns at most MaxPartial.
func Rank(found []Found, strict []int64) []int64 {
	scores := map[int64]float64{}
	var rarest float64
	for from := 0; from < len(found); {
		// The parts of a word stand behind each other.
		to := from + 1
		for to < len(found) && found[to].word == found[from].word {
			to++
		}

		rarest = max(rarest, addScores(scores, found[from:to]))
		from = to
	}

	for _, id := range strict {
		delete(scores, id)
	}

	var ids []int64
	for id, score := range scores {
		if score >= leastShare*rarest {
			ids = append(ids, id)
		}
	}

	slices.SortFunc(ids, func(a, b int64) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b, a))
	})

	return ids[:min(len(ids), MaxPartial)]
}

// addScores adds to the score of each record the best of those parts of a word that it matches. It
// returns the rarity of the word: that of the rarest of its parts, or of a word of one record if no
// record has it.
func addScores(scores map[int64]float64, parts []Found) (rare float64) {
	for _, f := range parts {
		if f.Count > 0 {
			rare = max(rare, rarity(f.Count, f.Newest))
		}
	}
	if rare == 0 && !parts[0].pair {
		rare = rarity(1, parts[0].Newest)
	}

	// A record with a word and its translation does not match better than one with the word.
	best := map[int64]float64{}
	for _, f := range parts {
		for _, id := range f.IDs {
			best[id] = max(best[id], f.factor*rare*thirdFactor)
		}
		for _, id := range f.InUpper {
			best[id] = max(best[id], f.factor*rare)
		}
	}

	for id, score := range best {
		scores[id] += score
	}
	return rare
}

// fewRecords is the number of records below which no word counts as common because a few have it.
const fewRecords = 20

func rarity(count, records int) float64 {
	// As the inverse document frequency of BM25, with halves so that no count gives infinity.
	return math.Log((float64(max(records, count, fewRecords)) + 1) / (float64(count) + 0.5))
}
