package api

import (
	"net/http"
	"reflect"
	"time"

	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Operation is one row of the list of operations. Router, authentication, limits, index, OpenAPI
// document, tools and the matrices of the tests are generated from it.
type Operation struct {
	ID      string
	Method  string
	Path    string
	Summary string
	Keyed   bool            // needs an API key
	Limit   ratelimit.Class // of the address if public, of the key if keyed
	Input   *Input
	Run     func(req *Request) (response any, err error)
	Status  int           // of a successful response
	Errors  []domain.Code // beside those of every operation of its kind

	Idempotent bool  // accepts an Idempotency-Key
	DryRun     bool  // accepts dry_run
	Suspended  bool  // a suspended agent may request it too
	OnItself   bool  // a write that an agent may request that waits for approval
	Tool       *Tool // nil: not a tool

	stale   time.Duration // how old a response may be although data has changed; 0: never
	brief   *briefForm    // nil: no shorter response
	in, out reflect.Type
}

// Public returns an operation that anyone may request. Its handler has the types of the input and
// of the response.
func Public[In, Out any](
	id, method, path, summary string,
	limit ratelimit.Class,
	handler func(*Request, In) (Out, error),
	codes ...domain.Code,
) *Operation {
	return &Operation{
		ID:      id,
		Method:  method,
		Path:    path,
		Summary: summary,
		Limit:   limit,
		Errors:  codes,
		Status:  http.StatusOK,
		in:      reflect.TypeFor[In](),
		out:     reflect.TypeFor[Out](),

		Run: func(req *Request) (any, error) {
			var in In
			if err := req.decode(reflect.ValueOf(&in).Elem()); err != nil {
				return nil, err
			}
			return handler(req, in)
		},
	}
}

// Keyed returns an operation that needs an API key. Its handler receives the caller, so no such
// handler can be mounted without authentication.
func Keyed[In, Out any](
	id, method, path, summary string,
	limit ratelimit.Class,
	handler func(*Request, domain.Caller, In) (Out, error),
	codes ...domain.Code,
) *Operation {
	op := Public(id, method, path, summary, limit, func(req *Request, in In) (Out, error) {
		return handler(req, req.caller, in)
	}, codes...)
	op.Keyed = true
	return op
}

// Creates declares that the operation creates a record: it responds with 201 and the Location of
// the record, and a repeated request with the same Idempotency-Key creates nothing.
func (o *Operation) Creates() *Operation {
	o.Status, o.Idempotent = http.StatusCreated, true
	o.Errors = append(o.Errors, domain.CodeIdempotencyConflict, domain.CodeNotFound)
	return o
}

// HasBriefForm declares that the operation responds with the type of full, or with the shorter one
// of brief, which a request selects with param=value. Both have a member of the name of param with
// its value, by which clients tell them apart. The tool of the operation always selects the shorter
// one.
func (o *Operation) HasBriefForm(param, value string, full, brief any) *Operation {
	o.out = reflect.TypeOf(full)
	o.brief = &briefForm{param: param, value: value, out: reflect.TypeOf(brief)}
	return o
}

// briefForm is a shorter response and the parameter that selects it.
type briefForm struct {
	param, value string
	out          reflect.Type
}

// TakesDryRun declares that the operation responds with the type of created, and that a request
// with dry_run=true creates nothing and gets Allowed.
func (o *Operation) TakesDryRun(created any) *Operation {
	o.DryRun, o.out = true, reflect.TypeOf(created)
	return o
}

// MayBeStale declares that a response may be used until it has this age, although data has changed
// since. It is for counts that cost much to read.
func (o *Operation) MayBeStale(age time.Duration) *Operation { o.stale = age; return o }

// Deletes declares that the operation responds without a body.
func (o *Operation) Deletes() *Operation { o.Status = http.StatusNoContent; return o }

// ForItself declares that the operation changes only the caller, so that an agent that waits for
// approval may request it.
func (o *Operation) ForItself() *Operation { o.OnItself = true; return o }

// ForSuspended declares that a suspended agent may request the operation too.
func (o *Operation) ForSuspended() *Operation { o.Suspended = true; return o }

// Accepts declares that the operation responds before its work is done.
func (o *Operation) Accepts() *Operation { o.Status = http.StatusAccepted; return o }

// String returns method and path, as texts name the operation.
func (o *Operation) String() string { return o.Method + " " + o.Path }

// Reads reports whether the operation changes nothing.
func (o *Operation) Reads() bool { return o.Method == http.MethodGet }

// None is the input of an operation without parameters and body, and the output of one without a
// response body.
type None struct{}

// WithBody is the input of an operation that takes a body alone.
type WithBody[T any] struct{ Body T }

// Allowed is the response to a dry run.
type Allowed struct {
	Allowed bool `json:"allowed" doc:"Always true." example:"true"`
}
