package main

import (
	"context"
	"fmt"
	"time"
)

// growth compares a read of a larger directory with the same of a smaller one, in
// turns, by one client and without a cache.
type growth struct {
	asks  func(context.Context, *bench, *process) ([]*ask, error)
	sizes []int // of the directories, in rising order; the last two are the figure
}

// sizesOf are the directories that are compared.
func sizesOf(s settings) []int {
	if s.growth {
		return []int{10_000, 100_000, manyAgents}
	}
	return []int{s.agents / 10, s.agents}
}

func (g growth) measure(ctx context.Context, b *bench, name string) (f figures, err error) {
	sides := make([]*side, len(g.sizes))
	for i, size := range g.sizes {
		if sides[i], err = b.lone(ctx, g.site(b, size), size, g.asks); err != nil {
			return f, err
		}
	}

	if err := b.turns(ctx, name, sides...); err != nil {
		return f, err
	}

	p50 := make([][]time.Duration, len(sides))
	for i, s := range sides {
		p50[i] = s.tally.p50
		f.Notes = append(
			f.Notes,
			fmt.Sprintf("%7d agents: p50 %s", g.sizes[i], shortTime(s.tally.quantile(0.5))),
		)
		f.Sizes = append(f.Sizes, sized{g.sizes[i], s.tally.quantile(0.5), s.tally.quantile(0.99)})
	}

	largest := len(sides) - 1
	f.of(sides[largest])
	f.Value = over(p50[largest], p50[largest-1])
	f.Unit = fmt.Sprintf("× that of %d", g.sizes[largest-1])

	return f, nil
}

// site is where a directory of the size is served; that of the run is there already.
func (g growth) site(b *bench, size int) site {
	if size == b.agents {
		return uncached
	}
	return ofSize(size)
}

// lone is a side of one client, on a directory of another size.
func (b *bench) lone(
	ctx context.Context,
	on site,
	size int,
	asks func(context.Context, *bench, *process) ([]*ask, error),
) (*side, error) {
	whole := b.agents
	b.agents = size
	defer func() { b.agents = whole }()
	s, err := b.reader(ctx, on, asks)
	if err == nil {
		s.connections = 1
	}

	return s, err
}
