package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newEndpoint returns an endpoint with a few tools and resources.
func newEndpoint() http.Handler {
	tool := func(name string, untrusted bool, call func(ctx context.Context) (Result, error)) Tool {
		schema := json.RawMessage(`{"type":"object"}`)
		return Tool{
			Name: name, Title: "T", Description: "D.", Input: schema, Output: schema, Untrusted: untrusted,
			Call: func(ctx context.Context, _ []byte) (Result, error) { return call(ctx) },
		}
	}
	returns := func(r Result) func(context.Context) (Result, error) {
		return func(context.Context) (Result, error) { return r, nil }
	}
	e, err := New(Options{
		Name: "callbook", Title: "Callbook", Version: "1", Notice: []string{"Notice.", "提示。"},
		Tools: []Tool{
			tool("plain", false, returns(Result{JSON: []byte(odd)})),
			tool("agents", true, returns(Result{JSON: []byte(odd)})),
			tool("worded", false, returns(Result{JSON: []byte(`{"a":1}`), Text: "Words."})),
			tool("rejects", true, returns(Result{JSON: []byte(`{"error":{}}`), IsError: true})),
			tool("large", false, returns(Result{JSON: []byte(`{"a":"` + strings.Repeat("a", 1<<20) + `"}`)})),
			tool("waits", false, func(ctx context.Context) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }),
		},
		Resources: []Resource{
			{URI: "callbook://agents/{handle}", Name: "agent", Type: "application/json", Untrusted: true, Read: func(_ context.Context, part string) ([]byte, error) {
				if part != "tide-gauge" {
					return nil, ErrNotFound
				}
				return []byte(`{"handle":"` + part + `"}`), nil
			}},
		},
		Failed: func(context.Context, error) json.RawMessage { return json.RawMessage(`{"code":"internal"}`) },
		Busy:   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	})
	if err != nil {
		panic(err)
	}
	return e
}

// odd is JSON that a library may write in another way.
const odd = `{"z":"<b>&amp;中","a":[1.0,1e2,{"b":null,"a":false}],"m":"/"}`

const modern = "2026-07-28"

// meta is what a modern request has to hold.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func message(method, params string) string {
	return `{"jsonrpc":"2.0","id":"a<b","method":"` + method + `","params":` + params + `}`
}

// post sends a body with pairs of header and value.
func post(e http.Handler, w http.ResponseWriter, body string, header ...string) {
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	e.ServeHTTP(w, r)
}

func posted(e http.Handler, body string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	post(e, w, body, header...)
	return w
}

