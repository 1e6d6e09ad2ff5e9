package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"callbook/server/middleware"

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
	jobPeriod       = time.Minute
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
	background := s.startJobs(ctx)
	serving := &sync.WaitGroup{}
	servers := make([]*http.Server, len(fronts))
	for i, front := range fronts {
		servers[i] = s.newHTTPServer(front)
		front.Listener = middleware.LimitConnections(front.Listener, s.options.TrustedProxies)
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
	timeout := time.After(drainTimeout)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for s.connections.Load() > 0 {
		select {
		case <-poll.C:
		case <-timeout:
			return
		}
	}
}

// countConnections is the http.Server's ConnState hook. It keeps s.connections.
func (s *Server) countConnections(_ net.Conn, state http.ConnState) {
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
		ConnState:                    s.countConnections,
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
