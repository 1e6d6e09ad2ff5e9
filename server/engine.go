package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"callbook/store"
)

// engineConfig is what an engine needs of the service around it.
type engineConfig struct {
	Clock         func() time.Time
	Limiter       *limiter
	Cache         *responseCache
	Proxies       TrustedProxies // peers whose X-Forwarded-For counts
	Authenticate  func(ctx context.Context, key string) (store.Caller, error)
	FailedKeys    limitClass                          // counts invalid API keys of an address
	KeyLimits     func(class limitClass) []limitClass // all limits of a keyed operation, the widest first
	Errors        *errorCatalogue
	Document      documentInfo
	LoopbackLinks bool // accept links to this machine
}

// engine serves operations over HTTP.
type engine struct {
	engineConfig
	registry   huma.Registry
	operations []*operation
}

// newEngine returns an engine for a list of operations.
func newEngine(config engineConfig, operations []*operation) *engine {
	e := &engine{engineConfig: config, registry: newRegistry(), operations: operations}
	for _, op := range operations {
		e.prepare(op)
	}
	return e
}

// prepare makes an operation ready that is not in the list.
func (e *engine) prepare(op *operation) { op.input = newInput(e.registry, op.in) }

// subject returns whose requests the limits of addresses count.
func (e *engine) subject(r *http.Request) subject {
	return subject{network: network(clientAddress(r, e.Proxies))}
}

// limit counts a request against a limit of its address.
func (e *engine) limit(w http.ResponseWriter, r *http.Request, class limitClass) error {
	return e.Limiter.take(w.Header(), class, e.subject(r), e.Clock())
}
