// Package mcp is a read-only MCP endpoint over Streamable HTTP: it keeps no
// sessions, answers in JSON, and speaks every protocol version that the SDK does.
// It knows nothing of the directory but a list of tools and resources.
//
// The SDK does the protocol; what stands here is around it. A body is read
// strictly before the SDK sees it, and of the caller's headers the SDK sees only
// those of the protocol. What it answers is never sent as it is where it would
// repeat the caller's words. The answers of tools do not pass through it at all:
// it would escape them anew. They take the place of a token in its own answer.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is one tool: it reads, and changes nothing.
type Tool struct {
	Name, Title, Description string
	Input, Output            json.RawMessage // JSON Schema 2020-12
	Untrusted                bool            // its answers hold text of third parties
	// Call answers. args is an object, or empty. An error is the server's own fault;
	// what the caller can mend is a Result.
	Call func(ctx context.Context, args []byte) (Result, error)
}

// Result is the answer of a tool.
type Result struct {
	JSON []byte // the structured answer, which is sent as it is
	Text string // for models; empty for the JSON, fenced where the tool is untrusted
	Code string // of a refusal: what JSON then holds
}

// Resource is a document that can be read by its URI.
type Resource struct {
	URI                      string // with one {part} at its end for any number of them
	Name, Title, Description string
	Type                     string // media type
	Untrusted                bool   // holds text of third parties
	// Read gets what stands for the {part}. ErrNotFound says that there is none.
	Read func(ctx context.Context, part string) ([]byte, error)
}

// ErrNotFound is a resource that there is not.
var ErrNotFound = errors.New("there is no such resource")

// ErrBusy is a call that found no free place in time, or took too long.
var ErrBusy = errors.New("too many calls at once")

// Options is what an endpoint is made of.
type Options struct {
	Name, Title, Version string
	Website              string
	Instructions         string
	Notice               []string // lines before text of third parties
	Tools                []Tool
	Resources            []Resource
}

// An SDK call takes a good part of a millisecond and hundreds of kilobytes, so few
// run at once; those that find no place wait, but not many and not for long.
const (
	callTime    = 10 * time.Second
	waitTime    = 3 * time.Second
	placesOfCPU = 2
	queueOfCPU  = 64
)

// listTime is how long clients may keep the lists of tools and resources.
const listTime = 5 * time.Minute

// Endpoint answers messages.
type Endpoint struct {
	options Options
	handler http.Handler
	places  chan struct{}
	queue   chan struct{}
}

// methods are those that the endpoint has, with the first version that knows them.
// The SDK would answer more, for what this server does not declare.
var methods = map[string]string{
	"initialize": "", "ping": "", "server/discover": modern, "subscriptions/listen": modern,
	"tools/list": "", "tools/call": "",
	"resources/list": "", "resources/templates/list": "", "resources/read": "",
}

// New makes an endpoint.
func New(o Options) *Endpoint {
	e := &Endpoint{
		options: o,
		places:  make(chan struct{}, placesOfCPU*runtime.GOMAXPROCS(0)),
		queue:   make(chan struct{}, queueOfCPU*runtime.GOMAXPROCS(0)),
	}
	server := sdk.NewServer(
		&sdk.Implementation{Name: o.Name, Title: o.Title, Version: o.Version, WebsiteURL: o.Website},
		&sdk.ServerOptions{
			Instructions: o.Instructions,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
			SetCacheable: setCacheable,
		})
	server.AddReceivingMiddleware(bareErrors)
	for _, t := range o.Tools {
		server.AddTool(described(t), e.caller(t))
	}
	for _, r := range o.Resources {
		addResource(server, r)
	}
	e.handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the Gate does it: a proxy on the same host may keep the public name
	})
	return e
}

// setCacheable lets clients keep what changes only with the program. What is read
// may change at any time.
func setCacheable(_ context.Context, r sdk.Request, c *sdk.Cacheable) {
	if _, read := r.GetParams().(*sdk.ReadResourceParams); !read {
		c.TTLMs = int(listTime / time.Millisecond)
	}
}

// Reply is what goes over HTTP.
type Reply struct {
	Status int
	Type   string // media type; empty when there is no body
	Body   []byte
	Code   string // of a refusal, for the log
	Err    error  // the server's own fault: then nothing else is set
	id     []byte
}

// Fail makes the reply to a fault of the server's own. object says it in the
// site's words.
func (r *Reply) Fail(status int, object []byte) {
	*r = *internalError.reply(status, r.id, object)
}

