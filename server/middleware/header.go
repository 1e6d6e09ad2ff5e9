package middleware

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// HeaderTimeout is the time in which the header of a request has to arrive.
const HeaderTimeout = 5 * time.Second

// Limits of headers. A header of thousands of short names takes many times its size in memory: while it
// arrives, that is counted for its connection, and when it has arrived, it is dropped.
const (
	maxFields           = 64       // of a header
	smallHeader         = 2 << 10  // a header of this size is not counted; the handshake of TLS has about as much
	headerCost          = 24       // bytes of memory for each byte of a header that is arriving
	requestCost         = 2        // likewise, of one that has arrived
	smallRead           = 4 << 10  // an encrypted connection with larger records has buffers of the size below
	largeBuffers        = 32 << 10 // of TLS and HTTP/2, until the connection is closed
	maxReadAhead        = 20 << 10 // bytes of the next header that may be buffered with a request
	maxHeaders          = 32 << 20
	maxHeadersOfNetwork = 4 << 20
)

// header counts the memory of a header of HTTP/1 that is arriving, and the buffers of its connection.
type header struct {
	pool *ratelimit.Pool

	mu       sync.Mutex
	arriving bool
	before   int // bytes that came with the request before, some of which may belong to this header
	size     int // bytes since then
	counted  int // bytes of memory
	buffers  int // likewise, of buffers that have grown
}

// set records whether a header is arriving.
func (h *header) set(networks []netip.Prefix, arriving bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case arriving && !h.arriving: // what was read since the header before is mostly its body
		h.before, h.size = min(h.before+h.size, maxReadAhead), 0
	case h.arriving && !arriving:
		h.before, h.size = min(h.size, maxReadAhead), 0
		h.pool.Release(networks, h.counted)
		h.counted = 0
	}
	h.arriving = arriving
}

// acquire counts the memory of what has arrived. It reports false over the limits.
func (h *header) acquire(networks []netip.Prefix) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := max(h.before+h.size-smallHeader, 0)*headerCost - h.counted
	if !h.arriving || n <= 0 {
		return true
	}
	if !h.pool.Acquire(networks, n) {
		return false
	}
	h.counted += n
	return true
}

// grow counts the buffers of a connection that have grown. It reports false over the limits.
func (h *header) grow(networks []netip.Prefix) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.buffers == 0 && h.pool.Acquire(networks, largeBuffers) {
		h.buffers = largeBuffers
	}
	return h.buffers > 0
}

// shrink ends what grow has counted.
func (h *header) shrink(networks []netip.Prefix) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pool.Release(networks, h.buffers)
	h.buffers = 0
}

// Read reads from a connection. It fails if there is no memory for more of an incomplete header, or for a large
// record of TLS, for which crypto/tls has grown its buffer.
func (c *connection) Read(p []byte) (int, error) {
	if !c.header.acquire(c.networks) || c.encrypted && len(p) > smallRead && !c.header.grow(c.networks) {
		return 0, &net.OpError{Op: "read", Err: ErrBusy}
	}
	n, err := c.Conn.Read(p)
	c.header.mu.Lock()
	c.header.size += n
	c.header.mu.Unlock()
	return n, err
}

// SetReadDeadline sets the deadline of the connection. http.Server gives a header HeaderTimeout once its
// first bytes are there, and sets another deadline when it is complete.
func (c *connection) SetReadDeadline(t time.Time) error {
	left := time.Until(t) //clock: of the connection
	c.header.set(c.networks, left > 0 && left <= HeaderTimeout)
	return c.Conn.SetReadDeadline(t)
}

// errHeader rejects a request with too many header fields.
var errHeader = &domain.Error{Code: domain.CodeHeaderTooLarge, Limit: maxFields}

// dropHeader frees the header of a request that has too many fields, and reports whether it has. It leaves
// what ClientAddress needs. Otherwise it returns the bytes of the header.
func dropHeader(r *http.Request) (size int, dropped bool) {
	n := 0
	for name, values := range r.Header {
		n += len(values)
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if n <= maxFields {
		return size + len(r.RequestURI), false
	}
	r.Header = http.Header{"X-Forwarded-For": r.Header["X-Forwarded-For"]}
	return 0, true
}
