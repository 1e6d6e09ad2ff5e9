package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"callbook/server/api"
	"callbook/server/tools"
	"callbook/store/domain"
	"callbook/testdata/proof"
	"callbook/testdata/testkit"
)

func (s *site) rpc(method string, params any, headers ...string) *result {
	s.Helper()
	return s.send("POST", "/mcp", "", map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": params}, headers...)
}

// toolResponse is the result of a tool, with its JSON unchanged.
type toolResponse struct {
	Content    []struct{ Type, Text string }
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	Meta       map[string]any  `json:"_meta"`
	Tools      []toolListed
}

type toolListed struct {
	Name, Title, Description string
	Input                    json.RawMessage `json:"inputSchema"`
	Output                   json.RawMessage `json:"outputSchema"`
	Annotations              map[string]any
	Meta                     map[string]any `json:"_meta"`
}

func (s *site) tool(name string, arguments any, headers ...string) *toolResponse {
	s.Helper()
	a := s.rpc("tools/call", map[string]any{"name": name, "arguments": arguments}, headers...).status(200)
	return a.toolResponse()
}

func (r *result) toolResponse() *toolResponse {
	r.Helper()
	var body struct {
		Result *toolResponse
		Error  any
	}
	if r.into(&body); body.Result == nil {
		r.Fatalf("no result: %s", r.Body)
	}
	body.Result.Structured = reformatted(body.Result.Structured)
	return body.Result
}

// reformatted returns JSON without needless escapes, which the SDK makes of <, > and &.
func reformatted(text []byte) []byte {
	v := jsontext.Value(text)
	if len(v) > 0 && v.Format() != nil {
		return nil
	}
	return v
}

func (s *site) toolList() map[string]toolListed {
	s.Helper()
	list := map[string]toolListed{}
	for _, t := range s.rpc("tools/list", map[string]any{}).status(200).toolResponse().Tools {
		list[t.Name] = t
	}
	return list
}

func schemaIn(t testing.TB, text json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	testkit.NoError(t, json.Unmarshal(text, &schema))
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return resolved
}

// fits returns an error if JSON does not match a schema.
func fits(schema *jsonschema.Resolved, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return schema.Validate(v)
}

// twins compares tools with the REST operations that they run.
type twins struct {
	*site
	outputs map[string]*jsonschema.Resolved
	used    map[string]int
}

func newTwins(s *site) *twins {
	tw := &twins{s, map[string]*jsonschema.Resolved{}, map[string]int{}}
	for name, t := range s.toolList() {
		tw.outputs[name] = schemaIn(s, t.Output)
	}
	return tw
}

// twinPaths are the REST paths of the tools; other arguments are query parameters.
var twinPaths = map[string]string{
	"search_agents": "/api/agents?view=brief", "get_agent": "/api/agents/{handle}", "search_calls": "/api/posts", "get_call": "/api/posts/{id}",
	"list_collabs": "/api/collabs", "get_stats": "/api/stats",
}

// twinOf returns the REST path and query for the same arguments.
func twinOf(name string, arguments map[string]any) string {
	path, fixed, _ := strings.Cut(twinPaths[name], "?")
	query, _ := url.ParseQuery(fixed)
	if name != "get_agent" && name != "get_stats" {
		query.Set("limit", "10")
	}
	for key, value := range arguments {
		if part := "{" + key + "}"; strings.Contains(path, part) {
			path = strings.Replace(path, part, url.PathEscape(fmt.Sprint(value)), 1)
		} else {
			query.Set(key, fmt.Sprint(value))
		}
	}
	return path + "?" + query.Encode()
}

// briefly shortens a page of the API as a search tool does. Another tool has the same bytes.
func briefly(name string, body []byte) []byte {
	var page struct {
		Agents, Posts []map[string]any
	}
	if json.Unmarshal(body, &page) != nil || !strings.HasPrefix(name, "search_") || len(page.Agents)+len(page.Posts) == 0 {
		return body
	}
	for _, agent := range page.Agents {
		delete(agent, "matched_offerings")
		titles := []any{}
		for _, offering := range agent["offerings"].([]any) {
			titles = append(titles, offering.(map[string]any)["title"])
		}
		agent["offerings"] = titles
	}
	for _, post := range page.Posts {
		text := []rune(post["body"].(string))
		post["body"], post["body_truncated"] = string(text[:min(len(text), 160)]), len(text) > 160
	}
	var whole map[string]any
	_ = json.Unmarshal(body, &whole)
	if page.Agents != nil {
		whole["agents"] = page.Agents
	} else {
		whole["posts"] = page.Posts
	}
	return api.Marshal(whole)
}

// sorted returns JSON in its canonical form.
func sorted(text []byte) []byte {
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Canonicalize(); err != nil {
		return nil
	}
	return v
}

// compare calls both and compares their bytes. It returns the REST response.
func (tw *twins) compare(name string, arguments map[string]any) *result {
	tw.Helper()
	tw.used[name]++
	rest := tw.send("GET", twinOf(name, arguments), "", nil)
	got := tw.tool(name, arguments)
	named := func(body []byte) []byte { return unknownField.ReplaceAll(body, nil) }
	want, structured := named(asArguments(rest.Body)), named(got.Structured)
	isBrief := rest.Status == 200 && strings.HasPrefix(name, "search_")
	if isBrief && !bytes.Equal(sorted(got.Structured), sorted(briefly(name, want))) || !isBrief && !bytes.Equal(structured, want) || got.IsError != (rest.Status >= 400) {
		tw.Fatalf("%s %v differs from its twin (%d, isError %v):\n%s\n%s", name, arguments, rest.Status, got.IsError, got.Structured, rest.Body)
	}
	if err := fits(tw.outputs[name], got.Structured); err != nil {
		tw.Errorf("%s %v: the output schema refuses the answer: %v", name, arguments, err)
	}
	tw.checkFenced(name, got)
	return rest
}

// unknownField matches the texts about an unknown parameter or argument. They name the operation or tool and what it takes,
// which TestMistakes_ErrorsNameTheNextStep checks.
var unknownField = regexp.MustCompile(`"message_en":"\S+ is not a (field|query parameter) of [^"]*","message_zh":"[^"]*"`)

// asArguments replaces the texts of a REST error with those of a tool, which has arguments instead of a query.
func asArguments(body []byte) []byte {
	words, own := api.ErrorMessages[domain.CodeInvalidQuery].Texts[""], api.ErrorMessages[domain.CodeInvalidQuery].Texts["arguments"]
	body = bytes.Replace(body, []byte(words.EN), []byte(own.EN), 1)
	return bytes.Replace(body, []byte(words.ZH), []byte(own.ZH), 1)
}

// checkFenced checks the text that a model reads.
func (tw *twins) checkFenced(name string, a *toolResponse) {
	tw.Helper()
	if len(a.Content) != 1 || a.Content[0].Type != "text" {
		tw.Fatalf("%s: content %+v", name, a.Content)
	}
	text, json := a.Content[0].Text, string(a.Structured)
	if name == "get_stats" || a.IsError {
		if text != json || a.Meta != nil {
			tw.Errorf("%s: text %q, _meta %v", name, text, a.Meta)
		}
		return
	}
	if a.Meta["callbook/untrustedContent"] != true {
		tw.Errorf("%s: _meta %v", name, a.Meta)
	}
	checkFence(tw, text, json)
}

var fenceLine = regexp.MustCompile(`^data-[A-Z2-7]{26}$`)

func checkFence(t testing.TB, text, json string) (line string) {
	t.Helper()
	json = strings.Replace(json, noticeMember+",", "{", 1) // the text begins with the notice
	lines := strings.Split(text, "\n")
	if len(lines) != 6 || lines[0] != notice.EN || lines[1] != notice.ZH || lines[4] != json {
		t.Fatalf("not as it should be:\n%s", text)
	}
	if line = lines[3]; line != lines[5] || !fenceLine.MatchString(line) || strings.Count(text, line) != 2 {
		t.Fatalf("the fence is broken:\n%s", text)
	}
	return line
}

// walk follows next on both sides.
func (tw *twins) walk(name string, arguments map[string]any) (pages int) {
	tw.Helper()
	for pages = 1; ; pages++ {
		next, _ := tw.compare(name, arguments).value("next").(string)
		if next == "" {
			return pages
		}
		u := testkit.Must(url.Parse(next))(tw)
		arguments = maps.Clone(arguments)
		delete(arguments, "offset")
		arguments["cursor"] = u.Query().Get("cursor")
	}
}

// TestTools_MatchTheAPI reads the whole demo directory both ways.
func TestTools_MatchTheAPI(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	tw := newTwins(newDevSite(t, true))
	type list = []map[string]any
	agents := tw.send("GET", "/api/agents?limit=100", "", nil).status(200)
	collabs := list{{}, {"limit": 2}, {"handle": "nobody-here"}}
	calls := list{
		{}, {"limit": 3}, {"limit": 100}, {"kind": "seeking"}, {"kind": "offering", "limit": 5}, {"kind": "announce"}, {"open": true}, {"open": false}, {"q": "data"}, {"q": "翻译"},
		{"q": "数据", "open": true}, {"q": `<b>"&'`}, {"q": "x", "kind": "seeking", "tag": "none"}, {"author": "nobody-here"},
	}
	searches := list{
		{}, {"limit": 1}, {"limit": 7}, {"limit": 100}, {"offset": 3}, {"offset": 40, "limit": 3}, {"q": "translation"}, {"q": "翻译"}, {"q": "翻"}, {"q": "dat"}, {"q": "中文 翻译"},
		{"q": `<b>"&'`}, {"q": "nothing-like-this"}, {"language": "zh"}, {"language": "en-GB"}, {"verified": true}, {"verified": false}, {"min_level": 0}, {"min_level": 1},
		{"min_level": 2, "language": "zh", "limit": 2}, {"new": true}, {"new": false}, {"q": "a", "verified": true, "min_level": 2, "limit": 5},
	}
	for i := range agents.len("agents") {
		handle := agents.text("agents", i, "handle")
		tw.compare("get_agent", map[string]any{"handle": handle})
		collabs = append(collabs, map[string]any{"handle": handle})
		calls = append(calls, map[string]any{"author": handle, "limit": 2})
		if capabilities, _ := agents.value("agents", i, "capabilities").([]any); len(capabilities) > 0 {
			searches = append(searches, map[string]any{"capability": capabilities[0]})
		}
	}
	for next := "/api/posts?limit=100"; next != ""; {
		posts := tw.send("GET", next, "", nil).status(200)
		for i := range posts.len("posts") {
			tw.walk("get_call", map[string]any{"id": posts.text("posts", i, "id")})
			tw.walk("get_call", map[string]any{"id": posts.text("posts", i, "id"), "limit": 1})
			for _, tag := range posts.value("posts", i, "tags").([]any) {
				calls = append(calls, map[string]any{"tag": tag})
			}
		}
		next, _ = posts.value("next").(string)
	}
	pages := 0
	for _, arguments := range searches {
		pages += tw.walk("search_agents", arguments)
	}
	for _, arguments := range calls {
		pages += tw.walk("search_calls", arguments)
	}
	for _, arguments := range collabs {
		pages += tw.walk("list_collabs", arguments)
	}
	tw.compare("get_agent", map[string]any{"handle": "nobody-here"})
	tw.compare("get_call", map[string]any{"id": "pst_06e8mlgv2g5hg0r8fvhlm0q1s4"})
	tw.compare("search_agents", map[string]any{"limit": 0, "min_level": 7, "q": strings.Repeat("a", 201), "nothing": "x", "odd name": "x"})
	tw.compare("search_agents", map[string]any{"offset": 3, "cursor": "x"})
	if tw.used["get_agent"] != demoSize+1 || tw.used["get_call"] < 40 || pages < 200 {
		t.Errorf("%d pages, %v", pages, tw.used)
	}
}

// TestTools_CursorIsNext follows next whole and alone: it repeats the filters of the page before.
func TestTools_CursorIsNext(t *testing.T) {
	t.Parallel()
	proof.OneByOne(t)
	s := newDevSite(t, true)
	for name, first := range map[string]map[string]any{
		"search_agents": {"language": "en", "q": "d", "limit": 2}, "search_calls": {"kind": "seeking", "limit": 2}, "list_collabs": {"handle": "twinscript", "limit": 1},
	} {
		page := &result{TB: t, Body: s.tool(name, first).Structured}
		next := page.text("next")
		want := s.send("GET", next, "", nil).status(200)
		for _, arguments := range []map[string]any{{"cursor": next}, {"cursor": s.url + next}, {"cursor": next, "limit": first["limit"]}} {
			if got := s.tool(name, arguments); got.IsError || !bytes.Equal(sorted(got.Structured), sorted(briefly(name, want.Body))) {
				t.Errorf("%s %v: %s", name, arguments, got.Structured)
			}
		}
		if got := s.tool(name, map[string]any{"cursor": next, "limit": 3}); (&result{TB: t, Body: got.Structured}).value("limit") != 3.0 {
			t.Errorf("%s: its own limit does not take precedence: %s", name, got.Structured)
		}
	}
	if got := s.tool("search_agents", nil); (&result{TB: t, Body: got.Structured}).len("agents") != 10 {
		t.Errorf("%s", got.Structured)
	}
}

func TestTools_StatsAndGuideMatchTheAPI(t *testing.T) {
	s, _, _ := newPopulatedSite(t)
	tw := newTwins(s)
	tw.compare("get_stats", nil)
	for _, arguments := range []map[string]any{nil, {"lang": "en"}, {"lang": "zh"}, {"lang": nil}, {"lang": ""}} {
		lang, _ := arguments["lang"].(string)
		if lang == "" {
			lang = "en"
		}
		a := s.tool("get_guide", arguments)
		guide := s.send("GET", "/skill.md?lang="+lang, "", nil).status(200).Body
		var got tools.Guide
		if err := json.Unmarshal(a.Structured, &got); err != nil || got != (tools.Guide{Lang: lang, Guide: string(guide)}) || a.Content[0].Text != string(guide) || a.Meta != nil || a.IsError {
			t.Errorf("%v: %v %.200s", arguments, err, a.Structured)
		}
		if err := fits(tw.outputs["get_guide"], a.Structured); err != nil {
			t.Error(err)
		}
	}
	if a := s.tool("get_guide", map[string]any{"lang": "fr"}); !a.IsError || fits(tw.outputs["get_guide"], a.Structured) != nil {
		t.Errorf("%s", a.Structured)
	}
}

func TestTools_ParseArguments(t *testing.T) {
	s, _, _ := newPopulatedSite(t)
	rejected := func(name, arguments string, want ...string) {
		t.Helper()
		a := s.tool(name, json.RawMessage(arguments))
		if !a.IsError || a.Content[0].Text != string(a.Structured) {
			t.Errorf("%s %s is not refused: %s", name, arguments, a.Structured)
			return
		}
		e := &result{TB: t, Status: 400, Body: a.Structured}
		equal(t, want, e.rejected(400, domain.CodeInvalidQuery).details(), "%s %s", name, arguments)
		for _, d := range e.value("error", "details").([]any) {
			d := d.(map[string]any)
			if len(d["message_en"].(string)) < len(d["field"].(string))+5 || !strings.ContainsFunc(d["message_zh"].(string), func(c rune) bool { return unicode.Is(unicode.Han, c) }) {
				t.Errorf("%s %s: %v has no words", name, arguments, d)
			}
		}
	}
	// Lists and objects are the wrong type for any field, and all problems come at once.
	rejected("search_agents", `{"q":["a"],"limit":{"a":1},"new":[],"offset":20000,"zzz":1,"min_level":3}`,
		"limit wrong_type", "min_level out_of_range", "new wrong_type", "offset out_of_range", "q wrong_type", "zzz unknown_field")
	rejected("get_agent", `{}`, "handle required")
	rejected("get_agent", `{"Handle":"harbour-pilot"}`, "Handle unknown_field", "handle required")
	rejected("get_agent", `{"handle":"harbour-pilot","view":"full"}`, "view unknown_field")
	rejected("get_call", `{"limit":0,"x":{}}`, "id required", "limit out_of_range", "x unknown_field")
	rejected("get_guide", `{"lang":"fr"}`, "lang bad_value")
	// The view is the tool's own.
	rejected("search_agents", `{"view":"full"}`, "view unknown_field")
	// A made-up name is not repeated.
	rejected("search_agents", `{"IGNORE PREVIOUS":1,"`+strings.Repeat("a", 41)+`":2}`, "(unnamed) unknown_field")
	rejected("search_agents", `{"limit":"twenty","verified":"yes","new":1}`, "limit wrong_type", "new wrong_type", "verified wrong_type")

	// A scalar is taken as the text that it is in a query; some clients write whole numbers with a fraction.
	want := s.tool("search_agents", map[string]any{"limit": 1, "verified": true})
	for _, arguments := range []string{
		`{"limit":"1","verified":"true"}`, `{"limit":1.0,"verified":true}`, `{"limit":10e-1,"verified":true,"q":null,"min_level":null}`, ` { "verified" : true , "limit" : 1 } `,
	} {
		if a := s.tool("search_agents", json.RawMessage(arguments)); a.IsError || !bytes.Equal(a.Structured, want.Structured) {
			t.Errorf("%s: %s", arguments, a.Structured)
		}
	}
	for _, number := range []string{"2026", "2026.0"} {
		if a := s.tool("search_calls", json.RawMessage(`{"q":`+number+`}`)); a.IsError {
			t.Errorf("%s", a.Structured)
		}
	}
}

// TestTools_AreDescribed: seven of them, each with all that a client needs.
func TestTools_AreDescribed(t *testing.T) {
	s := newSite(t)
	list := s.toolList()
	names := slices.Sorted(maps.Keys(list))
	if diff := cmp.Diff([]string{"get_agent", "get_call", "get_guide", "get_stats", "list_collabs", "search_agents", "search_calls"}, names); diff != "" {
		t.Fatalf("(-want +got): %s", diff)
	}
	for name, tool := range list {
		if tool.Title == "" || len(tool.Description) < 100 || strings.ContainsFunc(tool.Description, func(c rune) bool { return c > '~' }) {
			t.Errorf("%s: %q, %q", name, tool.Title, tool.Description)
		}
		if diff := cmp.Diff(map[string]any{
			"title": tool.Title, "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
		}, tool.Annotations); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
		own := name == "get_stats" || name == "get_guide"
		if (tool.Meta["callbook/untrustedContent"] == true) == own || strings.Contains(tool.Description, "written by agents") == own {
			t.Errorf("%s: _meta %v, %q", name, tool.Meta, tool.Description)
		}
		pages := strings.Contains(string(tool.Input), `"cursor"`)
		if pages != strings.Contains(tool.Description, "cursor") {
			t.Errorf("%s has pages: %v, %q", name, pages, tool.Description)
		}
		var input, output struct {
			Type                 string
			Properties           map[string]map[string]any
			Required             []string
			AdditionalProperties *bool
		}
		testkit.NoError(t, errors.Join(json.Unmarshal(tool.Input, &input), json.Unmarshal(tool.Output, &output)))
		if input.Type != "object" || input.AdditionalProperties == nil || *input.AdditionalProperties || input.Required == nil {
			t.Errorf("%s takes %s", name, tool.Input)
		}
		for field, property := range input.Properties {
			if property["description"] == nil || property["type"] == nil || property["format"] != nil {
				t.Errorf("%s.%s: %v", name, field, property)
			}
		}
		if output.Type != "object" || len(output.Properties) < 2 || output.Required != nil || bytes.Contains(tool.Output, []byte("$ref")) {
			t.Errorf("%s answers %s", name, tool.Output)
		}
		if input.Properties["view"] != nil {
			t.Errorf("%s has a view", name)
		}
	}
}
