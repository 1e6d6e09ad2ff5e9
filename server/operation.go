package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/server/httpcache"
	"callbook/store"
)

// operation is one row of the list in operations.go. Router, authentication,
// limits, OpenAPI document, index and the tests' matrices all come from it.
type operation struct {
	id      string
	method  string
	path    string
	summary string
	keyed   bool         // needs a bearer key
	limit   limitClass   // public: the address's limit; keyed: limitWrites or limitCalls
	status  int          // of success
	once    bool         // takes an Idempotency-Key
	trial   bool         // with dry_run it makes nothing, and answers 200 {"allowed": true}
	codes   []store.Code // refusals of its own, beside those that every such call has
	asTool  *tool        // nil: it is no tool of the MCP endpoint
	short   *shortForm   // nil: it has no shorter response
	in, out reflect.Type
	input   *input
	run     func(c *call) (answer, error)
}

// call is one request on its way through an operation.
type call struct {
	*http.Request
	engine *engine
	op     *operation
	w      http.ResponseWriter
	params httprouter.Params
	now    time.Time
	from   subject
	caller store.Caller
	key    string // the bearer key, where one is needed
	body   []byte
	once   store.Once // the zero value without an Idempotency-Key
}

// answer is what an operation returns. Its body is JSON that is ready to be sent.
type answer struct {
	body     []byte
	status   int // 0 for the operation's own
	location string
	next     string // path and query of the next page
	replayed bool
	tags     []cacheTag // of a public read: the data it is made from; nil: it is not cached
	expires  time.Time  // from the cache; zero: never
}

// public makes a row that anyone may call.
func public[In, Out any](id, method, path, summary string, limit limitClass, run func(*call, In) (answer, error), codes ...store.Code) *operation {
	op := &operation{id: id, method: method, path: path, summary: summary, limit: limit, codes: codes, status: http.StatusOK}
	op.in, op.out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	op.run = func(c *call) (answer, error) {
		var in In
		if err := c.decode(reflect.ValueOf(&in).Elem()); err != nil {
			return answer{}, err
		}
		return run(c, in)
	}
	return op
}

// keyed makes a row that needs a key. Its handler takes the caller, so that none
// can be mounted without authentication.
func keyed[In, Out any](id, method, path, summary string, limit limitClass, run func(*call, store.Caller, In) (answer, error), codes ...store.Code) *operation {
	op := public[In, Out](id, method, path, summary, limit, func(c *call, in In) (answer, error) {
		return run(c, c.caller, in)
	}, codes...)
	op.keyed = true
	return op
}

// creates marks a row that makes a record: it answers 201 with its place, and a
// repeated call with the same Idempotency-Key makes nothing anew.
func (o *operation) creates() *operation {
	o.status, o.once = http.StatusCreated, true
	o.codes = append(o.codes, store.CodeIdempotencyConflict, store.CodeNotFound)
	return o
}

// briefly gives a list of brief items to a request with this value of a parameter. A tool
// returns only these.
func (o *operation) briefly(param, value string, out any) *operation {
	o.short = &shortForm{param: param, value: value, out: reflect.TypeOf(out)}
	return o
}

// shortForm is a shorter response, which a parameter chooses.
type shortForm struct {
	param, value string
	out          reflect.Type
}

// tries marks a row that can be tried only.
func (o *operation) tries() *operation { o.trial = true; return o }

// deletes marks a row that answers without a body.
func (o *operation) deletes() *operation { o.status = http.StatusNoContent; return o }

// accepts marks a row that only takes note.
func (o *operation) accepts() *operation { o.status = http.StatusAccepted; return o }

// reads tells whether an answer may be kept and revalidated.
func (o *operation) reads() bool { return o.method == http.MethodGet }

// serve takes one request through the checks in the contract's order: the
// address's limit, the key, the key's limit, the query, the media type and the
// size, the JSON, all fields, the rules.
func (s *engine) serve(op *operation) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		c := &call{Request: r, engine: s, op: op, w: w, params: params, now: s.Clock(), from: s.subject(r)}
		if err := c.answer(); err != nil {
			s.writeError(w, r, err)
		}
	}
}

func (c *call) answer() error {
	if err := c.admit(); err != nil {
		return err
	}
	if c.op.reads() && !c.op.keyed {
		e, err := c.cachedResponse()
		if err != nil {
			return err
		}
		return writeCached(c.w, c.Request, e)
	}
	a, err := c.op.run(c)
	if err != nil {
		return err
	}
	return c.write(a)
}

// admit finds the caller and counts the call.
func (c *call) admit() error {
	h := c.w.Header()
	if c.op.keyed {
		h.Set("Cache-Control", "no-store")
		return c.authenticate()
	}
	if c.op.reads() {
		h["Access-Control-Allow-Origin"] = anyOrigin
	}
	return c.engine.Limiter.take(h, c.op.limit, c.from, c.now)
}

// cachedResponse returns the response of a public read from the cache, or runs the
// operation and caches its response.
func (c *call) cachedResponse() (*cached, error) {
	s, uri := c.engine, c.RequestURI
	if uri == "" { // the program's own read
		uri = c.URL.RequestURI()
	}
	e, version, ok := s.Cache.Get(uri, c.now)
	if ok {
		return e, nil
	}
	a, err := c.op.run(c)
	if err != nil {
		return nil, err
	}
	e = tagged(a.body, etag(a.body))
	if a.next != "" {
		e.link = []string{linkNext(a.next)}
	}
	if a.tags != nil {
		s.Cache.Add(uri, httpcache.Item[cacheTag, *cached]{Value: e, Size: e.size(), Tags: a.tags, Added: c.now, Expires: a.expires}, version)
	}
	return e, nil
}

