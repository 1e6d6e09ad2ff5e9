package listing

import (
	"context"
	"fmt"
	"testing"
)

func TestParseCursor_RejectsInvalidPositions(t *testing.T) {
	for _, p := range []Position{{tier: 9, Seq: 1}, {tier: 0, Seq: 0}, {Seq: 1, some: 1, rest: []int64{1, 2}}, {Seq: 1, some: 101, rest: []int64{1}}, {Seq: 1, some: 2, rest: []int64{7, 7}}} {
		p.list = 0
		if _, err := ParseCursor("", p.Cursor()); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
	good := Position{Seq: 1, some: 3, rest: []int64{9, 4, 1 << 40}}
	if got, err := ParseCursor("", good.Cursor()); err != nil || fmt.Sprint(got) != fmt.Sprint(good) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTotals_AreCachedWhileValid(t *testing.T) {
	for name, tt := range map[string]struct {
		n     int
		since uint64
		valid bool
	}{
		"exact, nothing changed":      {7, 0, true},
		"exact, one changed":          {7, 1, false},
		"at the end of counting":      {CountLimit, 1, false},
		"one past it, one changed":    {CountLimit + 1, 1, false},
		"two past it, one changed":    {CountLimit + 2, 1, true},
		"a thousand past it, as many": {2 * CountLimit, CountLimit, false},
		"past it, unknown changes":    {2 * CountLimit, UnknownChanges, false},
	} {
		if got := (total{n: tt.n, changes: 100}).valid(100 + tt.since); got != tt.valid {
			t.Errorf("%s: valid: %v", name, got)
		}
	}
}

// growing is a list that gets a record after each count, before that is cached.
type growing struct {
	Reader
	totals  *Totals
	records int
}

func (g *growing) Get(_ context.Context, dest any, _ string, _ ...any) error {
	*dest.(*int) = g.records
	g.records++
	g.totals.AddChanges(1)
	return nil
}

func TestTotals_AreCountedAgainAfterAChangeMeanwhile(t *testing.T) {
	g := &growing{totals: NewTotals()}
	for want := range 3 {
		q := &Query{Totals: g.totals, Changes: g.totals.Changes()}
		if n, exact, err := q.total(t.Context(), g); n != want || !exact || err != nil {
			t.Errorf("total %d, %v, %v; want %d", n, exact, err, want)
		}
	}
}
