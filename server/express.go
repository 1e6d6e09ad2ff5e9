package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"
)

// express is a connection on which public reads are answered without net/http, whose
// header maps, contexts and goroutines take longer than the answer from the cache does.
// While net/http waits for the next request of a connection, express reads ahead of it:
// plain GETs of the API are answered at once, and all else is handed to net/http, one
// whole request at a time.
//
// It takes nothing upon itself that it does not know for certain. It begins after a
// connection's first request, ends where it cannot tell where a request does, and leaves
// whatever is unusual about one to net/http. What a call is answered is settled where it
// is for all others: by call.kept, writeCached and writeError; the headers that the
// answers of an operation share are remembered from the first of them.
type express struct {
	*visitor
	server *Server
	peer   netip.Addr

	begun    bool   // net/http has had the first request
	lost     bool   // where the next request begins is not known
	ahead    []byte // read, and not handed over yet
	extended time.Time
	busy     sync.Mutex // held while answers are made and sent
}

// expressRead is how much is read at once, as net/http does. A request that is longer
// is not for express.
const expressRead = 4 << 10

// watchAfter is how long a read for a caller takes before it is watched whether the
// caller is still there.
const watchAfter = 10 * time.Millisecond

// express has what a visitor asks for answered on the short way.
func (s *Server) express(v *visitor) net.Conn {
	at, err := netip.ParseAddrPort(v.RemoteAddr().String())
	if err != nil {
		return v
	}
	return &express{visitor: v, server: s, peer: at.Addr().Unmap()}
}

// Read hands net/http what comes next for it.
func (x *express) Read(p []byte) (int, error) {
	if len(p) == 1 && !x.lost { // it watches for the caller's leaving while it answers
		if err := x.watch(); err != nil {
			return 0, err
		}
		x.lost = true
	}
	for {
		n := copy(p, x.ahead)
		x.ahead = x.ahead[n:]
		if n == 0 {
			var err error
			if n, err = x.Conn.Read(p); n == 0 || x.lost {
				return n, err
			}
		}
		if !x.lost {
			n = x.next(p, n)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// next answers what it can of the n bytes in p, moves what net/http is to have to the
// beginning of p, and returns its length. What follows that waits.
func (x *express) next(p []byte, n int) int {
	x.busy.Lock()
	defer x.busy.Unlock()
	for rest := p[:n]; len(rest) > 0; {
		h, ok := readHead(rest)
		if x.lost = !ok; x.lost {
			return copy(p, rest)
		}
		if x.begun && h.plain && x.answer(&h) {
			rest = rest[h.size:]
			continue
		}
		x.begun, x.extended = true, time.Time{}
		x.ahead = append(bytes.Clone(rest[h.size:]), x.ahead...)
		return copy(p, rest[:h.size])
	}
	return 0
}

// watch waits until the caller leaves or until nobody wants to know any longer, which
// the deadline tells. What comes meanwhile belongs to the next request; a caller who
// sends a lot of it is there.
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

// Close lets an answer that is on its way arrive.
func (x *express) Close() error {
	if !x.busy.TryLock() {
		_ = x.SetWriteDeadline(time.Now().Add(time.Second)) //clock: of the system's own
		x.busy.Lock()
	}
	defer x.busy.Unlock()
	return x.visitor.Close()
}

// answer answers a plain GET, unless it is for net/http. Who cannot be answered meets the
// connection's end when more is read.
func (x *express) answer(h *head) bool {
	s, start := x.server, time.Now() //clock: how long it takes, and what Date tells
	op, params := s.publicRead(h.path)
	if op == nil || s.isStopping() {
		return false
	}
	o := outcome{meter: op.meter, id: requestID(h.id)}
	left, e, err := x.find(h, op, params)
	if start.Sub(x.extended) > time.Second { // seldom: it takes as long as a look at the cache
		x.extended = start
		_ = x.SetReadDeadline(start.Add(idleTimeout))
		_ = x.SetWriteDeadline(start.Add(writeTimeout))
	}
	buffer := buffers.Get().(*[]byte)
	b, body := x.known((*buffer)[:0], h, op, e, left, &o)
	if body == nil && len(b) == 0 {
		b, body = x.draft(b, h, op, e, left, err, &o)
	}
	b = appendField(b, "Date", s.date(start))
	b = append(b, "\r\n"...)
	*buffer = b
	if _, err := (&net.Buffers{b, body}).WriteTo(x.Conn); err != nil {
		_ = x.visitor.Close()
	}
	buffers.Put(buffer)
	s.tell(&o, http.MethodGet, h.path, time.Since(start)) //clock: as above
	return true
}

// buffers are for the heads of answers.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

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
	if e = s.cache.get(h.uri, now); e != nil {
		return left, e, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	ctx, done := x.watched()
	defer done()
	c := &call{Request: h.request(ctx), server: s, op: op, params: params, now: now}
	e, err = c.kept()
	return left, e, err
}

// known appends the head of an answer of which one of that form was sent before; the
// others differ in what is appended here.
func (x *express) known(b []byte, h *head, op *operation, e *cached, left string, o *outcome) (_, body []byte) {
	if e == nil {
		return b, nil
	}
	form, body, length := e.form(h.match, h.encodings)
	fields := op.fields[form].Load()
	if fields == nil {
		return b, nil
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
	return b, body
}

func appendField(b []byte, name, value string) []byte {
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}

// draft makes an answer as the handlers do: a refusal, or the first of its form.
func (x *express) draft(b []byte, h *head, op *operation, e *cached, left string, err error, o *outcome) (_, body []byte) {
	s, w := x.server, &draft{header: http.Header{}}
	rec := &recorder{w, *o}
	s.beginHeader(w.header, o.id)
	w.header["Access-Control-Allow-Origin"] = anyOrigin
	if left != "" {
		s.limiter.tell(w.header, op.limit, left)
	}
	if r := h.request(context.Background()); err != nil {
		s.writeError(rec, r, err)
	} else {
		_ = writeCached(rec, r, e)
	}
	*o = rec.outcome
	head := bytes.NewBuffer(b)
	fmt.Fprintf(head, "HTTP/1.1 %d %s\r\n", o.status, http.StatusText(o.status))
	_ = w.header.Write(head) // to memory
	return head.Bytes(), w.body
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

// watched returns a context that ends when the caller leaves. Most reads are done long
// before anybody looks.
func (x *express) watched() (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	look := time.AfterFunc(watchAfter, func() {
		defer close(ended)
		if x.watch() != nil {
			cancel()
		}
	})
	return ctx, func() {
		if !look.Stop() {
			_ = x.SetReadDeadline(time.Unix(1, 0))
			<-ended
			x.extended = time.Time{}
		}
		cancel()
	}
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
// parameter, by what comes before it.
func newPublicReads(operations []*operation) map[string]*operation {
	reads := map[string]*operation{}
	for _, op := range operations {
		if !op.reads() || op.keyed {
			continue
		}
		fixed, _, _ := strings.Cut(op.path, "{")
		reads[fixed] = op
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
