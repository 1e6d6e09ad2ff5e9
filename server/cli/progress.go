package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"callbook/store/sqlitedb"
)

// progressPeriod is the time between two lines about the progress of a long operation.
const progressPeriod = 10 * time.Second

// clearLine moves the cursor of a terminal to the beginning of its line, and clears the line.
const clearLine = "\r\x1b[K"

// showProgress returns a context whose operations show their progress, and a function that clears
// it. A terminal shows one line that is rewritten. Elsewhere, line gets one every progressPeriod,
// so that a short operation shows nothing.
func showProgress(
	ctx context.Context,
	out io.Writer,
	line func(text string),
) (_ context.Context, end func()) {
	terminal := isTerminal(out)
	current := ""
	var began time.Time
	shown := time.Now() //clock: of the program

	report := func(step string, done, total int64) {
		now := time.Now() //clock: of the program

		if step != current {
			current, began = step, now
		}

		// The time left is estimated from this step alone: steps differ in speed.
		text := step
		if 0 < done && done < total {
			left := time.Duration(float64(now.Sub(began)) * float64(total-done) / float64(done))
			text = fmt.Sprintf(
				"%s: %d %%, about %s left",
				step,
				100*done/total,
				left.Round(time.Second),
			)
		}

		if terminal {
			fmt.Fprint(out, clearLine, text)
		} else if now.Sub(shown) >= progressPeriod {
			shown = now
			line(text)
		}
	}

	return sqlitedb.WithProgress(ctx, report), func() {
		if terminal && current != "" {
			fmt.Fprint(out, clearLine)
		}
	}
}

// showProgress shows the progress of a command on standard error.
func (c *console) showProgress(ctx context.Context) (_ context.Context, end func()) {
	return showProgress(ctx, c.err, func(text string) { fmt.Fprintln(c.err, "callbook:", text) })
}

// isTerminal reports whether w is a terminal. Tests replace it.
var isTerminal = func(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
