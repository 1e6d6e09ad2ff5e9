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

// Report reports the progress of a step that counts what it does.
func Report(ctx context.Context, step string, done, total int64) {
	if report, ok := ctx.Value(key{}).(Func); ok {
		report(step, done, total)
	}
}

// period is the time between two reports.
const period = 250 * time.Millisecond

// Watch reports what measure returns until stop is called, which waits for the last report.
func Watch(ctx context.Context, step string, measure func() (done, total int64)) (stop func()) {
	report, _ := ctx.Value(key{}).(Func)
	if report == nil {
		return func() {}
	}

	ticker := time.NewTicker(period)
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
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
		ticker.Stop()
		close(ending)
		<-ended
	}
}

// Estimate is Watch for a step of SQLite that cannot be measured, on a file of a size: it compares the
// time since the start with what that takes on a fast disk. A step that takes longer is reported as done,
// so that its end is not promised.
func Estimate(ctx context.Context, step string, bytes int64) (stop func()) {
	const rate = 100 << 20 // bytes that SQLite reads and compares in a second
	start := time.Now()    //clock: how long it took
	expected := time.Duration(float64(bytes) / rate * float64(time.Second))

	return Watch(ctx, step, func() (done, total int64) {
		took := time.Since(start) //clock: as above
		return int64(took), int64(max(took, expected))
	})
}
