package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"callbook/server/api"
	"callbook/server/ard"
	"callbook/server/documents"
	"callbook/server/ratelimit"
	"callbook/store/domain"
	"callbook/testdata/testkit"
)

// urnPattern is that of the schema of the specification.
var urnPattern = regexp.MustCompile(`^urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+$`)

// ardEntry is an entry of a catalog as a client decodes it, with the members that a result has beside.
type ardEntry struct {
	Identifier, DisplayName, Type, URL, Description string
	Capabilities, Tags, RepresentativeQueries       []string
	Data                                            any
	UpdatedAt                                       string
	Metadata                                        map[string]any
	Score                                           *int
	Source                                          string
}

// entryProblems returns what the specification forbids in an entry.
func entryProblems(e ardEntry) (problems []string) {
	check := func(section string, ok bool) {
		if !ok {
			problems = append(problems, section)
		}
	}
	check("4.2: an identifier, a name and a type", e.Identifier != "" && e.DisplayName != "" && e.Type != "")
	check("4.2.1: the form of the identifier", urnPattern.MatchString(e.Identifier) && strings.HasPrefix(e.Identifier, "urn:air:callbook.example.org:"))
	check("3.4: either url or data", e.URL != "" && e.Data == nil)
	_, err := url.ParseRequestURI(e.URL)
	check("4.2: an absolute url", err == nil && strings.HasPrefix(e.URL, base))
	check("schema: 2 to 5 queries, or none", len(e.RepresentativeQueries) == 0 || len(e.RepresentativeQueries) >= 2 && len(e.RepresentativeQueries) <= 5)
	for name, v := range e.Metadata {
		_, isList := v.([]any)
		_, isObject := v.(map[string]any)
		check("schema: scalars in metadata: "+name, !isList && !isObject)
	}
	return problems
}

// newARDSite returns a site with agents: pilot matches every word of the query "tide soundings", gauge some.
func newARDSite(t testing.TB, options ...func(*siteOptions)) *site {
	s := newSite(t, options...)
	menu := func(key string, offerings ...map[string]any) {
		s.send("PUT", "/api/me/offerings", key, map[string]any{"offerings": offerings}).status(200)
	}
	offering := func(title string, tags ...string) map[string]any {
		return map[string]any{"title": title, "deliverable": "A file of " + title + ".", "mode": "free", "tags": tags}
	}
	pilot := s.claimed("harbour-pilot", "mei@lin.example.org", "name", "Harbour Pilot", "tagline", "Reads the tide.", "capabilities", []string{"Soundings", "C++"},
		"languages", []string{"en", "zh-CN"})
	menu(pilot, offering("Tide tables", "tides", "harbour"), offering("Soundings", "harbour"))
	gauge := s.verified("tide-gauge", "capabilities", []string{"tide data"}, "languages", []string{"en"}, "description_en", strings.Repeat("潮", 400))
	menu(gauge, offering("Tide levels", "tides"))
	s.send("PATCH", "/api/me", gauge, `{"contact_policy":{"accepting":false}}`).status(200)
	s.agent("museum-archive", "capabilities", []string{"soundings"})
	return s
}

func (s *site) discover(body string, headers ...string) *result {
	s.Helper()
	path := "/ard/search"
	if strings.Contains(body, "resultType") {
		path = "/ard/explore"
	}
	return s.send("POST", path, "", body, headers...)
}

type ardPage struct {
	Results, Items []ardEntry
	Total          *int
	PageToken      string
}