// operation is the row of an id that the program itself names.
func (s *engine) operation(id string) *operation {
	for _, op := range s.operations {
		if op.id == id {
			return op
		}
	}
	panic("there is no operation " + id)
}

// read answers a public read for the program itself: pages and tools are made from
// the very bytes of the operation's answer. args are its parameters by name, those
// of the path and those of the query.
func (s *engine) read(ctx context.Context, op *operation, args url.Values) (*cached, error) {
	path, query := op.path, maps.Clone(args)
	var params httprouter.Params
	for _, f := range op.input.paths {
		value := args.Get(f.name)
		params = append(params, httprouter.Param{Key: f.name, Value: value})
		path = strings.Replace(path, "{"+f.name+"}", url.PathEscape(value), 1)
		query.Del(f.name)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", op.id, err)
	}
	return (&call{Request: r, engine: s, op: op, params: params, now: s.Clock()}).cachedResponse()
}

func (c *call) write(a answer) error {
	h := c.w.Header()
	if !c.op.keyed {
		h.Set("Cache-Control", "no-store")
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.next != "" {
		h.Set("Link", linkNext(a.next))
	}
	if c.op.status == http.StatusNoContent {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(c.w, cmp.Or(a.status, c.op.status), a.body)
}

// linkNext is the Link header of a page that another follows.
func linkNext(next string) string {
	if next == "" {
		return ""
	}
	return "<" + next + `>; rel="next"`
}

// authenticate finds the caller of a key and counts the call. Wrong keys count
// for the address; one that has shown too many is told so instead of 401. A
// right key is never held back by others' wrong ones.
func (c *call) authenticate() error {
	s := c.engine
	key, ok := bearerKey(c.Header)
	var err error
	if ok {
		c.caller, err = s.Authenticate(c.Context(), key)
	} else {
		err = refuse(store.CodeUnauthorized, "")
	}
	if errors.Is(err, &store.Error{Code: store.CodeUnauthorized}) {
		if limited := s.Limiter.take(c.w.Header(), s.FailedKeys, c.from, c.now); limited != nil {
			return limited
		}
	}
	if err != nil && c.caller.ID == 0 {
		return err
	}
	c.key = key
	for _, class := range s.KeyLimits(c.op.limit) {
		if limited := s.Limiter.take(c.w.Header(), class, subject{agent: c.caller.ID}, c.now); limited != nil {
			return limited
		}
	}
	return err // suspended
}

// bearerKey reads the one Authorization header of a call.
func bearerKey(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	return strings.TrimLeft(key, " "), strings.EqualFold(scheme, "Bearer")
}

// maxBody is how much a body may hold.
const maxBody = 64 << 10

func (c *call) decode(into reflect.Value) error {
	s := c.engine
	for _, f := range c.op.input.paths {
		into.Field(f.index).SetString(c.params.ByName(f.name))
	}
	check := &checker{
		registry: s.registry, topics: s.Errors.topics, loopbackLinks: s.LoopbackLinks,
		now: s.Clock(), mayRepeat: c.op.once && c.Header.Get("Idempotency-Key") != "",
	}
	if err := c.op.input.readQuery(check, c.URL.RawQuery, into); err != nil {
		return err
	}
	if c.op.reads() {
		return nil
	}
	var err error
	if c.body, err = readBody(c.w, c.Request); err != nil {
		return err
	}
	if err := c.op.input.readBody(check, c.body, into); err != nil || !c.op.once {
		return err
	}
	return c.readOnce()
}

// readBody reads the body whole, once its media type is right.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if encoding := strings.Join(r.Header.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, refuse(codeUnsupportedMediaType, "encoding")
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, refuse(codeUnsupportedMediaType, "")
	}
	if r.ContentLength > maxBody {
		return nil, refuse(codeBodyTooLarge, "")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, refuse(codeBodyTooLarge, "")
	}
	if err != nil {
		return nil, errors.Join(refuse(codeInvalidJSON, ""), err) // it ended early, or its framing is broken
	}
	return body, nil
}

// isJSON accepts a missing media type, JSON, and any type built on JSON.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// readOnce reads the Idempotency-Key of a creating call.
func (c *call) readOnce() error {
	values := c.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil
	}
	key := values[0]
	unprintable := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(values) != 1 || len(key) < 16 || len(key) > 128 || strings.ContainsFunc(key, unprintable) {
		return &store.Error{Code: store.CodeValidationFailed, Faults: []store.Fault{
			{Field: "Idempotency-Key", Code: store.FaultBadFormat, Topic: "idempotency"},
		}}
	}
	c.once = store.NewOnce(c.op.id, key, c.URL.RequestURI(), string(c.body))
	return nil
}

// none is the input of a call that takes nothing, or the answer of one that says
// nothing.
type none struct{}

// Allowed is the answer of a contact request that was only tried.
type Allowed struct {
	Allowed bool `json:"allowed" enum:"true"`
}
