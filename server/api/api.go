package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/julienschmidt/httprouter"

	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/store"
)

// Config is what an engine needs of the service around it.
type Config struct {
	Clock         func() time.Time
	Limiter       *ratelimit.Limiter
	Cache         *Cache
	Proxies       middleware.TrustedProxies // peers whose X-Forwarded-For counts
	Authenticate  func(ctx context.Context, key string) (store.Caller, error)
	FailedKeys    ratelimit.Class                               // counts invalid API keys of an address
	KeyLimits     func(class ratelimit.Class) []ratelimit.Class // all limits of a keyed operation, the widest first
	Errors        *Catalogue
	Document      Document
	LoopbackLinks bool // accept links to this machine
}

// Engine serves operations over HTTP.
type Engine struct {
	Config
	Registry   huma.Registry
	Operations []*Operation
}

// New returns an engine for a list of operations.
func New(config Config, operations []*Operation) *Engine {
	e := &Engine{Config: config, Registry: newRegistry(), Operations: operations}
	for _, op := range operations {
		e.Prepare(op)
	}
	return e
}

// Prepare makes an operation usable that is not in the list.
func (e *Engine) Prepare(op *Operation) { op.Input = newInput(e.Registry, op.in) }

// Client returns the client that the limits of addresses count a request for.
func (e *Engine) Client(r *http.Request) ratelimit.Client {
	return ratelimit.Client{Network: middleware.Network(middleware.ClientAddress(r, e.Proxies))}
}

// Allow counts a request against a limit of its address.
func (e *Engine) Allow(w http.ResponseWriter, r *http.Request, class ratelimit.Class) error {
	return e.Limiter.Allow(w.Header(), class, e.Client(r), e.Clock())
}

// Operation returns the operation with an id that the program itself names. It panics if there
// is none.
func (e *Engine) Operation(id string) *Operation {
	for _, op := range e.Operations {
		if op.ID == id {
			return op
		}
	}
	panic("there is no operation " + id)
}

// Read runs a public read for the program itself, so that pages and tools consist of the same
// bytes as the response of the operation. args are the parameters of path and query by name.
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