// TestARD_Manifest: the manifest has the form of the specification, at both addresses, and everything that announces it
// leads to it.
func TestARD_Manifest(t *testing.T) {
	s := newARDSite(t, func(o *siteOptions) { o.owner.Name = "Harbour Book" })
	a := s.send("GET", documents.ARDPath, "", nil).status(200)
	if old := s.send("GET", documents.OldARDPath, "", nil).status(200); string(old.Body) != string(a.Body) {
		t.Errorf("6.1: the old address has another: %s", old.Body)
	}
	var m struct {
		SpecVersion string
		Host        struct{ DisplayName, Identifier, DocumentationURL string }
		Entries     []ardEntry
	}
	a.into(&m)
	if m.SpecVersion != "1.0" || m.Host.DisplayName != "Harbour Book" || m.Host.Identifier != "callbook.example.org" || m.Host.DocumentationURL != base+"/docs" {
		t.Errorf("4.1, 4.3: %s", a.Body)
	}
	var types []string
	for _, e := range m.Entries {
		types = append(types, e.Type)
		if problems := entryProblems(e); problems != nil || len(e.RepresentativeQueries) == 0 || !strings.Contains(e.DisplayName, "Harbour Book") {
			t.Errorf("%s: %q: %+v", e.Identifier, problems, e)
		}
		equal(t, e.Identifier, s.send("GET", "/ard/agents/"+e.Identifier, "", nil).status(200).text("identifier"), "the identifier at its address in the registry")
	}
	want := []string{"application/ai-registry+json", "application/mcp-server-card+json", `text/markdown; profile="urn:air:agent-skills"`, "application/vnd.oai.openapi+json"}
	equal(t, want, types, "types")
	contains(t, "6.1: robots.txt", string(s.send("GET", "/robots.txt", "", nil).status(200).Body), "\nAgentmap: "+base+documents.ARDPath+"\n")
	home := s.send("GET", "/", "", nil).status(200)
	if !slices.Contains(home.Header.Values("Link"), `</.well-known/ard.json>; rel="ard"; type="application/json"`) || strings.Count(string(home.Body), `<link rel="ard" type="application/json" href="/.well-known/ard.json">`) != 1 {
		t.Errorf("6.1: the home page: %v", home.Header)
	}
	if other := s.send("GET", "/agents", "", nil); strings.Contains(string(other.Body)+fmt.Sprint(other.Header), `rel="ard"`) {
		t.Error("another page has the link")
	}
}

// TestARD_NeedsADomainName: a site whose address has none has no identifiers, and so no ARD.
func TestARD_NeedsADomainName(t *testing.T) {
	for address, want := range map[string]bool{
		"https://callbook.example.org": true, "https://Callbook.Example.ORG:8443": true, "http://a-b.xn--fiqs8s": true,
		"http://127.0.0.1:8080": false, "http://[::1]:8080": false, "http://localhost": false, "http://callbook": false,
		"http://callbook.localhost:8080": false, "http://10.0.0.7": false, "http://1.2.3": false, "http://-.example.org": false,
	} {
		equal(t, want, ard.DomainName(address) != "", "%s has a domain name", address)
	}
	s := newSite(t, func(o *siteOptions) { o.serve = func(o *Options) { o.BaseURL = "http://127.0.0.1:8080" } })
	for _, path := range []string{documents.ARDPath, documents.OldARDPath, "/ard/agents"} {
		if message := s.send("GET", path, "", nil).rejected(404, domain.CodeNotFound).text("error", "message_en"); !strings.Contains(message, "a domain name") {
			t.Errorf("GET %s does not say why it is missing: %s", path, message)
		}
	}
	s.discover(`{"query":{"text":"tide"}}`).rejected(404, domain.CodeNotFound)
	for _, path := range []string{"/", "/robots.txt", "/llms.txt"} {
		if a := s.send("GET", path, "", nil).status(200); strings.Contains(string(a.Body)+fmt.Sprint(a.Header), "ard.json") {
			t.Errorf("%s leads to it", path)
		}
	}
}

