// Package testkit has what the tests of several packages need: a clock, calls at the same time, and the end
// of a test at an unexpected error.
package testkit

import (
	"sync"
	"testing"
	"time"
)

// Start returns the time at which the clocks of tests begin.
func Start() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

// Clock stands still until a test moves it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows Start.
func NewClock() *Clock { return &Clock{now: Start()} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.now
}

// Advance moves the clock; a negative duration moves it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.now = c.now.Add(d)
}

// Together calls f from n goroutines that start at once, and returns their errors.
func Together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var running sync.WaitGroup

	for i := range n {
		running.Go(func() {
			// Goroutines that ran as soon as they exist would do so one after the other.
			<-start
			errs[i] = f(i)
		})
	}

	close(start)
	running.Wait()
	return errs
}

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns the value of a step that must not fail.
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}
