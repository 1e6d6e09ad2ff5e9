package middleware

import (
	"crypto/hmac"
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Observer logs, counts and limits requests.
type Observer struct {
	Log      zerolog.Logger
	Clients  []byte // key of the hashes of clients' networks in the log; nil for a log without clients
	Metrics  *Metrics
	Secure   bool            // the public reaches the site by https
	Secret   string          // path below which everything is secret
	Private  bool            // pages of other origins must not read responses
	Proxies  TrustedProxies  // peers whose X-Forwarded-For counts
	Memory   *ratelimit.Pool // as NewMemory returns it
	Requests *ratelimit.Pool // as NewRequests returns it
	OnPanic  func(w http.ResponseWriter, r *http.Request, err error)
	Reject   func(w http.ResponseWriter, r *http.Request, err error) // sends an error response

	floods floods
}

// Record is what handlers add to the log event and the metrics of their request.
type Record struct {
	Route  *RouteMetrics // that the request is counted for
	Code   domain.Code   // of the error response
	Limit  string        // that rejects the request
	Handle string        // of the authenticated agent; logged if the log names clients

	// Safe reports that the handler changes nothing, whatever the method: an error may replace its
	// response.
	Safe bool
}

// RecordOf returns the record of the request that w responds to, or one without an effect.
func RecordOf(w http.ResponseWriter) *Record {
	if r, ok := recorderOf(w); ok {
		return &r.Record
	}
	return &Record{}
}

// LogError adds the cause of a failure to the log event of the request.
func LogError(w http.ResponseWriter, err error) {
	r, ok := recorderOf(w)
	if !ok {
		return
	}

	// A busy server is no failure, and a flood must not fill the log.
	if err == error(ErrBusy) {
		CountAbuse(w)
		return
	}

	r.err = err
}

// Observe assigns the request id, sets the common headers, runs next, recovers from a panic, and
// writes the only log event of the request. The event holds no query, no header but the request
// id, and nothing of the bodies.
func (o *Observer) Observe(next http.Handler, w http.ResponseWriter, r *http.Request) {
	start := time.Now() //clock: how long it took, not what time it is
	rec := &responseRecorder{
		ResponseWriter: w,
		observer:       o,
		request:        r,
		Record: Record{
			Route: o.Metrics.unrouted.Of(r),
			Safe:  r.Method == http.MethodGet || r.Method == http.MethodHead,
		},
	}
	defer rec.leave()

	switch {
	case !rec.enter():
		if r.ProtoMajor > 1 {
			rec.status = http.StatusServiceUnavailable
			rec.Code = ErrBusy.Code
			o.Metrics.count(rec, 0)
			CountAbuse(rec)

			// Resets the stream: even an error response could wait in its buffer.
			panic(http.ErrAbortHandler)
		}
		next = rec.rejecting(ErrBusy)

	case fieldsOf(r.Header) > maxFields:
		next = rec.rejecting(errHeader)
	}

	rec.id[0] = requestID(r.Header.Get("X-Request-Id"))
	setCommonHeaders(w.Header(), rec.id[:], o.Secure)

	defer func() {
		if v := recover(); v != nil {
			o.handlePanic(v, rec, r)
		}
		rec.finish()

		// A stream has a buffer of its own, which is memory until the client takes it: the request
		// counts until then.
		if r.ProtoMajor > 1 && rec.size > 0 {
			_ = http.NewResponseController(rec.ResponseWriter).Flush()
		}
		o.report(rec, r, time.Since(start)) //clock: as above
	}()

	next.ServeHTTP(rec, r)
}

// fieldsOf returns the number of fields of a header.
func fieldsOf(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// report counts a request in the metrics and logs it.
func (o *Observer) report(rec *responseRecorder, r *http.Request, took time.Duration) {
	o.Metrics.count(rec, took)
	unlogged, logged := 0, true
	if rec.canFlood() {
		unlogged, logged = o.floods.log(rec.widestNetwork(), time.Now()) //clock: of the log
	}
	if !logged {
		return
	}

	event := o.Log.Info()
	if rec.err != nil {
		event = o.Log.Error().Err(rec.err)
	}
	if !event.Enabled() {
		return
	}

	o.logClient(event, rec)
	event.Str("method", loggedMethod(r.Method)).
		Str("path", o.loggedPath(r.URL)).
		Int("status", rec.status).
		Int("bytes", rec.size).
		Dur("took_ms", took).
		Str("request_id", rec.id[0])
	if rec.Code != "" {
		event.Str("code", string(rec.Code))
	}
	if unlogged > 0 {
		event.Int("unlogged", unlogged)
	}
	event.Send()
}

// logClient adds the client of a request to its event, if the log names clients.
func (o *Observer) logClient(event *zerolog.Event, rec *responseRecorder) {
	if o.Clients == nil {
		return
	}

	// The smallest network of the rate limits: an IPv4 address or an IPv6 /64. Its hash is the same
	// until the program stops.
	if networks := rec.networks; networks != nil {
		mac := hmac.New(sha256.New, o.Clients)
		_, _ = mac.Write([]byte(networks[0].String())) // to memory: it does not fail
		event.Hex("network", mac.Sum(nil)[:8])
	}

	if rec.Handle != "" {
		event.Str("handle", rec.Handle)
	}
}

// methods are the methods that the log and the metrics name.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// loggedMethod returns a method as the log shows it: a client can make up others, of any length.
func loggedMethod(method string) string {
	if slices.Contains(methods, method) {
		return method
	}
	return otherMethod
}

// otherMethod stands for all methods that the log does not name.
const otherMethod = "OTHER"

// maxLoggedPath is the maximum length of a path in the log, in bytes.
const maxLoggedPath = 200

// MaxPathSegment is the maximum length of a path segment in the log: that of a handle; ids are
// shorter.
const MaxPathSegment = 32

// loggedPath returns a path as the log shows it: without secrets.
func (o *Observer) loggedPath(u *url.URL) string {
	// A path that begins like the secret one is hidden, however badly it was copied.
	plain := path.Clean(strings.ReplaceAll(u.Path, `\`, "/"))
	begin := o.Secret
	if begin != "" && len(plain) > len(begin) && strings.EqualFold(plain[:len(begin)], begin) {
		return o.Secret + "/{token}"
	}

	// A segment that is longer than any handle, or contains an @, may be a key, a link or a mailbox
	// that somebody has pasted.
	parts := strings.Split(u.EscapedPath(), "/")
	for i, part := range parts {
		hasAt := strings.Contains(part, "@") || strings.Contains(part, "%40")
		if len(part) > MaxPathSegment || hasAt {
			parts[i] = "{...}"
		}
	}

	plain = strings.Join(parts, "/")
	return strings.ToValidUTF8(plain[:min(len(plain), maxLoggedPath)], "")
}

// ConnectionLog returns a writer for the messages of http.Server about connections. It logs them
// without the addresses of peers, and traces of scanners at debug level.
func ConnectionLog(log zerolog.Logger) io.Writer { return connectionLog{log} }

// connectionLog writes the messages of http.Server.
type connectionLog struct{ log zerolog.Logger }

// peerAddress matches an address with a port.
var peerAddress = regexp.MustCompile(`(\[[0-9a-z:.%]+\]|[0-9]+(\.[0-9]+){3}):[0-9]+`)

// Write logs one line.
func (c connectionLog) Write(line []byte) (int, error) {
	message := strings.TrimSpace(string(line))
	level := zerolog.WarnLevel
	if strings.HasPrefix(message, "http: TLS handshake error") ||
		strings.HasPrefix(message, "http2: ") {
		level = zerolog.DebugLevel
	}

	if c.log.GetLevel() <= level {
		c.log.WithLevel(level).Msg(peerAddress.ReplaceAllLiteralString(message, "a caller"))
	}

	return len(line), nil
}
