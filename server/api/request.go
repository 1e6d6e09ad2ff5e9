package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
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
	engine      *Engine
	op          *Operation
	w           http.ResponseWriter
	params      httprouter.Params
	now         time.Time
	address     netip.Addr
	caller      domain.Caller
	Key         string // API key of a keyed operation
	body        []byte
	Idempotency domain.IdempotencyKey // zero without an Idempotency-Key

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
	rejection, _ := errors.AsType[*domain.Error](err)
	if rejection != nil && rejection.Code == domain.CodeNotFound && rejection.Topic == "" &&
		len(req.params) > 0 {
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
		return cmp.Or(req.authenticate(), req.checkNetwork())
	}

	if req.op.Reads() {
		h["Access-Control-Allow-Origin"] = middleware.AnyOrigin
	} else if err := req.checkOrigin(); err != nil {
		return err
	}

	return cmp.Or(req.engine.Allow(req.w, req.Request, req.op.Limit), req.checkNetwork())
}

// checkNetwork rejects a write from a blocked network, except that an agent deletes itself.
func (req *Request) checkNetwork() error {
	if req.op.Reads() || req.op.Suspended {
		return nil
	}
	return req.engine.CheckNetwork(req.address)
}

// checkOrigin rejects a public write that a page of another origin sends with the browser of its
// visitor. It does not count against the visitor's limit of the operation.
func (req *Request) checkOrigin() error {
	e := req.engine
	if e.Origins.Check(req.Request) == nil {
		return nil
	}
	if err := e.Allow(req.w, req.Request, e.Foreign); err != nil {
		return err
	}

	return NewError(domain.CodeForbidden, domain.TopicOrigin)
}

// cachedResponse returns the response of a public read from the cache, or runs the operation and
// caches its response.
func (req *Request) cachedResponse() (*Cached, error) {
	e, uri := req.engine, req.RequestURI
	if uri == "" { // the program's own read
		uri = req.URL.RequestURI()
	}

	return e.Cache.Load(
		req.Context(),
		uri,
		req.now,
		req.op.stale,
		func(ctx context.Context) (*Cached, error) {
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
			cached.Value, cached.Link = response, req.link
			return cached, nil
		},
	)
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

	if err != nil && req.caller.ID == 0 {
		return err
	}

	req.Key, req.caller.Address = key, req.address
	middleware.RecordOf(req.w).Handle = req.caller.Handle
	for _, class := range e.KeyLimits(req.op.Limit) {
		if limited := e.Limiter.Allow(req.w.Header(), class, ratelimit.Client{Account: req.caller.ID}, req.now); limited != nil {
			return limited
		}
	}

	if req.op.Suspended && errors.Is(err, domain.NewError(domain.CodeSuspended)) {
		err = nil
	}

	if req.op.Reads() {
		return err // suspended
	}

	// Writes over the limit of their key are not counted here, so that one key alone cannot use up
	// the limit of its network.
	return cmp.Or(
		e.Limiter.AllowAddress(
			req.w.Header(),
			e.NetworkWrites,
			req.address,
			ratelimit.OfNetwork,
			req.now,
		),
		err,
	)
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
	if req.body, err = ReadBody(req.w, req.Request); err == nil {
		err = req.op.Input.readBody(check, req.body, into)
	}

	if err != nil || !req.op.Idempotent {
		return e.withRequired(req.op, err)
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
	if r.ContentLength != 0 && !isJSON(r.Header.Get("Content-Type")) {
		return nil, NewError(CodeUnsupportedMediaType, "")
	}
	return readBody(w, r)
}

// readBody reads a body of at most MaxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if encoding := strings.Join(r.Header.Values("Content-Encoding"), ","); encoding != "" &&
		!strings.EqualFold(encoding, "identity") {
		return nil, NewError(CodeUnsupportedMediaType, "encoding")
	}
	if r.ContentLength > MaxBody {
		return nil, NewError(CodeBodyTooLarge, "")
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, NewError(CodeBodyTooLarge, "")
	}
	if busy, ok := errors.AsType[*domain.Error](err); ok {
		return nil, busy
	}
	if err != nil {
		// It ended early, or its framing is broken.
		return nil, errors.Join(NewError(CodeInvalidJSON, ""), err)
	}

	return body, nil
}

// isJSON reports whether a media type is missing, JSON, or built on JSON.
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

	return media == "application/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// readIdempotencyKey reads the Idempotency-Key of a request that creates something.
func (req *Request) readIdempotencyKey() error {
	values := req.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return nil
	}

	key := values[0]
	unprintable := func(r rune) bool { return r < ' ' || r >= 0x7f }
	if len(values) != 1 || len(key) < 16 || len(key) > 128 ||
		strings.ContainsFunc(key, unprintable) {
		return &domain.Error{Code: domain.CodeValidationFailed, Fields: []domain.FieldError{
			{Field: "Idempotency-Key", Code: domain.FaultBadFormat, Topic: "idempotency"},
		}}
	}

	req.Idempotency = domain.NewIdempotencyKey(req.op.ID, key, req.uri(), string(req.body))
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
