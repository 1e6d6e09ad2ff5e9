package server

import (
	"fmt"
	"strings"
	"testing"

	"callbook/server/api"
)

// TestErrors_AreBounded: however much is wrong, an answer stays an answer.
func TestErrors_AreBounded(t *testing.T) {
	s := newSite(t)
	var query strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&query, "x%d&", i)
	}
	a := s.call("GET", "/api/agents?"+query.String(), "", nil).status(400)
	if n := len(a.value("error", "details").([]any)); n != api.MaxDetails || len(a.Body) > 256<<10 {
		t.Errorf("%d details, %d bytes", n, len(a.Body))
	}
	arguments := strings.ReplaceAll(strings.TrimSuffix(query.String(), "&"), "&", `":1,"`)
	a = s.call("POST", "/mcp", "", []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_stats","arguments":{"`+arguments+`":1}}}`))
	if a.Status != 400 || len(a.Body) > 4<<10 {
		t.Errorf("%d, %d bytes", a.Status, len(a.Body))
	}
}

func TestPublicReads_AcceptSeveralETagHeaders(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/api", "/agents", "/skill.md"} {
		tag := s.call("GET", path, "", nil).status(200).Header.Get("ETag")
		s.call("GET", path, "", nil, `If-None-Match: "another"`, "If-None-Match: "+tag).status(304)
	}
}
