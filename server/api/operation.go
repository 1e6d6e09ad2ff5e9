package api

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
	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/store"
)

// Operation is one row of the list in operations.go. Router, authentication,
// limits, OpenAPI document, index and the tests' matrices all come from it.
type Operation struct {
	ID         string
	Method     string
	Path       string
	Summary    string
	Keyed      bool            // needs a bearer key
	Limit      ratelimit.Class // public: the address's limit; keyed: limitWrites or limitCalls
	Status     int             // of success
	Idempotent bool            // takes an Idempotency-Key
	DryRun     bool            // with dry_run it makes nothing, and answers 200 {"allowed": true}
	Errors     []store.Code    // refusals of its own, beside those that every such call has
	Tool       *Tool           // nil: it is no tool of the MCP endpoint
	brief      *briefForm      // nil: it has no shorter response
	in, out    reflect.Type
	Input      *Input
	Run        func(req *Request) (Response, error)
}

// Request is one request on its way through an operation.
type Request struct {
	*http.Request
	engine      *Engine
	op          *Operation
	w           http.ResponseWriter
	params      httprouter.Params
	now         time.Time
	Client      ratelimit.Client
	caller      store.Caller
	Key         string // the bearer key, where one is needed
	body        []byte
	Idempotency store.Once // the zero value without an Idempotency-Key
}

// Response is what an operation returns. Its body is JSON that is ready to be sent.
type Response struct {
	Body     []byte
	Status   int // 0 for the operation's own
	Location string
	Next     string // path and query of the next page
	Replayed bool
	Tags     []Tag     // of a public read: the data it is made from; nil: it is not cached
	Expires  time.Time // from the cache; zero: never
}

// Public makes a row that anyone may call.
func Public[In, Out any](id, method, path, summary string, limit ratelimit.Class, run func(*Request, In) (Response, error), codes ...store.Code) *Operation {
	op := &Operation{ID: id, Method: method, Path: path, Summary: summary, Limit: limit, Errors: codes, Status: http.StatusOK}
	op.in, op.out = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	op.Run = func(req *Request) (Response, error) {
		var in In
		if err := req.decode(reflect.ValueOf(&in).Elem()); err != nil {
			return Response{}, err
		}
		return run(req, in)
	}
	return op
}

// Keyed makes a row that needs a key. Its handler takes the caller, so that none
// can be mounted without authentication.
func Keyed[In, Out any](id, method, path, summary string, limit ratelimit.Class, run func(*Request, store.Caller, In) (Response, error), codes ...store.Code) *Operation {
	op := Public[In, Out](id, method, path, summary, limit, func(req *Request, in In) (Response, error) {
		return run(req, req.caller, in)
	}, codes...)
	op.Keyed = true
	return op
}

// Creates marks a row that makes a record: it answers 201 with its place, and a
// repeated call with the same Idempotency-Key makes nothing anew.
func (o *Operation) Creates() *Operation {
	o.Status, o.Idempotent = http.StatusCreated, true
	o.Errors = append(o.Errors, store.CodeIdempotencyConflict, store.CodeNotFound)
	return o
}

// HasBriefForm gives a list of brief items to a request with this value of a parameter. A tool
// returns only these.
func (o *Operation) HasBriefForm(param, value string, out any) *Operation {
	o.brief = &briefForm{param: param, value: value, out: reflect.TypeOf(out)}
	return o
}

// briefForm is a shorter response, which a parameter chooses.
type briefForm struct {
	param, value string
	out          reflect.Type
}

// TakesDryRun marks a row that can be tried only.
func (o *Operation) TakesDryRun() *Operation { o.DryRun = true; return o }

// Deletes marks a row that answers without a body.
func (o *Operation) Deletes() *Operation { o.Status = http.StatusNoContent; return o }

// Accepts marks a row that only takes note.
func (o *Operation) Accepts() *Operation { o.Status = http.StatusAccepted; return o }

// Reads tells whether an answer may be kept and revalidated.
func (o *Operation) Reads() bool { return o.Method == http.MethodGet }

// Handler takes one request through the checks in the contract's order: the
// address's limit, the key, the key's limit, the query, the media type and the
// size, the JSON, all fields, the rules.
func (e *Engine) Handler(op *Operation) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		req := &Request{Request: r, engine: e, op: op, w: w, params: params, now: e.Clock(), Client: e.Client(r)}
		if err := req.serve(); err != nil {
			e.WriteError(w, r, err)
		}
	}
}

func (req *Request) serve() error {
	if err := req.authorize(); err != nil {
		return err
	}
	if req.op.Reads() && !req.op.Keyed {
		cached, err := req.cachedResponse()
		if err != nil {
			return err
		}
		return WriteCached(req.w, req.Request, cached)
	}
	response, err := req.op.Run(req)
	if err != nil {
		return err
	}
	return req.respond(response)
}

// authorize finds the caller and counts the call.
func (req *Request) authorize() error {
	h := req.w.Header()
	if req.op.Keyed {
		h.Set("Cache-Control", "no-store")
		return req.authenticate()
	}
	if req.op.Reads() {
		h["Access-Control-Allow-Origin"] = middleware.AnyOrigin
	}
	return req.engine.Limiter.Allow(h, req.op.Limit, req.Client, req.now)
}

