package middleware

import (
	"io"
	"net/http"
	"net/netip"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Limits of the bodies in flight: those that arrive, and those that wait to be sent to slow
// clients. They bound the memory that clients can hold.
const (
	maxMemory          = 64 << 20
	maxMemoryOfNetwork = 4 << 20
	littleMemory       = 256 << 10 // a network that has less may use the reserve
	building           = 16 << 10  // a response has this while it is read and built
	buffered           = 4 << 10   // a body of this size is in the buffer of its connection, and not counted
)

// MaxUnread is how much of a body an HTTP/2 client may send before the handler reads it. A smaller size
// fails uploads that begin before the client knows it.
const MaxUnread = 64 << 10

// NewMemory returns the pool of the bytes of bodies in flight. It counts clients by their
// networks, also behind a proxy.
func NewMemory() *ratelimit.Pool {
	return ratelimit.NewPool(maxMemory, domain.Share{maxMemoryOfNetwork, maxMemoryOfNetwork, maxMemoryOfNetwork}, littleMemory)
}

// NewRequests returns the pool of the requests at once, of clients that share a connection or have several requests on
// one. Each holds memory, like a connection, and the limits are the same.
func NewRequests() *ratelimit.Pool {
	return ratelimit.NewPool(maxConnections, connectionsOfNetwork, littleConnections)
}

// ErrBusy rejects a request that would exceed the limits of requests at once or of memory.
var ErrBusy = &domain.Error{Code: domain.CodeUnavailable}

// Reserve counts the memory of a response before it is read from the database. It returns an error
// with the code unavailable if there is none, so that the database is not read for nothing.
func Reserve(w http.ResponseWriter) error {
	if r, ok := recorderOf(w); ok && !r.acquireMemory(building) {
		w.Header().Set("Connection", "close") // it holds memory as well
		return ErrBusy
	}
	return nil
}

// enter counts the request if it is not the only one of its connection, its header of that size unless it
// is small, and its body if that is buffered before it is read. It reports false over the limits.
func (r *responseRecorder) enter(header int) bool {
	if header > smallHeader && !r.acquireMemory(header*requestCost) {
		return false
	}
	if r.request.ProtoMajor == 1 && len(r.observer.Proxies) == 0 {
		return true
	}
	client := ClientAddress(r.request, r.observer.Proxies)
	r.networks = domain.Networks(client)
	if !r.observer.Proxies.speaksForMany(client) {
		r.counted = r.networks
	}
	r.entered = r.observer.Requests.Acquire(r.counted, 1)
	unread := 0
	if r.request.ProtoMajor > 1 {
		unread = int(min(uint64(r.request.ContentLength), MaxUnread)) // an unknown length is -1
	}
	return r.entered && (unread <= buffered || r.acquireMemory(unread))
}

// clientNetworks returns the networks of the client.
func (r *responseRecorder) clientNetworks() []netip.Prefix {
	if r.networks == nil {
		r.networks = domain.Networks(ClientAddress(r.request, r.observer.Proxies))
	}
	return r.networks
}

// acquireMemory counts n more bytes of bodies. It reports false over the limits. A body that is
// larger than the share of its network passes if there is no other.
func (r *responseRecorder) acquireMemory(n int) bool {
	n = min(n, maxMemoryOfNetwork-r.memory)
	if !r.observer.Memory.Acquire(r.clientNetworks(), n) {
		return false
	}
	r.memory += n
	return true
}

// leave ends what the request counts for.
func (r *responseRecorder) leave() {
	if r.memory > 0 {
		r.observer.Memory.Release(r.networks, r.memory)
	}
	if r.entered {
		r.observer.Requests.Release(r.counted, 1)
	}
}

// requestBody is the body of a request, whose bytes are counted as they arrive.
type requestBody struct {
	io.ReadCloser
	recorder *responseRecorder
	size     int
}

// Read returns an error with the code unavailable if there is no memory for the body.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.recorder.request.Trailer = nil // thousands of names may follow a body
	counted := n
	if b.size <= buffered {
		counted += b.size // the first bytes were not
	}
	b.size += n
	if b.size > buffered && !b.recorder.acquireMemory(counted) {
		return 0, ErrBusy
	}
	return n, err
}
