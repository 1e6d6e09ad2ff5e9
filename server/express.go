package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/julienschmidt/httprouter"
)

// express is a connection on which public reads are answered without net/http, whose
// header maps, contexts and goroutines take longer than an answer from the cache does.
// While net/http waits for the next request of a connection, express reads for it: plain
// GETs of the API are answered at once, and all else is handed over as it came.
//
// It takes nothing upon itself that it does not know for certain. A request begins where
// net/http says that the one before is done with (http.StateIdle), sets the one deadline of
// waiting, and asks for as much as its buffer holds, which is empty then; with any other
// order of calls, and from the first byte that is handed over, all is net/http's until it
// says so again. Whatever is unusual about a request is net/http's, too, and so is the
// first one of a connection.
//
// What a call is answered is settled where it is for all others: by call.kept, writeCached
// and writeError. The headers that an operation's answers share are remembered from the
// first of them.
type express struct {
	*visitor
	server *Server
	peer   netip.Addr

	done     atomic.Bool // net/http is done with a request, and has called nothing since
	waits    atomic.Bool // and then set a deadline, nothing else: it has nothing of the next request
	looks    atomic.Bool // its last deadline was none: it only looks whether the caller leaves
	ahead    []byte      // read while a request was answered, and not looked at yet
	extended time.Time   // when the deadlines were last moved; zero when they must be
	failed   error       // of an answer that could not be sent: what follows is not read

	// Closing does not wait, for net/http holds a lock of all its connections meanwhile:
	// whoever makes an answer closes the connection after it.
	busy, closing atomic.Bool
}

// expressRead is what net/http asks for when its buffer is empty. A longer request is not
// for express.
const expressRead = 4 << 10

const (
	watchAfter   = 10 * time.Millisecond // how long a read takes before its caller is watched
	closeTimeout = time.Second           // for an answer that is sent while its connection closes
)

// express has what a visitor asks for answered on the short way.
func (s *Server) express(v *visitor) net.Conn {
	at, err := netip.ParseAddrPort(v.RemoteAddr().String())
	if err != nil {
		return v
	}
	return &express{visitor: v, server: s, peer: at.Addr().Unmap()}
}

// Read hands net/http what comes next for it. A single byte without a deadline is what its
// backgroundRead asks for, which watches for the caller's leaving while a request is
// answered, and which abortPendingRead ends by a deadline: what a caller sends before
// that is the next request, and waits.
func (x *express) Read(p []byte) (int, error) {
	if len(p) == 1 && x.looks.Load() {
		if err := x.watch(); err != nil {
			return 0, err
		}
	}
	for x.waits.Load() && len(p) == expressRead {
		n, err := x.read(p)
		if n == 0 {
			return 0, err
		}
		if n = x.next(p, n); x.failed != nil {
			return 0, x.failed
		}
		if n > 0 {
			return n, nil
		}
	}
	x.waits.Store(false)
	return x.read(p)
}

// SetReadDeadline is what net/http calls before it waits for a request, and once more when
// it has the beginning of one.
func (x *express) SetReadDeadline(t time.Time) error {
	x.waits.Store(x.done.Swap(false))
	x.looks.Store(t.IsZero())
	return x.Conn.SetReadDeadline(t)
}

func (x *express) read(p []byte) (int, error) {
	if len(x.ahead) > 0 {
		n := copy(p, x.ahead)
		x.ahead = x.ahead[n:]
		return n, nil
	}
	return x.Conn.Read(p)
}

// next answers the plain GETs that the n bytes in p begin with, moves the rest to the
// beginning of p, and returns its length.
func (x *express) next(p []byte, n int) int {
	x.server.answering.Add(1)
	defer x.server.answering.Add(-1)
	x.busy.Store(true)
	defer func() {
		x.busy.Store(false)
		if x.closing.Load() {
			x.failed = net.ErrClosed // who could not be answered is not done another request
			_ = x.visitor.Close()
		}
	}()
	for rest := p[:n]; len(rest) > 0 && x.failed == nil; {
		h, plain := readHead(rest)
		if !plain || !x.answer(&h) {
			x.waits.Store(false)
			x.extended = time.Time{}
			return copy(p, rest)
		}
		rest = rest[h.size:]
	}
	return 0
}