// TestARD_EntryOfAnAgent: an entry has what the card has, and the notice.
func TestARD_EntryOfAnAgent(t *testing.T) {
	s := newARDSite(t)
	get := func(handle string) (e ardEntry) {
		a := s.send("GET", "/ard/agents/urn:air:callbook.example.org:agent:"+handle, "", nil).status(200)
		a.into(&e)
		if a.Header.Get("ETag") == "" || a.Header.Get("Cache-Control") != api.Revalidate || a.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("headers %v", a.Header)
		}
		s.send("GET", "/ard/agents/urn:air:callbook.example.org:agent:"+handle, "", nil, "If-None-Match: "+a.Header.Get("ETag")).status(304)
		return e
	}
	e := get("harbour-pilot")
	if e.Identifier != "urn:air:callbook.example.org:agent:harbour-pilot" || e.DisplayName != "Harbour Pilot" || e.Type != "application/vnd.callbook.agent+json" ||
		e.URL != base+"/api/agents/harbour-pilot" || e.Description != "Reads the tide." || !slices.Equal(e.Capabilities, []string{"Soundings", "C++"}) ||
		!slices.Equal(e.Tags, []string{"en", "zh-CN", "tides", "harbour"}) || !slices.Equal(e.RepresentativeQueries, []string{"Tide tables", "Soundings"}) ||
		!strings.HasPrefix(e.UpdatedAt, "2026-11-20T") {
		t.Errorf("%+v", e)
	}
	want := map[string]any{"trustLevel": 2.0, "ownerClaimed": true, "confirmedCollaborations": 0.0, "accepting": true, "contact": base + "/api/agents/harbour-pilot/requests", "untrusted": true}
	for name, v := range want {
		equal(t, v, e.Metadata[name], "metadata.%s", name)
	}
	if warning, _ := e.Metadata["notice"].(string); !strings.Contains(warning, "never instructions") || !strings.Contains(warning, "不可信") {
		t.Errorf("notice %q", warning)
	}
	e = get("tide-gauge")
	if utf8.RuneCountInString(e.Description) != 300 || !slices.Equal(e.RepresentativeQueries, []string{"Tide levels", "A file of Tide levels."}) || e.Metadata["accepting"] != false || e.Metadata["trustLevel"] != 1.0 {
		t.Errorf("%+v", e)
	}
	if e = get("museum-archive"); e.RepresentativeQueries != nil || e.Tags != nil {
		t.Errorf("%+v", e)
	}
	for _, urn := range []string{"urn:air:callbook.example.org:agent:nobody", "urn:air:other.example.org:agent:harbour-pilot", "urn:air:callbook.example.org:mcp:x", "harbour-pilot", "%00", "urn:air:callbook.example.org:agent:"} {
		a := s.send("GET", "/ard/agents/"+urn, "", nil).status(404)
		if a.text("errorCode") != "NOT_FOUND" || a.text("message") == "" {
			t.Errorf("B: %s: %s", urn, a.Body)
		}
	}
}

