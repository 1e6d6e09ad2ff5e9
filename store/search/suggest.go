package search

import "strings"

// Near finds the indexed words that are nearest to a word that is not indexed.
type Near struct {
	Words []string // the nearest so far, all at the same distance

	to       []rune
	most     int // distance
	distance int // of Words
}

// maxNearest bounds Near.Words.
const maxNearest = 8

// Words of these lengths, in characters, can have a near one. The first two characters must be right, from longPrefix on
// the first three.
const (
	leastNear  = 3
	mostNear   = 32
	longPrefix = 6
)

// NewNear prepares the search for a word near to another.
func NewNear(word string) *Near {
	n := &Near{to: []rune(word), most: 2}
	if len(n.to) < 5 {
		n.most = 1
	}
	n.distance = n.most + 1
	return n
}

// Beginnings returns the beginnings of the tokens that may be near: that of the word, and those with two neighbours in it
// transposed.
func (n *Near) Beginnings() []string {
	if len(n.to) < leastNear || len(n.to) > mostNear || IsUnspaced(n.to[0]) {
		return nil
	}
	length := 2
	if len(n.to) >= longPrefix {
		length = 3
	}
	beginnings := []string{tierMark(anywhere) + string(n.to[:length])}
	for i := 1; i < length; i++ {
		swapped := append([]rune{}, n.to[:length]...)
		swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
		if s := tierMark(anywhere) + string(swapped); s != beginnings[0] {
			beginnings = append(beginnings, s)
		}
	}
	return beginnings
}

// Add considers a token.
func (n *Near) Add(tok string) {
	word := strings.TrimPrefix(tok, tierMark(anywhere))
	if strings.ContainsFunc(word, func(r rune) bool { return r >= firstFacet && r <= lastPrivate }) {
		return // a sign was moved: the token is not the word
	}
	d := Distance(string(n.to), word, n.most)
	if d < n.distance {
		n.Words, n.distance = nil, d
	}
	if d == n.distance && d <= n.most && len(n.Words) < maxNearest {
		n.Words = append(n.Words, word)
	}
}

// Distance returns how many insertions, deletions, replacements and transpositions of neighbours turn one word into the
// other, or most+1 if there are more than most.
func Distance(a, b string, most int) int {
	from, to := []rune(a), []rune(b)
	if d := len(from) - len(to); d > most || -d > most {
		return most + 1
	}
	before, last, row := make([]int, len(to)+1), make([]int, len(to)+1), make([]int, len(to)+1)
	for j := range last {
		last[j] = j
	}
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
		if least > most {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return min(last[len(to)], most+1)
}
