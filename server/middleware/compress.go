package middleware

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/compress/gzip"
)

// MinCompressed is the minimum size of a response body that is compressed, in bytes.
const MinCompressed = 1024

// Gzip returns the compressed form of a body.
func Gzip(body []byte) []byte {
	// The writer is one of a pool: each has most of a megabyte.
	var b bytes.Buffer
	w := gzkp.NewWriter(&b, gzip.DefaultCompression)

	// To memory: neither fails.
	_, _ = w.Write(body)
	_ = w.Close()

	// Without the free room at the end of the buffer, as the result may be cached.
	return bytes.Clone(b.Bytes())
}

// Compress returns a handler that compresses responses for clients that accept gzip. It is for a
// listener of its own with few clients: it holds the whole body in memory.
func Compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := &wholeResponse{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(whole, r)

		body := whole.body.Bytes()
		h := w.Header()
		h.Add("Vary", "Accept-Encoding")
		if len(body) >= MinCompressed && AcceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			body = Gzip(body)
			h.Set("Content-Length", strconv.Itoa(len(body)))
		}

		w.WriteHeader(whole.status)
		_, _ = w.Write(body) // the client may have disconnected
	})
}

// wholeResponse holds a response in memory.
type wholeResponse struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader stores the status.
func (w *wholeResponse) WriteHeader(status int) { w.status = status }

// Write adds a part of the body.
func (w *wholeResponse) Write(b []byte) (int, error) { return w.body.Write(b) }

// compress returns the body as it is sent, and sets the headers of that form. It compresses a body
// of known length for clients that accept gzip, unless the handler has.
func (r *responseRecorder) compress(body []byte) []byte {
	h := r.Header()
	isWhole := h.Get("Content-Length") == strconv.Itoa(len(body))
	if len(body) < MinCompressed || !isWhole || h["Content-Encoding"] != nil ||
		!AcceptsGzip(r.request) {
		return body
	}

	if r.request.Method == http.MethodHead {
		// The length would be that of the compressed form, which is not worth computing.
		delete(h, "Content-Length")
		return body
	}

	// The whole body is compressed before any of it is sent, so that a slow client holds no
	// compressor.
	zipped := Gzip(body)
	if len(zipped) >= len(body) {
		return body
	}

	h["Content-Encoding"] = []string{"gzip"}
	h["Content-Length"] = []string{strconv.Itoa(len(zipped))}
	return zipped
}

// AcceptsGzip reports whether a client accepts gzip.
func AcceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header["Accept-Encoding"], ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			// A weight of zero means that it does not (RFC 9110, 12.4.2).
			q, weighted := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q=")
			f, err := strconv.ParseFloat(q, 64)
			return !weighted || err != nil || f != 0
		}
	}

	return false
}
