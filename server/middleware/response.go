package middleware

import (
	"net/http"

	"callbook/store/domain"
)

// responseRecorder is the ResponseWriter of handlers. It sends the header with the first part of
// the body, and records the response for the metrics and the log event of the request.
type responseRecorder struct {
	http.ResponseWriter
	request *http.Request
	status  int  // of the response; 0 until the handler sets it
	sent    bool // the header
	size    int  // bytes of the body
	code    domain.Code
	err     error
	route   *RouteMetrics
	id      [1]string // of the request; an array, of which the header's value is a slice
}

// WriteHeader sets the status of the response. The header follows with the first Write, or when
// the handler returns.
func (r *responseRecorder) WriteHeader(status int) {
	switch {
	case status < http.StatusOK: // informational: the response is still to come
		r.ResponseWriter.WriteHeader(status)
	case r.status == 0:
		r.status = status
	}
}

// Write sends a part of the body.
func (r *responseRecorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	part := b
	if !r.sent {
		part = r.compress(b)
		r.sendHeader()
	}
	if r.request.Method == http.MethodHead {
		return len(b), nil
	}
	n, err := r.ResponseWriter.Write(part)
	r.size += n
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// sendHeader sends the header of a response, if there is one, once.
func (r *responseRecorder) sendHeader() {
	if r.status != 0 && !r.sent {
		r.sent = true
		r.ResponseWriter.WriteHeader(r.status)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
