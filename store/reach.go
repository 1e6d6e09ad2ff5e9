package store

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
)

// A search walks the rows of its rarest word and looks each up in the others. Words
// that are all common, and hardly ever meet, would have it walk the whole directory
// for a page of nothing. So where all that a search asks for is common, a page looks
// at the newest numbers only, and ends early where they hold too few: next goes on
// below them, and the total is of what was looked at.
const (
	looked    = 4000 // look-ups of a page, about: some three milliseconds
	sampled   = 300  // newest matches by which it is told how common something is
	fewParts  = 8    // things that are told so, of a tier
	fewLooks  = 1    // look-ups of a row up to which a search finds with each
	longLeap  = 100  // rows that it takes to leap as long as to look
	longest   = 1000 // rows, of a leap: past that, FTS5 finds the page by an index (pgsz)
	blockRows = 10   // rows of a block that take as long as to look: none is leapt over
	sampleFor = 4096 // samples that are kept: about 1 MB
)

// reach is how far down a page looks.
type reach struct {
	low    int64  // the lowest number
	within string // an expression that bounds it; empty: it ends by itself
	whole  bool   // that is as far as the list goes
}

// FTS5 cannot be told where a walk ends: it stops at a match past that, if there is
// one. But it ends with any of the parts that all have to match. So each row names the
// blocks of numbers that it is in, in several sizes, and a walk is bounded by asking
// for the few blocks that hold its numbers.
var blockBits = [...]int{6, 10, 14, 18}

// fewBlocks is how many blocks bound a walk at the most, and one more.
const fewBlocks = 16

func blockOf(number int64, bits int) string {
	return facet(facetBlock, strconv.Itoa(bits)+"x"+strconv.FormatInt(number>>bits, 36))
}

// blocks are those that a number is in.
func blocks(number int64) (facets []string) {
	for _, bits := range blockBits {
		facets = append(facets, blockOf(number, bits))
	}
	return facets
}

// between matches the blocks that hold the numbers from low on and below another.
func between(low, below int64) string {
	for _, bits := range blockBits {
		if first, last := low>>bits, (below-1)>>bits; last-first <= fewBlocks {
			var any []string
			for n := last; n >= first; n-- {
				any = append(any, quote(blockOf(n<<bits, bits)))
			}
			return "(" + strings.Join(any, " OR ") + ")"
		}
	}
	return ""
}

// search is what a list that is a search asks beside its rows and their count.
type search struct {
	newest string // selects the highest number
	sample string // counts the newest matches of an expression, and tells the number of the oldest
	lowest int64  // number that is listed
}

func (q *search) floor() int64 {
	if q == nil {
		return 0
	}
	return q.lowest
}

func sampleOf(table string) string {
	return `SELECT COUNT(*) AS matches, COALESCE(` + mirror + ` - MAX(rowid), 0) AS oldest
		FROM (SELECT rowid FROM ` + table + ` WHERE ` + table + ` MATCH ? ORDER BY rowid LIMIT ?)`
}

// sample is one in how many numbers something matched, when newest was the highest.
type sample struct{ each, newest int64 }

// reach is how far down a page of a tier looks which begins below a number.
func (s *Store) reach(ctx context.Context, l listing, t tier, below int64) (reach, error) {
	r := reach{low: l.search.floor(), whole: true}
	if l.search == nil || t.looks <= fewLooks {
		return r, nil
	}
	var newest int64
	if err := s.get(ctx, &newest, l.search.newest); err != nil {
		return r, err
	}
	below = min(below, newest+1)
	each := int64(1) // number that has the rarest matches
	cost := t.cost(each)
	for _, part := range t.parts[:min(len(t.parts), fewParts)] {
		if newest/each*cost <= s.looked {
			break
		}
		n, err := s.sample(ctx, l.search, part, newest)
		if err != nil {
			return r, err
		}
		each = max(each, n)
		cost = t.cost(each)
	}
	if count := newest / each; count > 1 && count*cost > s.looked {
		rows := max(1, s.looked/(cost+t.costOfBlocks(each))) // one at least, so that next leads on
		low := below - rows*each
		r.low, r.whole = max(r.low, low), low <= r.low
	}
	if r.low > 1 && r.low < below {
		r.within = between(r.low, below)
	}
	return r, nil
}

// cost is how many look-ups one row of the rarest part takes, where one in each numbers
// has one.
func (t tier) cost(each int64) int64 {
	return int64(t.looks) * (longLeap + min(each, longest)) / longLeap
}

// costOfBlocks is what it takes in addition to walk the blocks up to the next one.
func (t tier) costOfBlocks(each int64) int64 {
	each = min(each, longest)
	if t.but != "" {
		each *= 2
	}
	return each / blockRows
}

// sample tells one in how many of the newest numbers an expression matches, and
// remembers it until the directory has grown by a tenth: it decides how far a page
// looks, not what it finds.
func (s *Store) sample(ctx context.Context, q *search, match string, newest int64) (int64, error) {
	key := sha256.Sum256([]byte(q.sample + match)) // an expression may be long
	if known, ok := s.samples.Get(key); ok && known.newest+known.newest/10 >= newest {
		return known.each, nil
	}
	var found struct{ Matches, Oldest int64 }
	if err := s.get(ctx, &found, q.sample, match, sampled); err != nil {
		return 0, err
	}
	if found.Matches < sampled {
		found.Oldest = 1 // that is all of them
	}
	each := (newest - found.Oldest + 1) / max(found.Matches, 1)
	s.samples.Add(key, sample{each, newest})
	return each, nil
}
