package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"callbook/server/api"
	"callbook/server/middleware"
	"callbook/store"
	"callbook/store/domain"
	"callbook/testdata/proof"
)

// senders are what a browser says of the page that sends a request, and whether it may change something without a key.
var senders = map[string]struct {
	headers []string
	may     bool
}{
	"a program":                       {nil, true},
	"the user":                        {[]string{"Sec-Fetch-Site: none"}, true},
	"the site's own page":             {[]string{"Sec-Fetch-Site: same-origin", "Origin: http://callbook.example.org"}, true},
	"its page in an older browser":    {[]string{"Origin: http://callbook.example.org"}, true},
	"a page of the same domain":       {[]string{"Sec-Fetch-Site: same-site", "Origin: http://other.example.org"}, false},
	"a page elsewhere":                {[]string{"Sec-Fetch-Site: cross-site", "Origin: https://elsewhere.example.net"}, false},
	"a page elsewhere without origin": {[]string{"Sec-Fetch-Site: cross-site"}, false},
	"a sandboxed page":                {[]string{"Sec-Fetch-Site: cross-site", "Origin: null"}, false},
	"an older browser elsewhere":      {[]string{"Origin: https://elsewhere.example.net"}, false},
	"an older sandboxed page":         {[]string{"Origin: null"}, false},
	"an unknown relation":             {[]string{"Sec-Fetch-Site: anywhere"}, false},
}

// TestOrigin_PagesElsewhereChangeNothing sends every write that needs no key as browsers do
// without asking first: with any body, and without a type.
// It holds promise 9 of SECURITY.md.
func TestOrigin_PagesElsewhereChangeNothing(t *testing.T) {
	for name, s := range map[string]*site{"serve": newSite(t), "dev": newDevSite(t, false)} {
		pilot := s.agent("harbour-pilot")
		s.pathValues["/api/posts"], s.pathValues["{handle}"] = s.post(pilot, "A call"), "harbour-pilot"
		before, writes := s.state(), 0
		for _, op := range s.server.engine.Operations {
			if op.Keyed || op.Reads() {
				continue
			}
			writes++
			for sender, tt := range senders {
				if tt.may {
					continue
				}
				for _, body := range []string{"", "{}", `{"handle":"harbour-pilot"}`, string(api.Marshal(registrationOf("new-agent")))} {
					proof.Figure(t, "keyless writes", 1)
					s.send(op.Method, s.pathOf(op), "", body, tt.headers...).rejected(403, domain.CodeForbidden)
				}
				equal(t, before, s.state(), "%s: after %s by %s", name, op.ID, sender)
			}
		}
		if writes < 4 {
			t.Errorf("%s: %d writes need no key", name, writes)
		}
		proof.Figure(t, "kinds", writes)
		own := "http://callbook.example.org"
		if name == "dev" {
			own = s.url
		}
		for sender, tt := range senders {
			if !tt.may {
				continue
			}
			var headers []string
			for _, header := range tt.headers {
				headers = append(headers, strings.Replace(header, "http://callbook.example.org", own, 1))
			}
			if a := s.send("POST", "/api/recover", "", `{"handle":"harbour-pilot"}`, headers...); a.Status != 202 {
				t.Errorf("%s: %s gets %d", name, sender, a.Status)
			}
		}
	}
}

// TestOrigin_ForeignWritesCountAsReads: they must not spend what the visitor may register.
// It holds promise 9 of SECURITY.md.
func TestOrigin_ForeignWritesCountAsReads(t *testing.T) {
	s := newSite(t, withLimits(DefaultLimits))
	for range 2 * DefaultLimits[limitRegistrations].Requests {
		s.send("POST", "/api/agents", "", "{}", "Sec-Fetch-Site: cross-site").rejected(403, domain.CodeForbidden)
	}
	s.send("POST", "/api/agents", "", registrationOf("harbour-pilot")).status(201)
	for range DefaultLimits[limitReads].Requests - 2*DefaultLimits[limitRegistrations].Requests {
		s.send("POST", "/api/agents", "", "{}", "Sec-Fetch-Site: cross-site").status(403)
	}
	s.send("POST", "/api/agents", "", "{}", "Sec-Fetch-Site: cross-site").limited(s, "reads", DefaultLimits[limitReads])
}

