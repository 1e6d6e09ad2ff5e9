package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"callbook/store/progress"
)

// progressPeriod is the time between two lines about the progress of a long operation.
const progressPeriod = 10 * time.Second

// display shows the progress of a command: on a terminal in one line that it rewrites, elsewhere by line every
// progressPeriod, so that a short operation shows nothing.
type display struct {
	terminal io.Writer // nil if there is none
	line     func(step string, percent int64, left time.Duration)
	now      func() time.Time

	step         string
	began, shown time.Time // of the step; when a line was shown, or the operation began
}

// showProgress returns a context whose operations show their progress on standard error, and a function that clears it.
func (c *console) showProgress(ctx context.Context) (_ context.Context, end func()) {
	d := newDisplay(c.err, time.Now, func(step string, percent int64, left time.Duration) {
		fmt.Fprintln(c.err, "callbook:", formatProgress(step, percent, left))
	})
	return progress.With(ctx, d.report), d.end
}

func newDisplay(out io.Writer, now func() time.Time, line func(string, int64, time.Duration)) *display {
	d := &display{line: line, now: now, shown: now()}
	if isTerminal(out) {
		d.terminal = out
	}
	return d
}

// report implements progress.Func.
func (d *display) report(step string, done, total int64) {
	now := d.now()
	if step != d.step {
		d.step, d.began = step, now
	}
	var percent int64
	var left time.Duration
	if part := float64(done) / float64(total); part > 0 && part < 1 {
		percent, left = int64(100*part), time.Duration(float64(now.Sub(d.began))*(1/part-1)).Round(time.Second)
	}
	switch {
	case d.terminal != nil:
		fmt.Fprint(d.terminal, clearLine, formatProgress(step, percent, left))
	case now.Sub(d.shown) >= progressPeriod:
		d.shown = now
		d.line(step, percent, left)
	}
}

func formatProgress(step string, percent int64, left time.Duration) string {
	if left == 0 {
		return step
	}
	return fmt.Sprintf("%s: %d %%, about %s left", step, percent, left)
}

// clearLine moves the cursor of a terminal to the beginning of its line, and clears the line.
const clearLine = "\r\x1b[K"

// end clears the line of a terminal, if there is one.
func (d *display) end() {
	if d.terminal != nil && d.step != "" {
		fmt.Fprint(d.terminal, clearLine)
	}
}

// isTerminal reports whether w is a terminal. Tests replace it.
var isTerminal = func(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
