package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Request is an HTTP request to an operation. The engine completes it step by step.
type Request struct {
	*http.Request

	// Key is the API key of a keyed operation.
	Key string

	// Idempotency is the key of a repeated request; zero without an Idempotency-Key.
	Idempotency domain.IdempotencyKey

	engine  *Engine
	op      *Operation
	w       http.ResponseWriter
	params  httprouter.Params
	now     time.Time
	address netip.Addr
	caller  domain.Caller
	body    []byte

	// What the handler says of its response, beside the body.
	status   int // 0: that of the operation
	location string
	link     string // header; empty: none
	replayed bool
}

// Handler returns the HTTP handler of an operation. It checks a request in the order of the
// contract: limit of the address, API key, limit of the key, query, media type and size of the
// body, JSON, fields, rules.
func (e *Engine) Handler(op *Operation) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		req := &Request{
			Request: r,
			engine:  e,
			op:      op,
			w:       w,
			params:  params,
			now:     e.Clock(),
			address: e.Address(r),
		}

		if err := req.serve(); err != nil {
			e.WriteError(w, r, err)
		}
	}
}

// run runs the operation. An error of a record that is not found says how records of the path are
// named.
func (req *Request) run() (any, error) {
	for i, f := range req.op.Input.Path {
		if f.handle {
			req.params[i].Value = ParseHandle(req.params[i].Value)
		}
	}

	response, err := req.op.Run(req)
	if err == nil || len(req.params) == 0 {
		return response, err
	}

	// A topic would say more about what is missing than the path can.
	rejection, _ := errors.AsType[*domain.Error](err)
	if rejection != nil && rejection.Code == domain.CodeNotFound && rejection.Topic == "" {
		err = req.engine.notFound(req.op, req.params[0].Value)
	}
	return response, err
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

		return req.engine.WriteCached(req.w, req.Request, cached)
	}

	response, err := req.run()
	if err != nil {
		return err
	}

	return req.respond(response)
}

// Address returns the address of the client.
func (req *Request) Address() netip.Addr { return req.address }

// authorize authenticates the client where the operation needs it, and counts the request
// against its limits.
func (req *Request) authorize() error {
	h := req.w.Header()
	if req.op.Keyed {
		h.Set("Cache-Control", "no-store")
		if err := req.authenticate(); err != nil {
			return err
		}
		return req.checkNetwork()
	}

	if req.op.Reads() {
		middleware.ShareWithAnyOrigin(h)
	} else if err := req.checkOrigin(); err != nil {
		return err
	}

	if err := req.engine.Allow(req.w, req.Request, req.op.Limit); err != nil {
		return err
	}
	return req.checkNetwork()
}

// checkNetwork rejects a write from a blocked network, except that an agent deletes itself.
func (req *Request) checkNetwork() error {
	if req.op.Reads() || req.op.Suspended {
		return nil
	}
	return req.engine.CheckNetwork(req.address)
}

// checkOrigin rejects a public write that a page of another origin sends with the browser of its
// visitor.
func (req *Request) checkOrigin() error {
	e := req.engine
	if e.Origins.Check(req.Request) == nil {
		return nil
	}

	// Not against the limit of the operation, which the page could use up for its visitor.
	if err := e.Allow(req.w, req.Request, e.Foreign); err != nil {
		return err
	}
	return NewError(domain.CodeForbidden, domain.TopicOrigin)
}

// cachedResponse returns the response of a public read from the cache, or runs the operation and
// caches its response.
func (req *Request) cachedResponse() (*Cached, error) {
	uri := req.RequestURI
	if uri == "" { // the program's own read
		uri = req.URL.RequestURI()
	}
	return req.engine.Cache.Load(req.Context(), uri, req.now, req.op.stale, req.newResponse)
}

// newResponse runs a public read and returns its response for the cache.
func (req *Request) newResponse(ctx context.Context) (*Cached, error) {
	req.Request = req.WithContext(ctx)
	response, err := req.run()
	if err != nil {
		return nil, err
	}

	body, err := encode(response)
	if err != nil {
		return nil, err
	}

	cached := NewCached(body)
	cached.Value = response
	cached.Link = req.link
	return cached, nil
}

