package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
)

// newPopulatedSite returns a site with an agent, its menu, its call with a reply, a contact
// request to it, and two collaborations that another agent recorded with it: one confirmed, one
// pending.
func newPopulatedSite(t testing.TB, options ...func(*siteOptions)) (s *site, key, post string) {
	t.Helper()
	s = newSite(t, options...)
	key = s.agent("harbour-pilot")
	s.menu(key)
	post = s.post(key, "Tide data wanted")
	reply := s.reply(key, post)
	other := s.verified("tide-gauge")
	s.send("POST", "/api/collabs/"+s.collab(other, "harbour-pilot")+"/confirm", key, nil).status(200)
	s.pathValues = map[string]string{
		"{handle}": "harbour-pilot", "/api/posts": post, "/api/replies": reply,
		"/api/requests": s.request(other, "harbour-pilot"), "/api/collabs": s.collab(other, "harbour-pilot"),
	}
	return s, key, post
}

// sendRaw sends a request and returns the response as received, neither decompressed nor compared
// with the document.
func (s *site) sendRaw(method, path string, headers ...string) *result {
	s.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Accept-Encoding" {
			r.Header.Del(name)
		}
		r.Header.Add(name, value)
	}
	response, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return &result{TB: s.TB, Status: response.StatusCode, Header: response.Header, Body: body}
}

// publicReads returns the addresses of all public GETs, the documents among them.
func (s *site) publicReads() []string {
	paths := append(slices.Collect(maps.Keys(documentTypes)), "/")
	for _, op := range s.server.engine.Operations {
		if op.Reads() && !op.Keyed {
			paths = append(paths, s.pathOf(op))
		}
	}
	return paths
}

func TestKeys_InvalidAreRejected(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	rotated := s.agent("rotated")
	s.send("POST", "/api/me/rotate-key", rotated, nil).status(200)
	deleted := s.agent("deleted")
	s.send("DELETE", "/api/me?confirm=deleted", deleted, nil).status(204)
	unknown := newSite(t).agent("elsewhere")
	tests := []struct {
		name    string
		query   string
		headers []string
	}{
		{"no key", "", nil},
		{"empty header", "", []string{"Authorization: "}},
		{"scheme without a key", "", []string{"Authorization: Bearer"}},
		{"malformed key", "", []string{"Authorization: Bearer cq_short"}},
		{"mistyped key", "", []string{"Authorization: Bearer " + key[:len(key)-1] + "!"}},
		{"unknown key", "", []string{"Authorization: Bearer " + unknown}},
		{"rotated-away key", "", []string{"Authorization: Bearer " + rotated}},
		{"deleted agent's key", "", []string{"Authorization: Bearer " + deleted}},
		{"two headers", "", []string{"Authorization: Bearer " + key, "Authorization: Bearer " + key}},
		{"two keys in one header", "", []string{"Authorization: Bearer " + key + ", Bearer " + key}},
		{"Basic", "", []string{"Authorization: Basic " + key}},
		{"key without a scheme", "", []string{"Authorization: " + key}},
		{"key in a cookie", "", []string{"Cookie: api_key=" + key + "; Authorization=Bearer " + key}},
		{"key in the query", "?api_key=" + key + "&access_token=" + key, nil},
		{"key in another header", "", []string{"X-Api-Key: " + key}},
	}
	var first []byte
	for _, op := range s.server.engine.Operations {
		if !op.Keyed {
			continue
		}
		for _, tt := range tests {
			a := s.send(op.Method, s.pathOf(op)+tt.query, "", nil, tt.headers...)
			if a.Status != 401 || a.text("error", "code") != "unauthorized" {
				t.Errorf("%s, %s: %d %s", op.ID, tt.name, a.Status, a.Body)
			}
			if got := a.Header.Values("WWW-Authenticate"); !slices.Equal(got, []string{"Bearer"}) {
				t.Errorf("%s, %s: WWW-Authenticate %q", op.ID, tt.name, got)
			}
			if first == nil {
				first = a.Body
			}
			if !bytes.Equal(a.Body, first) {
				t.Errorf("%s, %s: the body tells the reason: %s", op.ID, tt.name, a.Body)
			}
		}
	}
}

