package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// How long a connection may take, so that slow ones cannot use up the server.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 15 * time.Second
	writeTimeout    = 45 * time.Second // longer than the longest wait for events
	idleTimeout     = 60 * time.Second
	shutdownTimeout = 12 * time.Second // longer than a look at a link
	failedTimeout   = time.Second      // instead, when the database has failed
	drainTimeout    = time.Second      // for a call to come on a connection that is open
	maxHeader       = 16 << 10
	duePeriod       = time.Minute
)

// Front is a listener, and what answers there.
type Front struct {
	Listener net.Listener
	Handler  http.Handler // the directory itself when nil
	TLS      *tls.Config  // nil: plain HTTP
}

// Serve answers on the fronts until ctx ends, then finishes the calls that run and
// returns. In the meantime it does what is due by the clock. It returns early, with
// the cause, when a front can no longer be served or the database has failed.
func (s *Server) Serve(ctx context.Context, fronts ...Front) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	background := s.work(ctx)
	serving := &sync.WaitGroup{}
	servers := make([]*http.Server, len(fronts))
	for i, front := range fronts {
		servers[i] = s.newHTTPServer(front)
		serving.Go(func() { stop(front.serve(servers[i])) })
	}
	select {
	case <-ctx.Done():
	case <-s.store.Broken():
		stop(s.store.Failure())
	}
	close(s.stopping)
	for _, front := range fronts {
		_ = front.Listener.Close()
	}
	serving.Wait()
	s.shutDown(servers)
	stop(nil)
	background.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return s.store.Failure() // while the calls finished
}

func (f Front) serve(h *http.Server) error {
	if f.TLS != nil {
		return h.ServeTLS(f.Listener, "", "")
	}
	return h.Serve(f.Listener)
}

// shutDown lets the calls that run finish, those of the first front first. Their
// listeners are closed.
func (s *Server) shutDown(servers []*http.Server) {
	for _, h := range servers {
		h.SetKeepAlivesEnabled(false) // closes those that wait for another call
	}
	within := failedTimeout
	if s.store.Failure() == nil {
		within = shutdownTimeout
		s.drain()
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, h := range servers {
		if err := h.Shutdown(ctx); err != nil {
			s.options.Log.Warn().Err(err).Msg("calls that took too long to finish are cut off")
			_ = h.Close()
		}
	}
}

// drain waits for those who have come but whose call is not read yet: http.Server cuts
// them off once it shuts down.
func (s *Server) drain() {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.NewTimer(drainTimeout)
	defer late.Stop()
	for s.connections.Load() > 0 {
		select {
		case <-look.C:
		case <-late.C:
			return
		}
	}
}

func (s *Server) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.connections.Add(-1)
	}
}

func (s *Server) newHTTPServer(front Front) *http.Server {
	handler := front.Handler
	if handler == nil {
		handler = s
	}
	return &http.Server{
		Handler: handler,

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered as all else is
		ConnState:                    s.countConnection,
		TLSConfig:                    front.TLS,
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		ErrorLog:                     log.New(connectionLog{s.options.Log}, "", 0),
	}
}

// connectionLog logs what http.Server says of connections, without the addresses of
// peers. What scanners leave behind is nobody's trouble.
type connectionLog struct{ log zerolog.Logger }

var peerAddress = regexp.MustCompile(`(\[[0-9a-z:.%]+\]|[0-9]+(\.[0-9]+){3}):[0-9]+`)

func (c connectionLog) Write(line []byte) (int, error) {
	level := zerolog.WarnLevel
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) || bytes.HasPrefix(line, []byte("http2: ")) {
		level = zerolog.DebugLevel
	}
	if c.log.GetLevel() <= level {
		c.log.WithLevel(level).Msg(peerAddress.ReplaceAllLiteralString(strings.TrimSpace(string(line)), "a caller"))
	}
	return len(line), nil
}

// job is something that is due by the clock, again and again.
type job struct {
	failed  string                          // what the log says when it fails
	act     func(ctx context.Context) error // a bounded part of what is due
	all     func(ctx context.Context) error // all of it, for whoever moves the clock; act when nil
	run     func(ctx context.Context)       // instead of act: until ctx ends
	atStart bool                            // at once too, not only every duePeriod
	outward bool                            // it calls other hosts
}

// jobs are all that is done beside the calls.
func (s *Server) jobs() []job {
	jobs := []job{{failed: "what was due could not be done", act: s.store.RunDue}}
	if s.mailer != nil {
		jobs = append(jobs, job{run: s.mailer.run, all: s.mailer.deliver})
	}
	return append(jobs,
		job{failed: "links could not be looked at again", act: s.links.recheckSome, all: s.links.recheckAll, outward: true},
		job{failed: "the database could not be backed up", act: s.backUp, atStart: true},
		job{act: s.tellRoom, atStart: true},
		job{run: s.checkWhole, all: noMatter},
	)
}

// noMatter is for a job that has nothing to do with the clock.
func noMatter(context.Context) error { return nil }

// work does the jobs in the background until ctx ends.
func (s *Server) work(ctx context.Context) *sync.WaitGroup {
	working := &sync.WaitGroup{}
	for _, j := range s.jobs() {
		if j.run == nil {
			j.run = func(ctx context.Context) { s.repeat(ctx, j) }
		}
		working.Go(func() { j.run(ctx) })
	}
	return working
}

func (s *Server) repeat(ctx context.Context, j job) {
	due := time.NewTicker(duePeriod)
	defer due.Stop()
	for now := j.atStart; ctx.Err() == nil; now = true {
		if now {
			s.do(ctx, j)
		}
		select {
		case <-due.C:
		case <-ctx.Done():
		}
	}
}

func (s *Server) do(ctx context.Context, j job) {
	if err := guarded(ctx, j.act); err != nil && ctx.Err() == nil {
		s.options.Log.Error().Err(err).Msg(j.failed)
	}
}

// checkWhole reads the whole database, once.
func (s *Server) checkWhole(ctx context.Context) {
	if err := guarded(ctx, s.store.CheckWhole); err != nil && ctx.Err() == nil {
		s.options.Log.Error().Err(err).Msg("the database could not be checked as a whole")
	}
}

// guarded turns a panic of a background task into an error: the next run comes.
func guarded(ctx context.Context, act func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return act(ctx)
}

// RunDue does at once all that is due by the clock, mails and links included.
func (s *Server) RunDue(ctx context.Context) error {
	return s.runDue(ctx, func(job) bool { return true })
}

// runDueInside does all that is due but looks at pages.
func (s *Server) runDueInside(ctx context.Context) error {
	return s.runDue(ctx, func(j job) bool { return !j.outward })
}

func (s *Server) runDue(ctx context.Context, chosen func(job) bool) error {
	var errs []error
	for _, j := range s.jobs() {
		act := j.all
		if act == nil {
			act = j.act
		}
		if chosen(j) {
			errs = append(errs, act(ctx))
		}
	}
	return errors.Join(errs...)
}
