package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/server/mcp"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// TestMCP_DescribesItself: the endpoint declares exactly its capabilities.
func TestMCP_DescribesItself(t *testing.T) {
	s := newSite(t)
	a := s.rpc("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "a", "version": "1"}}).status(200)
	if diff := cmp.Diff(map[string]any{
		"tools": map[string]any{}, "resources": map[string]any{}, "prompts": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/skills": map[string]any{}},
	}, a.value("result", "capabilities")); diff != "" {
		t.Errorf("capabilities (-want +got): %s", diff)
	}
	equal(t, map[string]any{"name": "callbook", "title": "Callbook", "version": "test", "websiteUrl": "http://callbook.example.org"}, a.value("result", "serverInfo"), "serverInfo")
	contains(t, "the instructions", a.text("result", "instructions"), "REST API", "get_guide", "untrusted", "change nothing")
	equal(t, "", a.Header.Get("Mcp-Session-Id"), "a session")
}

func TestMCP_ServesResources(t *testing.T) {
	s, _, _ := newPopulatedSite(t)
	read := func(uri string) *result { return s.rpc("resources/read", map[string]any{"uri": uri}) }
	for uri, twin := range map[string]string{
		"skill://callbook/SKILL.md": "/skill.md", "callbook://guide": "/skill.md?lang=en", "callbook://guide/zh": "/skill.md?lang=zh", "callbook://agents/harbour-pilot": "/api/agents/harbour-pilot",
		"callbook://agents/%40harbour-pilot": "/api/agents/harbour-pilot", "callbook://agents/Harbour-Pilot": "/api/agents/harbour-pilot",
	} {
		a, want := read(uri).status(200), s.send("GET", twin, "", nil).status(200)
		if a.text("result", "contents", 0, "text") != string(want.Body) || a.text("result", "contents", 0, "uri") != uri || a.len("result", "contents") != 1 {
			t.Errorf("%s: %s", uri, a.Body)
		}
		if media, _, _ := strings.Cut(want.Header.Get("Content-Type"), ";"); a.text("result", "contents", 0, "mimeType") != media {
			t.Errorf("%s: %s", uri, a.Body)
		}
	}
	for _, uri := range []string{"callbook://agents/nobody-here", "callbook://agents/", "callbook://agents/harbour-pilot/", "callbook://agents/harbour%pilot", "callbook://agents/harbour%2Fpilot", "callbook://guide/fr", "x"} {
		if a := read(uri).status(200); a.value("error", "code") != -32602.0 || bytes.Contains(a.Body, []byte("arbour")) {
			t.Errorf("%s: %s", uri, a.Body)
		}
	}
	if list := s.rpc("resources/list", map[string]any{}); list.len("result", "resources") != 3 {
		t.Errorf("%s", list.Body)
	}
	if list := s.rpc("resources/templates/list", map[string]any{}); list.text("result", "resourceTemplates", 0, "uriTemplate") != "callbook://agents/{handle}" {
		t.Errorf("%s", list.Body)
	}
}

// TestMCP_ServesTheGuideAsASkill: an entry as SEP-2640 requires it, whose digest is that of /skill.md.
func TestMCP_ServesTheGuideAsASkill(t *testing.T) {
	s := newSite(t)
	const uri = "skill://callbook/SKILL.md"
	guide := s.send("GET", "/skill.md", "", nil).status(200).Body
	digest := sha256.Sum256(guide)
	matter := documents.FrontMatter(guide)
	if version := matter["metadata"].(map[string]any)["version"]; matter["license"] != "MIT" || len(matter) != 5 || !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version.(string)) {
		t.Errorf("front matter: %v", matter)
	}
	entry := map[string]any{"uri": uri, "frontmatter": matter, "resources": []any{
		map[string]any{"uri": uri, "digest": "sha256:" + hex.EncodeToString(digest[:]), "size": float64(len(guide))},
	}}
	cached := func(member string, value any) map[string]any {
		return map[string]any{"resultType": "complete", "ttlMs": 300000.0, "cacheScope": "public", member: value}
	}
	for _, tt := range []struct {
		method string
		params map[string]any
		want   map[string]any
	}{
		{"skills/list", nil, cached("skills", []any{entry})},
		{"skills/list", map[string]any{}, cached("skills", []any{entry})},
		{"skills/get", map[string]any{"uri": uri}, cached("skill", entry)},
	} {
		equal(t, tt.want, s.rpc(tt.method, tt.params).status(200).value("result"), "%s %v", tt.method, tt.params)
	}
	for method, params := range map[string]map[string]any{"skills/list": {"cursor": "zq7"}, "skills/get": {"uri": "skill://zq7/SKILL.md"}} {
		a := s.rpc(method, params).status(200)
		if a.value("error", "code") != -32602.0 || a.text("error", "data", "message_zh") == "" || bytes.Contains(a.Body, []byte("zq7")) {
			t.Errorf("%s %v: %s", method, params, a.Body)
		}
	}
}