// Close lets an answer that is on its way arrive, if it does so soon.
func (x *express) Close() error {
	x.closing.Store(true)
	if x.busy.Load() {
		return x.SetWriteDeadline(time.Now().Add(closeTimeout)) //clock: of the system's own
	}
	return x.visitor.Close()
}

// extend moves the deadlines of a connection that is in use. It does so seldom: it takes
// as long as a look at the cache.
func (x *express) extend(now time.Time) {
	if now.Sub(x.extended) < time.Second {
		return
	}
	x.extended = now
	_ = x.Conn.SetReadDeadline(now.Add(idleTimeout))
	_ = x.SetWriteDeadline(now.Add(writeTimeout))
	if x.closing.Load() {
		_ = x.SetWriteDeadline(time.Now().Add(closeTimeout)) //clock: now may be long ago
	}
}

// answer answers a plain GET, unless that is for net/http.
func (x *express) answer(h *head) bool {
	s, start := x.server, time.Now() //clock: how long it takes, and what Date tells
	op, params := s.publicRead(h.path)
	if op == nil || s.isStopping() {
		return false
	}
	x.extend(start)
	o := outcome{meter: op.meter, id: requestID(h.id)}
	left, e, err := x.find(h, op, params)
	x.extend(start)
	buffer := heads.Get().(*[]byte)
	b, body, sent := x.repeat((*buffer)[:0], h, op, e, left, &o)
	if !sent {
		b, body = x.spell(b, h, op, e, left, err, &o)
	}
	b = appendField(b, "Date", s.date(start))
	b = append(b, "\r\n"...)
	*buffer = b
	_, x.failed = (&net.Buffers{b, body}).WriteTo(x.Conn)
	heads.Put(buffer)
	s.tell(&o, http.MethodGet, h.path, time.Since(start)) //clock: as above
	return true
}

// heads are buffers for those of answers.
var heads = sync.Pool{New: func() any { return new([]byte) }}

// find counts a call and finds its answer. left is what the limit leaves, as the
// RateLimit header tells it.
func (x *express) find(h *head, op *operation, params httprouter.Params) (left string, e *cached, err error) {
	s := x.server
	now := s.store.Now()
	if limit := s.limiter.limits.of(op.limit); limit.Calls > 0 {
		from := s.options.TrustedProxies.origin(x.peer, []string{h.forwarded})
		bucket := s.limiter.bucket(op.limit, limit, subject{network: network(from)})
		if left, err = s.limiter.count(op.limit, limit, bucket, s.limiter.at(now)); err != nil {
			return left, nil, err
		}
	}
	if e = s.cache.get(h.uri, now); e == nil {
		e, err = x.make(h, op, params, now)
	}
	return left, e, err
}

// make makes the answer of a public read. The call has neither a writer nor headers:
// no such read asks for them.
func (x *express) make(h *head, op *operation, params httprouter.Params, now time.Time) (e *cached, err error) {
	ctx, done := x.watched()
	defer func() {
		v := recover()
		hasLeft := done()
		switch {
		case v != nil:
			err = panicked(v)
		case hasLeft && err != nil:
			err = errLeft
		}
	}()
	return (&call{Request: h.request(ctx), server: x.server, op: op, params: params, now: now}).kept()
}

// errLeft: the caller has left, so that nobody knows what the answer would have been.
var errLeft = errors.New("the caller has left")

// ended is the context of a caller who has left.
var ended = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errLeft)
	return ctx
}()

// watched returns a context that ends when the caller leaves, and what ends it otherwise
// and tells whether the caller has left. Most reads are done before anybody looks.
func (x *express) watched() (_ context.Context, done func() (hasLeft bool)) {
	ctx, cancel := context.WithCancel(context.Background())
	looked := make(chan struct{})
	look := time.AfterFunc(watchAfter, func() {
		defer close(looked)
		if x.watch() != nil {
			cancel()
		}
	})
	return ctx, func() bool {
		hasLeft := ctx.Err() != nil
		if !look.Stop() {
			_ = x.Conn.SetReadDeadline(time.Unix(1, 0))
			<-looked
			x.extended = time.Time{}
		}
		cancel()
		return hasLeft
	}
}

