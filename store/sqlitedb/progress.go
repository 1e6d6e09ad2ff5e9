package sqlitedb

import (
	"context"
	"time"
)

// Progress is called with the progress of a step, several times a second and by one goroutine at a
// time. done and total are of any unit.
type Progress func(step string, done, total int64)

type progressKey struct{}

// WithProgress returns a context whose operations report to f.
func WithProgress(ctx context.Context, f Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// ReportProgress reports the progress of a step that counts what it does.
func ReportProgress(ctx context.Context, step string, done, total int64) {
	if report, ok := ctx.Value(progressKey{}).(Progress); ok {
		report(step, done, total)
	}
}

// progressPeriod is the time between two reports.
const progressPeriod = 250 * time.Millisecond

// watchProgress reports what measure returns until stop is called, which waits for the last report.
func watchProgress(
	ctx context.Context,
	step string,
	measure func() (done, total int64),
) (stop func()) {
	report, _ := ctx.Value(progressKey{}).(Progress)
	if report == nil {
		return func() {}
	}

	ticker := time.NewTicker(progressPeriod)
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

// EstimateProgress reports the progress of a step of SQLite that cannot be measured, on a file of a
// size, until stop is called: it compares the time since the start with what the step takes on a
// fast disk. A step that takes longer is reported as done, so that its end is not promised.
func EstimateProgress(ctx context.Context, step string, bytes int64) (stop func()) {
	const rate = 100 << 20 // bytes that SQLite reads and compares in a second
	start := time.Now()    //clock: how long it took
	expected := time.Duration(float64(bytes) / rate * float64(time.Second))

	return watchProgress(ctx, step, func() (done, total int64) {
		took := time.Since(start) //clock: as above
		return int64(took), int64(max(took, expected))
	})
}