// TestMCP_SupportsEveryProtocolVersion: the client of the SDK lists and calls the tools in each version.
func TestMCP_SupportsEveryProtocolVersion(t *testing.T) {
	s, _, _ := newPopulatedSite(t)
	want := s.send("GET", "/api/agents/harbour-pilot", "", nil).status(200)
	for _, version := range sdk.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			client := sdk.NewClient(&sdk.Implementation{Name: "a test", Version: "1"}, nil)
			session := testkit.Must(client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url + "/mcp", MaxRetries: -1}, &sdk.ClientSessionOptions{ProtocolVersion: version}))(t)
			defer session.Close()
			equal(t, version, session.InitializeResult().ProtocolVersion, "version")
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 7 {
				t.Fatalf("%v %+v", err, list)
			}
			a, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_agent", Arguments: map[string]any{"handle": "harbour-pilot"}})
			if err != nil || a.IsError {
				t.Fatalf("%v %+v", err, a)
			}
			var card any
			want.into(&card)
			equal(t, card, a.StructuredContent, "the card")
			checkFence(t, a.Content[0].(*sdk.TextContent).Text, string(want.Body))
			if a, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_agent", Arguments: map[string]any{"handle": "nobody"}}); err != nil || !a.IsError {
				t.Errorf("%v %+v", err, a)
			}
			if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), "There is no such tool") {
				t.Errorf("an unknown tool: %v", err)
			}
			guide, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "callbook://guide/zh"})
			if err != nil || guide.Contents[0].Text != string(s.server.guideText("zh")) {
				t.Errorf("%v %+v", err, guide)
			}
			if _, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "callbook://agents/nobody"}); err == nil || !strings.Contains(err.Error(), "There is no such resource") {
				t.Errorf("an unknown resource: %v", err)
			}
		})
	}
}