func (req *Request) respond(response any) error {
	h := req.w.Header()
	if !req.op.Keyed {
		h.Set("Cache-Control", "no-store")
	}
	if req.location != "" {
		h.Set("Location", req.location)
	}
	if req.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if req.link != "" {
		h.Set("Link", req.link)
	}
	if req.op.Status == http.StatusNoContent {
		req.w.WriteHeader(http.StatusNoContent)
		return nil
	}

	body, err := encode(response)
	if err != nil {
		return err
	}
	return WriteJSON(req.w, cmp.Or(req.status, req.op.Status), body)
}

// Created says where the record is that the request has created, and whether an earlier request
// with the same Idempotency-Key did.
func (req *Request) Created(location string, replayed bool) {
	req.location, req.replayed = location, replayed
}

// DryRun returns the response to a dry run that would be admitted.
func (req *Request) DryRun() Allowed {
	req.status = http.StatusOK
	return Allowed{Allowed: true}
}

// NextPage returns the path and query of the page that begins at a cursor, nil without one: the
// same query with the cursor instead of an offset. The response links to it.
func (req *Request) NextPage(cursor string) *string {
	if cursor == "" {
		return nil
	}

	query := req.URL.Query()
	query.Del("offset")
	query.Set("cursor", cursor)
	next := req.URL.EscapedPath() + "?" + query.Encode()
	req.link = "<" + next + `>; rel="next"`
	return &next
}

// authenticate resolves the API key and counts the request. An invalid key counts against its
// address; an address over that limit gets 429 instead of 401. A valid key is never rejected
// because others sent invalid ones.
func (req *Request) authenticate() error {
	e := req.engine
	key, ok := bearerKey(req.Header)
	var err error
	if ok {
		req.caller, err = e.Authenticate(req.Context(), key)
	} else {
		err = NewError(domain.CodeUnauthorized, "")
	}

	if errors.Is(err, &domain.Error{Code: domain.CodeUnauthorized}) {
		if limited := e.Allow(req.w, req.Request, e.FailedKeys); limited != nil {
			return limited
		}
	}
	// A suspended agent is known, and counted like others.
	if err != nil && req.caller.ID == 0 {
		return err
	}

	req.Key = key
	req.caller.Address = req.address
	middleware.RecordOf(req.w).Handle = req.caller.Handle

	h := req.w.Header()
	client := ratelimit.Client{Account: req.caller.ID}
	for _, class := range e.KeyLimits(req.op.Limit) {
		if limited := e.Limiter.Allow(h, class, client, req.now); limited != nil {
			return limited
		}
	}

	if req.op.Suspended && errors.Is(err, domain.NewError(domain.CodeSuspended)) {
		err = nil
	}
	if req.op.Reads() {
		return err
	}

	// After the limits of the key: writes over these are not counted here, so that one key alone
	// cannot use up the limit of its network.
	limited := e.Limiter.AllowAddress(
		h,
		e.NetworkWrites,
		req.address,
		ratelimit.OfNetwork,
		req.now,
	)
	if limited != nil {
		return limited
	}
	return err
}

// bearerKey returns the key of the only Authorization header.
func bearerKey(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, key, _ := strings.Cut(values[0], " ")
	return strings.TrimLeft(key, " "), strings.EqualFold(scheme, "Bearer")
}

// MaxBody is the maximum size of a request body in bytes.
const MaxBody = 64 << 10

func (req *Request) decode(into reflect.Value) error {
	e := req.engine
	for _, f := range req.op.Input.Path {
		into.FieldByIndex(f.index).SetString(req.params.ByName(f.Name))
	}

	check := &Checker{
		registry:      e.Registry,
		op:            req.op.String(),
		owners:        e.owners,
		loopbackLinks: e.LoopbackLinks,
		now:           e.Clock(),
		replayable:    req.op.Idempotent && req.Header.Get("Idempotency-Key") != "",
	}

	if err := req.op.Input.readQuery(check, req.URL.RawQuery, "query", into); err != nil {
		return err
	}
	if req.op.Reads() {
		return nil
	}

	var err error
	if req.body, err = ReadBody(req.w, req.Request); err != nil {
		return e.withRequired(req.op, err)
	}
	if err := req.op.Input.readBody(check, req.body, into); err != nil {
		return e.withRequired(req.op, err)
	}

	if !req.op.Idempotent {
		return nil
	}
	return req.readIdempotencyKey()
}

