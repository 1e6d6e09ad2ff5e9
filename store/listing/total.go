package listing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxTotals is how many totals are cached: about 1 MB.
const maxTotals = 2048

// Totals caches the totals of the lists of one kind of record: counting takes longer than
// reading a page, and most lists are read again before they change. An exact total is valid
// until a record changes. A total past CountLimit is valid until as many records have changed
// as were counted beyond the limit, since each can have left the list only once.
type Totals struct {
	changes atomic.Uint64 // records that commits have changed, or may have
	cached  *lru.Cache[string, total]
}

// total is the count of a list.
type total struct {
	n       int    // records, up to some limit past CountLimit
	changes uint64 // Totals.changes when the count began
}

// NewTotals returns an empty cache.
func NewTotals() *Totals {
	cached, err := lru.New[string, total](maxTotals)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Totals{cached: cached}
}

// UnknownChanges is the number of changed records if it is not known. No total stays valid.
const UnknownChanges = math.MaxInt32

// AddChanges counts records that a commit has put into lists or taken out, at most. It must be
// called after the commit and before its writers return.
func (t *Totals) AddChanges(records int) { t.changes.Add(uint64(records)) }

// Changes returns the number of changes so far.
func (t *Totals) Changes() uint64 { return t.changes.Load() }

// valid reports whether a total is still the same, up to CountLimit, after that many changes.
func (c total) valid(changes uint64) bool {
	since := changes - c.changes
	return since == 0 || c.n > CountLimit && since < uint64(c.n-CountLimit)
}

// total counts the records of a list up to CountLimit, or takes a cached count. It reports
// whether there are no more.
func (q *Query) total(ctx context.Context, r Reader) (n int, exact bool, err error) {
	limit := CountLimit + 1
	key := fmt.Sprintf("%s %v", q.Name, q.Bounds)
	if q.Totals != nil {
		cached, ok := q.Totals.cached.Get(key)
		if ok && cached.valid(q.Changes) {
			return min(cached.n, CountLimit), cached.n <= CountLimit, nil
		}
		if ok && cached.n > CountLimit {
			limit += CountLimit // a list that changes: count so far that the total stays valid for 1,000 changes
		}
	}
	args := append(append(slices.Clone(q.Before), q.Bounds...), limit)
	err = r.Get(ctx, &n, q.Count, args...)
	if err == nil && q.Totals != nil {
		q.Totals.cached.Add(key, total{n: n, changes: q.Changes})
	}
	return min(n, CountLimit), n <= CountLimit, err
}
