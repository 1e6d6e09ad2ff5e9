package mcp

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// methods are the methods that clients may request, and whether they need params.
var methods = map[string]bool{
	"initialize":               true,
	"logging/setLevel":         true,
	"ping":                     false,
	"prompts/get":              true,
	"prompts/list":             false,
	"resources/list":           false,
	"resources/read":           true,
	"resources/templates/list": false,
	"server/discover":          false,
	"skills/get":               true,
	"skills/list":              false,
	"subscriptions/listen":     true,
	"tools/call":               true,
	"tools/list":               false,
}

// envelope is the part of a request that JSON-RPC defines.
type envelope struct {
	// ID is the id as the client wrote it, a number or a string. It is empty for a notification,
	// and where there is none to be read.
	ID jsontext.Value

	Method string

	// Params is an object or null.
	Params jsontext.Value

	// Version is that of the protocol, from the header; empty if there is none.
	Version string
}

// readEnvelope reads the envelope of a request. It returns the code of JSON-RPC for the first
// fault, or 0.
func readEnvelope(body []byte, version string) (e envelope, code int) {
	e.Version = version
	if !jsontext.Value(body).IsValid() {
		return e, jsonrpc.CodeParseError
	}

	// A batch is no object: one could hold hundreds of requests.
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return e, jsonrpc.CodeInvalidRequest
	}

	id, identified := members["id"]
	if kind := id.Kind(); kind == '"' || kind == '0' {
		e.ID = id
	}
	if identified && e.ID == nil || string(members["jsonrpc"]) != `"2.0"` {
		return e, jsonrpc.CodeInvalidRequest
	}
	if err := json.Unmarshal(members["method"], &e.Method); err != nil || e.Method == "" {
		return e, jsonrpc.CodeInvalidRequest
	}

	needsParams, known := methods[e.Method]
	e.Params = members["params"]
	if e.Params == nil {
		e.Params = jsontext.Value("null")
	}

	kind := e.Params.Kind()
	switch {
	case version != "" && !slices.Contains(Versions(), version):
		return e, sdk.CodeUnsupportedProtocolVersion
	case identified && !known:
		return e, jsonrpc.CodeMethodNotFound
	case kind != '{' && (needsParams || kind != 'n'):
		return e, jsonrpc.CodeInvalidParams
	}
	return e, 0
}

// isNotification reports whether the client expects no response.
func (e envelope) isNotification() bool { return e.ID == nil }

// forSDK returns the request with a substitute for its id, which the SDK would change: it reads
// numbers as 64-bit integers, and writes strings again. The substitute is random, so that it
// stands nowhere else in the response.
func (e envelope) forSDK() (body, substitute []byte) {
	id := strconv.Quote(rand.Text())
	const request = `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`
	return fmt.Appendf(nil, request, id, e.Method, e.Params), []byte(id)
}

// recorder is an http.ResponseWriter that keeps the response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
