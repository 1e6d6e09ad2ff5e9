package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// The memory rows count what belongs to no file: the pages of the database that the
// system keeps are not the program's.

const (
	restTime        = 3 * time.Second // at rest, until the memory is looked at
	loadConnections = 64
	lookPeriod      = 50 * time.Millisecond
)

var errNoMemory = errors.New("this system does not tell how much memory a process has")

// anew restarts the cached site after a clean stop.
func (b *bench) anew(ctx context.Context) (*process, error) {
	p, err := b.on(ctx, cached)
	if err != nil {
		return nil, err
	}

	p.stop()
	if p, err = b.startProgram(ctx, cached, b.database(string(cached))); err == nil {
		b.sites[cached] = p
	}

	return p, err
}

func memoryAtRest(ctx context.Context, b *bench, _ string) (f figures, err error) {
	p, err := b.anew(ctx)
	if err != nil {
		return f, err
	}
	if err := p.rest(ctx); err != nil {
		return f, err
	}

	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return f, ctx.Err()
	}

	bytes, known := p.anonymous()
	if !known {
		return f, errNoMemory
	}

	f.Value, f.Unit = megabytes(bytes), "MB"
	return f, nil
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// memoryUnderLoad is the most that the program has while 64 clients read cards and
// lists and search, all differently.
func memoryUnderLoad(ctx context.Context, b *bench, name string) (f figures, err error) {
	p, err := b.anew(ctx)
	if err != nil {
		return f, err
	}

	s := &side{process: p, connections: loadConnections}
	if s.asks, err = mixed(ctx, b, p); err != nil {
		return f, err
	}

	most, known := int64(0), false
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() { most, known = peak(p, done) })
	err = b.turnsAt(ctx, name, pace{turns: 1, turn: 40 * b.pace.turn}, s)
	close(done)
	looking.Wait()
	if err == nil && !known {
		err = errNoMemory
	}

	f.of(s)
	f.Value, f.Unit = megabytes(most), "MB"
	return f, err
}

func peak(p *process, done <-chan struct{}) (most int64, known bool) {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	for {
		bytes, ok := p.anonymous()
		most, known = max(most, bytes), known || ok
		select {
		case <-look.C:
		case <-done:
			return most, known
		}
	}
}

// mixed are as many cards as searches, with some lists between them.
func mixed(ctx context.Context, b *bench, p *process) ([]*ask, error) {
	asks := cards(b, p, cardsOfMany)
	for n := range len(asks) {
		records, q := []string{"agents", "posts"}[n%2], englishWord(uint64(n)%englishWords)
		if n%4 > 1 {
			q = chineseWord(uint64(n) % chineseWords)
		}

		more, err := searchOf(records, q)(ctx, b, p)
		if err != nil {
			return nil, err
		}

		asks = append(asks, more...)
	}

	for n := range 200 {
		more, err := page(fmt.Sprintf("/api/agents?offset=%d", n*pageSize))(ctx, b, p)
		if err != nil {
			return nil, err
		}

		asks = append(asks, more...)
	}

	shuffled := make([]*ask, len(asks))
	for i, a := range asks {
		shuffled[(i*7919+1)%len(asks)] = a // a prime: each place is met once
	}

	return shuffled, nil
}

// programSize is the size of the released program.
func programSize(_ context.Context, b *bench, _ string) (f figures, err error) {
	info, err := os.Stat(b.binary)
	if err != nil {
		return f, err
	}
	f.Value, f.Unit = megabytes(info.Size()), "MB"
	return f, nil
}
