package mcp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessagesAreReadStrictly(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	deep := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, n-1) + "1" + strings.Repeat("}", n-1) + "}"
	}
	tests := []struct {
		name, body string
		fault      *fault
		id         string
	}{
		{"a request", call, nil, "1"},
		{"a text as id", `{"jsonrpc":"2.0","id":"a <b>","method":"ping"}`, nil, `"a <b>"`},
		{"an empty id", `{"jsonrpc":"2.0","id":"","method":"ping"}`, nil, `""`},
		{"15 digits", `{"jsonrpc":"2.0","id":-123456789012345,"method":"ping"}`, nil, "-123456789012345"},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, ""},
		{"other members", `{"jsonrpc":"2.0","id":1,"method":"ping","more":[{}]}`, nil, "1"},
		{"white space around", "\r\n\t " + call + " \n", nil, "1"},
		{"32 levels", deep(32), nil, "1"},

		{"nothing", "", notJSON, ""},
		{"words", "initialize", notJSON, ""},
		{"half of it", call[:len(call)-2], notJSON, ""},
		{"a byte order mark", "\ufeff" + call, notJSON, ""},
		{"data behind it", call + call, notJSON, ""},
		{"a bracket behind it", call + "}", notJSON, ""},
		{"a key twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, notJSON, ""},
		{"a key twice, escaped", `{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`, notJSON, ""},
		{"a key twice inside", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}`, notJSON, ""},
		{"invalid UTF-8", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + "\xff" + `"}}`, notJSON, ""},
		{"half a surrogate pair", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}`, notJSON, ""},
		{"NUL", "{\x00}", notJSON, ""},
		{"a comment", `{"jsonrpc":"2.0",/**/"id":1,"method":"ping"}`, notJSON, ""},
		{"33 levels", deep(33), notJSON, ""},
		{"very many levels", deep(10000), notJSON, ""},
		{"levels in a text", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat(`[\"{`, 100) + `"}}`, nil, "1"},

		{"a batch", "[" + call + "]", batch, ""},
		{"an empty batch", "[]", batch, ""},
		{"a text", `"ping"`, notMessage, ""},
		{"null", "null", notMessage, ""},
		{"an empty object", "{}", notMessage, ""},
		{"no version", `{"id":1,"method":"ping"}`, notMessage, "1"},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, notMessage, "1"},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, notMessage, "1"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, notMessage, "1"},
		{"an empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, notMessage, "1"},
		{"a method that is no text", `{"jsonrpc":"2.0","id":1,"method":["ping"]}`, notMessage, "1"},
		{"keys in another case", `{"JSONRPC":"2.0","ID":1,"Method":"ping"}`, notMessage, ""},
		{"a response", `{"jsonrpc":"2.0","id":1,"result":{}}`, notMessage, "1"},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}`, notMessage, "1"},
		{"a request without id", `{"jsonrpc":"2.0","method":"tools/list"}`, notMessage, ""},
		{"null as id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, notMessage, ""},
		{"true as id", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, notMessage, ""},
		{"a fraction as id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, notMessage, ""},
		{"an exponent in the id", `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, notMessage, ""},
		{"a minus nothing as id", `{"jsonrpc":"2.0","id":-0,"method":"ping"}`, notMessage, ""},
		{"16 digits", `{"jsonrpc":"2.0","id":1234567890123456,"method":"ping"}`, notMessage, ""},
		{"a list as id", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, notMessage, ""},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, notMessage, ""},
		{"params in a list", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, badParams, "1"},
		{"params as null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, badParams, "1"},
	}
	for _, tt := range tests {
		m, fault := readMessage([]byte(tt.body))
		if fault != tt.fault || string(m.id) != tt.id {
			t.Errorf("%s: %+v, id %q", tt.name, fault, m.id)
		}
	}
}

// TestProtocolHeaders: the SDK sees the protocol's headers and no others.
func TestProtocolHeaders(t *testing.T) {
	own := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	with := func(pairs ...string) http.Header {
		h := own.Clone()
		for i := 0; i < len(pairs); i += 2 {
			h[pairs[i]] = []string{pairs[i+1]}
		}
		return h
	}
	tests := []struct {
		name  string
		given http.Header
		want  http.Header
		fault *fault
	}{
		{"none", nil, own, nil},
		{"all", http.Header{
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"get_agent"}, "Mcp-Session-Id": {"s"}, "Last-Event-Id": {"1"},
			"Authorization": {"Bearer cq_x"}, "Cookie": {"a=b"}, "Accept": {"text/html"}, "Content-Type": {"text/plain"}, "Mcp-Param-Q": {"x"}, "X-Forwarded-For": {"1.2.3.4"},
		}, with("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "get_agent"), nil},
		{"an encoded name", http.Header{"Mcp-Name": {"=?base64?5YWl6Zeo?="}}, with("Mcp-Name", "入门"), nil},
		{"a name that is wrongly encoded", http.Header{"Mcp-Name": {"=?base64?***?="}}, nil, headerMismatch},
		{"a name that is half encoded", http.Header{"Mcp-Name": {"=?base64?5YWl6Zeo"}}, nil, headerMismatch},
		{"a version twice", http.Header{"Mcp-Protocol-Version": {"2026-07-28", "2026-07-28"}}, nil, headerMismatch},
		{"a method twice", http.Header{"Mcp-Method": {"a", "b"}}, nil, headerMismatch},
	}
	for _, tt := range tests {
		got, _, fault := protocolHeader(tt.given)
		if fault != tt.fault {
			t.Errorf("%s: %+v", tt.name, fault)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got): %s", tt.name, diff)
		}
	}
}