// cachedResponse returns the response of a public read from the cache, or runs the
// operation and caches its response.
func (req *Request) cachedResponse() (*Cached, error) {
	e, uri := req.engine, req.RequestURI
	if uri == "" { // the program's own read
		uri = req.URL.RequestURI()
	}
	cached, version, ok := e.Cache.Get(uri, req.now)
	if ok {
		return cached, nil
	}
	response, err := req.op.Run(req)
	if err != nil {
		return nil, err
	}
	cached = NewCachedWithETag(response.Body, etag(response.Body))
	if response.Next != "" {
		cached.Link = []string{linkNext(response.Next)}
	}
	if response.Tags != nil {
		e.Cache.Add(uri, httpcache.Item[Tag, *Cached]{Value: cached, Size: cached.Size(), Tags: response.Tags, Added: req.now, Expires: response.Expires}, version)
	}
	return cached, nil
}

// Operation is the row of an id that the program itself names.
func (e *Engine) Operation(id string) *Operation {
	for _, op := range e.Operations {
		if op.ID == id {
			return op
		}
	}
	panic("there is no operation " + id)
}

// Read answers a public read for the program itself: pages and tools are made from
// the very bytes of the operation's answer. args are its parameters by name, those
// of the path and those of the query.
func (e *Engine) Read(ctx context.Context, op *Operation, args url.Values) (*Cached, error) {
	path, query := op.Path, maps.Clone(args)
	var params httprouter.Params
	for _, f := range op.Input.Path {
		value := args.Get(f.Name)
		params = append(params, httprouter.Param{Key: f.Name, Value: value})
		path = strings.Replace(path, "{"+f.Name+"}", url.PathEscape(value), 1)
		query.Del(f.Name)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", op.ID, err)
	}
	return (&Request{Request: r, engine: e, op: op, params: params, now: e.Clock()}).cachedResponse()
}

func (req *Request) respond(response Response) error {
	h := req.w.Header()
	if !req.op.Keyed {
		h.Set("Cache-Control", "no-store")
	}
	if response.Location != "" {
		h.Set("Location", response.Location)
	}
	if response.Replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if response.Next != "" {
		h.Set("Link", linkNext(response.Next))
	}
	if req.op.Status == http.StatusNoContent {
		req.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return WriteJSON(req.w, cmp.Or(response.Status, req.op.Status), response.Body)
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
func (req *Request) authenticate() error {
	e := req.engine
	key, ok := bearerKey(req.Header)
	var err error
	if ok {
		req.caller, err = e.Authenticate(req.Context(), key)
	} else {
		err = NewError(store.CodeUnauthorized, "")
	}
	if errors.Is(err, &store.Error{Code: store.CodeUnauthorized}) {
		if limited := e.Limiter.Allow(req.w.Header(), e.FailedKeys, req.Client, req.now); limited != nil {
			return limited
		}
	}
	if err != nil && req.caller.ID == 0 {
		return err
	}
	req.Key = key
	for _, class := range e.KeyLimits(req.op.Limit) {
		if limited := e.Limiter.Allow(req.w.Header(), class, ratelimit.Client{Account: req.caller.ID}, req.now); limited != nil {
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

// MaxBody is how much a body may hold.
const MaxBody = 64 << 10

func (req *Request) decode(into reflect.Value) error {
	e := req.engine
	for _, f := range req.op.Input.Path {
		into.Field(f.index).SetString(req.params.ByName(f.Name))
	}
	check := &Checker{
		registry: e.Registry, topics: e.Errors.Topics, loopbackLinks: e.LoopbackLinks,
		now: e.Clock(), replayable: req.op.Idempotent && req.Header.Get("Idempotency-Key") != "",
	}
	if err := req.op.Input.readQuery(check, req.URL.RawQuery, into); err != nil {
		return err
	}
	if req.op.Reads() {
		return nil
	}
	var err error
	if req.body, err = ReadBody(req.w, req.Request); err != nil {
		return err
	}
	if err := req.op.Input.readBody(check, req.body, into); err != nil || !req.op.Idempotent {
		return err
	}
	return req.readIdempotencyKey()
}

// ReadBody reads the body whole, once its media type is right.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if encoding := strings.Join(r.Header.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, NewError(CodeUnsupportedMediaType, "encoding")
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, NewError(CodeUnsupportedMediaType, "")
	}
	if r.ContentLength > MaxBody {
		return nil, NewError(CodeBodyTooLarge, "")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, NewError(CodeBodyTooLarge, "")
	}
	if err != nil {
		return nil, errors.Join(NewError(CodeInvalidJSON, ""), err) // it ended early, or its framing is broken
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

// readIdempotencyKey reads the Idempotency-Key of a creating call.
func (req *Request) readIdempotencyKey() error {
	values := req.Header.Values("Idempotency-Key")
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
	req.Idempotency = store.NewOnce(req.op.ID, key, req.URL.RequestURI(), string(req.body))
	return nil
}

// None is the input of a call that takes nothing, or the answer of one that says
// nothing.
type None struct{}

// Allowed is the answer of a contact request that was only tried.
type Allowed struct {
	Allowed bool `json:"allowed" enum:"true"`
}