func TestKeys_SchemeIgnoresCase(t *testing.T) {
	for _, scheme := range []string{"bearer", "BEARER", "Bearer", "Bearer  "} {
		s, key, _ := newPopulatedSite(t)
		for _, op := range s.server.engine.Operations {
			if !op.Keyed {
				continue
			}
			a := s.send(op.Method, s.pathOf(op), "", nil, "Authorization: "+scheme+" "+key)
			if a.Status == 401 {
				t.Errorf("%s refuses the scheme %q", op.ID, scheme)
			}
			if a.Status == 200 && op.ID == "rotateKey" {
				key = a.text("api_key")
			}
		}
	}
}

func TestKeys_AreIgnoredByPublicOperations(t *testing.T) {
	s, key, post := newPopulatedSite(t)
	headers := [][]string{
		{"Authorization: Bearer " + key},
		{"Authorization: Bearer cq_wrong"},
		{"Authorization: Basic %%%"},
		{"Authorization: "},
		{"Authorization: Bearer " + key, "Authorization: Bearer " + key},
	}
	for _, path := range s.publicReads() {
		plain := s.send("GET", path, "", nil).status(200)
		for _, h := range headers {
			a := s.send("GET", path, "", nil, h...)
			if a.Status != 200 || !bytes.Equal(a.Body, plain.Body) || a.Header.Get("ETag") != plain.Header.Get("ETag") {
				t.Errorf("GET %s with %q: %d %s %s", path, h, a.Status, a.Header.Get("ETag"), a.Body)
			}
		}
	}
	for i, h := range headers {
		s.send("POST", "/api/agents", "", registrationOf(fmt.Sprintf("agent-%d", i)), h...).status(201)
		s.send("POST", "/api/posts/"+post+"/report", "", nil, h...).status(202)
	}
}

func TestMethods_OthersAreRejected(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	allowed := map[string][]string{}
	for _, op := range s.server.engine.Operations {
		path := s.pathOf(op)
		allowed[path] = append(allowed[path], op.Method)
		if op.Reads() {
			allowed[path] = append(allowed[path], "HEAD")
		}
	}
	for path, methods := range allowed {
		want := slices.Sorted(slices.Values(append(methods, "OPTIONS")))
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW", "get"} {
			if slices.Contains(methods, method) {
				continue
			}
			a := s.send(method, path, key, nil).status(405)
			if method != "HEAD" {
				a.rejected(405, "method_not_allowed")
			}
			if got := slices.Sorted(strings.SplitSeq(a.Header.Get("Allow"), ", ")); !slices.Equal(got, want) {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got, want)
			}
		}
	}
}

func TestPaths_OnlyExactOnesAreServed(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	for _, op := range s.server.engine.Operations {
		path := s.pathOf(op)
		for _, other := range []string{
			path + "/", "/" + path, "//" + path, strings.Replace(path, "/api", "/API", 1),
			strings.Replace(path, "/api", "/api/", 1) + "/", "/x/.." + path, path + "/../x", path + "%2f", path + "%00",
			path + ".json", "/api" + path,
		} {
			a := s.send(op.Method, other, key, nil)
			if a.Status != 404 || op.Method != "HEAD" && a.text("error", "code") != "not_found" {
				t.Errorf("%s %s: %d %s", op.Method, other, a.Status, a.Body)
			}
			if a.Header.Get("Content-Type") != api.JSONType || a.Header.Get("Location") != "" {
				t.Errorf("%s %s: %v", op.Method, other, a.Header)
			}
		}
	}
}

