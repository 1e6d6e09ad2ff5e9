package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"callbook/server/middleware"
)

// Timeouts of a connection, so that slow clients cannot exhaust the server.
const (
	readTimeout     = 15 * time.Second
	writeTimeout    = 45 * time.Second // longer than the longest wait for events
	shutdownTimeout = 12 * time.Second // longer than a check of a link
	failedTimeout   = time.Second      // instead, when the database has failed
	drainTimeout    = time.Second      // for a request to arrive on an open connection
	stalledTimeout  = 10 * time.Second // for a byte of an HTTP/2 connection to be sent
	jobPeriod       = time.Minute
)

// Front is a listener and its handler.
type Front struct {
	Listener net.Listener

	// Handler responds to its requests; nil: the Server does.
	Handler http.Handler

	// TLS is the configuration for HTTPS; nil: plain HTTP.
	TLS *tls.Config
}

// Serve accepts connections on the fronts until ctx ends, then completes the running requests
// and returns. In the meantime it runs the background jobs. It returns early, with the cause, if
// a front cannot be served any longer or the database has failed.
func (s *Server) Serve(ctx context.Context, fronts ...Front) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	background := s.startJobs(ctx)

	serving := &sync.WaitGroup{}
	servers := make([]*http.Server, len(fronts))
	for i, front := range fronts {
		servers[i] = s.newHTTPServer(front)
		front.Listener = s.connections.Limit(front.Listener)
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

	// No connection is accepted any longer when the running requests are counted. The jobs end
	// after these, which may still wait for one of them.
	serving.Wait()
	s.shutDown(servers)
	stop(nil)
	background.Wait()

	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}

	return s.store.Failure() // while the requests completed
}

func (f Front) serve(h *http.Server) error {
	if f.TLS != nil {
		return h.ServeTLS(f.Listener, "", "")
	}
	return h.Serve(f.Listener)
}

// shutDown waits for the running requests, those of the first front first. The listeners are
// closed already.
func (s *Server) shutDown(servers []*http.Server) {
	for _, h := range servers {
		h.SetKeepAlivesEnabled(false) // closes idle connections
	}

	within := failedTimeout
	if s.store.Failure() == nil {
		within = s.shutdown
		s.drain()
	}

	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, h := range servers {
		if err := h.Shutdown(ctx); err != nil {
			s.options.Log.Warn().Err(err).Msg("aborted requests that took too long to finish")
			_ = h.Close()
		}
	}
}

// drain waits for connections whose request has not been read yet: http.Server closes them when
// it shuts down.
func (s *Server) drain() {
	timeout := time.After(drainTimeout)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()

	for s.connections.Open() > 0 {
		select {
		case <-poll.C:
		case <-timeout:
			return
		}
	}
}

// http2Limits bound the memory of an HTTP/2 connection. The defaults allow megabytes.
var http2Limits = http.HTTP2Config{
	MaxConcurrentStreams:          middleware.MaxStreams,
	MaxReadFrameSize:              16 << 10,
	MaxReceiveBufferPerConnection: middleware.MaxUnread,
	MaxReceiveBufferPerStream:     middleware.MaxUnread,
	WriteByteTimeout:              stalledTimeout,
}

func (s *Server) newHTTPServer(front Front) *http.Server {
	handler := front.Handler
	if handler == nil {
		handler = s
	}

	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // the router responds to OPTIONS *
		ConnState:                    s.connections.Track,
		TLSConfig:                    front.TLS,
		HTTP2:                        &http2Limits,
		ReadHeaderTimeout:            middleware.HeaderTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  middleware.IdleTimeout,
		MaxHeaderBytes:               middleware.MaxHeaderBytes,
		ErrorLog:                     log.New(middleware.ConnectionLog(s.options.Log), "", 0),
	}
}
