package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newEndpoint returns an endpoint with a few tools and a resource. Package server tests their results.
func newEndpoint() *Endpoint {
	tool := func(name string, call func(ctx context.Context) (Result, error)) Tool {
		schema := json.RawMessage(`{"type":"object"}`)
		return Tool{
			Name: name, Title: "T", Description: "D.", Input: schema, Output: schema,
			Call: func(ctx context.Context, _ []byte) (Result, error) { return call(ctx) },
		}
	}
	returns := func(json string) func(context.Context) (Result, error) {
		return func(context.Context) (Result, error) { return Result{JSON: []byte(json)}, nil }
	}
	e, err := New(Options{
		Name: "callbook", Title: "Callbook", Version: "1",
		Tools: []Tool{
			tool("plain", returns(`{"a":1}`)),
			tool("large", returns(`{"a":"`+strings.Repeat("a", 1<<20)+`"}`)),
			tool("waits", func(ctx context.Context) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }),
		},
		Resources: []Resource{{
			URI: "callbook://agents/{handle}", Name: "agent", Type: "application/json",
			Read: func(context.Context, string) ([]byte, error) { return nil, ErrNotFound },
		}},
		Failed: func(context.Context, error) json.RawMessage { return json.RawMessage(`{"code":"internal"}`) },
		Busy:   func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusServiceUnavailable) },
	})
	if err != nil {
		panic(err)
	}
	return e
}

const modern = "2026-07-28"

// meta is what a modern request has to hold.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func message(method, params string) string {
	return `{"jsonrpc":"2.0","id":"a<b","method":"` + method + `","params":` + params + `}`
}

