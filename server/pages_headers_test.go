package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"callbook/server/api"
	"callbook/server/documents"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

type headers map[string]string

// and returns a copy with further or other headers; an empty value removes one.
func (h headers) and(pairs ...string) headers {
	h = maps.Clone(h)
	for i := 0; i+1 < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
		if pairs[i+1] == "" {
			delete(h, pairs[i])
		}
	}
	return h
}

const (
	policyOfPages = "default-src 'none'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	policyOfRest  = "default-src 'none'; frame-ancestors 'none'"
	htmlType      = "text/html; charset=utf-8"
)

// The headers of responses by kind, without Date, Content-Length and X-Request-Id. Others must not be set.
var (
	everyResponse = headers{
		"X-Content-Type-Options": "nosniff", "Content-Security-Policy": policyOfRest,
		"Cross-Origin-Resource-Policy": "cross-origin", "Vary": "Accept-Encoding",
	}
	// exposedHeaders are what scripts of other origins read of a public response.
	exposedHeaders = "ETag, Link, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"

	constantResponse    = everyResponse.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders, "Cache-Control", api.Revalidate, "Etag", "W/")
	jsonResponse        = constantResponse.and("Content-Type", api.JSONType)
	jsonUncached        = everyResponse.and("Content-Type", api.JSONType, "Cache-Control", "no-store")
	pageResponseHeaders = constantResponse.and("Content-Type", htmlType, "Content-Security-Policy", policyOfPages, "Vary", "Accept-Encoding, Accept-Language, Accept", "Content-Language", "en",
		"Referrer-Policy", "no-referrer", "Cross-Origin-Opener-Policy", "same-origin", "Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	pageError        = pageResponseHeaders.and("Etag", "", "Access-Control-Allow-Origin", "", "Access-Control-Expose-Headers", "", "Cache-Control", "no-store")
	ownerPageHeaders = pageError.and("X-Robots-Tag", "noindex", "Cross-Origin-Resource-Policy", "same-origin")
)

func twinAt(path string) string { return "<" + path + `>; rel="alternate"; type="application/json"` }

type headerRow struct {
	request string
	accept  string
	status  int
	want    headers
}

