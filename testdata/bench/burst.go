package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// The burst: many join at once while others read cards at a steady pace.
const (
	burstOfMany     = 10000
	burstReaders    = 4
	burstPace       = 5 * time.Millisecond // between two reads of one of them
	burstComparison = 4 * time.Second      // without the burst, before and after
)

// burst measures the slowest hundredth of reads during a burst of registrations, by
// the service's own log: clients share the processors with it. What the readers see is
// a note, beside the same before and after the burst.
func burst(ctx context.Context, b *bench, name string) (f figures, err error) {
	own, err := b.writer(ctx, cached, writeConnections, writtenRegistration)
	if err != nil {
		return f, err
	}
	if own.asks, err = own.fresh(burstOfMany); err != nil {
		return f, err
	}

	own.fresh, own.most = nil, burstOfMany
	stop, err := b.profile(own.process, name)
	if err != nil {
		return f, err
	}

	defer func() { _ = stop() }()
	quiet, loud, logged, err := b.readBeside(ctx, own)
	if err != nil {
		return f, err
	}

	f.of(own)
	f.Value, f.Unit = float64(quantile(logged, 0.99))/float64(time.Millisecond), "ms"
	f.Notes = []string{
		fmt.Sprintf(
			"cards, %d clients, %d a second each: p99 %s during the burst, %s without; p50 %s and %s",
			burstReaders,
			time.Second/burstPace,
			shortTime(
				quantile(loud, 0.99),
			),
			shortTime(quantile(quiet, 0.99)),
			shortTime(median(loud)),
			shortTime(median(quiet)),
		),
	}

	return f, nil
}

// readBeside reads cards before, during and after the burst. Of those during it, it also returns
// how long the service logged that they took.
func (b *bench) readBeside(
	ctx context.Context,
	burst *side,
) (quiet, loud, logged []time.Duration, err error) {
	asks := cards(b, burst.process, cardsOfMany)
	comparison := burstComparison
	if b.quick {
		comparison /= 2
	}

	if quiet, err = steadily(ctx, burst.process, asks, after(comparison)); err != nil {
		return nil, nil, nil, err
	}

	log, err := os.Open(burst.process.output)
	if err != nil {
		return nil, nil, nil, err
	}

	defer log.Close()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return nil, nil, nil, err
	}

	ended := make(chan struct{})
	written := make(chan error, 1)
	go func() { defer close(ended); written <- b.register(ctx, burst) }()
	loud, err = steadily(ctx, burst.process, asks, ended)
	if err = errors.Join(err, <-written); err != nil {
		return nil, nil, nil, err
	}
	if logged, err = loggedReads(log, len(loud)); err != nil {
		return nil, nil, nil, err
	}

	later, err := steadily(ctx, burst.process, asks, after(comparison))
	return append(quiet, later...), loud, logged, err
}

// loggedReads returns how long the reads in a log took, at least n of them.
func loggedReads(log io.Reader, n int) (took []time.Duration, err error) {
	for lines := json.NewDecoder(log); ; {
		var line struct {
			Method string
			Took   float64 `json:"took_ms"`
		}

		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // the log's own pace
			if len(took) < n*9/10 {
				return nil, fmt.Errorf("the log has %d of %d reads", len(took), n)
			}

			return took, nil

		case err != nil:
			return nil, fmt.Errorf("read the log: %w", err)

		case line.Method == http.MethodGet:
			took = append(took, time.Duration(line.Took*float64(time.Millisecond)))
		}
	}
}

// register sends the whole burst in one turn.
func (b *bench) register(ctx context.Context, s *side) error {
	if err := s.begin(pace{}); err != nil {
		return err
	}
	defer s.end()
	return s.turn(ctx, 5*time.Minute)
}

func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// steadily reads at a steady pace until done, and returns how long each answer took
// from when it was due: a server that stalls makes those that wait late too.
func steadily(
	ctx context.Context,
	p *process,
	asks []*ask,
	done <-chan struct{},
) ([]time.Duration, error) {
	type result struct {
		times []time.Duration
		err   error
	}

	results := make(chan result, burstReaders)
	for i := range burstReaders {
		go func() {
			times, err := steadilyOne(ctx, p, asks[i*len(asks)/burstReaders:], done)
			results <- result{times, err}
		}()
	}

	var all []time.Duration
	var errs error
	for range burstReaders {
		r := <-results
		all, errs = append(all, r.times...), errors.Join(errs, r.err)
	}

	return all, errs
}

func steadilyOne(
	ctx context.Context,
	p *process,
	asks []*ask,
	done <-chan struct{},
) (times []time.Duration, err error) {
	w, err := p.dial()
	if err != nil {
		return nil, err
	}

	defer w.conn.Close()
	due := time.Now()
	for n := 0; ; n++ {
		select {
		case <-done:
			return times, nil

		case <-ctx.Done():
			return times, ctx.Err()

		case <-time.After(time.Until(due)):
		}

		_ = w.conn.SetDeadline(due.Add(time.Minute))
		if err := w.ask(asks[n%len(asks)], n%sampled == 0); err != nil {
			return times, err
		}

		times = append(times, time.Since(due))
		due = due.Add(burstPace)
	}
}
