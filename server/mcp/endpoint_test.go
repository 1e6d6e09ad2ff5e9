package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newEndpoint is an endpoint with tools that answer in all ways.
func newEndpoint() *Endpoint {
	tool := func(name string, untrusted bool, call func(ctx context.Context, args []byte) (Result, error)) Tool {
		schema := json.RawMessage(`{"type":"object"}`)
		return Tool{Name: name, Title: "T", Description: "D.", Input: schema, Output: schema, Untrusted: untrusted, Call: call}
	}
	answers := func(r Result) func(context.Context, []byte) (Result, error) {
		return func(context.Context, []byte) (Result, error) { return r, nil }
	}
	return New(Options{
		Name: "callbook", Title: "Callbook", Version: "1", Notice: []string{"Notice.", "提示。"},
		Tools: []Tool{
			tool("plain", false, answers(Result{JSON: []byte(odd)})),
			tool("agents", true, answers(Result{JSON: []byte(odd)})),
			tool("worded", false, answers(Result{JSON: []byte(`{"a":1}`), Text: "Words."})),
			tool("refuses", true, answers(Result{JSON: []byte(`{"error":{}}`), Code: "not_found"})),
			tool("fails", false, func(context.Context, []byte) (Result, error) { return Result{}, errors.New("the disk is gone") }),
			tool("panics", false, func(context.Context, []byte) (Result, error) { panic("a bug") }),
			tool("waits", false, func(ctx context.Context, _ []byte) (Result, error) { <-ctx.Done(); return Result{}, ctx.Err() }),
			tool("repeats", false, func(_ context.Context, args []byte) (Result, error) {
				return Result{JSON: []byte(`{"length":` + fmt.Sprint(len(args)) + `}`), Text: string(args)}, nil
			}),
		},
		Resources: []Resource{
			{URI: "callbook://guide", Name: "guide", Type: "text/markdown", Read: func(context.Context, string) ([]byte, error) { return []byte("# <Guide> & more"), nil }},
			{URI: "callbook://agents/{handle}", Name: "agent", Type: "application/json", Untrusted: true, Read: func(_ context.Context, part string) ([]byte, error) {
				switch part {
				case "nobody":
					return nil, ErrNotFound
				case "fails":
					return nil, errors.New("the disk is gone")
				case "panics":
					panic("a bug")
				}
				return []byte(`{"handle":"` + part + `"}`), nil
			}},
		},
	})
}

// odd is JSON that a library would write in another way.
const odd = `{"z":"<b>&amp;\u003c\u2028` + "\u2028\u2029" + `中","a":[1.0,1e2,{"b":null,"a":false}],"m":"\/"}`

func request(method, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":"a<b","method":"` + method + `","params":` + params + `}`)
}

func (e *Endpoint) asked(t testing.TB, body []byte, header ...string) *Reply {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return e.Serve(t.Context(), h, body)
}

// heard is what a JSON-RPC response holds.
type heard struct {
	ID     string
	Result struct {
		Meta    map[string]any `json:"_meta"`
		Content []struct {
			Type, Text string
		}
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
		Contents   []struct {
			URI, MIMEType, Text string
			Meta                map[string]any `json:"_meta"`
		}
	}
	Error *struct {
		Code    int
		Message string
		Data    map[string]any
	}
}

func (r *Reply) read(t testing.TB) (h heard) {
	t.Helper()
	if err := json.Unmarshal(r.Body, &h); err != nil {
		t.Fatalf("%v: %d %s", err, r.Status, r.Body)
	}
	return h
}

