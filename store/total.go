package store

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Counting a list's total takes longer than reading its page, and most lists are
// asked again before they change. So totals are remembered, with how far commits had
// come when the count began. One that is exact holds while nothing was changed since;
// one past countLimit holds while fewer records were changed than were counted beyond
// it, for each of them can only have taken itself out.

// remembered is how many totals are kept: about 1 MB.
const remembered = 2048

// total is what was counted of a list.
type total struct {
	n       int    // matches, up to some limit past countLimit
	changes uint64 // of the records of its kind, when the count began
}

// totals are those of the lists of one kind of record.
type totals struct {
	changes atomic.Uint64 // records that commits have changed, or may have
	known   *lru.Cache[string, total]
}

func newTotals() (*totals, error) {
	known, err := lru.New[string, total](remembered)
	return &totals{known: known}, err
}

// changed is told of every commit, after it and before its writers are answered.
func (t *totals) changed(records int) { t.changes.Add(uint64(records)) }

// unknownChanges is how many records have changed when nobody can tell.
const unknownChanges = math.MaxInt32

// listed is how many records of a search table a commit may have put into lists or
// taken out.
func (c Changes) listed(table string) int {
	if c.All {
		return unknownChanges
	}
	return c.rows[table]
}

// holds tells whether a total says the same today, up to countLimit.
func (c total) holds(changes uint64) bool {
	since := changes - c.changes
	return since == 0 || c.n > countLimit && since < uint64(c.n-countLimit)
}

// total counts the records of a list up to countLimit, unless that is cached, and reports whether that is all of them.
func (s *Store) total(ctx context.Context, l *listing) (n int, exact bool, err error) {
	limit := countLimit + 1
	key := fmt.Sprintf("%s %v", l.name, l.bounds)
	if l.totals != nil {
		known, ok := l.totals.known.Get(key)
		if ok && known.holds(l.changes) {
			return min(known.n, countLimit), known.n <= countLimit, nil
		}
		if ok && known.n > countLimit {
			limit += countLimit // its records change: so far that it holds for the next thousand
		}
	}
	n, err = s.count(ctx, l, l.all, limit)
	if err == nil && l.totals != nil {
		l.totals.known.Add(key, total{n, l.changes})
	}
	return min(n, countLimit), n <= countLimit, err
}
