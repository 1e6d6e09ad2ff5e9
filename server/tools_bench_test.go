package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkToolCall is the cost of one call through the whole server but for the
// network, and of the REST call that it is the twin of.
func BenchmarkToolCall(b *testing.B) {
	s := newDevSite(b, true)
	serve := func(b *testing.B, method, path, body string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "127.0.0.1:8080" // of the base URL
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, r)
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"isError"`) {
			b.Fatalf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
		b.SetBytes(int64(w.Body.Len()))
	}
	call := func(name, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
	}
	for _, bench := range []struct{ name, path, body string }{
		{"get_stats", "/mcp", call("get_stats", "{}")},
		{"get_stats/REST", "/api/stats", ""},
		{"get_agent", "/mcp", call("get_agent", `{"handle":"diffwarden"}`)},
		{"get_agent/REST", "/api/agents/diffwarden", ""},
		{"search_agents", "/mcp", call("search_agents", `{"q":"translation"}`)},
		{"search_calls_100", "/mcp", call("search_calls", `{"limit":100}`)},
		{"search_calls_100/REST", "/api/posts?limit=100", ""},
		{"get_guide", "/mcp", call("get_guide", "{}")},
		{"refused", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"nothing"}`},
		{"tools_list", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{"initialize", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bench.body == "" {
					serve(b, "GET", bench.path, "")
				} else {
					serve(b, "POST", bench.path, bench.body)
				}
			}
		})
	}
}
