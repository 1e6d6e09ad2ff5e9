package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ask is one request and what its answer must be. The body's length is learned from
// the first answer and must stay; its content is looked at before the row is timed
// and of every sampled request.
type ask struct {
	bytes  []byte
	status int
	check  func(body []byte) error // nil: any
	// The size of answer that the floor is asked for; 0: this one's own.
	like   int
	varies bool // its length does not stay, because others write meanwhile
	busy   bool // it may be refused with 503, and does not count then

	length atomic.Int64 // of the body plus one; 0 while unknown
}

// sampled is of how many requests one answer is looked at while a row is timed.
const sampled = 128

// errBusy is that a request was refused which may be.
var errBusy = errors.New("the service is busy")

// answered compares an answer with what it must be.
func (a *ask) answered(r reply, looked bool) error {
	if a.busy && r.status == http.StatusServiceUnavailable {
		return errBusy
	}
	if r.status != a.status {
		return fmt.Errorf("status %d instead of %d: %.300s", r.status, a.status, r.body)
	}

	if known := a.length.Load(); known == 0 {
		a.length.Store(int64(r.length) + 1)
	} else if known != int64(r.length)+1 && !a.varies {
		return fmt.Errorf("%d bytes instead of %d", r.length, known-1)
	}

	if looked && a.check != nil {
		return a.check(r.body)
	}

	return nil
}

// side is one of those that a row times in turns.
type side struct {
	process     *process
	connections int
	asks        []*ask // sent in order, again and again
	// Instead: makes so many that were never sent, before a turn.
	fresh func(n int) ([]*ask, error)
	// Requests of one turn at the most; 0: what its time allows.
	most int

	ahead []*ask // made and not sent yet
	wires []*wire
	next  atomic.Int64 // the request that is sent next
	busy  atomic.Int64 // requests that were refused with 503; the tally has none of them
	tally tally
}

// tally is what came of a side's turns.
type tally struct {
	rates []float64       // requests a second, of each turn
	p50   []time.Duration // of each turn
	p99   []time.Duration // of each turn
	times []time.Duration // of all requests
	sent  int             // all requests
	cpu   time.Duration   // of the server, for all
	clock bool            // whether cpu is known
}

func (t *tally) rate() float64 { return median(t.rates) }

func (t *tally) quantile(q float64) time.Duration { return quantile(t.times, q) }

// perRequest is the server's processor time for a request.
func (t *tally) perRequest() time.Duration {
	if !t.clock || t.sent == 0 {
		return 0
	}
	return t.cpu / time.Duration(t.sent)
}

// over is the median of the turns' ratios.
func over[T float64 | time.Duration](a, b []T) float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = float64(a[i]) / float64(b[i])
	}
	return median(ratios)
}

func median[T float64 | time.Duration](values []T) T { return quantile(values, 0.5) }

func quantile[T float64 | time.Duration](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*q))]
}

// pace is how long a row is timed.
type pace struct {
	turns int
	turn  time.Duration
	looks int // answers that are looked at before
}

// turns times the sides in short turns, so that the drift of the machine meets all
// of them alike.
func (b *bench) turns(ctx context.Context, row string, sides ...*side) error {
	return b.turnsAt(ctx, row, b.pace, sides...)
}

func (b *bench) turnsAt(ctx context.Context, row string, p pace, sides ...*side) error {
	for _, s := range sides { // before they connect: idle connections are closed
		if err := s.process.rest(ctx); err != nil {
			return err
		}
	}

	for _, s := range sides {
		if err := s.begin(p); err != nil {
			return fmt.Errorf("%s: %w", s.process.name, err)
		}

		defer s.end()
	}

	// The first turn is not counted: connections, caches and the processors' pace.
	for _, s := range sides {
		if err := s.turn(ctx, p.turn); err != nil {
			return err
		}

		s.tally = tally{}
		s.busy.Store(0)
	}

	for _, s := range sides {
		stop, err := b.profile(s.process, row)
		if err != nil {
			return err
		}

		defer func() { _ = stop() }()
	}

	for t := range p.turns {
		for _, i := range order(t, len(sides)) {
			if err := sides[i].turn(ctx, p.turn); err != nil {
				return err
			}
		}
	}

	return nil
}

