package search

import (
	"slices"
	"strings"
)

// Near finds the indexed words that are nearest to a word that is not indexed.
type Near struct {
	Word  string   // that is not indexed
	Words []string // the nearest so far, all at the same distance

	to       []rune
	most     int // distance
	distance int // of Words
}

// maxNearest bounds Near.Words.
const maxNearest = 8

// Words of these lengths, in characters, can have a near one. The first two characters must be
// right, from longPrefix on the first three.
const (
	leastNear  = 3
	mostNear   = 32
	longPrefix = 6
)

// NewNear prepares the search for a word near to another.
func NewNear(word string) *Near {
	n := &Near{Word: word, to: []rune(word), most: 2}
	if len(n.to) < 5 {
		n.most = 1
	}
	n.distance = n.most + 1 // farther than any word that counts
	return n
}

// Tokens returns the ranges of the tokens that may be near: those that begin like the word, and
// those that begin so with two neighbours transposed.
func (n *Near) Tokens() []TokenRange {
	if len(n.to) < leastNear || len(n.to) > mostNear || IsUnspaced(n.to[0]) {
		return nil
	}

	length := 2
	if len(n.to) >= longPrefix {
		length = 3
	}
	ranges := []TokenRange{tokensFrom(string(n.to[:length]), wholeToken)}
	for i := 1; i < length; i++ {
		swapped := slices.Clone(n.to[:length])
		swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
		if swapped[i] != swapped[i-1] {
			ranges = append(ranges, tokensFrom(string(swapped), wholeToken))
		}
	}
	return ranges
}

// Add considers tokens.
func (n *Near) Add(tokens []string) {
	for _, tok := range tokens {
		word := strings.TrimPrefix(tok, tierMark(anywhere))
		if strings.ContainsFunc(word, isPrivate) {
			continue // a sign was moved: the token is not the word
		}

		d := Distance(n.Word, word, n.most)
		if d < n.distance {
			n.Words = nil
			n.distance = d
		}
		if d == n.distance && d <= n.most && len(n.Words) < maxNearest {
			n.Words = append(n.Words, word)
		}
	}
}

// isPrivate reports whether a character is one of those that only tokens contain.
func isPrivate(r rune) bool { return r >= firstFacet && r <= lastPrivate }

// Distance returns how many insertions, deletions, replacements and transpositions of neighbours
// turn one word into the other, or most+1 if there are more than most.
func Distance(a, b string, most int) int {
	from, to := []rune(a), []rune(b)
	if d := len(from) - len(to); d > most || -d > most {
		return most + 1
	}

	before := make([]int, len(to)+1)
	last := make([]int, len(to)+1)
	row := make([]int, len(to)+1)
	for j := range last {
		last[j] = j
	}

	// A row of the table of distances between the beginnings of both words depends on two others.
	for i := range from {
		row[0] = i + 1
		least := row[0]
		for j := range to {
			cost := 1
			if from[i] == to[j] {
				cost = 0
			}

			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}

			least = min(least, row[j+1])
		}

		// No later row has less than this one.
		if least > most {
			return most + 1
		}

		before, last, row = last, row, before
	}

	return min(last[len(to)], most+1)
}