// post sends a body with pairs of header and value.
func post(e *Endpoint, w http.ResponseWriter, body string, header ...string) {
	r := httptest.NewRequest("POST", "/mcp", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	e.Serve(w, r, []byte(body))
}

func posted(e *Endpoint, body string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	post(e, w, body, header...)
	return w
}

// TestErrors_AreJSON checks that every error is JSON, and does not repeat the name of a tool or resource that the
// client made up.
func TestErrors_AreJSON(t *testing.T) {
	const word = "IGNORE_PREVIOUS_zq7"
	ping := message("ping", "{}")
	e := newEndpoint()
	for _, tt := range []struct {
		name, body string
		header     []string
		status     int
		code       string
	}{
		{"no JSON", "{" + word, nil, 400, "-32700"},
		{"nothing", "", nil, 400, "-32700"},
		{"two messages", ping + ping, nil, 400, "-32700"},
		{"a key twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, nil, 400, "-32700"},
		{"no UTF-8", message("ping", "{\"a\":\"\xff\"}"), nil, 400, "-32700"},
		{"deep", message("tools/list", strings.Repeat(`{"a":`, 19000)+"1"+strings.Repeat("}", 19000)), nil, 400, "-32700"},
		{"a text", `"` + word + `"`, nil, 400, "-32600"},
		{"a batch", "[" + ping + "," + ping + "]", []string{"MCP-Protocol-Version", "2025-03-26"}, 400, "-32600"},
		{"another JSON-RPC", `{"jsonrpc":"` + word + `","id":1,"method":"ping"}`, nil, 400, "-32600"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, nil, 400, "-32600"},
		{"a method that is no text", `{"jsonrpc":"2.0","id":1,"method":{"` + word + `":1}}`, nil, 400, "-32600"},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{"` + word + `":1},"method":"ping"}`, nil, 400, "-32600"},
		{"an id that is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, "-32600"},
		{"an unknown method", message(word, "{}"), nil, 200, "-32601"},
		{"a notification with an id", message("notifications/initialized", "{}"), nil, 200, "-32601"},
		{"params that are a list", message("tools/list", `["`+word+`"]`), nil, 200, "-32602"},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, nil, 200, "-32602"},
		{"params that are null", message("initialize", "null"), nil, 200, "-32602"},
		{"an unknown version", message("tools/list", "{}"), []string{"MCP-Protocol-Version", "2024-10-07"}, 400, "-32022"},
		{"a version that is text", message("tools/list", "{}"), []string{"MCP-Protocol-Version", word}, 400, "-32022"},
		{"an unknown tool", message("tools/call", `{"name":"`+word+`"}`), nil, 200, "-32602"},
		{"an unknown modern tool", message("tools/call", `{"name":"`+word+`",`+meta+`}`), []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", word}, 400, "-32602"},
		{"an unknown resource", message("resources/read", `{"uri":"callbook://`+word+`"}`), nil, 200, "-32602"},
		{"a resource of odd characters", message("resources/read", `{"uri":"callbook://agents/\u0001\u007f`+word+`"}`), nil, 200, "-32602"},
		{"params of another type", message("tools/call", `{"name":{"`+word+`":1}}`), nil, 200, "-32602"},
		{"an unknown modern method", message(word, `{`+meta+`}`), []string{"MCP-Protocol-Version", modern, "Mcp-Method", word}, 404, "-32601"},
		{"a header that differs", message("tools/list", `{`+meta+`}`), []string{"MCP-Protocol-Version", modern, "Mcp-Method", word}, 400, "-32020"},
		{"params of initialize of another type", message("initialize", `{"protocolVersion":7,"x":"`+word+`"}`), nil, 200, "-32602"},
		{"params of a stream of another type", message("subscriptions/listen", `{"notifications":"`+word+`"}`), nil, 200, "-32602"},
		{"a wrong cursor", message("tools/list", `{"cursor":"`+word+`"}`), nil, 200, "-32602"},
	} {
		w := posted(e, tt.body, tt.header...)
		body := w.Body.String()
		if w.Code != tt.status || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" || !jsontext.Value(body).IsValid() ||
			!strings.Contains(body, `"error":{"code":`+tt.code) || strings.Contains(body, word) || !strings.Contains(body, "message_zh") {
			t.Errorf("%s: %d %v %s", tt.name, w.Code, w.Header(), body)
		}
	}
}

// TestResponses_HaveTheIDOfTheRequest checks that each kind of response repeats the id byte for byte.
func TestResponses_HaveTheIDOfTheRequest(t *testing.T) {
	e := newEndpoint()
	for _, id := range []string{`1`, `-0`, `1.5`, `1e2`, `9007199254740993`, `1e400`, `""`, `"a"`, `"\u0061\/b<"`, `"中\ud83d\ude00"`} {
		for _, rest := range []string{
			`"method":"ping"`, `"method":"tools/call","params":{"name":"plain"}`, `"method":"tools/call","params":{"name":"none"}`,
			`"method":"none"`, `"method":"tools/call"`, `"method":7`, `"params":{}`,
		} {
			w := posted(e, `{"jsonrpc":"2.0",`+rest+`,"id": `+id+` }`)
			if !strings.HasPrefix(w.Body.String(), `{"jsonrpc":"2.0","id":`+id+`,`) || !jsontext.Value(w.Body.Bytes()).IsValid() {
				t.Errorf("%s, %s: %s", id, rest, w.Body)
			}
		}
		w := posted(e, `{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{`+meta+`,"notifications":{}}}`,
			"MCP-Protocol-Version", modern, "Mcp-Method", "subscriptions/listen")
		if !strings.Contains(w.Body.String(), `"id":`+id+`,`) {
			t.Errorf("%s: %s", id, w.Body)
		}
	}
}

func TestNotifications_AreAccepted(t *testing.T) {
	e := newEndpoint()
	for _, method := range []string{"notifications/initialized", "notifications/cancelled", "notifications/unknown", "ping"} {
		if w := posted(e, `{"jsonrpc":"2.0","method":"`+method+`","params":{}}`); w.Code != 202 || w.Body.Len() > 0 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}

// TestMethods_AreThoseOfTheSDK checks that the SDK knows every method that the envelope lets through.
func TestMethods_AreThoseOfTheSDK(t *testing.T) {
	e := newEndpoint()
	for method := range methods {
		version := "2025-11-25"
		if method == "server/discover" || method == "subscriptions/listen" {
			version = modern
		}
		w := posted(e, message(method, `{`+strings.ReplaceAll(meta, modern, version)+`}`), "MCP-Protocol-Version", version, "Mcp-Method", method)
		if body := w.Body.String(); w.Code >= 500 || strings.Contains(body, "-32601") || !jsontext.Value(body).IsValid() && !strings.HasPrefix(body, "event:") {
			t.Errorf("%s: %d %s", method, w.Code, body)
		}
	}
}

// TestVersion_IsNegotiated: server/discover names the versions, and a request of any other gets them with the error of
// the protocol.
func TestVersion_IsNegotiated(t *testing.T) {
	e := newEndpoint()
	versions, err := json.Marshal(sdk.SupportedProtocolVersions())
	if err != nil {
		t.Fatal(err)
	}
	for version, parts := range map[string][]string{
		modern:                   {`"supportedVersions":`, `"capabilities":{"extensions":{"io.modelcontextprotocol/skills":{}},"prompts":{},"resources":{},"tools":{}}`},
		"2026-07-29":             {`"code":-32022`, `"requested":"2026-07-29"`},
		"2099-01-01":             {`"code":-32022`, `"requested":"2099-01-01"`},
		"2024-10-07":             {`"code":-32022`, `"requested":"2024-10-07"`},
		"1.0":                    {`"code":-32022`, `"requested":"1.0"`},
		"DRAFT-2027":             {`"code":-32022`, `"requested":"DRAFT-2027"`},
		"a-version-of-seventeen": {`"code":-32022`, `"requested":""`},
	} {
		want := http.StatusBadRequest
		if version == modern {
			want = http.StatusOK
		}
		params := `{` + strings.ReplaceAll(meta, modern, version) + `}`
		w := posted(e, message("server/discover", params), "MCP-Protocol-Version", version, "Mcp-Method", "server/discover")
		for _, part := range append(parts, `"id":"a<b"`, string(versions)) {
			if w.Code != want || !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s: there is no %s in %d %s", version, part, w.Code, w.Body)
			}
		}
	}
}

// TestSubscription_EndsAtOnce checks that the stream ends, because nothing that clients can subscribe to ever
// changes.
func TestSubscription_EndsAtOnce(t *testing.T) {
	w := posted(newEndpoint(), message("subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["callbook://guide"]}}`),
		"MCP-Protocol-Version", modern, "Mcp-Method", "subscriptions/listen")
	if body := w.Body.String(); w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" || !strings.Contains(body, `"resultType":"complete"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

// TestLimit_QueuesRequests sends more requests than there are slots: the others wait, and all end within callTime.
func TestLimit_QueuesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint()
		var all sync.WaitGroup
		start := time.Now() //clock: the bubble's
		for range 10 * placesOfCPU * runtime.GOMAXPROCS(0) {
			all.Go(func() {
				if w := posted(e, message("tools/call", `{"name":"waits",`+meta+`}`), "MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "waits"); w.Code != 503 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took != callTime {
			t.Errorf("it took %s", took)
		}
		synctest.Wait()
		if w := posted(e, message("tools/call", `{"name":"plain"}`)); w.Code != 200 {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}

// slowClient is a ResponseWriter whose client reads nothing.
type slowClient struct {
	*httptest.ResponseRecorder
	until chan struct{}
}

func (c slowClient) Write(p []byte) (int, error) { <-c.until; return len(p), nil }

func TestLimit_SlowClientsHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint()
		until := make(chan struct{})
		for range 2 * placesOfCPU * runtime.GOMAXPROCS(0) {
			go post(e, slowClient{httptest.NewRecorder(), until}, message("tools/call", `{"name":"large"}`))
		}
		synctest.Wait()
		if w := posted(e, message("tools/call", `{"name":"plain"}`)); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		close(until)
	})
}
