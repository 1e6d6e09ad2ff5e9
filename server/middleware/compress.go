package middleware

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// MinCompressed is the minimum size of a response body that is compressed, in bytes.
const MinCompressed = 1024

// Compress compresses the responses of a handler for clients that accept gzip.
func Compress(plain http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(MinCompressed))
	if err != nil {
		return nil, err
	}
	zipped := wrap(plain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accepted := r.Header["Accept-Encoding"]; len(accepted) > 0 && accepted[0] != "identity" {
			if r.Method != http.MethodHead {
				zipped.ServeHTTP(w, r)
				return
			}
			w = headWriter{w}
		}
		plain.ServeHTTP(w, r)
	}), nil
}

// AcceptsGzip reports whether a client accepts gzip.
func AcceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header["Accept-Encoding"], ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return !isZeroWeight(weight)
		}
	}
	return false
}

// isZeroWeight reports whether a weight means "not acceptable" (RFC 9110, 12.4.2).
func isZeroWeight(weight string) bool {
	q, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q=")
	f, err := strconv.ParseFloat(q, 64)
	return found && err == nil && f == 0
}

// headWriter removes Content-Length from a response to HEAD if the response to GET may be
// compressed: its length is unknown.
type headWriter struct{ http.ResponseWriter }

func (u headWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u headWriter) WriteHeader(status int) {
	h := u.Header()
	if length, _ := strconv.Atoi(h.Get("Content-Length")); length >= MinCompressed && h["Content-Encoding"] == nil {
		delete(h, "Content-Length")
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write drops the body: net/http would set Content-Length to its length.
func (u headWriter) Write(body []byte) (int, error) { return len(body), nil }
