package server

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"callbook/store"
)

// recorder is a ResponseWriter that records the response, for the metrics and the one
// log event of a request.
type recorder struct {
	http.ResponseWriter
	status int
	size   int
	code   store.Code
	err    error
	meter  *meter    // of the route
	id     [1]string // of the request; an array, of which the header's value is a slice
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.size += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// note adds the cause of a failure to the request's log event.
func note(w http.ResponseWriter, err error) {
	if r, ok := w.(*recorder); ok {
		r.err = err
	}
}

func noteCode(w http.ResponseWriter, code store.Code) {
	if r, ok := w.(*recorder); ok {
		r.code = code
	}
}

// securityHeaders go with every answer. The service has no script, no frame and
// nothing from elsewhere. What steers a document's window, links and features goes
// with the pages for people, in package web: data has none of these, and each header
// costs an answer from the cache two per cent of its speed.
var securityHeaders = []struct {
	name  string
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}},
	{"Cross-Origin-Resource-Policy", []string{"cross-origin"}},
}

var strictTransport = []string{"max-age=31536000"}

// observe gives a request its id and its headers, answers for a handler that
// panics, and writes the request's one log event. The event holds no query, no
// header of the caller but its request id, and nothing of the bodies.
func (s *Server) observe(next http.Handler, w http.ResponseWriter, r *http.Request) {
	start := time.Now() //clock: how long it took, not what time it is
	rec := &recorder{ResponseWriter: w, meter: s.unrouted}
	rec.id[0] = requestID(r.Header.Get("X-Request-Id"))
	s.setCommonHeaders(w.Header(), rec.id[:])
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			rec.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			if rec.status == 0 {
				s.engine.writeError(rec, r, rec.err)
			}
		}
		s.record(rec, r, time.Since(start)) //clock: as above
	}()
	next.ServeHTTP(rec, r)
}

// setCommonHeaders sets the headers of every response.
func (s *Server) setCommonHeaders(h http.Header, id []string) {
	h["Vary"] = variesByEncoding
	h["X-Request-Id"] = id
	for i := range securityHeaders {
		h[securityHeaders[i].name] = securityHeaders[i].value
	}
	if s.secure {
		h["Strict-Transport-Security"] = strictTransport
	}
}

// record counts a request in the metrics and logs it.
func (s *Server) record(rec *recorder, r *http.Request, took time.Duration) {
	rec.meter.count(rec.status, took)
	if refusals := s.refusals[rec.code]; refusals != nil {
		refusals.Inc()
	}
	event := s.options.Log.Info()
	if rec.err != nil {
		event = s.options.Log.Error().Err(rec.err)
	}
	if !event.Enabled() {
		return
	}
	event.Str("method", r.Method).Str("path", loggedPath(r.URL)).Int("status", rec.status).Int("bytes", rec.size).
		Dur("took_ms", took).Str("request_id", rec.id[0])
	if rec.code != "" {
		event.Str("code", string(rec.code))
	}
	event.Send()
}

// longestPart is what a part of a path has at the most: a handle; ids are shorter.
const longestPart = 32

// loggedPath is a path as the log shows it. That of an owner's page holds the
// secret that opens it, however badly it was copied: whatever begins like one is
// taken for one. Elsewhere a part that is longer than any handle, or holds an @,
// may be a key, a link or a mailbox that somebody pasted, and is left out.
func loggedPath(u *url.URL) string {
	plain := path.Clean(strings.ReplaceAll(u.Path, `\`, "/"))
	if begin := "/owner"; len(plain) > len(begin) && strings.EqualFold(plain[:len(begin)], begin) {
		return "/owner/{token}"
	}
	parts := strings.Split(u.EscapedPath(), "/")
	for i, part := range parts {
		if len(part) > longestPart || strings.Contains(part, "@") || strings.Contains(part, "%40") {
			parts[i] = "{...}"
		}
	}
	return strings.Join(parts, "/")
}

// requestID keeps the caller's own if it is well-formed and no key by mistake, or
// makes one.
func requestID(given string) string {
	valid := given != "" && len(given) <= 64 && !store.WellFormedKey(given)
	for i := range len(given) {
		c := given[i]
		valid = valid && (c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z')
	}
	if valid {
		return given
	}
	var raw [12]byte // told apart, not kept secret
	binary.LittleEndian.PutUint64(raw[:], rand.Uint64())
	binary.LittleEndian.PutUint32(raw[8:], rand.Uint32())
	return hex.EncodeToString(raw[:])
}