// TestOrigin_PrivateSiteIsReadByItsOwnHostOnly: neither a page elsewhere nor one that has had its
// name point to the site can read anything.
// It holds promise 9 of SECURITY.md.
func TestOrigin_PrivateSiteIsReadByItsOwnHostOnly(t *testing.T) {
	s := newSite(t, func(o *siteOptions) { o.private = true })
	s.agent("harbour-pilot")
	paths := []string{"/", "/agents", "/agents/harbour-pilot", "/calls.atom", "/openapi.json", "/skill.md", "/style.css", "/robots.txt", "/.well-known/api-catalog", "/healthz", "/nowhere", "/api/agents", "/api/agents/harbour-pilot", "/api/me", "/owner/x"}
	get := func(method, path, host string) *result {
		return s.handle(addHeaders(httptest.NewRequest(method, path, nil), []string{"Host: " + host, "Origin: https://elsewhere.example.net"}))
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			own, foreign := get(method, path, "callbook.example.org"), get(method, path, "elsewhere.example.net")
			if own.Status == http.StatusForbidden || foreign.Status != http.StatusForbidden {
				t.Errorf("%s %s: %d by its own host, %d by another", method, path, own.Status, foreign.Status)
			}
			if method == http.MethodGet && path == "/owner/x" {
				contains(t, "the page for another host", string(foreign.Body), "This is not allowed", "This site is private")
			}
			for _, a := range []*result{own, foreign} {
				h := a.Header
				if h.Get("Access-Control-Allow-Origin") != "" || h.Get("Access-Control-Allow-Methods") != "" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
					t.Errorf("%s %s can be read from elsewhere: %v", method, path, h)
				}
			}
		}
	}
}

func TestBaseURL_IsTheAddressOfASite(t *testing.T) {
	for base, valid := range map[string]bool{
		"https://directory.example.org": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true,
		"": false, "directory.example.org": false, "ftp://directory.example.org": false, "https://": false, "https:directory.example.org": false, "https://%zz": false,
		"https://directory.example.org/": false, "https://directory.example.org/callbook": false, "https://u:hunter2@directory.example.org": false,
		"https://directory.example.org?a": false, "https://directory.example.org#a": false, "https://a'b": false, "https:///callbook": false,
	} {
		if err := CheckBaseURL(base); (err == nil) != valid {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// TestNotice_SocketWithoutTheHeader: a proxy in front of a Unix socket that does not send the address of the client.
func TestNotice_SocketWithoutTheHeader(t *testing.T) {
	s := newSite(t)
	for header, want := range map[string]int{"X-Forwarded-For: 203.0.113.7": 0, "Accept: */*": 1} {
		logged := len(s.log.String())
		for range 2 {
			s.handle(requestFrom(http.MethodGet, "/api", nil, "@", header))
		}
		if log := s.log.String()[logged:]; strings.Count(log, "the Unix socket has no X-Forwarded-For") != want || strings.Contains(log, proxyNotice) {
			t.Errorf("with the header %q: %s", header, log)
		}
	}
}

const proxyNotice = "whose X-Forwarded-For header is not trusted"

// TestTrustedProxies_MissingOneIsReported holds promise 20 of SECURITY.md.
func TestTrustedProxies_MissingOneIsReported(t *testing.T) {
	for _, tt := range []struct {
		name, peer, header string
		trusted            string
		want               int
	}{
		{"a proxy on this machine", "127.0.0.1:4000", "X-Forwarded-For: 203.0.113.7", "", 1},
		{"an IPv6 proxy in a private network", "[fd00::1]:4000", "X-Forwarded-For: 203.0.113.7", "", 1},
		{"a client of the Internet that sends the header", "203.0.113.9:4000", "X-Forwarded-For: 203.0.113.7", "", 0},
		{"no header", "127.0.0.1:4000", "Accept: */*", "", 0},
		{"a trusted proxy", "127.0.0.1:4000", "X-Forwarded-For: 203.0.113.7", "127.0.0.1/32", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, func(o *siteOptions) {
				if tt.trusted != "" {
					o.trusted = middleware.TrustedProxies{netip.MustParsePrefix(tt.trusted)}
				}
			})
			visit := func() { s.handle(requestFrom(http.MethodGet, "/api", nil, tt.peer, tt.header)) }
			notices := func(want int) {
				t.Helper()
				equal(t, want, strings.Count(s.log.String(), proxyNotice), "lines in the log")
			}
			visit()
			visit()
			notices(tt.want)
			s.agent("harbour-pilot") // a write after the one in the background
			contents, err := store.VerifyFile(t.Context(), s.path, true)
			if err != nil || (contents.UntrustedProxyAt > 0) != (tt.want > 0) {
				t.Errorf("the database has the time %v, %v", contents.UntrustedProxyAt, err)
			}
			s.clock.Advance(domain.Day)
			visit()
			notices(2 * tt.want)
		})
	}
}