func TestAnswersPassUnchanged(t *testing.T) {
	e := newEndpoint()
	for _, name := range []string{"plain", "agents"} {
		reply := e.asked(t, request("tools/call", `{"name":"`+name+`"}`))
		got := reply.read(t)
		if reply.Status != 200 || reply.Type != "application/json" || got.ID != "a<b" || got.Result.IsError {
			t.Errorf("%s: %d %s %s", name, reply.Status, reply.Type, reply.Body)
		}
		if !bytes.Contains(reply.Body, []byte(`"structuredContent":`+odd)) {
			t.Errorf("%s: the structured answer is another: %s", name, reply.Body)
		}
		if !json.Valid(reply.Body) {
			t.Errorf("%s: no JSON: %s", name, reply.Body)
		}
		text := got.Result.Content[0].Text
		if name == "plain" && (text != odd || got.Result.Meta != nil) {
			t.Errorf("text %q, _meta %v", text, got.Result.Meta)
		}
		if name == "agents" && (!strings.Contains(text, "\n"+odd+"\n") || got.Result.Meta["callbook/untrustedContent"] != true) {
			t.Errorf("text %q, _meta %v", text, got.Result.Meta)
		}
	}
	if got := e.asked(t, request("tools/call", `{"name":"worded"}`)).read(t); got.Result.Content[0].Text != "Words." || string(got.Result.Structured) != `{"a":1}` {
		t.Errorf("%+v", got)
	}
	got := e.asked(t, request("tools/call", `{"name":"refuses"}`))
	if h := got.read(t); !h.Result.IsError || h.Result.Content[0].Text != `{"error":{}}` || string(h.Result.Structured) != `{"error":{}}` || h.Result.Meta != nil || got.Code != "not_found" {
		t.Errorf("%+v", h)
	}
}

func TestArgumentsPassUnchanged(t *testing.T) {
	e := newEndpoint()
	for _, arguments := range []string{odd, "{}", ` { "a" : 1.50 , "b" : "\u003c" } `} {
		want := strings.TrimSpace(arguments)
		got := e.asked(t, request("tools/call", `{"name":"repeats","arguments":`+arguments+`}`)).read(t)
		if got.Result.Content[0].Text != want || string(got.Result.Structured) != fmt.Sprintf(`{"length":%d}`, len(want)) {
			t.Errorf("%q came as %+v", arguments, got)
		}
	}
	for _, params := range []string{`{"name":"repeats"}`, `{"name":"repeats","arguments":null}`} {
		if got := e.asked(t, request("tools/call", params)).read(t); string(got.Result.Structured) != `{"length":0}` {
			t.Errorf("%s: %+v", params, got)
		}
	}
}

func TestTheFence(t *testing.T) {
	line := regexp.MustCompile(`^data-[A-Z2-7]{26}$`)
	lines := map[string]bool{}
	for range 1000 {
		got := strings.Split(string(fence([]string{"Notice.", "提示。"}, []byte(odd))), "\n")
		if len(got) != 6 || got[0] != "Notice." || got[1] != "提示。" || got[2] != fenceLine || got[4] != odd || got[3] != got[5] || !line.MatchString(got[3]) {
			t.Fatalf("%q", got)
		}
		lines[got[3]] = true
	}
	if len(lines) != 1000 {
		t.Errorf("%d different lines for 1000 answers", len(lines))
	}
}

func TestResources(t *testing.T) {
	e := newEndpoint()
	read := func(uri string) []byte {
		text, _ := json.Marshal(uri)
		return request("resources/read", `{"uri":`+string(text)+`}`)
	}
	for uri, want := range map[string]string{"callbook://guide": "# <Guide> & more", "callbook://agents/tide-gauge": `{"handle":"tide-gauge"}`} {
		got := e.asked(t, read(uri)).read(t).Result.Contents
		if len(got) != 1 || got[0].URI != uri || got[0].Text != want || (got[0].Meta != nil) != strings.Contains(uri, "agents") {
			t.Errorf("%s: %+v", uri, got)
		}
	}
	for _, uri := range []string{
		"callbook://agents/nobody", "callbook://agents/", "callbook://agents", "callbook://nothing", "callbook://guide/", "file:///etc/passwd", "http://127.0.0.1/", "",
		"callbook://agents/a\x7f", "callbook://agents/\u0001", "callbook://\x00\u2028\U000e0041", "callbook://agents/a/b", "callbook://agents/../guide", strings.Repeat("x", 60000),
	} {
		reply := e.asked(t, read(uri))
		if got := reply.read(t); reply.Status != 200 || got.Error == nil || got.Error.Code != -32002 || got.Error.Data["code"] != "not_found" {
			t.Errorf("%.40q: %d %s", uri, reply.Status, reply.Body)
		}
		reply = e.asked(t, []byte(strings.Replace(string(read(uri)), `"uri"`, meta+`,"uri"`, 1)), versionHeader, modern, methodHeader, "resources/read", nameHeader, uri)
		if got := reply.read(t); reply.Status != 400 || got.Error == nil || got.Error.Code != -32602 && got.Error.Code != -32020 {
			t.Errorf("%.40q: %d %s", uri, reply.Status, reply.Body)
		}
	}
}