// order is that of the sides in a turn: another one each time, so that none always
// comes after the same other, whose server may still be busy.
func order(turn, sides int) []int {
	places := make([]int, sides)
	for i := range places {
		places[i] = (turn + i) % sides
	}

	if turn/sides%2 == 1 {
		slices.Reverse(places)
	}

	return places
}

// begin connects, and looks at some answers.
func (s *side) begin(p pace) error {
	for range s.connections {
		w, err := s.process.dial()
		if err != nil {
			return err
		}

		s.wires = append(s.wires, w)
	}

	for _, a := range s.asks[:min(len(s.asks), p.looks)] {
		if err := s.wires[0].ask(a, true); err != nil {
			return err
		}
	}

	return nil
}

func (s *side) end() {
	for _, w := range s.wires {
		_ = w.conn.Close()
	}
	s.wires = nil
}

func (w *wire) ask(a *ask, look bool) error {
	r, err := w.send(a.bytes, look || a.length.Load() == 0)
	if err == nil {
		err = a.answered(r, look)
	}

	if err != nil {
		return fmt.Errorf("%.200q: %w", a.bytes, err)
	}

	return nil
}

// turn sends requests over all connections for a while.
func (s *side) turn(ctx context.Context, length time.Duration) error {
	asks := s.asks
	if s.fresh != nil {
		more, err := s.fresh(s.most - len(s.ahead))
		if err != nil {
			return err
		}

		asks = append(s.ahead, more...)
		s.next.Store(0)
		defer func() { s.ahead = asks[min(int(s.next.Load()), len(asks)):] }()
	}

	run := &turn{
		side:  s,
		asks:  asks,
		first: s.next.Load(),
		most:  int64(s.most),
		times: make([][]time.Duration, len(s.wires)),
	}

	before, known := s.process.cpu()
	start := time.Now()
	run.deadline = start.Add(length)
	err := run.all(ctx)
	took := time.Since(start)
	after, _ := s.process.cpu()
	if err != nil {
		return fmt.Errorf("%s: %w", s.process.name, err)
	}

	s.tally.add(run.times, took, after-before, known)
	return nil
}

func (t *tally) add(of [][]time.Duration, took, cpu time.Duration, known bool) {
	times := slices.Concat(of...)
	t.times = append(t.times, times...)
	t.rates = append(t.rates, float64(len(times))/took.Seconds())
	t.p50 = append(t.p50, quantile(times, 0.5))
	t.p99 = append(t.p99, quantile(times, 0.99))
	t.sent += len(times)
	t.cpu += cpu
	t.clock = known
}

// turn is one turn of a side.
type turn struct {
	side     *side
	asks     []*ask
	first    int64
	most     int64 // 0: what the time allows
	deadline time.Time
	times    [][]time.Duration // of each connection's requests
}

func (t *turn) all(ctx context.Context) error {
	errs := make(chan error, len(t.side.wires))
	var wait sync.WaitGroup
	for i, w := range t.side.wires {
		_ = w.conn.SetDeadline(t.deadline.Add(time.Minute))
		wait.Go(func() { errs <- t.one(ctx, i) })
	}

	wait.Wait()
	for range t.side.wires {
		if err := <-errs; err != nil {
			return err
		}
	}

	return ctx.Err()
}

func (t *turn) one(ctx context.Context, connection int) error {
	w := t.side.wires[connection]
	for {
		i := t.side.next.Add(1) - 1
		sent := time.Now()
		if t.most > 0 && i-t.first >= t.most || sent.After(t.deadline) || ctx.Err() != nil {
			return nil
		}

		err := w.ask(t.asks[i%int64(len(t.asks))], i%sampled == 0)
		if errors.Is(err, errBusy) {
			t.side.busy.Add(1)
			continue
		}
		if err != nil {
			return err
		}

		t.times[connection] = append(t.times[connection], time.Since(sent))
	}
}
