// Package progress reports how far a long operation on a file is to the command that shows it. The context of the operation
// carries the function that gets the reports; without one, nothing is measured.
package progress

import (
	"context"
	"time"
)

// Func is called with the progress of a step, several times a second and by one goroutine at a time. done and total are of
// any unit.
type Func func(step string, done, total int64)

type key struct{}

// With returns a context whose operations report to f.
func With(ctx context.Context, f Func) context.Context { return context.WithValue(ctx, key{}, f) }

// period is the time between two reports.
const period = 250 * time.Millisecond

// Watch reports what measure returns until stop is called, which waits for the last report.
func Watch(ctx context.Context, step string, measure func() (done, total int64)) (stop func()) {
	report, _ := ctx.Value(key{}).(Func)
	if report == nil {
		return func() {}
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				done, total := measure()
				report(step, done, total)
			case <-ending:
				return
			}
		}
	}()
	return func() {
		close(ending)
		<-ended
	}
}

// Estimate is Watch for a step of SQLite that cannot be measured, on a file of a size: it compares the processor time that
// the program has used with what that takes. Unlike the clock, this stands still while the step waits for a slow disk or for
// other programs. A step that takes longer approaches its end ever more slowly.
func Estimate(ctx context.Context, step string, bytes int64) (stop func()) {
	const rate = 100 << 20 // bytes that SQLite reads and compares in a second
	start, expected := processorTime(), time.Duration(float64(max(bytes, 1))/rate*float64(time.Second))
	return Watch(ctx, step, func() (done, total int64) {
		used := processorTime() - start
		left := expected - used
		if used > expected/10*9 {
			left = time.Duration(0.09 * float64(expected) * float64(expected) / float64(used))
		}
		return int64(used), int64(used + left)
	})
}
