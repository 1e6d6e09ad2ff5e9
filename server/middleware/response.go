package middleware

import (
	"net/http"
	"net/netip"
	"time"
)

// responseRecorder is the ResponseWriter of handlers. It sends the header with the first part of
// the body, limits memory and time of sending, and records the response for the metrics and the
// log event of the request.
type responseRecorder struct {
	http.ResponseWriter
	Record
	observer *Observer
	request  *http.Request
	status   int   // of the response; 0 until the handler sets it
	sent     bool  // the header is sent
	rejected bool  // an error response was sent instead of that of the handler
	size     int   // bytes of the body
	err      error // cause of a failure, for the log

	// id is the request id: an array, so that the value of the header is a slice of it.
	id [1]string

	networks []netip.Prefix // of the client
	memory   int            // bytes of bodies that are counted for networks
	counted  []netip.Prefix // networks that the request is counted for
	entered  bool           // the request is counted
}

// recorderOf returns the recorder that w is, or that writers with an Unwrap method wrap.
func recorderOf(w http.ResponseWriter) (*responseRecorder, bool) {
	for {
		switch of := w.(type) {
		case *responseRecorder:
			return of, true

		case interface{ Unwrap() http.ResponseWriter }:
			w = of.Unwrap()

		default:
			return nil, false
		}
	}
}

// WriteHeader sets the status of the response. The header follows with the first Write, or when
// the handler returns.
func (r *responseRecorder) WriteHeader(status int) {
	switch {
	case status < http.StatusOK:
		// Informational: the response is still to come.
		r.ResponseWriter.WriteHeader(status)

	case r.status == 0:
		r.status = status
	}
}

// Write sends a part of the body. If there is no memory for the first part, it sends an error
// response instead, and drops what the handler writes.
func (r *responseRecorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)

	part := b
	head := r.request.Method == http.MethodHead
	if !r.sent {
		part = r.compress(b)

		// Only a response without an effect can be replaced by an error.
		if r.Safe && !head && len(part) > buffered && !r.acquireMemory(len(part)) {
			r.reject(ErrBusy)
			return len(b), nil
		}

		r.sendHeader()
	}

	if head || r.rejected {
		return len(b), nil
	}
	if err := r.send(part); err != nil {
		return 0, err
	}

	return len(b), nil
}

// sendHeader sends the status and the header.
func (r *responseRecorder) sendHeader() {
	r.sent = true
	if r.observer.Private {
		denyOtherOrigins(r.Header())
	}
	r.ResponseWriter.WriteHeader(r.status)
}

// finish sends the header of a response without a body.
func (r *responseRecorder) finish() {
	if r.status != 0 && !r.sent {
		r.extendDeadline()
		r.sendHeader()
	}
}

// extendDeadline gives the client time to take the next part.
func (r *responseRecorder) extendDeadline() {
	// Only the writers of tests have no deadline.
	_ = http.NewResponseController(r.ResponseWriter).
		SetWriteDeadline(time.Now().Add(partTimeout)) //clock: of the connection
}

// send sends bytes of the body. It gives up a client that makes no progress.
func (r *responseRecorder) send(b []byte) error {
	for len(b) > 0 {
		r.extendDeadline()
		n, err := r.ResponseWriter.Write(b[:min(len(b), writePart)])
		r.size += n
		if err != nil {
			return err
		}

		b = b[n:]
	}

	return nil
}

// bodyHeaders are the headers that describe the response of a handler.
var bodyHeaders = []string{
	"Cache-Control",
	"Content-Encoding",
	"Content-Language",
	"Content-Length",
	"Content-Type",
	"Etag",
	"Link",
}

// reject sends an error response in place of that of the handler.
func (r *responseRecorder) reject(err error) {
	for _, name := range bodyHeaders {
		delete(r.Header(), name)
	}

	r.Header().Set("Connection", "close") // it holds memory as well
	r.status = 0
	r.Safe = false // an error response is always sent
	r.observer.Reject(r, r.request, err)
	r.rejected = true
}

// rejecting returns a handler that sends an error response.
func (r *responseRecorder) rejecting(err error) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { r.reject(err) })
}

// Unwrap lets http.ResponseController reach the connection.
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