func TestARD_SearchFilters(t *testing.T) {
	s := newARDSite(t)
	for name, tt := range map[string]struct{ query, want string }{
		"7.2: every word, then some":        {`"text":"tide soundings"`, "harbour-pilot 100, museum-archive 60, tide-gauge 59"},
		"7.2: a question":                   {`"text":"Which agents could give me soundings?"`, "harbour-pilot 100, museum-archive 99"},
		"7.2: nothing":                      {`"text":"zeppelin"`, ""},
		"7.2: no letters":                   {`"text":"?!"`, ""},
		"7.1: a type, a list":               {`"text":"soundings","filter":{"type":["a/b","application/vnd.callbook.agent+json"]}`, "harbour-pilot 100, museum-archive 99"},
		"7.1: another type":                 {`"text":"soundings","filter":{"type":["application/mcp-server-card+json"]}`, ""},
		"7.1: the publisher of identifiers": {`"text":"soundings","filter":{"publisher":"callbook.example.org"}`, "harbour-pilot 100, museum-archive 99"},
		"7.1: another publisher":            {`"text":"soundings","filter":{"publisher":["example.org"]}`, ""},
		"7.1: OR within a key":              {`"text":"tide","filter":{"capabilities":["c++","TIDE data","x"]}`, "tide-gauge 100, harbour-pilot 99"},
		"7.1: AND across keys":              {`"text":"tide","filter":{"capabilities":["c++","tide data"],"tags":["harbour"]}`, "harbour-pilot 100"},
		"7.1: a language is a tag":          {`"text":"tide","filter":{"tags":["zh-cn"]}`, "harbour-pilot 100"},
		"7.1: a number is a scalar":         {`"text":"tide","filter":{"metadata.trustLevel":1}`, "tide-gauge 100, harbour-pilot 99"},
		"level: at least":                   {`"text":"soundings","filter":{"metadata.trustLevel":["2"]}`, "harbour-pilot 100"},
		"level: of several, the least":      {`"text":"soundings","filter":{"metadata.trustLevel":[2,0]}`, "harbour-pilot 100, museum-archive 99"},
		"a filter without a match":          {`"text":"tide soundings","filter":{"tags":["en"],"capabilities":["nothing"]}`, ""},
		"operators are words":               {`"text":"soundings\" OR \"tide","filter":{"tags":["\" OR \"","*"]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.discover(`{"query":{` + tt.query + `}}`).status(200)
			var page ardPage
			a.into(&page)
			got := []string{}
			for _, e := range page.Results {
				if problems := entryProblems(e); problems != nil || e.Score == nil || e.Source != base+"/ard" {
					t.Errorf("%q: %+v", problems, e)
				}
				got = append(got, strings.TrimPrefix(e.Identifier, "urn:air:callbook.example.org:agent:")+fmt.Sprint(" ", *e.Score))
			}
			if strings.Join(got, ", ") != tt.want || page.Results == nil || page.PageToken != "" {
				t.Errorf("got %q, want %q: %s", got, tt.want, a.Body)
			}
		})
	}
}

// TestARD_SearchPages: walking pageToken finds each agent that matches every word once, with scores that fall from page to page.
func TestARD_SearchPages(t *testing.T) {
	s := newSite(t)
	for i := range 45 {
		s.agent(fmt.Sprintf("reader-%02d", i), "tagline", "Reads tide "+[]string{"tables", "zeppelins"}[i%2]+".")
	}
	walk := func(query string, size int) (scores []int) {
		seen, token := map[string]bool{}, ""
		for {
			var page ardPage
			s.discover(fmt.Sprintf(`{"query":%s,"pageSize":%d,"federation":"referrals"%s}`, query, size, token)).status(200).into(&page)
			if len(page.Results) > size {
				t.Errorf("7.2: %d results of %d", len(page.Results), size)
			}
			for _, e := range page.Results {
				if seen[e.Identifier] {
					t.Errorf("%s again", e.Identifier)
				}
				seen[e.Identifier] = true
				scores = append(scores, *e.Score)
			}
			if page.PageToken == "" {
				return scores
			}
			rank, cursor, _ := strings.Cut(page.PageToken, ".")
			for _, wrong := range []string{"0." + cursor, "-1." + cursor, "1048576." + cursor, "x." + cursor, "." + cursor, rank + "."} {
				s.discover(fmt.Sprintf(`{"query":%s,"pageToken":%q}`, query, wrong)).status(400)
			}
			token = fmt.Sprintf(`,"pageToken":%q`, page.PageToken)
		}
	}
	for _, size := range []int{7, 20, 100} {
		for _, tt := range []struct {
			query          string
			n, first, last int
		}{
			{`{"text":"reads tide"}`, 45, 100, 61},
			{`{"text":"tables zeppelins"}`, min(45, size), 60, 61 - min(45, size)}, // the first page alone has those of some words
		} {
			scores := walk(tt.query, size)
			if n := len(scores); n != tt.n || scores[0] != tt.first || scores[n-1] != tt.last || !slices.IsSortedFunc(scores, func(a, b int) int { return b - a }) {
				t.Errorf("%s by %d: %v", tt.query, size, scores)
			}
		}
	}
	equal(t, 10, s.discover(`{"query":{"text":"tide"}}`).status(200).len("results"), "7.2: results by default")
	handles, path := map[string]bool{}, "/ard/agents?pageSize=20"
	for path != "" {
		var page ardPage
		s.send("GET", path, "", nil).status(200).into(&page)
		if page.Total == nil || *page.Total != 45 {
			t.Errorf("7.4: total %v", page.Total)
		}
		for _, e := range page.Items {
			if problems := entryProblems(e); problems != nil {
				t.Errorf("%q: %+v", problems, e)
			}
			handles[e.Identifier] = true
		}
		if path = ""; page.PageToken != "" {
			path = "/ard/agents?pageSize=20&pageToken=" + url.QueryEscape(page.PageToken)
		}
	}
	equal(t, 45, len(handles), "7.4: agents")
}

func TestARD_Explore(t *testing.T) {
	s := newARDSite(t)
	const all = `"resultType":{"facets":[{"field":"type"},{"field":"publisher"},{"field":"capabilities"},{"field":"tags"},{"field":"metadata.trustLevel"}]}`
	for name, tt := range map[string]struct {
		body string
		want string
	}{
		"7.3: the whole registry": {`{` + all + `}`, "capabilities: soundings 2, c++ 1, tide data 1; metadata.trustLevel: 0 1, 1 1, 2 1; publisher: callbook.example.org 3; " +
			"tags: en 2, tides 2, harbour 1, zh 1, zh-CN 1; type: application/vnd.callbook.agent+json 3"},
		"7.3: an empty query": {`{"query":{},"resultType":{"facets":[{"field":"publisher"}]}}`, "publisher: callbook.example.org 3"},
		"7.3: text, which finds what a search finds": {`{"query":{"text":"tide soundings"},` + all + `}`, "capabilities: soundings 2, c++ 1, tide data 1; metadata.trustLevel: 0 1, 1 1, 2 1; " +
			"publisher: callbook.example.org 3; tags: en 2, tides 2, harbour 1, zh-CN 1; type: application/vnd.callbook.agent+json 3"},
		"7.3: a filter": {`{"query":{"filter":{"metadata.trustLevel":1}},"resultType":{"facets":[{"field":"tags"}]}}`, "tags: en 2, tides 2, harbour 1, zh-CN 1"},
		"7.3: limit":    {`{"query":{"filter":{"metadata.trustLevel":1}},"resultType":{"facets":[{"field":"tags","limit":2}]}}`, "tags: en 2, tides 2, and 2"},
		"7.3: minCount": {`{"resultType":{"facets":[{"field":"tags","minCount":2}]}}`, "tags: en 2, tides 2"},
		"another type":  {`{"query":{"filter":{"type":"a/b"}},"resultType":{"facets":[{"field":"tags"}]}}`, "tags: "},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.discover(tt.body).status(200)
			var got struct {
				ResultType string
				Facets     map[string]struct {
					Buckets []struct {
						Value string
						Count int
					}
					OtherCount int
				}
			}
			a.into(&got)
			var fields []string
			for field, f := range got.Facets {
				values := []string{}
				for _, b := range f.Buckets {
					values = append(values, fmt.Sprint(b.Value, " ", b.Count))
				}
				if f.OtherCount > 0 {
					values = append(values, fmt.Sprint("and ", f.OtherCount))
				}
				if f.Buckets == nil {
					t.Errorf("%s: no buckets", field)
				}
				fields = append(fields, field+": "+strings.Join(values, ", "))
			}
			if slices.Sort(fields); got.ResultType != "facets" || strings.Join(fields, "; ") != tt.want {
				t.Errorf("got %s, want %s", strings.Join(fields, "; "), tt.want)
			}
		})
	}
}

// TestARD_Errors: every error has the form and the codes of the specification (B), says what is possible in both
// languages, and repeats nothing.
func TestARD_Errors(t *testing.T) {
	s := newARDSite(t)
	const mark = "zq7mark"
	long := strings.Repeat("a", 201)
	for name, tt := range map[string]struct {
		method, path, body string
		status             int
		code, says         string
	}{
		"no body":                     {"POST", "search", ``, 400, "INVALID_ARGUMENT", "query.text"},
		"no JSON":                     {"POST", "search", `{` + mark, 400, "INVALID_ARGUMENT", "JSON object"},
		"a member twice":              {"POST", "search", `{"query":{"text":"a","text":"b"}}`, 400, "INVALID_ARGUMENT", "JSON object"},
		"an unknown member":           {"POST", "search", `{"query":{"text":"tide"},"` + mark + `":1}`, 400, "INVALID_ARGUMENT", "JSON object"},
		"no UTF-8":                    {"POST", "search", "{\"query\":{\"text\":\"\xff\"}}", 400, "INVALID_ARGUMENT", "JSON object"},
		"7.2: no text":                {"POST", "search", `{"query":{}}`, 400, "INVALID_ARGUMENT", "text must not be empty"},
		"a long text":                 {"POST", "search", `{"query":{"text":"` + long + `"}}`, 400, "INVALID_ARGUMENT", "200"},
		"control characters":          {"POST", "search", `{"query":{"text":"a\u0000` + mark + `"}}`, 400, "INVALID_ARGUMENT", "text"},
		"7.2: a page of none":         {"POST", "search", `{"query":{"text":"tide"},"pageSize":0}`, 400, "INVALID_ARGUMENT", "pageSize must be at least 1"},
		"7.2: a page of 101":          {"POST", "search", `{"query":{"text":"tide"},"pageSize":101}`, 400, "INVALID_ARGUMENT", "pageSize must be at most 100"},
		"8: another federation":       {"POST", "search", `{"query":{"text":"tide"},"federation":"` + mark + `"}`, 400, "INVALID_ARGUMENT", "auto"},
		"a token that is none":        {"POST", "search", `{"query":{"text":"tide"},"pageToken":"` + mark + `"}`, 400, "INVALID_ARGUMENT", "pageToken"},
		"a token without a rank":      {"POST", "search", `{"query":{"text":"tide"},"pageToken":"-1.AAAA"}`, 400, "INVALID_ARGUMENT", "pageToken"},
		"7.1: an unsupported filter":  {"POST", "search", `{"query":{"text":"tide","filter":{"` + mark + `":["a"]}}}`, 400, "INVALID_ARGUMENT", "metadata.trustLevel"},
		"a filter of nothing":         {"POST", "search", `{"query":{"text":"tide","filter":{"tags":[]}}}`, 400, "INVALID_ARGUMENT", "1 to 20 values"},
		"a filter of an object":       {"POST", "search", `{"query":{"text":"tide","filter":{"tags":{"a":1}}}}`, 400, "INVALID_ARGUMENT", "JSON object"},
		"a long value":                {"POST", "search", `{"query":{"text":"tide","filter":{"tags":"` + long + `"}}}`, 400, "INVALID_ARGUMENT", "60 characters"},
		"a value on two lines":        {"POST", "search", `{"query":{"text":"tide","filter":{"tags":"a\nb"}}}`, 400, "INVALID_ARGUMENT", "one line"},
		"21 values":                   {"POST", "search", `{"query":{"text":"tide","filter":{"tags":[` + strings.Repeat(`"a",`, 20) + `"b"]}}}`, 400, "INVALID_ARGUMENT", "1 to 20 values"},
		"level 3":                     {"POST", "search", `{"query":{"text":"tide","filter":{"metadata.trustLevel":3}}}`, 400, "INVALID_ARGUMENT", "0, 1 and 2"},
		"a level that is no number":   {"POST", "search", `{"query":{"text":"tide","filter":{"metadata.trustLevel":["1","` + mark + `"]}}}`, 400, "INVALID_ARGUMENT", "0, 1 and 2"},
		"7.3: no resultType":          {"POST", "explore", `{"query":{"text":"tide"}}`, 400, "INVALID_ARGUMENT", "resultType"},
		"7.3: no facets":              {"POST", "explore", `{"resultType":{"facets":[]}}`, 400, "INVALID_ARGUMENT", "1 to 10 facets"},
		"7.3: another field":          {"POST", "explore", `{"resultType":{"facets":[{"field":"` + mark + `"}]}}`, 400, "INVALID_ARGUMENT", "metadata.trustLevel"},
		"a field twice":               {"POST", "explore", `{"resultType":{"facets":[{"field":"tags"},{"field":"tags"}]}}`, 400, "INVALID_ARGUMENT", "each once"},
		"a limit of 0":                {"POST", "explore", `{"resultType":{"facets":[{"field":"tags","limit":0}]}}`, 400, "INVALID_ARGUMENT", "1 to 100"},
		"7.3: federation":             {"POST", "explore", `{"federation":"none","resultType":{"facets":[{"field":"tags"}]}}`, 400, "INVALID_ARGUMENT", "JSON object"},
		"an exploration of long text": {"POST", "explore", `{"query":{"text":"` + long + `"},"resultType":{"facets":[{"field":"tags"}]}}`, 400, "INVALID_ARGUMENT", "200"},
		"a large body":                {"POST", "search", `{"query":{"text":"` + strings.Repeat("a", api.MaxBody) + `"}}`, 413, "INVALID_ARGUMENT", ""},
		"7.4: filter":                 {"GET", "agents?filter=" + mark, ``, 400, "INVALID_ARGUMENT", "pageSize"},
		"7.4: a page of 101":          {"GET", "agents?pageSize=101", ``, 400, "INVALID_ARGUMENT", "pageSize must be at most 100"},
		"7.4: a token":                {"GET", "agents?pageToken=" + mark, ``, 400, "INVALID_ARGUMENT", "pageToken"},
		"no such agent":               {"GET", "agents/" + mark, ``, 404, "NOT_FOUND", ""},
		"no such path":                {"GET", mark, ``, 404, "NOT_FOUND", ""},
		"another method":              {"GET", "search", ``, 405, "INVALID_ARGUMENT", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var body any
			if tt.body != "" {
				body = tt.body
			}
			a := s.send(tt.method, "/ard/"+tt.path, "", body).status(tt.status)
			message := a.text("message")
			if a.text("errorCode") != tt.code || !strings.Contains(message, tt.says) || !regexp.MustCompile(`\p{Han}{2}`).MatchString(message) || strings.Contains(string(a.Body), mark) {
				t.Errorf("%s", a.Body)
			}
			if a.Header.Get("Content-Type") != api.JSONType || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", a.Header)
			}
		})
	}
	a := s.discover(`{"query":{"text":"tide"}}`, "Content-Type: text/plain").status(415)
	equal(t, "INVALID_ARGUMENT", a.text("errorCode"), "the error of a search in plain text")
}

// TestARD_CountsAsReads: searches have the limit, the preflight and the cache of other public reads; a page of another
// origin may send them.
func TestARD_CountsAsReads(t *testing.T) {
	s := newARDSite(t)
	const search = `{"query":{"text":"tide"}}`
	a := s.discover(search, "Origin: https://app.example.com", "Sec-Fetch-Site: cross-site").status(200)
	if a.Header.Get("Access-Control-Allow-Origin") != "*" || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", a.Header)
	}
	for path, methods := range map[string]string{"/ard/search": "POST", "/ard/explore": "POST", "/ard/agents": "GET, HEAD", "/ard/agents/x": "GET, HEAD", documents.ARDPath: "GET, HEAD", "/api/agents": "GET, HEAD", "/api/posts/x/replies": ""} {
		a := s.send("OPTIONS", path, "", nil, "Origin: https://app.example.com", "Access-Control-Request-Method: POST").status(204)
		if a.Header.Get("Access-Control-Allow-Methods") != methods || strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "Content-Type") != (methods != "") {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	s.agent("newcomer", "tagline", "A tide table.")
	if fresh := s.discover(search).status(200); fresh.len("results") != a.len("results")+1 {
		t.Errorf("after a registration: %s", fresh.Body)
	}

	limited := newSite(t, func(o *siteOptions) {
		o.limits = ratelimit.Limits{limitReads: ratelimit.Limit{Requests: 2, Period: time.Minute}}
	})
	limited.send("GET", "/ard/agents", "", nil).status(200)
	limited.discover(search).status(200)
	for _, a := range []*result{limited.discover(search), limited.send("GET", "/ard/agents", "", nil), limited.send("GET", "/ard/nothing", "", nil)} {
		if a.status(429).text("errorCode") != "RATE_LIMIT_EXCEEDED" || a.Header.Get("Retry-After") == "" {
			t.Errorf("B: %s", a.Body)
		}
	}

	private := newSite(t, func(o *siteOptions) { o.private = true })
	if a := private.discover(search, "Host: callbook.example.org").status(200); a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a private site: %v", a.Header)
	}
	if a := private.send("OPTIONS", "/ard/search", "", nil, "Host: callbook.example.org"); a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a private site: %v", a.Header)
	}
	if a := private.discover(search, "Host: evil.example.com").status(403); a.text("errorCode") != "INVALID_ARGUMENT" {
		t.Errorf("a private site under another name: %s", a.Body)
	}
}

// TestARD_HidesWhatIsHidden: agents that are suspended, deleted or wait for approval are in no response, and hostile
// texts are data.
func TestARD_HidesWhatIsHidden(t *testing.T) {
	const hostile = `"},{"score":100,"x":"</script><b>`
	s := newSite(t)
	key := s.agent("hostile", "name", "Eve "+hostile, "tagline", "tide "+hostile, "capabilities", []string{hostile})
	s.send("PUT", "/api/me/offerings", key, map[string]any{"offerings": []any{map[string]any{"title": hostile, "deliverable": hostile, "mode": "free", "tags": []string{hostile}}}}).status(200)
	s.agent("suspended", "tagline", "tide", "capabilities", []string{"hidden thing"})
	deleted := s.agent("deleted", "tagline", "tide", "capabilities", []string{"hidden thing"})
	testkit.NoError(t, s.store.Suspend(context.Background(), "suspended", "spam", time.Time{}))
	s.send("DELETE", "/api/me?confirm=deleted", deleted, nil).status(204)
	waiting := newSite(t, func(o *siteOptions) { o.mode = domain.RegistrationApprove })
	waiting.agent("waiting", "tagline", "tide", "capabilities", []string{"hidden thing"})
	for _, s := range []*site{s, waiting} {
		for _, a := range []*result{
			s.send("GET", "/ard/agents", "", nil), s.discover(`{"query":{"text":"tide"}}`), s.discover(`{"query":{"text":"hidden"}}`),
			s.discover(`{"resultType":{"facets":[{"field":"capabilities"}]}}`), s.discover(`{"query":{"text":"tide"},"resultType":{"facets":[{"field":"capabilities"},{"field":"type"}]}}`),
		} {
			if text := string(a.status(200).Body); regexp.MustCompile(`hidden|suspended|deleted|waiting|@example`).MatchString(text) || !json.Valid(a.Body) {
				t.Errorf("%s", text)
			}
		}
		for _, handle := range []string{"suspended", "deleted", "waiting"} {
			s.send("GET", "/ard/agents/urn:air:callbook.example.org:agent:"+handle, "", nil).status(404)
		}
	}
	var page ardPage
	s.discover(`{"query":{"text":"tide","filter":{"capabilities":[` + string(api.Marshal(hostile)) + `],"tags":` + string(api.Marshal(hostile)) + `}}}`).status(200).into(&page)
	if len(page.Results) != 1 || page.Results[0].DisplayName != "Eve "+hostile || page.Results[0].Capabilities[0] != hostile || page.Results[0].RepresentativeQueries[0] != hostile {
		t.Errorf("%+v", page)
	}
}
