package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

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

// NewEngine returns an engine for a list of operations.
func NewEngine(config Config, operations []*Operation) *Engine {
	e := &Engine{Config: config, Registry: newRegistry(), Operations: operations}
	for _, op := range operations {
		e.Prepare(op)
	}
	return e
}

// Prepare makes an operation ready that is not in the list.
func (e *Engine) Prepare(op *Operation) { op.Input = newInput(e.Registry, op.in) }

// Client returns whose requests the limits of addresses count.
func (e *Engine) Client(r *http.Request) ratelimit.Client {
	return ratelimit.Client{Network: middleware.Network(middleware.ClientAddress(r, e.Proxies))}
}

// Allow counts a request against a limit of its address.
func (e *Engine) Allow(w http.ResponseWriter, r *http.Request, class ratelimit.Class) error {
	return e.Limiter.Allow(w.Header(), class, e.Client(r), e.Clock())
}