func TestIndex_ListsEveryOperation(t *testing.T) {
	s := newSite(t)
	var index Index
	s.send("GET", "/api", "", nil).status(200).into(&index)
	var want []string
	for _, op := range s.server.engine.Operations {
		access := " (none)"
		if op.Keyed {
			access = " (bearer)"
		}
		want = append(want, op.Method+" "+op.Path+access)
	}
	if diff := cmp.Diff(want, index.Endpoints); diff != "" {
		t.Errorf("endpoints (-list +index):\n%s", diff)
	}
}

func TestCORS_AllowsPublicReadsOnly(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	const origin = "Origin: https://elsewhere.example.org"
	for _, op := range s.server.engine.Operations {
		a := s.send(op.Method, s.pathOf(op), key, nil, origin)
		want := ""
		if op.Reads() && !op.Keyed {
			want = "*"
		}
		if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: Access-Control-Allow-Origin %q, want %q", op.ID, got, want)
		}
		if a.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s allows credentials", op.ID)
		}
		if op.ID == "rotateKey" && a.Status == 200 {
			key = a.text("api_key")
		}
	}
	s.send("OPTIONS", "/api/nowhere", "", nil, origin).rejected(404, "not_found")
}

func TestRequestID_IsKeptIfWellFormed(t *testing.T) {
	s := newSite(t)
	for given, kept := range map[string]bool{
		"abc-DEF_1.2": true, strings.Repeat("a", 64): true, "7": true,
		"": false, strings.Repeat("a", 65): false, "a b": false, `a"b`: false, "é": false, "a,b": false, "a/b": false, "{}": false, "a\tb": false,
	} {
		for _, path := range []string{"/api", "/api/nowhere", "/api/me", "/healthz"} {
			got := s.send("GET", path, "", nil, "X-Request-Id: "+given).Header.Get("X-Request-Id")
			if got == "" || (got == given) != kept {
				t.Errorf("%s: request id %q gives %q", path, given, got)
			}
		}
	}
}

func TestCreation_RespondsWithLocation(t *testing.T) {
	s, key, _ := newPopulatedSite(t)
	bodies := map[string]any{
		"registerAgent": registrationOf("new-agent"),
		"createPost":    json.RawMessage(`{"kind":"announce","title":"A call","body":"Its body."}`),
		"createReply":   json.RawMessage(`{"body":"A reply."}`),
		"sendRequest":   s.requestTo("harbour-pilot"),
		"recordCollab":  json.RawMessage(`{"partner":"tide-gauge","summary":"Work."}`),
	}
	callers := map[string]string{"sendRequest": s.verified("sender")}
	for _, op := range s.server.engine.Operations {
		if op.Status != 201 {
			continue
		}
		body, ok := bodies[op.ID]
		if !ok {
			t.Errorf("%s: no body to make something with", op.ID)
			continue
		}
		caller, ok := callers[op.ID]
		if !ok {
			caller = key
		}
		a := s.send(op.Method, s.pathOf(op), caller, body).status(201)
		location, err := url.Parse(a.Header.Get("Location"))
		if err != nil || location.Path == "" || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Location %q, Cache-Control %q", op.ID, a.Header.Get("Location"), a.Header.Get("Cache-Control"))
			continue
		}
		made := made(t, a)
		if shown := s.send("GET", location.Path, caller, nil).status(200); !bytes.Contains(shown.Body, []byte(`"`+made+`"`)) {
			t.Errorf("%s: %s does not show %s: %s", op.ID, location.Path, made, shown.Body)
		}
	}
}

// made returns the id or handle of the record in the response of a creating operation.
func made(t testing.TB, a *result) string {
	t.Helper()
	for name, member := range a.value().(map[string]any) {
		record, _ := member.(map[string]any)
		id, ok := record["id"].(string)
		if name == "agent" {
			id, ok = record["handle"].(string)
		}
		if ok {
			return id
		}
	}
	t.Fatalf("nothing is made: %s", a.Body)
	return ""
}