// watch waits until the caller leaves or the deadline passes. What comes meanwhile
// belongs to the next request; a caller who sends a lot of it is there.
func (x *express) watch() error {
	for len(x.ahead) < expressRead {
		x.ahead = slices.Grow(x.ahead, expressRead-len(x.ahead))
		n, err := x.Conn.Read(x.ahead[len(x.ahead):expressRead])
		x.ahead = x.ahead[:len(x.ahead)+n]
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat appends the head of an answer as one of its form was sent before, and what they
// differ in. It returns false where none was, and for a refusal.
func (x *express) repeat(b []byte, h *head, op *operation, e *cached, left string, o *outcome) (_, body []byte, sent bool) {
	if e == nil {
		return b, nil, false
	}
	form, body, length := e.form(h.match, h.encodings)
	fields := op.fields[form].Load()
	if fields == nil {
		return b, nil, false
	}
	o.status, o.size = form.status(), len(body)
	b = append(b, *fields...)
	b = appendField(b, "X-Request-Id", o.id)
	b = appendField(b, "Etag", e.tag[0])
	if e.link != nil {
		b = appendField(b, "Link", e.link[0])
	}
	if left != "" {
		b = appendField(b, "Ratelimit-Policy", x.server.limiter.policies[op.limit][0])
		b = appendField(b, "Ratelimit", left)
	}
	if length != nil {
		b = appendField(b, "Content-Length", length[0])
	}
	return b, body, true
}

func appendField(b []byte, name, value string) []byte {
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}

// spell appends the head of an answer as the handlers write it, field by field.
func (x *express) spell(b []byte, h *head, op *operation, e *cached, left string, err error, o *outcome) (_, body []byte) {
	s, w := x.server, &draft{header: http.Header{}}
	rec := &recorder{w, *o}
	s.beginHeader(w.header, o.id)
	w.header["Access-Control-Allow-Origin"] = anyOrigin
	if left != "" {
		s.limiter.tell(w.header, op.limit, left)
	}
	switch {
	case errors.Is(err, errLeft):
		s.writeError(rec, h.request(ended), err)
	case err != nil:
		s.writeError(rec, h.request(context.Background()), err)
		w.compress(h.encodings)
	default:
		_ = writeCached(rec, h.request(context.Background()), e)
	}
	*o = rec.outcome
	text := bytes.NewBuffer(b)
	fmt.Fprintf(text, "HTTP/1.1 %d %s\r\n", o.status, http.StatusText(o.status))
	_ = w.header.Write(text) // to memory
	return text.Bytes(), w.body
}

// draft is an answer that is made before it is sent.
type draft struct {
	header http.Header
	body   []byte
}

func (d *draft) Header() http.Header { return d.header }

func (d *draft) WriteHeader(int) {}

func (d *draft) Write(b []byte) (int, error) {
	d.body = append(d.body, b...)
	return len(b), nil
}

// compress compresses a long refusal, as is done with others on their way.
func (d *draft) compress(encodings []string) {
	if len(d.body) < minZipped || !takesGzip(encodings) {
		return
	}
	d.body = compressed(d.body)
	d.header["Content-Encoding"], d.header["Content-Length"] = gzipHeader, []string{strconv.Itoa(len(d.body))}
}

// publicRead finds the public read of a path.
func (s *Server) publicRead(path string) (*operation, httprouter.Params) {
	last := strings.LastIndexByte(path, '/') + 1
	if last == len(path) {
		return nil, nil
	}
	if op := s.publicReads[path]; op != nil {
		return op, nil
	}
	op := s.publicReads[path[:last]]
	if op == nil {
		return nil, nil
	}
	return op, httprouter.Params{{Key: op.input.paths[0].name, Value: path[last:]}}
}

// newPublicReads are the public reads by their paths; where the last part of one is a
// parameter, by what comes before it. Those with another parameter are net/http's.
func newPublicReads(operations []*operation) map[string]*operation {
	reads := map[string]*operation{}
	for _, op := range operations {
		fixed, parameter, _ := strings.Cut(op.path, "{")
		if op.reads() && !op.keyed && strings.IndexByte(parameter, '}') == len(parameter)-1 {
			reads[fixed] = op
		}
	}
	return reads
}

// date is a time as the header tells it, made once a second.
func (s *Server) date(now time.Time) string {
	d := s.today.Load()
	if d == nil || d.second != now.Unix() {
		d = &dateField{now.Unix(), now.UTC().Format(http.TimeFormat)}
		s.today.Store(d)
	}
	return d.text
}

type dateField struct {
	second int64
	text   string
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}
