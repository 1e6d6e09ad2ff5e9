// Package middleware holds the handlers that every request passes before its own handler, and the
// limits of connections: one file for each. None of them knows an operation or an entity.
//
// Requests pass Observe, which assigns the request id, sets the security headers, compresses the
// response, recovers from panics, counts the request and writes its one log event. Handlers add
// the cause of a failure to that event with LogError, and other facts to the Record of the request.
//
// # Memory
//
// The limits of this package are constants, chosen so that the service stays below MemoryMax of its
// systemd unit, 256 MB:
//
//	2,048 connections × 40 KB (goroutine, buffers of TLS, 20 KB of header)    80 MB
//	2,048 requests × 16 KB (goroutine, buffer of the stream, its header)      32 MB
//	bodies on their way in and out                                            64 MB
//	the program at rest, SQLite's and the response cache                      60 MB
//	                                                                 236 MB ≤ 256 MB
//
// While a header arrives, thousands of names of two letters take 25 times their bytes: 0.5 MB for
// a connection, and 128 MB for the 256 connections of an address. One address that does so stays
// below the limit. Several can exceed it for as long as HeaderTimeout; systemd then starts the
// service again.
package middleware

import (
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Limits of a connection.
const (
	// HeaderTimeout is the time in which the header of a request has to arrive.
	HeaderTimeout = 5 * time.Second
	// IdleTimeout is how long a connection stays open between two requests.
	IdleTimeout = 60 * time.Second
	// MaxHeaderBytes is the size of a header. http.Server reads another 4 KiB before it rejects
	// one.
	MaxHeaderBytes = 16 << 10
	// MaxStreams is how many requests a client may send at once on a connection of HTTP/2.
	MaxStreams = 100
	// MaxUnread is how much of a body an HTTP/2 client may send before the handler reads it. A
	// smaller size fails uploads that begin before the client knows it.
	MaxUnread = 64 << 10

	// maxFields is the maximum number of fields of a header.
	maxFields = 64
	// writePart is the part of a response that a client has to take within partTimeout.
	writePart   = 64 << 10
	partTimeout = 10 * time.Second
)

// Limits of all connections.
const (
	maxConnections = 2048
	// littleConnections is how many connections of a network may use the reserved part.
	littleConnections = 4

	// crowded is the number of connections from which those are closed that have been idle for
	// longer than crowdedIdle.
	crowded     = maxConnections / 4 * 3
	crowdedIdle = 5 * time.Second

	// maxMemory is how many bytes of bodies arrive, or wait to be sent.
	maxMemory          = 64 << 20
	maxMemoryOfNetwork = 4 << 20
	littleMemory       = 256 << 10
	// buffered is the size of a body that is in the buffer of its connection, and not counted.
	buffered = 4 << 10
)

// connectionsOfNetwork are the connections of each network of a client.
var connectionsOfNetwork = domain.Share{256, 384, 512}

// NewMemory returns the pool of the bytes of bodies in flight. It counts clients by their
// networks, also behind a proxy.
func NewMemory() *ratelimit.Pool {
	share := domain.Share{maxMemoryOfNetwork, maxMemoryOfNetwork, maxMemoryOfNetwork}
	return ratelimit.NewPool(maxMemory, share, littleMemory)
}

// NewRequests returns the pool of the requests at once. Those that share a connection hold memory
// like connections, and the limits are the same.
func NewRequests() *ratelimit.Pool {
	return ratelimit.NewPool(maxConnections, connectionsOfNetwork, littleConnections)
}

// ErrBusy rejects a request that would exceed the limits of requests at once or of memory.
var ErrBusy = &domain.Error{Code: domain.CodeUnavailable}

// errHeader rejects a request with too many header fields.
var errHeader = &domain.Error{Code: domain.CodeHeaderTooLarge, Limit: maxFields}
