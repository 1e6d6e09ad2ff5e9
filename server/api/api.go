// Package api is the operation engine: it turns a list of typed operations into an HTTP API with
// validation, errors, OpenAPI and cached responses. It knows no entity: whatever is special about
// one comes with the row of the operation, the tags of its types, or the Config.
//
// # Operations
//
// An Operation is declared with Public or Keyed and its handler, which receives a decoded and
// validated input, and with Keyed the caller as well, and returns the response as a struct. What
// belongs to the response beside its body, the handler says on the Request: Created, NextPage,
// DryRun. The input is a struct:
//
//	type pageQuery struct {
//		ID    string `path:"id" doc:"Id of the record." example:"rec_7"`
//		Limit int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Records a page."`
//	}
//
// A field Body is the request body, which a field JSON gets unparsed as well; such a body is a
// merge patch, in which every field is optional and null has a meaning. The tag bare:"name" of Body
// accepts a list in place of the object with that member, notpast:"name" rejects a date in the
// past. A Body that implements Rule checks several fields together. Tags of the fields are JSON
// Schema; they are both the validation and the documentation. The tag of:"handle" of a field of
// path or query accepts capitals and an @ before the handle.
//
// Methods of the row declare the rest: Creates, Deletes and Accepts set the status, Creates also
// accepts an Idempotency-Key, TakesDryRun a dry run; HasBriefForm declares a shorter response,
// AsTool a tool for MCP, ForSuspended that suspended agents may request it.
//
// # One request
//
// Handler (request.go) takes a request through these steps, each of which may reject it:
//
//   - authorize: count a public request against the limit of its address, and reject a write that
//     a page of another origin sends with the browser of its visitor. Otherwise authenticate
//     the API key and count the request against the limits of the key; an invalid key counts
//     against its address. Then reject a write from a network that the Config blocks.
//   - cache: a public read is looked up by its URL (cache.go) and sent if it is found. Requests for
//     a missing response wait for one of them.
//   - decode: read path and query (input.go), then check media type and size of the body, parse
//     the JSON strictly (json.go) and validate it (check.go). A Checker collects every invalid
//     field, so that the client learns of all at once. Then read the Idempotency-Key.
//   - run the handler.
//   - respond: encode the response, add the ETag and cache a public read, or set Location, Link and
//     Idempotent-Replayed; send it compressed, as 304, or as it is (response.go).
//
// An error of any step becomes an ErrorBody with the texts of texts.toml: a domain.Error with a known code is
// the fault of the client, anything else is logged and hidden behind the code internal. The errors
// of wrong paths, methods and ids name the operations that the client may have meant
// (wrongpath.go).
//
// Read and RunTool run a public read for pages and tools, from the cache and without limits. Submit
// runs a public write for a form of a page, with the limits and checks of the operation.
package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/julienschmidt/httprouter"

	"callbook/server/middleware"
	"callbook/server/ratelimit"
	"callbook/store/domain"
)

// Config connects an engine with the service around it.
type Config struct {
	Clock    func() time.Time
	Cache    *Cache
	Document Document

	// SharedCache is how long shared caches may use a public response; 0: they revalidate it.
	SharedCache time.Duration

	// Proxies are the peers whose X-Forwarded-For counts.
	Proxies middleware.TrustedProxies

	// Authenticate returns the caller of an API key.
	Authenticate func(ctx context.Context, key string) (domain.Caller, error)

	// CheckNetwork rejects the writes of a client.
	CheckNetwork func(client netip.Addr) error

	// Origins knows the pages that may send public writes.
	Origins *http.CrossOriginProtection

	// Limiter counts requests against the limits of their operations, and the following ones.
	Limiter *ratelimit.Limiter

	// Foreign limits public writes from pages of other origins.
	Foreign ratelimit.Class

	// FailedKeys limits the invalid API keys of an address.
	FailedKeys ratelimit.Class

	// KeyLimits returns all limits of a keyed operation, the widest first.
	KeyLimits func(class ratelimit.Class) []ratelimit.Class

	// NetworkWrites limits the writes of a network with all API keys.
	NetworkWrites ratelimit.Class

	// ErrorForm returns the body of an error response in another form; nil: ErrorBody.
	ErrorForm func(r *http.Request, status int, o ErrorObject) []byte

	// LoopbackLinks accepts links to this machine.
	LoopbackLinks bool
}

