package middleware

import (
	"net/http"
	"strconv"

	"github.com/klauspost/compress/gzhttp"
)

// MinCompressed is how long an answer is that is sent compressed.
const MinCompressed = 1024

// Compress compresses what a handler answers, for those who take it so.
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

// headWriter answers HEAD where the answer to GET may be compressed on its way: how
// long that is shows only when it is made.
type headWriter struct{ http.ResponseWriter }

func (u headWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u headWriter) WriteHeader(status int) {
	h := u.Header()
	if length, _ := strconv.Atoi(h.Get("Content-Length")); length >= MinCompressed && h["Content-Encoding"] == nil {
		delete(h, "Content-Length")
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write drops the body, of which net/http would else tell the length.
func (u headWriter) Write(body []byte) (int, error) { return len(body), nil }