// Serve answers one body. Of the header it reads what is the protocol's.
func (e *Endpoint) Serve(ctx context.Context, header http.Header, body []byte) *Reply {
	m, fault := readMessage(body)
	if fault != nil {
		return fault.reply(http.StatusBadRequest, m.id, nil)
	}
	h, version, fault := protocolHeader(header)
	if fault != nil {
		return fault.reply(http.StatusBadRequest, m.id, nil)
	}
	if !supported(version) {
		return unsupportedVersion.reply(http.StatusBadRequest, m.id, versionData(version))
	}
	if m.id == nil { // nothing that could be notified has an effect here
		return &Reply{Status: http.StatusAccepted}
	}
	if since, ok := methods[m.method]; !ok || version != "" && version < since {
		return unknownMethod.answer(version, m.id)
	}
	if err := e.enter(ctx); err != nil {
		return &Reply{Err: err, id: m.id}
	}
	defer func() { <-e.places }()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return e.ask(ctx, h, version, m)
}

// enter waits for a place.
func (e *Endpoint) enter(ctx context.Context) error {
	select {
	case e.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.queue <- struct{}{}:
		defer func() { <-e.queue }()
	default:
		return ErrBusy
	}
	late := time.NewTimer(waitTime)
	defer late.Stop()
	select {
	case e.places <- struct{}{}:
		return nil
	case <-late.C:
		return ErrBusy
	case <-ctx.Done():
		return errors.Join(ErrBusy, ctx.Err())
	}
}

// ask has the SDK answer, and puts the ready answers into what it says.
func (e *Endpoint) ask(ctx context.Context, h http.Header, version string, m message) *Reply {
	x := &exchange{ctx: ctx}
	said, err := x.through(e.handler, h, m.body)
	switch {
	case x.err != nil:
		return &Reply{Err: x.err, id: m.id}
	case err != nil:
		return &Reply{Err: err, id: m.id}
	case x.refused != nil:
		return x.refused.answer(version, m.id)
	case said.status >= 400 || said.isError():
		f := said.fault()
		if f == internalError {
			return &Reply{Err: fmt.Errorf("the SDK: %d %s", said.status, said.body.Bytes()), id: m.id}
		}
		return f.answer(version, m.id)
	}
	body, err := x.splice(said.body.Bytes())
	if err != nil {
		return &Reply{Err: err, id: m.id}
	}
	return &Reply{Status: said.status, Type: said.header.Get("Content-Type"), Body: body, Code: x.code}
}

// described is a tool as tools/list tells it.
func described(t Tool) *sdk.Tool {
	no := false
	tool := &sdk.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input, OutputSchema: t.Output,
		Annotations: &sdk.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no,
		},
	}
	if t.Untrusted {
		tool.Meta = untrusted()
	}
	return tool
}

// untrusted marks what holds text of third parties. A fresh one each time: the SDK
// writes into it.
func untrusted() sdk.Meta { return sdk.Meta{"callbook/untrustedContent": true} }

// caller calls a tool for the SDK.
func (e *Endpoint) caller(t Tool) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		x := exchangeOf(ctx)
		args, ok := objectOrNothing(r.Params.Arguments)
		if !ok {
			return nil, x.refuse(badParams)
		}
		var result Result
		if err := x.guarded(func() (err error) {
			result, err = t.Call(x.ctx, args)
			return err
		}); err != nil {
			return nil, err
		}
		return e.answer(x, t, result), nil
	}
}

// answer is a tool's result with tokens in the place of its text and its JSON.
func (e *Endpoint) answer(x *exchange, t Tool, result Result) *sdk.CallToolResult {
	x.code = result.Code
	answer := &sdk.CallToolResult{IsError: result.Code != ""}
	var text []byte
	switch {
	case result.Text != "":
		text = quoted(result.Text)
	case t.Untrusted && result.Code == "":
		text, answer.Meta = quoted(fence(e.options.Notice, result.JSON)), untrusted()
	default:
		text = quoted(result.JSON)
	}
	answer.Content = []sdk.Content{&sdk.TextContent{Text: x.keep(text)}}
	answer.StructuredContent = x.keep(result.JSON)
	return answer
}

// bareErrors takes the data off the SDK's errors: it repeats the caller's words in
// them, in a form that is not always JSON.
func bareErrors(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		if err == nil {
			return result, nil
		}
		switch x := exchangeOf(ctx); method {
		case "tools/call":
			_ = x.refuse(unknownTool)
		case "resources/read":
			_ = x.refuse(unknownResource)
		}
		var known *jsonrpc.Error
		if errors.As(err, &known) {
			return nil, &jsonrpc.Error{Code: known.Code, Message: "refused"}
		}
		return nil, err
	}
}

// guarded turns a panic into an error: the SDK calls in a goroutine of its own,
// where it would end the program.
func (x *exchange) guarded(act func() error) error {
	err := func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		return act()
	}()
	if err == nil {
		return nil
	}
	if ended := x.ctx.Err(); ended != nil {
		err = errors.Join(ErrBusy, ended, err)
	}
	x.err = err
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "failed"}
}