// meta is what a modern request has to hold.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// TestFaultsRepeatNothing: whatever is wrong, the answer has none of the caller's
// words but the id.
func TestFaultsRepeatNothing(t *testing.T) {
	const word = "IGNORE_PREVIOUS_zq7"
	modernHeader := []string{versionHeader, modern, methodHeader, "tools/call", nameHeader, word}
	tests := []struct {
		name   string
		body   []byte
		header []string
		status int
		code   int
	}{
		{"an unknown method", request(word, "{}"), nil, 200, -32601},
		{"a method that is not served", request("prompts/get", `{"name":"`+word+`"}`), nil, 200, -32601},
		{"a method of the SDK's", request("logging/setLevel", `{"level":"`+word+`"}`), nil, 200, -32601},
		{"a notification with an id", request("notifications/"+word, "{}"), nil, 200, -32601},
		{"an unknown tool", request("tools/call", `{"name":"`+word+`"}`), nil, 200, -32602},
		{"a tool that is no text", request("tools/call", `{"name":["`+word+`"]}`), nil, 200, -32602},
		{"no tool", request("tools/call", `{"x":"`+word+`"}`), nil, 200, -32602},
		{"no params", []byte(`{"jsonrpc":"2.0","id":"a<b","method":"tools/call"}`), nil, 200, -32602},
		{"arguments in a list", request("tools/call", `{"name":"plain","arguments":["`+word+`"]}`), nil, 200, -32602},
		{"arguments as text", request("tools/call", `{"name":"plain","arguments":"`+word+`"}`), nil, 200, -32602},
		{"inputs that nobody asked for", request("tools/call", `{"name":"plain","inputResponses":{"a":{"`+word+`":1}}}`), nil, 200, -32602},
		{"initialize with a list", request("initialize", `{"protocolVersion":["`+word+`"]}`), nil, 200, -32602},
		{"a wrong cursor", request("tools/list", `{"cursor":"`+word+`"}`), nil, 200, -32602},
		{"a uri that is none", request("resources/read", `{"uri":{"`+word+`":1}}`), nil, 200, -32602},
		{"an unknown version", request("tools/list", "{}"), []string{versionHeader, word}, 400, -32022},
		{"a version of the future", request("tools/list", "{}"), []string{versionHeader, "2999-01-01"}, 400, -32022},
		{"a version of the past", request("tools/list", "{}"), []string{versionHeader, "2024-10-07"}, 400, -32022},
		{"a modern tool that is unknown", request("tools/call", `{"name":"`+word+`",`+meta+`}`), modernHeader, 400, -32602},
		{"a modern method that is unknown", request(word, `{`+meta+`}`), []string{versionHeader, modern, methodHeader, word}, 404, -32601},
		{"a method that was dropped", request("initialize", `{`+meta+`,"protocolVersion":"2026-07-28","capabilities":{}}`), []string{versionHeader, modern, methodHeader, "initialize"}, 404, -32601},
		{"a method that came later", request("subscriptions/listen", `{"notifications":{}}`), []string{versionHeader, "2025-11-25"}, 200, -32601},
		{"another name in the header", request("tools/call", `{"name":"plain",`+meta+`}`), modernHeader, 400, -32020},
		{"another method in the header", request("tools/list", `{`+meta+`}`), modernHeader, 400, -32020},
		{"no method in the header", request("tools/list", `{`+meta+`}`), []string{versionHeader, modern}, 400, -32020},
		{"no version in the header", request("tools/list", `{`+meta+`}`), nil, 400, -32020},
		{"another version in the body", request("tools/list", `{`+strings.Replace(meta, modern, word, 1)+`}`), []string{versionHeader, modern, methodHeader, "tools/list"}, 400, -32020},
		{"no version in the body", request("tools/list", `{}`), []string{versionHeader, modern, methodHeader, "tools/list"}, 400, -32602},
		{"no capabilities in the body", request("tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":"`+word+`"}}`), []string{versionHeader, modern, methodHeader, "tools/list"}, 400, -32602},
	}
	e := newEndpoint()
	for _, tt := range tests {
		reply := e.asked(t, tt.body, tt.header...)
		got := reply.read(t)
		if reply.Err != nil || got.Error == nil || reply.Status != tt.status || got.Error.Code != tt.code || got.ID != "a<b" {
			t.Errorf("%s: %d %s, %v", tt.name, reply.Status, reply.Body, reply.Err)
			continue
		}
		if bytes.Contains(bytes.ToLower(reply.Body), []byte(strings.ToLower(word))) {
			t.Errorf("%s: the answer repeats what was sent: %s", tt.name, reply.Body)
		}
		if tt.code == -32022 {
			if len(got.Error.Data["supported"].([]any)) != len(sdk.SupportedProtocolVersions()) {
				t.Errorf("%s: %s", tt.name, reply.Body)
			}
			continue
		}
		zh, _ := got.Error.Data["message_zh"].(string)
		if got.Error.Data["message_en"] != got.Error.Message || !strings.ContainsFunc(zh, func(c rune) bool { return unicode.Is(unicode.Han, c) }) {
			t.Errorf("%s: not in both languages: %s", tt.name, reply.Body)
		}
	}
	for _, body := range []string{"{" + word, "[" + word, `"` + word + `"`, `{"jsonrpc":"` + word + `"}`} {
		if reply := e.asked(t, []byte(body)); reply.Status != 400 || strings.Contains(string(reply.Body), word) || strings.Contains(string(reply.Body), `"id"`) {
			t.Errorf("%s: %d %s", body, reply.Status, reply.Body)
		}
	}
}

func TestNotificationsHaveNoAnswer(t *testing.T) {
	e := newEndpoint()
	for _, method := range []string{"initialized", "cancelled", "progress", "roots/list_changed", "anything"} {
		for _, version := range append(sdk.SupportedProtocolVersions(), "") {
			reply := e.Serve(t.Context(), http.Header{versionHeader: {version}}, []byte(`{"jsonrpc":"2.0","method":"notifications/`+method+`"}`))
			if reply.Status != 202 || reply.Type != "" || reply.Body != nil || reply.Err != nil {
				t.Errorf("%s in %s: %+v", method, version, reply)
			}
		}
	}
}

// TestASubscriptionEndsAtOnce: nothing that could be subscribed to ever changes.
func TestASubscriptionEndsAtOnce(t *testing.T) {
	reply := newEndpoint().asked(t,
		request("subscriptions/listen", `{`+meta+`,"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["callbook://guide"]}}`),
		versionHeader, modern, methodHeader, "subscriptions/listen")
	body := string(reply.Body)
	if reply.Status != 200 || reply.Type != "text/event-stream" || !strings.Contains(body, `"notifications":{}`) || !strings.Contains(body, `"resultType":"complete"`) {
		t.Errorf("%d %s %s", reply.Status, reply.Type, body)
	}
}

func TestFaultsOfTheServer(t *testing.T) {
	e := newEndpoint()
	for name, body := range map[string][]byte{
		"the disk is gone": request("tools/call", `{"name":"fails"}`), "panic: a bug": request("tools/call", `{"name":"panics"}`),
		"the disk is gone ": request("resources/read", `{"uri":"callbook://agents/fails"}`), "panic: a bug\n": request("resources/read", `{"uri":"callbook://agents/panics"}`),
	} {
		reply := e.asked(t, body)
		if reply.Err == nil || !strings.Contains(reply.Err.Error(), strings.TrimSpace(name)) || errors.Is(reply.Err, ErrBusy) {
			t.Fatalf("%s: %+v", body, reply)
		}
		if strings.HasPrefix(name, "panic") && !strings.Contains(reply.Err.Error(), "endpoint_test.go") {
			t.Errorf("the error does not say where: %v", reply.Err)
		}
		reply.Fail(500, []byte(`{"code":"internal"}`))
		got := reply.read(t)
		if reply.Status != 500 || got.ID != "a<b" || got.Error.Code != -32603 || got.Error.Data["code"] != "internal" || bytes.Contains(reply.Body, []byte("disk")) || bytes.Contains(reply.Body, []byte("bug")) {
			t.Errorf("%d %s", reply.Status, reply.Body)
		}
	}
}

// TestAToolEndsWithItsCall: with the time that a call may take, and with its
// caller.
func TestAToolEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint()
		if reply := e.asked(t, request("tools/call", `{"name":"waits"}`)); !errors.Is(reply.Err, ErrBusy) {
			t.Errorf("%+v", reply)
		}
		ctx, gone := context.WithCancel(t.Context())
		gone()
		if reply := e.Serve(ctx, nil, request("tools/call", `{"name":"waits"}`)); !errors.Is(reply.Err, ErrBusy) {
			t.Errorf("%+v", reply)
		}
		if len(e.places) > 0 || len(e.queue) > 0 {
			t.Errorf("%d places and %d of the queue are still taken", len(e.places), len(e.queue))
		}
	})
}

func TestOnlySoManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint()
		var all sync.WaitGroup
		var mu sync.Mutex
		ended := map[string]int{}
		most := cap(e.places) + cap(e.queue)
		for range most + 5 {
			all.Go(func() {
				reply := e.asked(t, request("tools/call", `{"name":"waits"}`))
				mu.Lock()
				defer mu.Unlock()
				ended[fmt.Sprint(errors.Is(reply.Err, ErrBusy))]++
			})
		}
		synctest.Wait()
		mu.Lock()
		if len(e.places) != cap(e.places) || len(e.queue) != cap(e.queue) || ended["true"] != 5 {
			t.Errorf("%d run, %d wait, %v", len(e.places), len(e.queue), ended)
		}
		mu.Unlock()
		// What needs no place is answered meanwhile.
		if reply := e.asked(t, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); reply.Status != 202 {
			t.Errorf("%+v", reply)
		}
		all.Wait()
		if ended["true"] != most+5 || len(e.places)+len(e.queue) != 0 {
			t.Errorf("%v, %d run, %d wait", ended, len(e.places), len(e.queue))
		}
		if reply := e.asked(t, request("tools/call", `{"name":"plain"}`)); reply.Status != 200 {
			t.Errorf("%+v", reply)
		}
	})
}

// TestNothingIsKept: any number of clients that begin and never end leave nothing
// behind.
func TestNothingIsKept(t *testing.T) {
	calls := 20_000
	if info, _ := debug.ReadBuildInfo(); slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		calls = 1000 // the race detector takes its time
	}
	e := newEndpoint()
	body := request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`)
	begin := func(n int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range n / 4 {
					if reply := e.Serve(t.Context(), nil, body); reply.Status != 200 {
						t.Errorf("%+v", reply)
						return
					}
				}
			})
		}
		all.Wait()
	}
	held := func() (goroutines, bytes int) {
		var m runtime.MemStats
		for range 2 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), int(m.HeapAlloc)
	}
	begin(400)
	goroutines, heap := held()
	begin(calls)
	after, grown := held()
	if after > goroutines+4 || grown > heap+1<<20 {
		t.Errorf("%d calls: from %d to %d goroutines, from %d to %d KiB", calls, goroutines, after, heap>>10, grown>>10)
	}
}