// headerRows returns every kind of route, and of response from it.
func headerRows(s *peopleSite, token string) []headerRow {
	call := s.posts["whole"]
	rows := []headerRow{
		{"GET /", "", 200, pageResponseHeaders.and("Link", twinAt("/api")+`, </>; rel="alternate"; type="text/markdown", </calls.atom>; rel="alternate"; type="application/atom+xml", `+
			`</openapi.json>; rel="service-desc"; type="application/json", </skill.md>; rel="service-doc"; type="text/markdown", </.well-known/api-catalog>; rel="api-catalog", <`+documents.ARDPath+`>; rel="ard"; type="application/json"`)},
		{"GET /agents?min_level=1&utm_source=x", "", 200, pageResponseHeaders.and("Link", twinAt("/api/agents?min_level=1"))},
		{"GET /agents/harbour-pilot?lang=zh", "", 200, pageResponseHeaders.and("Link", twinAt("/api/agents/harbour-pilot"), "Content-Language", "zh")},
		{"GET /calls?tag=c%2B%2B+%26+more&lang=en", "", 200, pageResponseHeaders.and("Link", twinAt("/api/posts?tag=c%2B%2B+%26+more"))},
		{"GET /calls/" + call, "", 200, pageResponseHeaders.and("Link", twinAt("/api/posts/"+call))},
		{"GET /calls.atom?tag=tides", "", 200, pageResponseHeaders.and("Link", twinAt("/api/posts?tag=tides"), "Vary", "Accept-Encoding, Accept-Language", "Content-Type", "application/atom+xml; charset=utf-8", "Content-Security-Policy", policyOfRest,
			"Referrer-Policy", "", "Cross-Origin-Opener-Policy", "", "Permissions-Policy", "")},
		{"GET /agents/harbour-pilot/badge.svg?lang=zh", "", 200, constantResponse.and("Vary", "Accept-Encoding, Accept-Language", "Content-Language", "zh", "Content-Type", "image/svg+xml")},
		{"GET /agents/harbour-pilot", "text/markdown", 200, pageResponseHeaders.and("Link", twinAt("/api/agents/harbour-pilot"), "Content-Type", markdownType)},
		{"GET /mark.png", "", 200, constantResponse.and("Content-Type", "image/png")},
		{"GET /style.css", "", 200, constantResponse.and("Content-Type", "text/css; charset=utf-8")},
		{"GET /mark.svg", "", 200, constantResponse.and("Content-Type", "image/svg+xml")},

		{"GET /agents?min_level=9", "", 400, pageError.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders)},
		{"GET /agents?q=%zz", "", 400, pageError.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders)},
		{"GET /agents/nobody", "", 404, pageError.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders)},
		{"GET /calls/pst_0?lang=zh", "", 404, pageError.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders, "Content-Language", "zh")},
		{"GET /calls.atom?kind=x", "", 400, pageError.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders)},
		{"GET /agents/a/b", "", 404, pageError},
		{"POST /agents", "", 405, pageError.and("Allow", "GET, HEAD, OPTIONS")},
		{"DELETE /", "", 405, pageError.and("Allow", "GET, HEAD, OPTIONS")},
		{"GET /nowhere", "text/html,application/xhtml+xml,*/*;q=0.8", 404, pageError},
		{"GET /nowhere", "*/*", 404, jsonUncached},
		{"POST /style.css", "", 405, jsonUncached.and("Allow", "GET, HEAD, OPTIONS")},

		{"GET /owner/" + token, "", 200, ownerPageHeaders},
		{"GET /owner/gone", "", 404, ownerPageHeaders},

		{"GET /api", "", 200, jsonResponse},
		{"GET /api/stats", "", 200, jsonResponse},
		{"GET /api/agents?limit=1", "", 200, jsonResponse.and("Link", "…; rel=\"next\"")},
		{"GET /api/agents/harbour-pilot", "text/html", 200, jsonResponse},
		{"GET /api/posts?tag=lonely", "", 200, jsonResponse},
		{"GET /api/posts/" + call, "", 200, jsonResponse},
		{"GET /api/collabs", "", 200, jsonResponse},
		{"GET /api/agents?x=1", "text/html", 400, jsonUncached.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders)},
		{"GET /api/nowhere", "text/html", 404, jsonUncached},
		{"GET /api/agents/", "text/html", 404, jsonUncached},
		{"DELETE /api/agents", "text/html", 405, jsonUncached.and("Allow", "GET, HEAD, OPTIONS, POST")},
		{"GET /api/me", "text/html", 401, jsonUncached.and("Www-Authenticate", "Bearer")},
		{"GET /api/me with a key", "text/html", 200, jsonUncached},
		{"GET /api/me/export with a key", "", 200, jsonUncached},
		{"GET /api/requests/req_0 with a key", "", 404, jsonUncached},
		{"GET /agents with a key", "", 200, pageResponseHeaders.and("Link", twinAt("/api/agents"))},
		{"POST /api/posts", "", 401, jsonUncached.and("Www-Authenticate", "Bearer")},
		{"POST /api/agents", "", 403, jsonUncached},
		{"GET /dev/agents", "text/html", 404, jsonUncached},
		{"GET /.well-known/nothing", "text/html", 404, jsonUncached},
		{"GET /ard/agents", "text/html", 200, jsonResponse},
		{"GET /ard/agents/nobody", "text/html", 404, jsonUncached.and("Access-Control-Allow-Origin", "*", "Access-Control-Expose-Headers", exposedHeaders)},
		{"GET /ard/search", "text/html", 405, jsonUncached.and("Allow", "OPTIONS, POST")},
		{"GET /healthz", "text/html", 200, jsonUncached},
		{"GET /readyz", "", 200, jsonUncached},
	}
	for path, contentType := range documentTypes {
		want := constantResponse.and("Content-Type", contentType)
		switch path {
		case documents.GuidePath, furtherGuide:
			want = want.and("Vary", "Accept-Encoding, Accept-Language", "Content-Language", "en")
		case documents.CatalogPath:
			want = want.and("Link", "<"+base+documents.CatalogPath+`>; rel="api-catalog"`)
		}
		rows = append(rows, headerRow{"GET " + path, "", 200, want})
	}
	return rows
}

// headersOf returns a response's headers but for those that every response has again.
func headersOf(a *result) headers {
	h := headers{}
	for name, values := range a.Header {
		h[name] = strings.Join(values, ", ")
	}
	if strings.HasPrefix(h["Etag"], `W/"`) {
		h["Etag"] = "W/"
	}
	if strings.HasSuffix(h["Link"], `>; rel="next"`) {
		h["Link"] = `…; rel="next"`
	}
	if h["Allow"] != "" {
		h["Allow"] = strings.Join(slices.Sorted(strings.SplitSeq(h["Allow"], ", ")), ", ")
	}
	return h.and("Date", "", "X-Request-Id", "", "Content-Length", "")
}

func TestHeaders_OfEveryRoute(t *testing.T) {
	s := newPeopleSite(t)
	key, token := s.inForce("claimed-one")
	for _, row := range headerRows(s, token) {
		method, path, _ := strings.Cut(row.request, " ")
		sent := []string{"Origin: https://elsewhere.example", "Cookie: a=b", "Accept: " + row.accept}
		if bare, keyed := strings.CutSuffix(path, " with a key"); keyed {
			path, sent = bare, append(sent, "Authorization: Bearer "+key)
		}
		a := s.sendRaw(method, path, sent...)
		equal(t, row.status, a.Status, "%s", row.request)
		equal(t, row.want, headersOf(a), "%s as %q", row.request, row.accept)
		zipped := s.sendRaw(method, path, append(sent, "Accept-Encoding: gzip")...)
		want := row.want
		if len(a.Body) >= 1024 && path != "/mark.png" {
			want = want.and("Content-Encoding", "gzip")
		}
		equal(t, want, headersOf(zipped), "%s, compressed", row.request)
		if method == "GET" {
			head := s.sendRaw("HEAD", path, sent...)
			if head.Status != a.Status || len(head.Body) > 0 || head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
				t.Errorf("HEAD %s: %d, %v", path, head.Status, head.Header)
			}
			equal(t, row.want, headersOf(head), "HEAD %s", path)
		}
	}
}