// TestMCP_ChecksHTTPRequests: requests that are no messages get the errors of the API.
func TestMCP_ChecksHTTPRequests(t *testing.T) {
	s := newSite(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH"} {
		a := s.send(method, "/mcp", "", nil, "Accept: text/html, text/event-stream", "Mcp-Session-Id: x").rejected(405, api.CodeMethodNotAllowed)
		if a.Header.Get("Allow") != "OPTIONS, POST" || a.Header.Get("Content-Type") != api.JSONType {
			t.Errorf("%s: %v", method, a.Header)
		}
	}
	if a := s.send("HEAD", "/mcp", "", nil).status(405); len(a.Body) > 0 || a.Header.Get("Allow") != "OPTIONS, POST" {
		t.Errorf("HEAD: %v", a.Header)
	}
	s.send("POST", "/mcp/", "", ping).rejected(404, domain.CodeNotFound)
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     int
		code       domain.Code
	}{
		{"compressed", ping, []string{"Content-Encoding: gzip"}, 415, api.CodeUnsupportedMediaType},
		{"text", ping, []string{"Content-Type: text/plain"}, 415, api.CodeUnsupportedMediaType},
		{"another character set", ping, []string{"Content-Type: application/json; charset=gbk"}, 415, api.CodeUnsupportedMediaType},
		{"too long", ping + strings.Repeat(" ", api.MaxBody), nil, 413, api.CodeBodyTooLarge},
		{"as long as can be", ping + strings.Repeat(" ", api.MaxBody-len(ping)), nil, 200, ""},
		{"JSON of another kind", ping, []string{"Content-Type: application/vnd.x+json; charset=UTF-8"}, 200, ""},
		{"a key that is none", ping, []string{"Authorization: Bearer cq_nothing"}, 200, ""},
		{"an Accept for something else", ping, []string{"Accept: text/html"}, 200, ""},
		{"a session that is none", ping, []string{"Mcp-Session-Id: nothing", "Last-Event-ID: 7"}, 200, ""},
		{"a foreign origin", ping, []string{"Origin: https://evil.example"}, 403, domain.CodeForbidden},
		{"no origin at all", ping, []string{"Origin: null"}, 403, domain.CodeForbidden},
		{"a page of the site without referrer", ping, []string{"Origin: null", "Sec-Fetch-Site: same-origin"}, 200, ""},
		{"a foreign site", ping, []string{"Sec-Fetch-Site: cross-site"}, 403, domain.CodeForbidden},
		{"the site's own origin", ping, []string{"Origin: http://callbook.example.org"}, 200, ""},
		{"an empty body", "", nil, 400, ""},
	} {
		a := s.send("POST", "/mcp", "", tt.body, tt.headers...)
		if a.Status != tt.status || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Access-Control-Allow-Origin") != "" || a.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: %d %v %s", tt.name, a.Status, a.Header, a.Body)
		}
		if tt.code != "" {
			a.rejected(tt.status, tt.code)
		}
	}
	if log := s.log.String(); strings.Contains(log, "cq_nothing") || strings.Contains(log, "evil.example") {
		t.Errorf("the log repeats headers: %s", log)
	}
}

// TestMCP_ChecksHostAndOrigin: package mcp tests which hosts and origins are allowed.
func TestMCP_ChecksHostAndOrigin(t *testing.T) {
	s := newSite(t)
	s.server.mcp.Gate = testkit.Must(mcp.NewGate("https://directory.example.org", []string{"https://app.example.org"}))(t)
	for host, status := range map[string]int{"": 200, "directory.example.org": 200, "evil.example": 403} {
		a := s.rpc("tools/list", nil, "Host: "+host).status(status)
		if status == 403 && (!strings.Contains(a.text("error", "message_en"), "--base-url") || !strings.Contains(a.text("error", "message_zh"), "--base-url")) {
			t.Errorf("%q: %s", host, a.Body)
		}
	}
	app := "Origin: https://app.example.org"
	for _, a := range []*result{
		s.send("OPTIONS", "/mcp", "", nil, app, "Access-Control-Request-Method: POST").status(204),
		s.rpc("tools/list", nil, app), s.send("POST", "/mcp", "", "x", app), s.send("POST", "/mcp", "", "x", app, plainText),
	} {
		if h := a.Header; h.Get("Access-Control-Allow-Origin") != "https://app.example.org" || !slices.Contains(h.Values("Vary"), "Origin") || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%d %v", a.Status, h)
		}
	}
	if _, err := New(s.store, Options{BaseURL: "http://localhost", MCPOrigins: []string{"nonsense"}}); err == nil || !strings.Contains(err.Error(), "MCP origin") {
		t.Errorf("%v", err)
	}
}

