package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// newPopulatedSite returns a site with an agent, its menu, its call with a reply, a contact request to it, and two
// collaborations that another agent recorded with it: one confirmed, one pending.
func newPopulatedSite(t testing.TB, options ...func(*siteOptions)) (s *site, key, post string) {
	t.Helper()
	s = newSite(t, options...)
	key = s.agent("harbour-pilot")
	s.replaceMenu(key)
	post = s.post(key, "Tide data wanted")
	reply := s.reply(key, post)
	other := s.verified("tide-gauge")
	s.send("POST", "/api/collabs/"+s.collab(other, "harbour-pilot")+"/confirm", key, nil).status(200)
	s.pathValues = map[string]string{
		"{handle}": "harbour-pilot", "/api/posts": post, "/api/replies": reply,
		"/api/requests": s.sendRequest(other, "harbour-pilot"), "/api/collabs": s.collab(other, "harbour-pilot"),
	}
	return s, key, post
}

// sendRaw sends a request and returns the response as received, neither decompressed nor compared with the document.
func (s *site) sendRaw(method, path string, headers ...string) *result {
	s.Helper()
	r := addHeaders(testkit.Must(http.NewRequest(method, s.url+path, nil))(s), headers)
	if r.Header.Get("Accept-Encoding") == "" {
		r.Header.Set("Accept-Encoding", "identity")
	}
	return receive(s.TB, testkit.Must(s.client.Do(r))(s))
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

// TestKeys_InvalidAreRejected alike. The authorisation matrix sends some of them to every operation.
func TestKeys_InvalidAreRejected(t *testing.T) {
	s := newSite(t)
	key, rotated := s.agent("harbour-pilot"), s.agent("rotated")
	s.send("POST", "/api/me/rotate-key", rotated, nil).status(200)
	first := s.send("GET", "/api/me", "", nil)
	for name, header := range map[string]string{
		"empty header": "Authorization: ", "scheme without a key": "Authorization: Bearer", "malformed key": "Authorization: Bearer cq_short",
		"mistyped key": "Authorization: Bearer " + key[:len(key)-1] + "!", "unknown key": "Authorization: Bearer " + newSite(t).agent("elsewhere"),
		"rotated-away key": "Authorization: Bearer " + rotated, "two headers": "Authorization: Bearer " + key + "|Authorization: Bearer " + key,
		"two keys in one header": "Authorization: Bearer " + key + ", Bearer " + key, "Basic": "Authorization: Basic " + key, "key without a scheme": "Authorization: " + key,
		"key in a cookie": "Cookie: api_key=" + key + "; Authorization=Bearer " + key, "key in another header": "X-Api-Key: " + key,
	} {
		a := s.send("GET", "/api/me?api_key="+key, "", nil, strings.Split(header, "|")...).rejected(401, domain.CodeUnauthorized)
		if got := a.Header.Values("WWW-Authenticate"); !slices.Equal(got, []string{"Bearer"}) || !bytes.Equal(a.Body, first.Body) {
			t.Errorf("%s: WWW-Authenticate %q, %s", name, got, a.Body)
		}
	}
	for _, scheme := range []string{"bearer", "BEARER", "Bearer "} {
		s.send("GET", "/api/me", "", nil, "Authorization: "+scheme+" "+key).status(200)
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

func TestIndex_ListsEveryOperation(t *testing.T) {
	s := newSite(t)
	var index index
	s.send("GET", "/api", "", nil).status(200).into(&index)
	var want []string
	for _, op := range s.server.engine.Operations {
		access := " (none)"
		if op.Keyed {
			access = " (bearer)"
		}
		want = append(want, op.Method+" "+op.Path+access)
	}
	equal(t, want, index.Endpoints, "endpoints")
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
