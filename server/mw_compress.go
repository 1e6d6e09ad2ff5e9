package server

import (
	"net/http"
	"strconv"

	"github.com/klauspost/compress/gzhttp"
)

// minZipped is how long an answer is that is sent compressed.
const minZipped = 1024

// compress compresses what a handler answers, for those who take it so.
func compress(plain http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minZipped))
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
			w = uncompressed{w}
		}
		plain.ServeHTTP(w, r)
	}), nil
}

// uncompressed answers HEAD where the answer to GET may be compressed on its way: how
// long that is shows only when it is made.
type uncompressed struct{ http.ResponseWriter }

func (u uncompressed) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u uncompressed) WriteHeader(status int) {
	h := u.Header()
	if length, _ := strconv.Atoi(h.Get("Content-Length")); length >= minZipped && h["Content-Encoding"] == nil {
		delete(h, "Content-Length")
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write drops the body, of which net/http would else tell the length.
func (u uncompressed) Write(body []byte) (int, error) { return len(body), nil }
