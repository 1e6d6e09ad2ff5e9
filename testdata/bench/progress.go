package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// progress tells how far the run is: on a terminal in one line that is written
// over, elsewhere in a line every ten seconds.
type progress struct {
	out      *os.File
	terminal bool

	mu    sync.Mutex
	shown time.Time
	open  bool // a line stands there that the next is written over
}

func newProgress(out *os.File) *progress {
	info, err := out.Stat()
	return &progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// say prints a line that stays.
func (p *progress) say(format string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.open = false
	fmt.Fprintf(p.out, format+"\n", values...)
}

// show prints a line that the next one takes the place of.
func (p *progress) show(format string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case p.terminal:
		p.open = true
		fmt.Fprintf(p.out, "\r\x1b[K"+format, values...)

	case now.Sub(p.shown) >= 10*time.Second:
		p.shown = now
		fmt.Fprintf(p.out, format+"\n", values...)
	}
}

// end clears the line that stands there.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.open = false
}

// bar is something long, of which it is known how much is done.
type bar struct {
	done atomic.Int64
	stop func()
}

// bar shows how much of total is done and how long the rest will take, until it is
// stopped. A total of 0 is unknown: then it shows how long it has taken.
func (p *progress) bar(what string, total int) *bar {
	b := &bar{}
	start, stopped, ended := time.Now(), make(chan struct{}), make(chan struct{})
	b.stop = sync.OnceFunc(func() { close(stopped); <-ended; p.end() })
	go func() {
		defer close(ended)
		look := time.NewTicker(time.Second / 5)
		defer look.Stop()

		for {
			p.show("%s", b.line(what, total, time.Since(start)))
			select {
			case <-look.C:
			case <-stopped:
				return
			}
		}
	}()

	return b
}

func (b *bar) line(what string, total int, took time.Duration) string {
	done := int(b.done.Load())
	if total == 0 {
		return fmt.Sprintf("%s, for %s", what, took.Round(time.Second))
	}

	line := fmt.Sprintf("%s: %d of %d, %d %%", what, done, total, 100*done/total)
	if done > 0 && took > time.Second {
		left := time.Duration(float64(took) * float64(total-done) / float64(done))
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}

	return line
}