// Engine serves operations over HTTP.
type Engine struct {
	Config
	Registry   huma.Registry
	Operations []*Operation

	byID         map[string]*Operation
	owners       map[string]string // operations by a field that only one takes
	guesses      map[string]Text   // for wrong paths, by method and word
	cacheControl []string          // header of public responses
}

// New returns an engine for a list of operations.
func New(config Config, operations []*Operation) *Engine {
	e := &Engine{
		Config:       config,
		Registry:     newRegistry(config.Document.SchemaNames),
		Operations:   operations,
		byID:         map[string]*Operation{},
		cacheControl: []string{cacheControl(config.SharedCache)},
	}

	for _, op := range operations {
		e.Prepare(op)
	}

	e.owners = e.fieldOwners()
	e.guesses = e.guessTexts()
	return e
}

// Prepare makes an operation usable that is not in the list, also for Operation.
func (e *Engine) Prepare(op *Operation) {
	op.Input = newInput(e.Registry, op.in)
	e.byID[op.ID] = op
}

// Address returns the address of the client of a request.
func (e *Engine) Address(r *http.Request) netip.Addr {
	return middleware.ClientAddress(r, e.Proxies)
}

// Allow counts a request against a limit of its address.
func (e *Engine) Allow(w http.ResponseWriter, r *http.Request, class ratelimit.Class) error {
	return e.Limiter.AllowAddress(w.Header(), class, e.Address(r), ratelimit.OfAddress, e.Clock())
}

// Operation returns the operation with an id that the program itself names. It panics if there
// is none.
func (e *Engine) Operation(id string) *Operation {
	op, ok := e.byID[id]
	if !ok {
		panic("there is no operation " + id)
	}
	return op
}

// Read runs a public read for the program itself, so that pages and tools show the same as the
// response of the operation. args are the parameters of path and query by name.
func (e *Engine) Read(ctx context.Context, op *Operation, args url.Values) (*Cached, error) {
	path, query := op.Path, maps.Clone(args)
	var params httprouter.Params
	for _, f := range op.Input.Path {
		value := args.Get(f.Name)
		params = append(params, httprouter.Param{Key: f.Name, Value: value})
		path = strings.Replace(path, "{"+f.Name+"}", url.PathEscape(value), 1)
		query.Del(f.Name)
	}

	// The same URL as that of a client, so that both share the cached response.
	if len(query) > 0 {
		path += "?" + query.Encode()
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", op.ID, err)
	}

	req := &Request{
		Request: r,
		engine:  e,
		op:      op,
		params:  params,
		now:     e.Clock(),
	}
	return req.cachedResponse()
}

// Submit runs a public write for a form that r has sent. params are the parameters of its path, and
// body is its body. The request counts against the limit of the operation, and must not come from a
// page of another origin.
func (e *Engine) Submit(
	w http.ResponseWriter,
	r *http.Request,
	op *Operation,
	params httprouter.Params,
	body any,
) error {
	content := Marshal(body)
	sent := r.Clone(r.Context())
	sent.URL = &url.URL{Path: r.URL.Path} // the query belongs to the page
	sent.Body = io.NopCloser(bytes.NewReader(content))
	sent.ContentLength = int64(len(content))
	sent.Header.Set("Content-Type", JSONType)
	req := &Request{
		Request: sent,
		engine:  e,
		op:      op,
		w:       w,
		params:  params,
		now:     e.Clock(),
		address: e.Address(r),
	}

	if err := req.authorize(); err != nil {
		return err
	}

	_, err := req.run()
	return err
}