// TestMCP_CountsAsReads: each request counts, whatever its message.
func TestMCP_CountsAsReads(t *testing.T) {
	limit := ratelimit.Limit{Requests: 5, Period: DefaultLimits[limitReads].Period}
	s := newSite(t, withLimits(ratelimit.Limits{limitReads: limit}))
	for i, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_stats"}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "x", "[]",
	} {
		s.send("POST", "/mcp", "", body).counted("reads", limit, 4-i)
	}
	s.send("GET", "/api/stats", "", nil).status(200)
	s.send("POST", "/mcp", "", "x").limited(s, "reads", limit)
	s.send("POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type: text/plain").limited(s, "reads", limit)
	s.send("GET", "/api/stats", "", nil).limited(s, "reads", limit)
}

// TestErrors_HideTheirCause: internal errors are logged, and the client gets fixed texts, by the API and by a tool.
func TestErrors_HideTheirCause(t *testing.T) {
	for _, problem := range []string{"an error", "a panic"} {
		s := newSite(t)
		s.server.engine.Operation("getStats").Run = func(*api.Request) (any, error) {
			if problem == "a panic" {
				panic("zq7secret")
			}
			return nil, errors.New("zq7secret")
		}
		rest := s.sendRaw("GET", "/api/stats").status(500)
		a := s.rpc("tools/call", map[string]any{"name": "get_stats"}).status(200)
		id := a.Header.Get("X-Request-Id")
		if a.value("error", "code") != -32603.0 || a.text("error", "data", "code") != "internal" || a.text("error", "data", "request_id") != id || id == "" || bytes.Contains(append(a.Body, rest.Body...), []byte("zq7secret")) {
			t.Errorf("%s: %s, %s", problem, a.Body, rest.Body)
		}
		if log := s.log.String(); strings.Count(log, "zq7secret") != 2 || strings.Count(log, `"code":"internal"`) != 2 || !strings.Contains(log, `"level":"error"`) || !strings.Contains(log, id) {
			t.Errorf("%s: logged as %s", problem, log)
		}
	}
}

// FuzzMCP: no bytes make the endpoint fail, and every response is whole JSON.
func FuzzMCP(f *testing.F) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, seed := range []string{
		``, `[]`, `{}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":null,"elicitation":{"form":{}}},"clientInfo":{"name":"a","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"Iv-BAwEBCXBhZ2VUb2tlbg=="}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_agents","arguments":{"q":"中","limit":1e0,"offset":null,"verified":true,"view":[]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_call","arguments":{"id":"pst_1","cursor":"x"},"inputResponses":{"a":{"action":"accept"}},"requestState":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_guide","arguments":{"lang":"zh"},"_meta":{"progressToken":1.5}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"callbook://agents/%41{handle}"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_stats",` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x"]},` + meta + `}}`,
	} {
		f.Add([]byte(seed), "", "", "")
		f.Add([]byte(seed), "2026-07-28", "tools/call", "get_stats")
		f.Add([]byte(seed), "2025-06-18", "server/discover", "=?base64?eA==?=")
	}
	s := newDevSite(f, false)
	f.Fuzz(func(t *testing.T, body []byte, version, method, name string) {
		r := httptest.NewRequest("POST", "/mcp", bytes.NewReader(body))
		r.Host = strings.TrimPrefix(s.url, "http://")
		for header, value := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name} {
			if value != "" {
				r.Header[header] = []string{value}
			}
		}
		a := s.handle(r)
		switch media := a.Header.Get("Content-Type"); {
		case !slices.Contains([]int{200, 202, 400, 404, 413}, a.Status):
			t.Errorf("%d %s: %s", a.Status, a.Body, s.log)
		case media == "text/event-stream" && bytes.HasPrefix(a.Body, []byte("event: message\n")):
		case a.Status == 202 && len(a.Body) == 0:
		case !strings.HasPrefix(media, "application/json"), !jsontext.Value(a.Body).IsValid():
			t.Errorf("%d %s %s", a.Status, media, a.Body)
		}
	})
}