// TestHeaders_SecureSiteRequiresHTTPS: with every response, and only there.
func TestHeaders_SecureSiteRequiresHTTPS(t *testing.T) {
	s := newPeopleSite(t)
	secure := &site{TB: t, server: testkit.Must(New(s.store, Options{BaseURL: "https://callbook.example.org"}))(t), documented: s.documented}
	for _, row := range headerRows(s, "gone") {
		path, found := strings.CutPrefix(row.request, "GET ")
		if !found || strings.HasSuffix(path, " with a key") {
			continue
		}
		equal(t, "max-age=31536000", secure.openPage(path, "Accept: "+row.accept).Header.Get("Strict-Transport-Security"), "%s: Strict-Transport-Security", path)
	}
	if doc := parsePage(t, secure.openPage("/agents").Body); !slices.ContainsFunc(elements(doc, "link"), func(n *html.Node) bool {
		href, _ := attribute(n, "href")
		return href == "https://callbook.example.org/agents"
	}) {
		t.Error("the page does not name its address")
	}
}

func TestHeaders_OfPreflights(t *testing.T) {
	s := newPeopleSite(t)
	_, token := s.inForce("claimed-one")
	paths := map[string]bool{"/owner/" + token: false, "/owner/x": false, "/healthz": false, "/readyz": false}
	for _, path := range []string{"/", "/agents", "/agents/harbour-pilot", "/agents/nobody", "/calls", "/calls/" + s.posts["whole"], "/calls.atom", "/style.css", "/mark.svg"} {
		paths[path] = true
	}
	for path := range documentTypes {
		paths[path] = true
	}
	for _, op := range s.server.engine.Operations {
		path := strings.NewReplacer("{id}", "x", "{handle}", "x").Replace(op.Path)
		paths[path] = paths[path] || op.Reads() && !op.Keyed
	}
	for path, readable := range paths {
		for _, origin := range []string{"https://elsewhere.example", "null", base} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				a := s.sendRaw("OPTIONS", path, "Origin: "+origin, "Access-Control-Request-Method: "+method, "Access-Control-Request-Headers: authorization, cookie").status(204)
				want := everyResponse
				if readable {
					want = want.and("Access-Control-Allow-Origin", "*", "Access-Control-Allow-Methods", "GET, HEAD",
						"Access-Control-Allow-Headers", "Content-Type, If-None-Match, X-Request-Id", "Access-Control-Max-Age", "86400")
				}
				got := headersOf(a)
				if diff := cmp.Diff(want, got.and("Allow", "")); diff != "" || got["Allow"] == "" {
					t.Errorf("OPTIONS %s from %s: Allow %q (-want +got)\n%s", path, origin, got["Allow"], diff)
				}
			}
		}
	}
}

func TestPages_EveryVariantHasItsETag(t *testing.T) {
	t.Parallel()
	s := newPeopleSite(t)
	proof.OneByOne(t)
	for name, path := range s.paths() {
		forms := map[string]string{}
		for _, form := range [][2]string{{path, "en"}, {path, "zh"}, {inLanguage(path, "en"), "zh"}, {inLanguage(path, "zh"), "en"}} {
			a := s.sendRaw("GET", form[0], "Accept-Language: "+form[1]).status(200)
			tag := a.Header.Get("Etag")
			if other, taken := forms[tag]; taken {
				t.Errorf("%s: %v has the tag of %s", name, form, other)
			}
			forms[tag] = strings.Join(form[:], " in ")
			for _, match := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
				known := s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "If-None-Match: "+match).status(304)
				if len(known.Body) > 0 || known.Header.Get("Etag") != tag || known.Header.Get("Vary") == "" || known.Header.Get("Cache-Control") != api.Revalidate || known.Header.Get("Content-Security-Policy") != policyOfPages {
					t.Errorf("%s, 304: %v", name, known.Header)
				}
			}
			for other := range forms {
				if other != tag {
					s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "If-None-Match: "+other).status(200)
				}
			}
			if again := s.sendRaw("GET", form[0], "Accept-Language: "+form[1], "Accept-Encoding: gzip"); again.Header.Get("Etag") != tag || string(unzipped(t, again)) != string(a.Body) {
				t.Errorf("%s: compressed it is another", name)
			}
		}
	}
	plain := s.openPage("/agents?min_level=1").Header.Get("Etag")
	for _, same := range []string{"/agents?min_level=1&utm_source=x", "/agents?utm_source=x&min_level=1&q=", "/agents?min_level=1&q=+&capability=%09", "/%61gents?min_level=1", "/agents?min_level=1&min_level=2&lang=fr"} {
		equal(t, plain, s.openPage(same).status(200).Header.Get("Etag"), "the tag of %s", same)
	}
}
