package api

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"callbook/server/middleware"
	"callbook/store/domain"
)

// JSONType is the media type of responses.
const JSONType = "application/json; charset=utf-8"

// Revalidate is the Cache-Control of public responses without Config.SharedCache.
const Revalidate = "public, max-age=0, must-revalidate"

// tagSeed changes with each start of the program: agents choose much of the content, and must
// not be able to change a response without changing its ETag.
var tagSeed = maphash.MakeSeed()

// etag returns a weak ETag of the content, which is the same for every encoding and until the
// program restarts. SHA-256 would take a sixth of the time of an uncached list.
func etag(body []byte) string {
	return `W/"` + strconv.FormatUint(maphash.Bytes(tagSeed, body), 36) + `"`
}

// cacheControl returns the Cache-Control of public responses. Clients revalidate one before each
// use. A shared cache may use one for a time, and for as long again while it revalidates it, which
// must-revalidate would forbid (RFC 5861, 3).
func cacheControl(shared time.Duration) string {
	if shared == 0 {
		return Revalidate
	}
	return fmt.Sprintf(
		"public, max-age=0, s-maxage=%d, stale-while-revalidate=%[1]d",
		int(shared.Seconds()),
	)
}

// WriteCached sends a public response, compressed if the client accepts it, or 304 if the client
// has it already.
func (e *Engine) WriteCached(w http.ResponseWriter, r *http.Request, cached *Cached) error {
	h := w.Header()
	h["Etag"] = []string{cached.ETag}
	h["Cache-Control"] = e.cacheControl

	// What shared caches store must not have headers that concern its first client only.
	if e.SharedCache > 0 {
		delete(h, "X-Request-Id")
		delete(h, "Ratelimit")
		delete(h, "Ratelimit-Policy")
	}

	if cached.Link != "" {
		h.Set("Link", cached.Link)
	}

	if matchesETag(r.Header["If-None-Match"], cached.ETag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}

	if len(cached.Body) >= middleware.MinCompressed && middleware.AcceptsGzip(r) {
		if body := cached.gzip(); len(body) > 0 {
			h.Set("Content-Encoding", "gzip")
			return WriteJSON(w, http.StatusOK, body)
		}
	}

	return WriteJSON(w, http.StatusOK, cached.Body)
}

var jsonTypeHeader = []string{JSONType}

// matchesETag reports whether If-None-Match names an ETag. It compares weakly and accepts lists.
func matchesETag(matches []string, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for candidate := range strings.SplitSeq(strings.Join(matches, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == opaque {
			return true
		}
	}

	return false
}

// WriteJSON sends a response; its type is JSON unless the handler has set another.
func WriteJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	if _, given := h["Content-Type"]; !given {
		h["Content-Type"] = jsonTypeHeader
	}

	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has disconnected is not an error

	return nil
}

// WriteError sends the response to an error.
func (e *Engine) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	status, object := e.ErrorResponse(w, r, err)
	var body []byte
	if e.ErrorForm != nil {
		body = e.ErrorForm(r, status, object)
	}
	if body == nil {
		body = Marshal(ErrorBody{Error: object})
	}
	_ = WriteJSON(w, status, body)
}

// ErrorResponse returns the status and the object of an error, sets the headers of the error
// response, and adds the error to the log event of the request.
func (e *Engine) ErrorResponse(
	w http.ResponseWriter,
	r *http.Request,
	err error,
) (int, ErrorObject) {
	id := w.Header().Get("X-Request-Id")
	status, object, rejected := DescribeError(err, id)
	switch {
	case rejected:
	case r.Context().Err() != nil: // the client has gone, or the request took too long
		status, object, _ = DescribeError(NewError(domain.CodeUnavailable, ""), id)

	default:
		middleware.LogError(w, err)
	}

	h := w.Header()
	h.Set("Cache-Control", "no-store")
	switch {
	case status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")

	case object.RetryAt != nil:
		// Rounded up: a request a moment too early would be rejected again.
		wait := max(object.RetryAt.Time().Sub(e.Clock()), 0)
		h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))

	case status == http.StatusServiceUnavailable && !catalogue.Errors[object.Code].Permanent:
		h.Set("Retry-After", "10")

	case status == http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close") // the rest of the body is still to come
	}

	record := middleware.RecordOf(w)
	record.Code = object.Code
	if rejection, ok := errors.AsType[*domain.Error](err); ok && rejection.IsAbuse() {
		middleware.CountAbuse(w)
		if rejection.Code == domain.CodeRateLimited {
			record.Limit = rejection.Topic
		}
	}

	return status, object
}

// encode returns the JSON of a response.
func encode(response any) ([]byte, error) {
	body, err := json.Marshal(response, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode a response: %w", err)
	}
	return body, nil
}

// Marshal encodes a value of the program's own types, which cannot fail.
func Marshal(v any) []byte {
	b, err := encode(v)
	if err != nil {
		panic(err)
	}
	return b
}
