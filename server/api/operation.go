package api

import (
	"net/http"
	"reflect"

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

// None is the input of a call that takes nothing, or the answer of one that says
// nothing.
type None struct{}

// Allowed is the answer of a contact request that was only tried.
type Allowed struct {
	Allowed bool `json:"allowed" enum:"true"`
}
