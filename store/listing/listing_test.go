package listing

import (
	"context"
	"testing"
)

func TestParseCursor_TakesItsOwnAlone(t *testing.T) {
	own, _ := ParseCursor("list", "")
	own.tier, own.Seq = 2, 1<<40
	if got, err := ParseCursor("list", own.Cursor()); err != nil || got != own {
		t.Errorf("%+v, %v, want %+v", got, err, own)
	}

	for name, change := range map[string]func(*Position){
		"another list":    func(p *Position) { p.list++ },
		"no such tier":    func(p *Position) { p.tier = 9 },
		"a negative tier": func(p *Position) { p.tier = -1 },
		"no record":       func(p *Position) { p.Seq = 0 },
		"below records":   func(p *Position) { p.Seq = -1 },
	} {
		p := own
		change(&p)
		if _, err := ParseCursor("list", p.Cursor()); err == nil {
			t.Errorf("%s: %+v is accepted", name, p)
		}
	}
	for _, cursor := range []string{"-", "AAAA", own.Cursor() + "AA", own.Cursor()[:4], "=", own.Cursor() + "="} {
		if _, err := ParseCursor("list", cursor); err == nil {
			t.Errorf("%q is accepted", cursor)
		}
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