// ReadForm reads the fields of a form as browsers send them.
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(media, "application/x-www-form-urlencoded") {
		return nil, NewError(CodeUnsupportedMediaType, "")
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}

	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, NewError(domain.CodeInvalidQuery, "")
	}
	return form, nil
}

// ReadBody checks the media type of a request and reads its body.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength != 0 {
		if err := checkMediaType(r.Header.Get("Content-Type")); err != nil {
			return nil, err
		}
	}
	return readBody(w, r)
}

// readBody reads a body of at most MaxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	encoding := strings.Join(r.Header.Values("Content-Encoding"), ",")
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, NewError(CodeUnsupportedMediaType, "encoding")
	}

	// A client that waits for 100 Continue need not send a body that would be rejected.
	if r.ContentLength > MaxBody {
		return nil, NewError(CodeBodyTooLarge, "")
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, NewError(CodeBodyTooLarge, "")
	}
	// The memory for bodies is used up.
	if busy, ok := errors.AsType[*domain.Error](err); ok {
		return nil, busy
	}
	// The body ended early, or its framing is broken.
	if err != nil {
		return nil, errors.Join(NewError(CodeInvalidJSON, ""), err)
	}

	// Some editors and languages write a byte order mark before UTF-8.
	return bytes.TrimPrefix(body, []byte("\uFEFF")), nil
}

// charsets are the spellings of UTF-8 and of ASCII, which is a part of it, without hyphens.
var charsets = []string{"", "utf8", "ascii", "usascii"}

// checkMediaType returns an error unless a media type is missing, JSON, or built on JSON, in UTF-8.
// Other parameters do not matter.
func checkMediaType(contentType string) error {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil { // it may be a parameter only
		media, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		media = strings.TrimSpace(media)
	}

	switch {
	case media == "", media == "application/json", strings.HasSuffix(media, "+json"):
	default:
		return NewError(CodeUnsupportedMediaType, "")
	}

	charset := strings.NewReplacer("-", "", "_", "", " ", "").Replace(params["charset"])
	if !slices.Contains(charsets, strings.ToLower(charset)) {
		return NewError(CodeUnsupportedMediaType, "charset")
	}
	return nil
}

// readIdempotencyKey reads the Idempotency-Key of a request that creates something.
func (req *Request) readIdempotencyKey() error {
	values := req.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil
	}

	key := values[0]
	isUnprintable := func(r rune) bool { return r < ' ' || r >= 0x7f }
	valid := len(values) == 1 && len(key) >= 16 && len(key) <= 128 &&
		!strings.ContainsFunc(key, isUnprintable)
	if !valid {
		return &domain.Error{Code: domain.CodeValidationFailed, Fields: []domain.FieldError{
			{Field: "Idempotency-Key", Code: domain.FaultBadFormat, Topic: "idempotency"},
		}}
	}

	req.Idempotency = domain.NewIdempotencyKey(req.op.ID, key, req.uri(), string(req.body))
	// Keys of an agent belong to it; those of the public to an address, so that no one gets the
	// response to another.
	if !req.op.Keyed {
		req.Idempotency = req.Idempotency.From(req.address)
	}

	return nil
}

// uri returns the path and query of the request. The parameters of the path are as the operation
// takes them, so that two spellings of a handle are the same request.
func (req *Request) uri() string {
	u := url.URL{Path: req.op.Path, RawQuery: req.URL.RawQuery}
	for _, p := range req.params {
		u.Path = strings.Replace(u.Path, "{"+p.Key+"}", p.Value, 1)
	}
	return u.RequestURI()
}