func TestTool_Results(t *testing.T) {
	e := newEndpoint()
	for name, want := range map[string]struct {
		text, structured   string
		untrusted, isError bool
	}{
		"plain":   {odd, odd, false, false},
		"agents":  {odd, odd, true, false},
		"worded":  {"Words.", `{"a":1}`, false, false},
		"rejects": {`{"error":{}}`, `{"error":{}}`, false, true},
	} {
		w := posted(e, message("tools/call", `{"name":"`+name+`"}`))
		var got struct {
			ID     string
			Result struct {
				Meta       map[string]any `json:"_meta"`
				Content    []struct{ Type, Text string }
				Structured jsontext.Value `json:"structuredContent"`
				IsError    bool
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Result.Content) != 1 {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		structured := got.Result.Structured
		if err := structured.Format(); err != nil || string(structured) != want.structured || got.ID != "a<b" || got.Result.IsError != want.isError {
			t.Errorf("%s: %s", name, w.Body)
		}
		text, marked := got.Result.Content[0].Text, got.Result.Meta["callbook/untrustedContent"] == true
		if marked != want.untrusted || !marked && text != want.text || marked && !strings.Contains(text, "\n"+want.text+"\n") {
			t.Errorf("%s: text %q, _meta %v", name, text, got.Result.Meta)
		}
	}
}

func TestTool_FencesUntrustedText(t *testing.T) {
	line := regexp.MustCompile(`^data-[A-Z2-7]{26}$`)
	lines := map[string]bool{}
	for range 1000 {
		got := strings.Split(fence([]string{"Notice.", "提示。"}, odd), "\n")
		if len(got) != 6 || got[0] != "Notice." || got[1] != "提示。" || got[2] != fenceLine || got[4] != odd || got[3] != got[5] || !line.MatchString(got[3]) {
			t.Fatalf("%q", got)
		}
		lines[got[3]] = true
	}
	if len(lines) != 1000 {
		t.Errorf("%d different lines for 1000 responses", len(lines))
	}
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
		{"no JSON", "{" + word, nil, 400, "-32600"},
		{"nothing", "", nil, 400, "-32600"},
		{"a text", `"` + word + `"`, nil, 400, "-32600"},
		{"two messages", ping + ping, nil, 400, "-32600"},
		{"a key twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, nil, 400, "-32600"},
		{"no UTF-8", message("ping", "{\"a\":\"\xff\"}"), nil, 400, "-32600"},
		{"a batch", "[" + ping + "," + ping + "]", []string{"MCP-Protocol-Version", "2025-03-26"}, 400, "-32600"},
		{"deep", message("tools/list", strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9000)), nil, 400, "-32600"},
		{"another JSON-RPC", `{"jsonrpc":"` + word + `"}`, nil, 400, "-32600"},
		{"a method without id", `{"jsonrpc":"2.0","method":"ping"}`, nil, 400, "-32600"},
		{"an unknown method", message(word, "{}"), nil, 400, "-32600"},
		{"an unknown version", message("tools/list", "{}"), []string{"MCP-Protocol-Version", "2024-10-07"}, 400, "-32022"},
		{"a version that is text", message("tools/list", "{}"), []string{"MCP-Protocol-Version", word}, 400, "-32022"},
		{"an unknown tool", message("tools/call", `{"name":"`+word+`"}`), nil, 200, "-32602"},
		{"an unknown modern tool", message("tools/call", `{"name":"`+word+`",`+meta+`}`), []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", word}, 400, "-32602"},
		{"an unknown resource", message("resources/read", `{"uri":"callbook://`+word+`"}`), nil, 200, "-32602"},
		{"a resource of odd characters", message("resources/read", `{"uri":"callbook://agents/\u0001\u007f`+word+`"}`), nil, 200, "-32602"},
		{"params of another type", message("tools/call", `{"name":{"`+word+`":1}}`), nil, 200, "-32602"},
		{"an unknown modern method", message(word, `{`+meta+`}`), []string{"MCP-Protocol-Version", modern, "Mcp-Method", word}, 404, "-32601"},
		{"a header that differs", message("tools/list", `{`+meta+`}`), []string{"MCP-Protocol-Version", modern, "Mcp-Method", word}, 400, "-32020"},
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

// TestVersion_IsNegotiated: server/discover names the versions, and a request of any other gets them with the error of
// the protocol.
func TestVersion_IsNegotiated(t *testing.T) {
	e := newEndpoint()
	for _, version := range []string{modern, "2026-07-29", "2099-01-01", "2024-10-07", "1.0", "DRAFT-2027", "a-version-of-seventeen"} {
		w := posted(e, message("server/discover", `{`+strings.ReplaceAll(meta, modern, version)+`}`), "MCP-Protocol-Version", version, "Mcp-Method", "server/discover")
		var got struct {
			ID     string
			Result struct {
				SupportedVersions []string
				Capabilities      map[string]any
			}
			Error struct {
				Code int
				Data struct {
					Supported []string
					Requested *string
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.ID != "a<b" {
			t.Fatalf("%s: %v %s", version, err, w.Body)
		}
		if version == modern {
			if w.Code != 200 || !slices.Equal(got.Result.SupportedVersions, sdk.SupportedProtocolVersions()) || len(got.Result.Capabilities) != 3 {
				t.Errorf("%s: %d %s", version, w.Code, w.Body)
			}
			continue
		}
		want := version
		if len(version) > 16 {
			want = ""
		}
		if w.Code != 400 || got.Error.Code != -32022 || !slices.Equal(got.Error.Data.Supported, sdk.SupportedProtocolVersions()) || got.Error.Data.Requested == nil || *got.Error.Data.Requested != want {
			t.Errorf("%s: %d %s", version, w.Code, w.Body)
		}
	}
}

func TestNotifications_HaveNoResponse(t *testing.T) {
	e := newEndpoint()
	for _, version := range sdk.SupportedProtocolVersions() {
		w := posted(e, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "MCP-Protocol-Version", version, "Mcp-Method", "notifications/initialized")
		if w.Code != 202 || w.Body.Len() > 0 {
			t.Errorf("%s: %d %s", version, w.Code, w.Body)
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

// TestEndpoint_KeepsNoState checks that any number of clients that start and never end leave nothing behind.
func TestEndpoint_KeepsNoState(t *testing.T) {
	e := newEndpoint()
	begin := func(n int) {
		for range n {
			w := posted(e, message("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`))
			if w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	}
	held := func() (goroutines, bytes int) {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), int(m.HeapAlloc)
	}
	begin(100)
	goroutines, heap := held()
	begin(1000)
	if after, grown := held(); after > goroutines+4 || grown > heap+1<<18 {
		t.Errorf("from %d to %d goroutines, from %d to %d KiB", goroutines, after, heap>>10, grown>>10)
	}
}
